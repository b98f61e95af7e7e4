"""What all figures share: how they look and how they are written."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from cobra_rl.models.world import WorldModel
from cobra_rl.spriteworld import Spriteworld, env_spec

DPI = 200
TIGHT = {"wspace": 0.05, "hspace": 0.05, "left": 0.0, "right": 1.0, "bottom": 0.0, "top": 1.0}  # pictures in rows
COLORS = {
    "cobra": "#0072B2",
    "curious": "#0072B2",
    "whole": "#E69F00",
    "uniform": "#E69F00",
    "reward": "#D55E00",
    "mpo_handheld": "#CC79A7",
    "mpo_raw": "#56B4E9",
    "random": "#999999",
    "bound": "#009E73",
}  # of agents, the same in all figures
SLOTS = ("#262626", "#e69e00", "#57b5e8", "#009e73", "#f0e342", "#0073b3", "#d65e00", "#cc78a6")  # colours of slots
FRAME = "#888888"  # around pictures of scenes, which are black at their edges


class Drawn(NamedTuple):
    """A figure and the sentences that belong under it."""

    figure: Figure
    caption: str


# Draws a figure of a world model or of the results in a folder; FileNotFoundError if it lacks them.
DrawFigure = Callable[[WorldModel, Path], Drawn]


def exploration_env(world: WorldModel) -> Spriteworld:
    """Return Spriteworld with pictures as large as the world's; one of other actions is a ValueError."""
    env = Spriteworld(dataclasses.replace(env_spec("exploration"), image_size=world.sizes.image))
    if world.sizes.action != env.action_size:
        raise ValueError(
            f"This figure shows Spriteworld, whose actions have {env.action_size} dimensions; "
            f"those of this world have {world.sizes.action}."
        )
    return env


def show(axes: Axes, picture: UInt8[np.ndarray, "H W 3"] | Float[np.ndarray, "H W 3"]) -> None:
    """Show a picture of a scene: pixels are squares, no ticks, a thin frame."""
    if np.issubdtype(picture.dtype, np.floating):
        picture = np.clip(picture, 0.0, 1.0)
    axes.imshow(picture, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set(visible=True, color=FRAME, linewidth=0.6)


def colored_masks(masks: Float[np.ndarray, "B K H W"]) -> Float[np.ndarray, "B H W 3"]:
    """Paint one picture per scene: a colour for each slot, the first, the background, dark."""
    palette = np.array([to_rgb(SLOTS[k % len(SLOTS)]) for k in range(masks.shape[1])])
    return np.einsum("bkhw,kc->bhwc", masks, palette)


def write(drawn: Drawn, name: str, folder: Path) -> Path:
    """Write NAME.png and, beside it, NAME.txt with the caption; return the path of the picture."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.png"
    drawn.figure.savefig(path, dpi=DPI, bbox_inches="tight", pad_inches=0.05)
    path.with_suffix(".txt").write_text(drawn.caption + "\n")
    return path
