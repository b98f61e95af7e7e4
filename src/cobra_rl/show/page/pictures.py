"""The report's figures and films: gathered, drawn if need be, and embedded."""

import base64
import html
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from cobra_rl.figures import Drawn, write
from cobra_rl.pretrained import SHIPPED, Curious, load_pretrained
from cobra_rl.report.tables import prose

READ = {  # figures that show results: what they read of results/
    "emergence": "explore*.jsonl",
    "performance": "*/*.json",
    "sparse": "solve/*-sparse*.json",
    "ablation": "solve/*.json",
}
FILMS = {  # of docs/: caption and command
    "cobra": (
        "The agent sorts by colour. Left: the scene and its action. Middle: the slots that it sees. Right: the next "
        "scene as it imagines it.",
        "cobra watch sorting --frames 70",
    ),
    "solving": (
        "The agent at play after it has learnt to bring the target to a goal that it cannot see. Left: training mode. "
        "Right: test mode, the target starts where it never did while the agent learnt.",
        "make demo",
    ),
    "worlds": (
        "The suite under random pushes, training mode above, test mode below. Arrows are actions, crossed circles are "
        "goals that the agent never sees.",
        "cobra play-random",
    ),
}
FILM = 600  # pixels of the page that a film is wide, at least
SWIPED = 560  # pixels; wider pictures are swiped on a phone, not shrunk
PIXELS = 2  # of a figure, to a pixel of the page: sharp on fine screens


class Picture(NamedTuple):
    """A figure or a film."""

    data: bytes
    caption: str
    command: str
    note: str = ""  # what is to be said about its age


def gather_figures(
    folder: Path,
    drawers: Mapping[str, Callable[[Curious], Drawn]],
    results: Path,
    load: Callable[[], Curious] = load_pretrained,
) -> dict[str, Picture]:
    """All figures of `folder`; those that are missing there are drawn. Those that cannot be drawn are left out."""
    figures, agent = {}, None
    for name, draw in drawers.items():
        path = folder / f"{name}.png"
        text = path.with_suffix(".txt")
        if not (path.exists() and text.exists()):
            print(f"{name}: drawing ...", flush=True)
            agent = agent or load()
            try:
                write(draw(agent), name, folder)
            except (FileNotFoundError, ValueError) as error:  # no results, no agent of a task
                print(f"{name}: left out. {error}", flush=True)
                continue
        note = _age(path, name, results)
        print(f"{name}: {path}{note and '. ' + note}", flush=True)
        figures[name] = Picture(path.read_bytes(), text.read_text().strip(), f"cobra figures {name}", note)
    return figures


def gather_films(folder: Path) -> dict[str, Picture]:
    """The films of `folder` that exist."""
    paths = {name: folder / f"{name}.gif" for name in FILMS}
    return {name: Picture(path.read_bytes(), *FILMS[name]) for name, path in paths.items() if path.exists()}


def figure_html(picture: Picture, folded: str = "") -> str:
    """A picture on a white card, with its caption and the command that made it; `folded` heads it if it is to open."""
    with Image.open(io.BytesIO(picture.data)) as image:
        (width, height), kind = image.size, (image.format or "png").lower()
    natural = width if kind == "gif" else width // PIXELS
    wide = ' class="wide"' if natural > SWIPED else ""
    shown = max(natural, FILM) if kind == "gif" else natural
    data = base64.b64encode(picture.data).decode()
    note = f' <strong class="note">{html.escape(picture.note)}</strong>' if picture.note else ""
    card = (
        f'<figure{wide}>\n<div class="card scroll" tabindex="0" style="--width: {shown}px">'
        f'<img src="data:image/{kind};base64,{data}" width="{width}" height="{height}" '
        f'alt="{html.escape(picture.caption)}"></div>\n'
        f"<figcaption>{prose(picture.caption)}{note} <code>{html.escape(picture.command)}</code></figcaption>\n"
        "</figure>\n"
    )
    return f"<details><summary>{html.escape(folded)}</summary>\n{card}</details>\n" if folded else card


def _age(path: Path, name: str, results: Path) -> str:
    """A figure that is older than what it shows says so."""
    if name in READ:
        sources = list(results.glob(READ[name]))
    elif name == "solving":
        sources = list(SHIPPED.rglob("*.safetensors"))
    else:
        sources = [SHIPPED / part / "weights.safetensors" for part in ("vision", "transition", "exploration")]
    if any(source.stat().st_mtime > path.stat().st_mtime for source in sources):
        return "Drawn before the latest weights or results; draw it anew:"
    return ""
