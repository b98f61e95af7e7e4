"""The page: figures, films and tables put into page.html.j2. Only `write_report` draws and writes."""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from cobra_rl.agent import Agent
from cobra_rl.runtime.storage import write_atomically
from cobra_rl.show.figures import FIGURES, solving
from cobra_rl.show.page import rows
from cobra_rl.show.page.pictures import Picture, Say, gather_figures, gather_films
from cobra_rl.show.results import RESULTS, read_explore, read_suite, read_task, read_vision
from cobra_rl.worlds import find_world

FOLDER = Path(__file__).parent


def write_report(
    out: Path,
    figures: Path,
    results: Path = RESULTS,
    world: Path | None = None,
    agents: Callable[[str], Agent] | None = None,
    say: Say = print,
) -> Path:
    """Draws the figures that are missing and writes the page, a single HTML file that opens anywhere.

    Args:
        out: the file to write.
        figures: folder of the figures; those that it lacks are drawn into it.
        results: folder of results, laid out as `show.results` describes.
        world: folder of the world model that figures are drawn from; None: the shipped one.
        agents: the agent to draw for each task; None: the shipped ones.
        say: is told what is being drawn, and what is left out and why.
    """
    if not results.is_dir():
        raise FileNotFoundError(f"--results is {results}, which is no folder of results.")
    if out.is_dir():
        raise ValueError(f"--out is {out}, a folder; it must be the name of a file, such as runs/report.html.")
    if figures.exists() and not figures.is_dir():
        raise ValueError(f"--figures is {figures}, a file; it must be a folder.")
    drawers = dict(FIGURES)
    if agents is not None and "solving" in drawers:
        drawers["solving"] = functools.partial(solving, agents=agents)
    pictures = gather_figures(figures, drawers, results, find_world(world), say)
    films = gather_films() if world is None and agents is None else {}  # they show the shipped agents
    write_atomically(out, build(results, pictures, films).encode())
    return out


def build(results: Path, figures: Mapping[str, Picture], films: Mapping[str, Picture]) -> str:
    """Renders the page, HTML that loads nothing else; figures without a place on it come at the end of its results."""
    suite, placed = read_suite(results), set()

    def place(name: str) -> Picture | None:
        placed.add(name)
        return figures.get(name)

    templates = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["prose"] = rows.prose
    templates.globals["rows"] = rows
    return templates.get_template("page.html.j2").render(
        style=Markup((FOLDER / "style.css").read_text(encoding="utf-8")),
        figure=place,
        figures=figures,
        other_figures=lambda: [picture for name, picture in figures.items() if name not in placed],
        films=films,
        vision=read_vision(results),
        explore=read_explore(results),
        random=read_explore(results, "explore_random"),
        demo=read_task(results, "demo"),
        suite=suite,
        has_rewards=any(result.normalised_reward("train") for of in suite.values() for result in of.values()),
    )
