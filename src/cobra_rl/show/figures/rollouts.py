"""Transition roll-outs against the truth: the paper's figure of two scenes, and the appendix's large sheet."""

from pathlib import Path

import jax
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from cobra_rl.evaluation.explore import explore_scenes
from cobra_rl.evaluation.pushing import aim, push, states_from
from cobra_rl.evaluation.vision import TEST_SEED
from cobra_rl.models.world import WorldModel
from cobra_rl.show.figures.style import Drawn, exploration_env, show

STEPS = 6
MARGINS = {"wspace": 0.05, "hspace": 0.05, "left": 0.12, "right": 0.99, "bottom": 0.05, "top": 0.88}
SPEED = 0.09  # of the pushed sprite, in frame widths a step


def rollouts(world: WorldModel, _: Path) -> Drawn:
    """Draw two scenes, one sprite of each pushed along a line."""
    figure = Figure(figsize=(0.85 * (STEPS + 1) + 1.0, 0.85 * 4 + 0.2))
    for number, part in enumerate(figure.subfigures(2, 1, squeeze=False).ravel()):
        _draw(world, part.subplots(2, STEPS + 1, gridspec_kw=MARGINS), number, labelled=True)
    return Drawn(figure, _CAPTION.format(scenes="two held-out scenes with several sprites"))


def rollout_sheet(world: WorldModel, _: Path) -> Drawn:
    """Draw sixteen scenes."""
    columns, rows = 2, 8
    figure = Figure(figsize=(columns * (0.6 * (STEPS + 1) + 0.4), rows * 1.3))
    for number, part in enumerate(figure.subfigures(rows, columns, squeeze=False).ravel()):
        grid = part.subplots(2, STEPS + 1, gridspec_kw=MARGINS)
        _draw(world, grid, number, labelled=number % columns == 0)
    return Drawn(figure, _CAPTION.format(scenes="sixteen held-out scenes, not chosen"))


_CAPTION = (
    "Roll-outs of the transition model, as an RNN on its own predictions, for {scenes}. In each scene one sprite "
    "(dotted circle) is pushed along a line, without motion noise. Above: the truth; below: the first frame encoded "
    "once, then only imagined."
)


def _draw(world: WorldModel, grid: np.ndarray, number: int, labelled: bool) -> None:
    truth, imagined, place = _roll(world, number)
    for t in range(STEPS + 1):
        show(grid[0, t], truth[t])
        show(grid[1, t], imagined[t])
        if number < 2:
            grid[0, t].set_title(f"t = {t}" if t else "start", fontsize=7, pad=2)
    size = truth.shape[1]
    centre = (place[0] * size - 0.5, (1.0 - place[1]) * size - 0.5)
    grid[0, 0].add_patch(Circle(centre, 0.16 * size, fill=False, linestyle=":", color="white", linewidth=1.2))
    if labelled:
        for axes, name in zip(grid[:, 0], ("truth", "imagined"), strict=True):
            axes.set_ylabel(name, rotation=0, ha="right", va="center", labelpad=4, fontsize=8)


def _roll(world: WorldModel, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return pictures of the truth and of the imagination [T + 1, H, W, 3], and where the sprite begins.

    The sprite is the topmost whose straight way through the middle of the frame stays inside it.
    """
    env = exploration_env(world)
    scenes = explore_scenes(env, 100, TEST_SEED)
    several = np.nonzero(np.asarray(scenes.sprites.alive).sum(axis=1) >= 3)[0]
    row = several[number : number + 1]
    labels, sprites = scenes.labels[row], jax.tree.map(lambda factor: factor[row], scenes.sprites)
    states = states_from(sprites)
    sprite = np.array([labels[labels >= 0].max()])
    start = np.asarray(sprites.position)[0, sprite[0]]
    towards = np.array([0.5, 0.5]) - start + 1e-3
    motion = 0.5 + SPEED / 0.25 * towards / np.abs(towards).max()
    click = aim(labels, sprite, np.random.default_rng(0))
    slots = world.encode(scenes.images[row])
    truth, imagined, before = [scenes.images[row[0]]], [np.asarray(world.decode(slots).image[0])], start
    for _ in range(STEPS):
        action = np.concatenate([np.clip(click, 0.0, 1.0), motion[None]], axis=1)
        pushed = push(env, states, action, sprite)
        slots = world.imagine(slots, action).slots
        truth.append(pushed.images[0])
        imagined.append(np.asarray(world.decode(slots).image[0]))
        states, now = pushed.states, np.asarray(pushed.states.sprites.position)[0, sprite[0]]
        click, before = click + now - before, now
    return np.stack(truth), np.stack(imagined), start
