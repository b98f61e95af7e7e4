"""`cobra figures` and `cobra report`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from tyro.extras import literal_type_from_choices

from cobra_rl.bounds import Output
from cobra_rl.cli.options import Maybe, OutFolder, WorldOption
from cobra_rl.reporting.figures import FIGURES, Agents, agents_of, write
from cobra_rl.reporting.page.page import is_current, write_report
from cobra_rl.reporting.results import results_of
from cobra_rl.runs.worlds import load_world

if TYPE_CHECKING:
    FigureName = str
else:
    FigureName = literal_type_from_choices(tuple(FIGURES))


@dataclass(frozen=True)
class Figures:
    """Draw the paper's figures from a world model and from results; each is a PNG, with its caption beside it."""

    names: Annotated[tuple[FigureName, ...], tyro.conf.Positional, tyro.conf.arg(help_behavior_hint="")] = ()
    """Names of the figures. Default: all."""
    world: WorldOption = None
    results: Maybe[Path] = None
    """Folder of results, such as OUT/results of `cobra reproduce`, or of runs: solve/TASK/. Default: the published
    results of the world."""
    out: OutFolder = Path("runs", "figures")  # Output folder.

    def run(self, agents: Agents | None = None, redraw: bool = True) -> None:
        """Draw figures and print their paths; without names, skip those that lack data.

        `agents` act in `solving`, by default those of the runs RESULTS/solve/TASK, or those that are kept with the
        world. Without `redraw`, figures that are there already stay as they are, unless what they show is newer.
        """
        if self.results is not None and not self.results.is_dir():
            raise ValueError(f"--results is {self.results}, which is no folder.")
        world = load_world(self.world)
        results = self.results or results_of(self.world)
        agents = agents or agents_of(results, self.world)
        for name in self.names or FIGURES:
            path = self.out / f"{name}.png"
            if not redraw and is_current(path, name, results, self.world):
                print(f"{name}: {path}", flush=True)
                continue
            print(f"{name}: drawing", flush=True)
            rest = {"agents": agents} if name == "solving" else {}
            try:
                drawn = FIGURES[name](world, results, **rest)
            except (FileNotFoundError, ValueError) as missing:  # no results of it, or a world of another kind
                if self.names:
                    raise
                print(f"{name}: left out. {missing}", flush=True)
            else:
                print(f"{name}: {write(drawn, name, self.out)}", flush=True)


@dataclass(frozen=True)
class Report:
    """Write all figures, films and tables to a single HTML file that opens in any browser."""

    world: WorldOption = None
    results: Maybe[Path] = None
    """Folder of results, such as OUT/results of `cobra reproduce`, or of runs: solve/TASK/. Default: the published
    results of the world."""
    figures: OutFolder = Path("runs", "figures")
    """Folder of the figures; missing ones are drawn first, which takes minutes."""
    out: Annotated[Path, Output(".html")] = Path("runs", "report.html")  # Output file.

    def run(self, agents: Agents | None = None) -> None:
        """Write the page and print its path; `agents` are as in `Figures`."""
        path = write_report(
            self.out,
            self.figures,
            self.results,
            world=self.world,
            agents=agents,
            say=lambda text: print(text, flush=True),
        )
        print(f"The report ({path.stat().st_size / 1e6:.1f} MB, opens in any browser): {path}")
