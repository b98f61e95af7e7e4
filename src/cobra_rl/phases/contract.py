"""The contract of a training phase: an init, a step and what to report. `runs/loop.py` executes it."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from cobra_rl.storage.weights import Weights


class Diverged(ArithmeticError):
    """A loss, a metric or a weight is no longer a number."""


class Report(NamedTuple):
    """Metrics and pictures of one validation."""

    scalars: Mapping[str, float]
    pictures: Mapping[str, np.ndarray] = {}


@runtime_checkable
class Phase(Protocol):
    """A training phase, as the run loop sees it. It reads and writes no files."""

    title: str  # heads the progress bar
    steps: int
    columns: Any  # names of metrics to show beside the progress, the one that matters first
    read_every: int = 1  # steps between two looks at the metrics: each waits for the device
    report_every: int  # steps between two reports
    save_every: int  # steps between two checkpoints
    evaluates: bool = False  # whether to announce reports, because they take long
    compressed: bool = False  # whether checkpoints are worth compressing
    history: dict[str, Any]  # anything else that a resumed run must know; JSON, saved with each checkpoint

    @property
    def keep(self) -> bool:
        """Whether the present weights are to be kept; otherwise those kept before are better."""
        return True

    def init(self) -> Any:
        """Make the state before the first step: a pytree."""
        ...

    def step(self, state: Any, step: int) -> tuple[Any, Mapping[str, Any]]:
        """Take a step; return the new state, and metrics by name."""
        ...

    def advance(self, state: Any, step: int, most: int) -> tuple[Any, Mapping[str, Any], int]:
        """Take one or several steps in one call; return the state, the last step's metrics and how many it took.

        However a run is divided into calls, its results are the same bits. If a metric of a step is not finite, that
        step counts as the last.
        """
        return (*self.step(state, step), 1)

    def report(self, state: Any, step: int) -> Report:
        """Measure the state; by default there is nothing to say beyond the metrics of `step`."""
        return Report({})

    def weights(self, state: Any) -> Mapping[str, Weights]:
        """Return the weights to keep, by path below the folder of the run."""
        ...
