"""The page's figures and films: gathered, drawn if need be, and made ready to be embedded."""

import base64
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

from cobra_rl.agent import TASKS
from cobra_rl.show.figures import DrawFigure, write
from cobra_rl.show.figures.style import caption
from cobra_rl.worlds import SHIPPED, load_world

DOCS = Path(__file__).parents[2] / "docs"  # of a clone, and its films inside the installed package
READ = {  # figures that show results: what they read of the folder of results
    "emergence": "explore*.jsonl",
    "performance": "*/*.json",
    "sparse": "solve/*-sparse*.json",
    "ablation": "solve/*.json",
}
FILMS = {"cobra": "cobra watch sorting --frames 70", "solving": "make demo", "worlds": "cobra play-random"}  # of docs/
Say = Callable[[str], None]  # is told what is being drawn, and what is left out and why


class Picture(NamedTuple):
    """A figure or a film."""

    data: bytes
    caption: str
    command: str
    note: str = ""  # what is to be said about its age

    def embedded(self) -> dict[str, Any]:
        """Returns the picture as a data URI, its kind and its size."""
        with Image.open(io.BytesIO(self.data)) as image:
            width, height, kind = *image.size, (image.format or "png").lower()
        uri = f"data:image/{kind};base64,{base64.b64encode(self.data).decode()}"
        return {"uri": uri, "kind": kind, "width": width, "height": height}


def gather_figures(
    folder: Path, drawers: Mapping[str, DrawFigure], results: Path, world: Path = SHIPPED, say: Say = print
) -> dict[str, Picture]:
    """Gathers all figures of a folder; those that are missing there are drawn, those that cannot be are left out."""
    figures, model = {}, None
    for name, draw in drawers.items():
        path = folder / f"{name}.png"
        text = path.with_suffix(".txt")
        if not (path.exists() and text.exists()):
            say(f"{name}: drawing ...")
            model = model or load_world(world)
            try:
                write(draw(model, results), name, folder)
            except (FileNotFoundError, ValueError) as error:  # no results, no agent of a task
                say(f"{name}: left out. {error}")
                continue
        note = _age(path, name, results, world)
        say(f"{name}: {path}{note and '. ' + note}")
        figures[name] = Picture(path.read_bytes(), text.read_text().strip(), f"cobra figures {name}", note)
    return figures


def gather_films(folder: Path = DOCS) -> dict[str, Picture]:
    """Gathers the films of a folder; those that it lacks are left out."""
    found = {name: path.read_bytes() for name in FILMS if (path := folder / f"{name}.gif").exists()}
    return {name: Picture(data, caption(f"film_{name}"), FILMS[name]) for name, data in found.items()}


def _age(path: Path, name: str, results: Path, world: Path) -> str:
    """Returns a sentence if a figure is older than what it shows."""
    weights = [*world.rglob("*.safetensors"), *(TASKS.rglob("*.safetensors") if name == "solving" else ())]
    sources = results.glob(READ[name]) if name in READ else weights
    is_old = any(source.stat().st_mtime > path.stat().st_mtime for source in sources)
    return "Drawn before the latest weights or results; draw it anew:" if is_old else ""
