"""The `cobra evaluate` commands, in the manner of commands.py."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class EvaluateRun:
    """Measure a run of `cobra solve`: greedy episodes in both modes. Or `cobra evaluate vision`, `... explore`."""

    run_folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The run's folder, such as runs/solve/sorting."""
    episodes: int = 200
    """In each mode."""
    causes: bool = False
    """Also where reward is lost: by proposals, by vision and reward predictor, by imagination. Minutes a seed."""
    out: Path | None = None
    """Where to write the figures as JSON; by default only printed."""

    def run(self) -> None:
        from cobra_rl.evaluation.task_report import report_run

        report_run(self.run_folder, self.episodes, self.causes, self.out)


@dataclass(frozen=True)
class EvaluateVision:
    """Measure vision on held-out scenes: FG-ARI, slots to themselves, reconstruction, probes; a table and JSON."""

    weights: Path | None = None
    """Folder of the weights, such as runs/vision/laptop-seed0/weights; by default the shipped ones."""
    scenes: int = 1000
    """Held-out exploration scenes with 2-6 sprites."""
    suite: bool = False
    """Also the initial scenes of all six tasks in both modes, and the released variant."""
    out: Path | None = None
    """Where to write the figures as JSON; by default only printed."""

    def run(self) -> None:
        from cobra_rl.evaluation.report import report_vision

        report_vision(self.weights, self.scenes, self.suite, self.out)


@dataclass(frozen=True)
class EvaluateExplore:
    """Measure imagination and curiosity on held-out scenes: hits, pushes, roll-outs, e_pred; a table and JSON."""

    weights: Path | None = None
    """Folder of the weights, such as runs/explore/laptop-seed0/weights; by default the shipped ones."""
    vision: Path | None = None
    """Folder of the vision weights; by default the shipped ones."""
    scenes: int = 1000
    """Held-out exploration scenes with 1-6 sprites."""
    out: Path | None = None
    """Where to write the figures as JSON; by default only printed."""

    def run(self) -> None:
        from cobra_rl.evaluation.report import report_explore

        report_explore(self.weights, self.vision, self.scenes, self.out)
