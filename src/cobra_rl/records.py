"""Reads run.json of a run that learnt a task: its settings, and the world that it used."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from cobra_rl.bounds import Checked, Count, Often, Seed, conform
from cobra_rl.config import TaskConfig
from cobra_rl.environments import Problem
from cobra_rl.runtime.storage import read_json
from cobra_rl.worlds import SHIPPED, find_world, world_sha256

OTHER_COMMANDS = {  # the command of each phase
    "vision": "cobra train vision",
    "explore": "cobra train explore",
    "baseline": "cobra baseline",
}
GIVE_WORLD = "give its folder, by --world FOLDER on the command line or world= in Python"


@dataclass(frozen=True)
class WorldUsed(Checked):
    """The world that a run used: its sha256, and the path of its folder, or "shipped"."""

    sha256: str
    path: str = ""


@dataclass(frozen=True, kw_only=True)
class RunSettings(Checked):
    """The settings that run.json records for a run that learns a task, by COBRA or a baseline."""

    problem: Problem
    steps: Count | None = None  # None: an agent that `Agent.save` left
    first_seed: Seed = 0
    seed_count: Count = 1
    final: Count | None = None
    check_every: Often = 0  # steps between two checks of the greedy agent; 0: none

    def weights_of(self, folder: Path, seed: int | None, kind: str) -> Path:
        """Return the folder of the weights of a seed (default: the first); raise FileNotFoundError if it is missing."""
        seed = self.first_seed if seed is None else conform(Seed, seed, "seed")
        path = folder / f"seed{seed}" / kind
        if not path.is_dir():
            raise FileNotFoundError(f"{folder} holds no agent of seed {seed} yet: {path} is missing.")
        return path


@dataclass(frozen=True, kw_only=True)
class TaskSettings(RunSettings):
    """The settings of a run of `cobra solve`, or of a saved agent."""

    world: WorldUsed
    config: TaskConfig = field(default_factory=TaskConfig)
    phase: Literal["task"] = "task"


def recorded(run: str | Path) -> tuple[str, Any]:
    """Return the phase of a run, and all settings that it recorded, not validated yet."""
    path = Path(run) / "run.json"
    if not path.exists():
        raise FileNotFoundError(f"{run} is no run of `cobra solve`: it has no run.json.")
    settings = read_json(path).get("settings")
    phase = settings.get("phase") if isinstance(settings, dict) else None
    return phase if isinstance(phase, str) else "", settings


def world_of(folder: Path, recorded: WorldUsed, given: str | Path | None) -> Path:
    """Find the world that a run used: in the `given` folder, or else in the run's copy or at its recorded path."""
    if given is not None:
        candidates = [Path(given)]
    elif recorded.path == "shipped":
        candidates = [SHIPPED]
    else:
        candidates = [folder / "world", Path(recorded.path)]
    for candidate in candidates:
        if (candidate / "world.json").exists() or (candidate / "world" / "world.json").exists():
            place = find_world(candidate)
            if world_sha256(place) == recorded.sha256:
                return place
            raise ValueError(
                f"The run {folder} learnt in another world than {place}: it needs the one with sha256 "
                f"{recorded.sha256[:12]}; {GIVE_WORLD}."
            )
    raise FileNotFoundError(f"The world that {folder} learnt in is no longer there ({recorded.path}); {GIVE_WORLD}.")
