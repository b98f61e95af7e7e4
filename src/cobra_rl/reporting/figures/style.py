"""What all figures share: colours, labels, captions, grids of pictures, and writing to files."""

import dataclasses
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, UInt8
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cobra_rl.models.world import WorldModel
from cobra_rl.spriteworld import Spriteworld, env_spec
from cobra_rl.storage.files import write_atomically

DPI = 200
TIGHT = {"wspace": 0.05, "hspace": 0.05, "left": 0.0, "right": 1.0, "bottom": 0.0, "top": 1.0}  # pictures in rows
COLORS = {
    "cobra": "#0072B2",
    "uniform": "#E69F00",
    "reward": "#D55E00",
    "mpo_handheld": "#CC79A7",
    "mpo_policy": "#882255",
    "mpo_features": "#117733",
    "mpo_raw": "#56B4E9",
    "random": "#999999",
    "bound": "#009E73",
}  # of agents, the same in all figures
CAPTIONS: Any = (
    Environment(loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined)
    .get_template("captions.j2")
    .module
)
FRAME = "#888888"  # around pictures of scenes, which are black at their edges

AnyPicture = UInt8[np.ndarray, "H W 3"] | Float[np.ndarray, "H W 3"]
Pictures = Sequence[AnyPicture] | np.ndarray


class Drawn(NamedTuple):
    """A figure and the sentences that belong under it."""

    figure: Figure
    caption: str


DrawFigure = Callable[[WorldModel, Path], Drawn]


def panels(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Figure, np.ndarray]:
    """Begin a figure of so many inches; return it and its axes [R, C], without lines above and to the right."""
    figure = Figure(figsize=(width, height), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, **options)
    for axes in grid.flat:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, grid


def exploration_env(world: WorldModel) -> Spriteworld:
    """Return Spriteworld with pictures as large as the world's; one of other actions is a ValueError."""
    env = Spriteworld(dataclasses.replace(env_spec("exploration"), image_size=world.sizes.image))
    if world.sizes.action != env.action_size:
        raise ValueError(
            f"This figure shows Spriteworld, whose actions have {env.action_size} dimensions; "
            f"those of this world have {world.sizes.action}."
        )
    return env


def show(axes: Axes, picture: AnyPicture) -> None:
    """Show a picture of a scene: pixels are squares, no ticks, a thin frame."""
    if np.issubdtype(picture.dtype, np.floating):
        picture = np.clip(picture, 0.0, 1.0)
    axes.imshow(picture, interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(visible=True, color=FRAME, linewidth=0.6)


def caption(name: str, **values: Any) -> str:
    """Return a caption of captions.j2 with these values filled in."""
    return " ".join(getattr(CAPTIONS, name)(**values).split())


def label(axes: Axes, text: str, **options: Any) -> None:
    """Write a text beside a picture, upright; to its left unless the options say otherwise."""
    axes.set_ylabel(text, **({"rotation": 0, "ha": "right", "va": "center", "labelpad": 6} | options))


def picture_grid(rows: Sequence[Pictures], side: float, labels: Sequence[str] = ()) -> tuple[Figure, np.ndarray]:
    """Show rows of pictures, `side` inches each, with labels to their left; return the figure and its axes [R, C]."""
    figure = Figure(figsize=(side * len(rows[0]), side * len(rows)))
    grid = figure.subplots(len(rows), len(rows[0]), gridspec_kw=TIGHT)
    for axes, picture in zip(grid.flat, [picture for row in rows for picture in row], strict=True):
        show(axes, picture)
    for axes, text in zip(grid[:, 0], labels, strict=False):
        label(axes, text)
    return figure, grid


def write(drawn: Drawn, name: str, folder: Path) -> Path:
    """Write NAME.png and, beside it, NAME.txt with the caption; return the path of the picture."""
    path = folder / f"{name}.png"
    file = io.BytesIO()
    drawn.figure.savefig(file, format="png", dpi=DPI, bbox_inches="tight", pad_inches=0.05)
    write_atomically(path.with_suffix(".txt"), f"{drawn.caption}\n".encode())
    write_atomically(path, file.getvalue())  # last: where it is, all is done
    return path
