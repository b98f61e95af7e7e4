"""`cobra figures` and `cobra report`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from tyro.extras import literal_type_from_choices

from cobra_rl.bounds import Output
from cobra_rl.cli.options import Maybe, OutFolder
from cobra_rl.show.figures import FIGURES, Agents, agents_of, write
from cobra_rl.show.page.page import READ, is_current, write_report
from cobra_rl.show.results import RESULTS
from cobra_rl.worlds import SHIPPED, find_world, load_world

FOREIGN = "the published ones are of the shipped world; give a folder of your own with --results"

if TYPE_CHECKING:
    FigureName = str
else:
    FigureName = literal_type_from_choices(tuple(FIGURES))


@dataclass(frozen=True)
class Figures:
    """Draw the paper's figures from a world model and from results; each is a PNG, with its caption beside it."""

    names: Annotated[tuple[FigureName, ...], tyro.conf.Positional, tyro.conf.arg(help_behavior_hint="")] = ()
    """Names of the figures. Default: all."""
    world: Maybe[Path] = None  # World that the figures are drawn from. Default: the shipped one.
    results: Maybe[Path] = None
    """Folder of results, such as OUT/results of `cobra reproduce`, or of runs: solve/TASK/. Default: the published
    results, which are of the shipped world."""
    out: OutFolder = Path("runs", "figures")  # Output folder.

    def run(self, agents: Agents | None = None, redraw: bool = True) -> None:
        """Draw figures and print their paths; without names, skip those that lack data.

        `agents` act in `solving`, by default those of the runs RESULTS/solve/TASK, or the shipped ones. Without
        `redraw`, figures that are there already stay as they are, unless what they show is newer.
        """
        if self.results is not None and not self.results.is_dir():
            raise ValueError(f"--results is {self.results}, which is no folder.")
        world, results = load_world(self.world), self.results or RESULTS
        others = READ if _is_foreign(self.world, self.results) else ()
        agents = agents or agents_of(results, self.world)
        for name in self.names or FIGURES:
            path = self.out / f"{name}.png"
            if not redraw and is_current(path, name, results, find_world(self.world)):
                print(f"{name}: {path}", flush=True)
                continue
            print(f"{name}: drawing", flush=True)
            rest = {"agents": agents} if name == "solving" else {}
            try:
                if name in others:
                    raise ValueError(f"It shows results, and {FOREIGN}.")
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

    world: Maybe[Path] = None  # World that the figures are drawn from. Default: the shipped one.
    results: Maybe[Path] = None
    """Folder of results, such as OUT/results of `cobra reproduce`, or of runs: solve/TASK/. Default: the published
    results, which are of the shipped world."""
    figures: OutFolder = Path("runs", "figures")
    """Folder of the figures; missing ones are drawn first, which takes minutes."""
    out: Annotated[Path, Output(".html")] = Path("runs", "report.html")  # Output file.

    def run(self, agents: Agents | None = None) -> None:
        """Write the page and print its path; `agents` are as in `Figures`."""
        if _is_foreign(self.world, self.results):
            raise ValueError(f"The report shows results, and {FOREIGN}.")
        results, say = self.results or RESULTS, lambda text: print(text, flush=True)
        path = write_report(self.out, self.figures, results, self.world, agents, say)
        print(f"The report ({path.stat().st_size / 1e6:.1f} MB, opens in any browser): {path}")


def _is_foreign(world: Path | None, results: Path | None) -> bool:
    """Return whether the published results would stand beside a world that they are not of."""
    return results is None and find_world(world) != SHIPPED
