"""Writes the HTML report: draws missing figures and fills page.html.j2 with figures, films and tables."""

import base64
import functools
import io
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from PIL import Image

from cobra_rl.bounds import Output, conform
from cobra_rl.reporting.figures import FIGURES, Agents, DrawFigure, agents_of, solving, write
from cobra_rl.reporting.figures.style import caption
from cobra_rl.reporting.page import rows
from cobra_rl.reporting.results import is_of, read_explore, read_suite, read_task, read_vision, results_of
from cobra_rl.runs.worlds import agents_in, find_world, load_world
from cobra_rl.storage.files import write_atomically

DOCS = Path(__file__).parents[2] / "docs"  # of a clone, and its films inside the installed package
_SOLVED = ("solve/*.json", "solve/*/result.json")  # a file, or a run
_LEARNT = (*_SOLVED, "baseline/*.json", "baseline/*/result.json")
READ = {  # figures that show results: what they read of the folder of results
    "emergence": ("explore*.jsonl", "explore*/log.jsonl"),
    "performance": _LEARNT,
    "baselines": _LEARNT,
    "learning_curves": _LEARNT,
    "solving": _SOLVED,
    "sparse": ("solve/*-sparse*.json", "solve/*-sparse*/result.json"),
    "ablation": _SOLVED,
    "latents_read": ("latents_read.json",),
}
# Films of docs/, and the commands that make them.
FILMS = {"cobra": "cobra watch sorting --frames 70", "solving": "make demo", "worlds": "cobra play-random"}
OLD = "Drawn before the latest weights or results; draw it anew:"
Say = Callable[[str], None]  # is told what is being drawn, and what is left out and why


class Picture(NamedTuple):
    """A figure or a film."""

    data: bytes
    caption: str
    command: str
    note: str = ""  # what is to be said about its age

    def embedded(self) -> dict[str, Any]:
        """Return the picture as a data URI, its kind and its size."""
        with Image.open(io.BytesIO(self.data)) as image:
            width, height = image.size
            kind = (image.format or "png").lower()
        uri = f"data:image/{kind};base64,{base64.b64encode(self.data).decode()}"
        return {"uri": uri, "kind": kind, "width": width, "height": height}


def write_report(
    out: Path,
    figures: Path,
    results: Path | None = None,
    *,
    world: Path | str | None = None,
    agents: Agents | None = None,
    say: Say = print,
) -> Path:
    """Draw the figures that a folder lacks and writes the page, a single HTML file that opens in any browser.

    Args:
        out: The file to write.
        figures: The folder of the figures.
        results: The folder of results; None: those of the world.
        world: The name or the folder of the world that the figures show; None: the default one.
        agents: Gives the agent at play for each task; None: that of its run in `results`, or, for the results of the
            world, the one that is kept with it.
        say: Is told what is being drawn, and what is left out and why.

    Returns:
        The file.

    Raises:
        FileNotFoundError: If there is no folder `results`.
        ValueError: If a result is damaged, or `out` or `figures` cannot be written.
    """
    is_default = find_world(world) == find_world(None)
    results = results_of(world) if results is None else results
    if not results.is_dir():
        raise FileNotFoundError(f"There are no results in {results}, which is no folder; give one with --results.")
    conform(Annotated[Path, Output(".html")], out, "--out")
    conform(Annotated[Path, Output(folder=True)], figures, "--figures")
    build(results, {}, {})  # refuses damaged results before figures are drawn, which takes minutes
    drawers = dict(FIGURES)
    if "solving" in drawers:
        drawers["solving"] = functools.partial(solving, agents=agents or agents_of(results, world))
    pictures = gather_figures(figures, drawers, results, world=world, say=say)
    films = gather_films() if is_default and agents is None and is_of(results, None) else {}  # they show its agents
    write_atomically(out, build(results, pictures, films).encode())
    return out


def build(results: Path, figures: Mapping[str, Picture], films: Mapping[str, Picture]) -> str:
    """Render the page, HTML that loads nothing else; figures without a place on it come at the end of its results."""
    suite = read_suite(results)
    unplaced = dict(figures)
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["prose"] = rows.prose
    templates.globals["rows"] = rows
    return templates.get_template("page.html.j2").render(
        figures=figures,
        figure=lambda name: unplaced.pop(name, None),  # the template asks for each at its place
        unplaced=unplaced,
        films=films,
        vision=read_vision(results),
        explore=read_explore(results),
        random=read_explore(results, "explore_random"),
        demo=read_task(results, "demo"),
        suite=suite,
        has_rewards=any(result.normalised_reward("train") for of in suite.values() for result in of.values()),
    )


def gather_figures(
    folder: Path,
    drawers: Mapping[str, DrawFigure],
    results: Path,
    *,
    world: Path | str | None = None,
    say: Say = print,
) -> dict[str, Picture]:
    """Gather all figures of a folder; those that are missing there are drawn, those that cannot be are left out."""
    figures = {}
    model = None
    for name, draw in drawers.items():
        path = folder / f"{name}.png"
        if not _is_drawn(path):
            say(f"{name}: drawing ...")
            model = model or load_world(world)
            try:
                write(draw(model, results), name, folder)
            except (FileNotFoundError, ValueError) as error:  # no results, no agent of a task
                say(f"{name}: left out. {error}")
                continue
        note = "" if is_current(path, name, results, world) else OLD
        say(f"{name}: {path}{note and '. ' + note}")
        text = path.with_suffix(".txt").read_text().strip()
        figures[name] = Picture(path.read_bytes(), text, f"cobra figures {name}", note)
    return figures


def gather_films(folder: Path = DOCS) -> dict[str, Picture]:
    """Gather the films of a folder; those that it lacks are left out."""
    return {
        name: Picture(path.read_bytes(), caption(f"film_{name}"), command)
        for name, command in FILMS.items()
        if (path := folder / f"{name}.gif").exists()
    }


def is_current(path: Path, name: str, results: Path, world: Path | str | None) -> bool:
    """Return whether a figure is drawn, and not before the latest of what it shows."""
    newest = max((source.stat().st_mtime for source in _sources(name, results, world)), default=0.0)
    return _is_drawn(path) and newest <= path.stat().st_mtime


def _is_drawn(path: Path) -> bool:
    return path.exists() and path.with_suffix(".txt").exists()


def _sources(name: str, results: Path, world: Path | str | None) -> Iterator[Path]:
    """Yield the files that a figure shows: results, or the weights of the world, or of the agents at play."""
    for pattern in READ.get(name, ()):
        yield from results.glob(pattern)
    if name not in READ:
        yield from find_world(world).rglob("*.safetensors")
    if name == "solving" and is_of(results, world):
        for run in agents_in(world).values():
            yield from run.rglob("*.safetensors")
