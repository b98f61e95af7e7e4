"""A phase that needs no compiling: what holds for the run loop is tried in all its states within seconds."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp

from cobra_rl.bounds import Checked
from cobra_rl.phases.contract import Phase, Report
from cobra_rl.runs.folder import open_run
from cobra_rl.runs.loop import run
from cobra_rl.storage.files import write_json
from cobra_rl.storage.weights import Weights


class Toy(Phase):
    """Weights that grow; like vision, it keeps those of the best report, which is not the last."""

    title, steps, columns = "toy", 8, ("score", "loss")
    read_every, report_every, save_every = 1, 2, 2
    evaluates, compressed = True, False

    def __init__(self) -> None:
        self.history: dict[str, Any] = {"best": -1.0, "seen": []}
        self._best = False

    @property
    def keep(self) -> bool:
        return self._best or self.history["best"] < 0

    def init(self) -> Any:
        return {"weights": jnp.arange(3.0), "steps": jnp.int32(0)}

    def step(self, state: Any, step: int) -> tuple[Any, dict[str, Any]]:
        self._best = False
        self.history["seen"].append(step)
        weights = 1.25 * state["weights"] + step
        return {"weights": weights, "steps": state["steps"] + 1}, {"loss": weights.sum()}

    def report(self, state: Any, step: int) -> Report:
        score = float(10 - abs(step - 5))
        self._best = score > self.history["best"]
        self.history["best"] = max(score, self.history["best"])
        return Report({"score": score})

    def weights(self, state: Any) -> dict[str, Weights]:
        return {"weights": Weights(state["weights"], {"size": 3}, "toy")}


@dataclass(frozen=True)
class ToySettings(Checked):
    """What run.json records."""

    phase: str = "toy"
    size: int = 3


def train(folder: Path, kind: type[Toy] = Toy) -> None:
    """The whole run; the same call resumes."""
    with open_run(folder, ToySettings()):
        run(kind(), folder)
        write_json(folder / "result.json", {"finished": True})
