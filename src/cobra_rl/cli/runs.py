"""`cobra runs` and `cobra worlds`: lists."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from cobra_rl.reporting.runs import print_runs, read_runs
from cobra_rl.reporting.tables import print_worlds


@dataclass(frozen=True)
class Runs:
    """List the runs below a folder with their progress, main metric and state, including running and damaged ones."""

    folder: Annotated[Path, tyro.conf.Positional] = Path("runs")  # Folder that is searched, with all folders below it.

    def run(self) -> None:
        """Print a row per run."""
        if not self.folder.is_dir():
            raise ValueError(f"{self.folder} is no folder; give one that holds runs, such as runs.")
        if lines := read_runs(self.folder):
            print_runs(lines, self.folder)
        else:
            print(f"There are no runs in {self.folder}: no folder below it has a run.json.")


@dataclass(frozen=True)
class Worlds:
    """List the worlds that --world takes by name: those that are shipped, and your own."""

    def run(self) -> None:
        """Print a row per world."""
        print_worlds()
