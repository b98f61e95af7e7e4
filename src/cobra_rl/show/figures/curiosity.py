"""The exploration policy: where it clicks, how it deforms uniform samples, and how it behaves."""

from pathlib import Path

import jax
import numpy as np
from jaxtyping import Array, Float
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from cobra_rl.evaluation.explore import explore_scenes
from cobra_rl.evaluation.vision import TEST_SEED
from cobra_rl.models.world import WorldModel
from cobra_rl.show.figures.style import TIGHT, Drawn, exploration_env, show
from cobra_rl.show.films import picture

COLUMNS, SAMPLES = 5, 200
LEVELS = 17  # lines of a grid
STEPS = 8  # of an episode of `behaviour`


def clicks(world: WorldModel, _: Path) -> Drawn:
    """Draw position clicks over scenes."""
    scenes = explore_scenes(exploration_env(world), 100, TEST_SEED)
    figure = Figure(figsize=(1.5 * COLUMNS, 1.5 * 2))
    grid = figure.subplots(2, COLUMNS, gridspec_kw=TIGHT)
    slots = world.encode(scenes.images[: 2 * COLUMNS])
    actions = np.asarray(world.propose(slots, jax.random.key(0), SAMPLES))
    for axes, image, action in zip(grid.ravel(), scenes.images, actions, strict=False):
        size = image.shape[0]
        show(axes, image)
        axes.plot(*_pixels(action[:, :2], size), ".", color="white", markersize=2.0, alpha=0.8)
        axes.set(xlim=(-0.5, size - 0.5), ylim=(size - 0.5, -0.5))
    return Drawn(
        figure,
        f"Position clicks of the exploration policy: {SAMPLES} samples (dots) in each of the first {2 * COLUMNS} "
        "held-out scenes. A uniform policy would hit a sprite about once in sixteen clicks.",
    )


def deformation(world: WorldModel, _: Path) -> Drawn:
    """Draw grids of position and of motion clicks after D."""
    scenes = explore_scenes(exploration_env(world), 100, TEST_SEED)
    chosen = np.nonzero(np.asarray(scenes.sprites.alive).sum(axis=1) == 4)[0][:3]
    slots = world.encode(scenes.images[chosen])
    figure = Figure(figsize=(2.1 * len(chosen), 4.5))
    grid = figure.subplots(2, len(chosen), gridspec_kw={"wspace": 0.08, "hspace": 0.16})
    for row, (start, name) in enumerate(((0, "position click"), (2, "motion click"))):
        for axes, image, scene in zip(grid[row], scenes.images[chosen], slots, strict=True):
            size = image.shape[0]
            show(axes, image if start == 0 else np.zeros_like(image))
            lattice = deformed_grid(world, scene, start)
            x, y = _pixels(lattice.reshape(-1, 2), size)
            points = np.stack([x, y], -1).reshape(LEVELS, LEVELS, 2)
            lines = [*points, *points.transpose(1, 0, 2)]
            axes.add_collection(LineCollection(lines, colors="white", linewidths=0.5, alpha=0.7))
            axes.set(xlim=(-3, size + 2), ylim=(size + 2, -3), facecolor="black")
        grid[row][0].set_ylabel(name)
    return Drawn(
        figure,
        "Deformation of uniform samples by D, without its noise: a regular grid of the first two dimensions (above, "
        "over the scene) and of the last two (below), the other dimensions random, after the mean deformation towards "
        "the nearest of the things that the policy would click on. Position clicks are drawn to sprites, motion clicks "
        "hardly change.",
    )


def behaviour(world: WorldModel, _: Path) -> Drawn:
    """Draw an episode of random play and one of curious play, from the same scene, for two scenes."""
    env = exploration_env(world)
    figure = Figure(figsize=(1.2 * STEPS, 4 * 1.2))
    grid = figure.subplots(4, STEPS, gridspec_kw=TIGHT)
    for row in range(4):
        is_curious, key = row % 2 == 1, jax.random.key(row // 2 + 3)
        state, image = env.reset(key)
        for t in range(STEPS):
            act_key, step_key = jax.random.split(jax.random.fold_in(key, t))
            if is_curious:
                action = world.propose(world.encode(np.asarray(image)[None])[0], act_key, 1)[0]
            else:
                action = jax.random.uniform(act_key, (env.action_size,))
            show(grid[row, t], picture(env, state, 128, action))
            state, image = env.step(step_key, state, action)[:2]
        grid[row, 0].set_ylabel("curious" if is_curious else "random", rotation=0, ha="right", va="center", labelpad=6)
    return Drawn(
        figure,
        f"Random policy and exploration policy, {STEPS} steps from the same scene, for two scenes. Arrows are actions: "
        "they begin at the position click.",
    )


def deformed_grid(world: WorldModel, slots: Float[Array, "K M"], start: int) -> Float[np.ndarray, "L L 2"]:
    """Deform a regular grid in two dimensions of the action space, from `start` on, the other dimensions random."""
    line = np.linspace(0.02, 0.98, LEVELS)
    u = np.random.default_rng(0).random((LEVELS, LEVELS, world.sizes.action))
    u[..., start], u[..., start + 1] = np.meshgrid(line, line)
    u = u.reshape(-1, world.sizes.action)
    actions = world.deform(np.broadcast_to(slots, (len(u), *slots.shape)), u)
    return np.asarray(actions)[:, start : start + 2].reshape(LEVELS, LEVELS, 2)


def _pixels(points: Float[np.ndarray, "n 2"], size: int) -> tuple[np.ndarray, np.ndarray]:
    """Convert (x, y) in [0, 1], y up, to columns and rows of a picture."""
    return points[:, 0] * size - 0.5, (1.0 - points[:, 1]) * size - 0.5
