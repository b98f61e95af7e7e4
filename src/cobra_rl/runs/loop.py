"""The one run loop of all phases: resume, signals, divergence, progress, log, order of saving.

Weights are written before the checkpoint that holds them, and compared with it when a run is resumed: whenever the
process dies, the same command rewrites what is missing or stale.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from cobra_rl.console import warn, working
from cobra_rl.phases.contract import Diverged, Phase
from cobra_rl.runs.folder import locked
from cobra_rl.runs.log import LOG, RunLog
from cobra_rl.runs.signals import Stopped, StopRequested
from cobra_rl.storage import checkpoint, files
from cobra_rl.storage.weights import is_saved, is_whole, save_weights

CHECKPOINTS = "checkpoints"
CALL = 0.25  # seconds that a call of a phase should take at most: signals and progress wait for it


def run(phase: Phase, folder: Path, weights_in: Path | None = None) -> Any:
    """Train a phase to its last step, from the newest intact checkpoint if there is one.

    Args:
        phase: What to train, report and save.
        folder: The folder of the run, for checkpoints and log.
        weights_in: The folder for weights; by default the same.

    Returns:
        The state of the phase after its last step.

    Raises:
        Stopped: If SIGINT, SIGTERM or SIGHUP asked to stop; the present state is saved.
        Diverged: If a metric or a weight is not finite; the present state is not saved.
        OtherRun: If another process trains in this folder.
        CheckpointMismatch: If the checkpoint is that of another model.
        ChildProcessError: If actors in other processes fail for good; the state before the step is saved.
    """
    saved = folder / CHECKPOINTS
    weights_in = weights_in or folder
    with locked(saved), StopRequested(lambda text: print(text, flush=True)) as stop, _explained(saved):
        with working(f"{phase.title}: preparing"):
            step, state, meta = _prepared(phase, folder, weights_in)
        if step >= phase.steps:
            print(f"{phase.title}: finished, {step:,} steps are done in {folder}", flush=True)
            return state
        if step:
            print(f"{phase.title}: resumes at step {step:,} of {phase.steps:,}, saved in {saved}", flush=True)
        with RunLog(folder, phase.steps, phase.title, step, phase.columns) as log:
            stop.say = log.say
            return _Loop(phase, folder, weights_in, log, stop, time.monotonic() - meta["seconds"]).run(state, step)


def _prepared(phase: Phase, folder: Path, weights_in: Path) -> tuple[int, Any, Mapping[str, Any]]:
    """Return step, state and records of the newest intact checkpoint, or those before the first step."""
    saved = folder / CHECKPOINTS
    known = checkpoint.checkpoints(saved)
    # Only an outline of the state is there while it is read: a replay takes as much memory as all the rest.
    if restored := checkpoint.restore(saved, files.outline(phase.init())) if known else None:
        step, state, meta = restored
        phase.history.update(meta.get("history", meta.get("notes", {})))
        _repair_weights(phase, weights_in, state, step)
        return step, state, meta
    if known:
        _restart_without_checkpoint(folder)
    return 0, phase.init(), {"seconds": 0.0}


def _repair_weights(phase: Phase, folder: Path, state: Any, step: int) -> None:
    """Write weights that are missing, damaged or others than those of the checkpoint."""
    for path, weights in phase.weights(state).items():
        place = folder / path
        if not (is_saved(place, weights) if phase.keep else is_whole(place, weights.kind)):
            if (place / "weights.safetensors").exists() or step >= phase.steps:
                warn(
                    f"{place} is not what it was at step {step:,}: the weights of that step are written"
                    f"{'' if phase.keep else '; those of the best report are lost'}."
                )
            save_weights(place, weights)


def _restart_without_checkpoint(folder: Path) -> None:
    """Say that no checkpoint can be read, and keep the log of the run that was."""
    old = ""
    log = folder / LOG
    if log.exists():
        aside = folder / f"{log.stem}-before-{time.strftime('%Y%m%d-%H%M%S')}{log.suffix}"
        log.replace(aside)
        old = f"; its log is kept as {aside}"
    warn(f"All checkpoints in {folder / CHECKPOINTS} are damaged: the run begins again at step 0{old}.")


@contextmanager
def _explained(saved: Path) -> Iterator[None]:
    """On a full disk, add to the error what was saved and what to do."""
    try:
        yield
    except OSError as error:
        if error.errno not in files.NO_ROOM:
            raise
        raise OSError(f"{files.explain(error)}; {_kept_checkpoint(saved)}.") from error


def _kept_checkpoint(saved: Path) -> str:
    """Say which checkpoint a run can go on from."""
    steps = [step for step, _ in checkpoint.checkpoints(saved)]
    return f"the checkpoint of step {max(steps):,} is kept in {saved}" if steps else "nothing was saved yet"


@dataclass(frozen=True)
class _Loop:
    """The loop itself, between its first and its last step."""

    phase: Phase
    folder: Path
    weights_in: Path
    log: RunLog
    stop: StopRequested
    began: float  # start time, shifted so that interruptions do not count

    def run(self, state: Any, first: int) -> Any:
        step = first
        metrics = {}
        most = 1
        while step < self.phase.steps and not self.stop.requested:
            with self.log.busy("compiling") if step == first else nullcontext():
                began = time.monotonic()
                try:
                    state, metrics, taken = self.phase.advance(state, step, min(most, self._until_due(step)))
                except ChildProcessError as error:  # actors that play elsewhere fail for good, before the step begins
                    if step > first:
                        self._finite(metrics, state, step)
                        self._save(state, step)
                    raise ChildProcessError(f"{error} {self._where(step)}") from error
                most = max(min(2 * most, round(taken * CALL / max(time.monotonic() - began, 1e-6))), 1)
                step += taken
                self._after(state, step, metrics)
        if self.stop.requested:
            if step < self.phase.steps:
                self._finite(metrics, state, step)
                self._save(state, step)
            raise Stopped(self._where(step), self.stop.signal or 0)
        return state

    def _until_due(self, step: int) -> int:
        """Return after how many steps something is to be reported or saved."""
        phase = self.phase
        return min(*(every - step % every for every in (phase.report_every, phase.save_every)), phase.steps - step)

    def _where(self, step: int) -> str:
        return f"Stopped at step {step} of {self.phase.steps}; the same command goes on from here."

    def _after(self, state: Any, step: int, metrics: Mapping[str, Any]) -> None:
        """Show, report and save what is due after a step."""
        phase = self.phase
        last = step == self.phase.steps
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
            self.log.write(step, {**scalars, **report.scalars, "minutes": (time.monotonic() - self.began) / 60})
            for name, picture in report.pictures.items():
                self.log.picture(step, name, picture)
        if save_due:
            self._save(state, step)

    def _save(self, state: Any, step: int) -> None:
        """Save the weights and the log first, then the checkpoint that they belong to."""
        if self.phase.keep:
            for path, weights in self.phase.weights(state).items():
                save_weights(self.weights_in / path, weights)
        self.log.sync()
        checkpoint.save(
            self.folder / CHECKPOINTS,
            step,
            state,
            meta={"seconds": time.monotonic() - self.began, "history": self.phase.history},
            compressed=self.phase.compressed,
        )

    def _finite(self, metrics: Mapping[str, Any], state: Any, step: int) -> dict[str, float]:
        """Convert metrics to floats; raise `Diverged` if any, or any number of the state, is not finite."""
        scalars = {name: float(value) for name, value in metrics.items()}
        wrong = [f"{name} is {value}" for name, value in scalars.items() if not np.isfinite(value)]
        if not wrong and state is not None and not _all_finite(state):
            wrong = ["a weight is not finite"]
        if wrong:
            raise Diverged(
                f"The {wrong[0]} at step {step}; {_kept_checkpoint(self.folder / CHECKPOINTS)}. "
                "Start a new run in another folder with a lower --config.learning-rate or another random seed."
            )
        return scalars


def _all_finite(state: Any) -> bool:
    """Check one array at a time with NumPy, so that nothing needs to be compiled."""
    return all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state) if eqx.is_inexact_array(leaf))
