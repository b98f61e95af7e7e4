"""`cobra figures` and `cobra report`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tyro.extras import literal_type_from_choices

from cobra_rl.cli.options import check_file, check_folder
from cobra_rl.show.figures import FIGURES

if TYPE_CHECKING:
    FigureName = str
else:
    FigureName = literal_type_from_choices(tuple(FIGURES))


@dataclass(frozen=True)
class Figures:
    """Draw the paper's figures from a world and from results: a PNG each, its caption beside it."""

    names: Annotated[tuple[FigureName, ...], tyro.conf.Positional] = ()
    """Which figures. Default: all."""
    world: Path | None = None
    """World that the figures are drawn from. Default: the shipped one."""
    results: Path | None = None
    """Folder of results, such as OUT/results of `cobra reproduce`. Default: the published ones."""
    out: Path = Path("runs", "figures")
    """Output folder."""

    def run(self) -> None:
        """Draw, and say where each figure lies."""
        check_folder("results", self.results)
        draw_figures(self.names, self.world, self.results, self.out)


@dataclass(frozen=True)
class Report:
    """Tell the whole story on one page: figures, films and tables in a single HTML file that opens anywhere."""

    world: Path | None = None
    """World that the figures are drawn from. Default: the shipped one."""
    results: Path | None = None
    """Folder of results, such as OUT/results of `cobra reproduce`. Default: the published ones."""
    figures: Path = Path("runs", "figures")
    """Folder of the figures; those that are missing there are drawn first, which takes minutes."""
    out: Path = Path("runs", "report.html")
    """Output file."""

    def run(self) -> None:
        """Write the page, and say where it lies."""
        check_file("out", self.out)
        check_folder("results", self.results)
        write_page(self.out, self.figures, self.world, self.results)


def draw_figures(
    names: tuple[str, ...],
    world: Path | None,
    results: Path | None,
    out: Path,
    agents: Callable[[str], Any] | None = None,
) -> None:
    """Draw figures; of all, those are drawn whose results exist."""
    from cobra_rl.show.figures import write
    from cobra_rl.show.results import RESULTS
    from cobra_rl.worlds import load_world

    model = load_world(world)
    for name in names or FIGURES:
        print(f"{name}: drawing", flush=True)
        rest = {"agents": agents} if agents is not None and name == "solving" else {}
        try:
            drawn = FIGURES[name](model, results or RESULTS, **rest)
        except (FileNotFoundError, ValueError) as missing:  # no results of it, or a world of another kind
            if names:
                raise
            print(f"{name}: left out. {missing}", flush=True)
            continue
        print(f"{name}: {write(drawn, name, out)}", flush=True)


def write_page(
    out: Path, figures: Path, world: Path | None, results: Path | None, agents: Callable[[str], Any] | None = None
) -> None:
    """Write the report and say where it lies."""
    from cobra_rl.show.page import write_report
    from cobra_rl.show.results import RESULTS

    path = write_report(out, figures, results or RESULTS, world, agents, lambda text: print(text, flush=True))
    print(f"The report ({path.stat().st_size / 1e6:.1f} MB, opens in any browser): {path}")
