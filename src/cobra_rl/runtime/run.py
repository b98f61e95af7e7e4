"""The one run loop of all phases: folder, lock, run.json, resume, signals, divergence, progress, log, order of saving.

Weights are written before the checkpoint that holds them: whenever the process dies, a resumed run makes them again.
"""

import fcntl
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cobra_rl.runtime import checkpoint, storage
from cobra_rl.runtime.log import RunLog
from cobra_rl.runtime.signals import Stopped, StopRequested
from cobra_rl.runtime.typed import differences, to_json
from cobra_rl.runtime.weights import save_weights


class Diverged(ArithmeticError):
    """A loss, a metric or a weight is no longer a number."""


class OtherRun(ValueError):
    """The folder holds a run with other settings, or belongs to another process."""


class Weights(NamedTuple):
    """Weights to be kept, and what they are of."""

    tree: Any
    config: dict[str, Any]
    kind: str


class Report(NamedTuple):
    """What a phase has to say of its state."""

    scalars: Mapping[str, float]
    pictures: Mapping[str, np.ndarray] = {}


@runtime_checkable
class Phase(Protocol):
    """A training phase, as the run loop sees it."""

    title: str  # heads the progress bar
    steps: int
    columns: Any  # names of metrics to show beside the progress, the one that matters first
    read_every: int  # steps between two looks at the metrics: each waits for the device
    report_every: int  # steps between two reports
    save_every: int  # steps between two checkpoints
    evaluates: bool  # whether a report takes long enough to be said
    compressed: bool  # whether checkpoints are worth compressing
    notes: dict[str, Any]  # anything else that a resumed run must know; JSON, saved with each checkpoint

    def init(self) -> Any: ...  # the state before the first step: a pytree
    def step(self, state: Any, step: int) -> tuple[Any, Mapping[str, Any]]: ...  # take a step: the state, and metrics
    def report(self, state: Any, step: int) -> Report: ...  # measure the state
    def weights(self, state: Any) -> Mapping[str, Weights]: ...  # those to keep, by path below the folder of the run


def open_run(
    folder: Path, settings: Mapping[str, Any], defaults: Mapping[str, Any], free: Sequence[str] = (), command: str = ""
) -> None:
    """Record what a run was asked for, or refuse if its folder holds a run that was asked for something else.

    `defaults` are what an older run that lacks an entry is taken to have had; `free` are the settings that may change
    from one call to the next, such as `world.path`, of which `steps` may only grow.
    """
    from cobra_rl import __version__

    path, wanted = folder / "run.json", to_json(settings)
    begun = storage.read_json(path).get("settings", {}) if path.exists() else wanted
    for name, old, new in differences(begun, wanted, to_json(defaults)):
        elsewhere = "give another folder with --out"
        if name == "steps" and name in free and isinstance(old, int) and new < old:
            asked = f"cannot be made shorter ({new:,} asked)"
            raise ValueError(f"{folder} holds a run of {old:,} steps and {asked}; {elsewhere}.")
        if name not in free and name.partition(".")[0] not in free:
            different = f"other settings ({name}: {old}, now {new})"
            raise OtherRun(f"{folder} holds a run with {different}; {elsewhere}, or remove that one.")
    storage.write_json(path, {"version": __version__, "command": command, "settings": wanted})


def run(phase: Phase, folder: Path) -> Any:
    """Take a phase to its last step in a folder, from the newest checkpoint there is, and return its state.

    SIGINT, SIGTERM and SIGHUP save and raise `Stopped`; what is not finite raises `Diverged` before anything is saved.
    """
    with _locked(folder), StopRequested() as stop:
        print(f"{phase.title}: preparing", flush=True)
        state, step, meta = phase.init(), 0, {"seconds": 0.0, "notes": {}}
        if restored := checkpoint.restore(folder / "checkpoints", state):
            step, state, meta = restored
        phase.notes.update(meta["notes"])
        if step >= phase.steps:
            print(f"{phase.title}: finished, {step:,} steps are done in {folder}", flush=True)
            return state
        if step:
            print(f"{phase.title}: resumes at step {step:,} of {phase.steps:,}", flush=True)
        with RunLog(folder, phase.steps, phase.title, step, phase.columns) as log:
            stop.say = log.say
            return _Loop(phase, folder, log, stop, time.monotonic() - meta["seconds"]).run(state, step)


@dataclass(frozen=True)
class _Loop:
    """The loop itself, between its first and its last step."""

    phase: Phase
    folder: Path
    log: RunLog
    stop: StopRequested
    began: float  # when it would have begun, had it not been interrupted

    def run(self, state: Any, first: int) -> Any:
        step, metrics = first, {}
        while step < self.phase.steps and not self.stop.requested:
            with self.log.busy("compiling") if step == first else nullcontext():
                state, metrics = self.phase.step(state, step)
                step += 1
                self._after(state, step, metrics)
        if step < self.phase.steps:
            self._finite(metrics, state, step)
            self._save(state, step)
            sentence = f"Stopped at step {step} of {self.phase.steps}; the same command goes on from here."
            raise Stopped(sentence, self.stop.signal or 0)
        return state

    def _after(self, state: Any, step: int, metrics: Mapping[str, Any]) -> None:
        """Show, report and save what is due after a step."""
        phase, last = self.phase, step == self.phase.steps
        report_due, save_due = (last or step % every == 0 for every in (phase.report_every, phase.save_every))
        due = report_due or save_due
        if not due and step % phase.read_every:
            return
        scalars = self._finite(metrics, state if due else None, step)
        if scalars:
            self.log.progress(step, scalars)
        if report_due:
            with self.log.busy("evaluating") if phase.evaluates else nullcontext():
                report = phase.report(state, step)
            minutes = (time.monotonic() - self.began) / 60
            self.log.write(step, scalars | dict(report.scalars) | {"minutes": minutes})
            for name, picture in report.pictures.items():
                self.log.picture(step, name, picture)
        if save_due:
            self._save(state, step)

    def _save(self, state: Any, step: int) -> None:
        """Weights first, then the checkpoint that holds them."""
        for path, weights in self.phase.weights(state).items():
            save_weights(self.folder / path, *weights)
        meta = {"seconds": time.monotonic() - self.began, "notes": self.phase.notes}
        checkpoint.save(self.folder / "checkpoints", step, state, meta, compressed=self.phase.compressed)

    def _finite(self, metrics: Mapping[str, Any], state: Any, step: int) -> dict[str, float]:
        """Convert metrics to floats; raise `Diverged` if any, or any number of the state, is not finite."""
        scalars = {name: float(value) for name, value in metrics.items()}
        wrong = [f"{name} is {value}" for name, value in scalars.items() if not math.isfinite(value)]
        if not wrong and state is not None and not bool(_all_finite(state)):
            wrong = ["a weight is not finite"]
        if wrong:
            raise Diverged(
                f"The {wrong[0]} at step {step}; the last good checkpoint is kept in {self.folder / 'checkpoints'}. "
                "Start a new run in another folder with a lower --config.learning-rate or another --seed."
            )
        return scalars


@eqx.filter_jit
def _all_finite(state: Any) -> jax.Array:
    floats = eqx.filter(state, eqx.is_inexact_array)
    return jax.tree.reduce(lambda so_far, leaf: so_far & jnp.all(jnp.isfinite(leaf)), floats, jnp.array(True))


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder for this process; the lock dies with it."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise OtherRun(f"{folder} is in use by {holder}; wait for it, or give another --out.") from error
        file.truncate(0)
        file.write(f"process {os.getpid()} since {time.strftime('%Y-%m-%d %H:%M:%S')}")
        file.flush()
        yield
