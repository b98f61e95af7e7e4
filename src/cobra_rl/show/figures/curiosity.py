"""The exploration policy: where it clicks, how it deforms uniform samples, and how it behaves."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from cobra_rl.evaluation.explore import explore_scenes
from cobra_rl.evaluation.vision import TEST_SEED
from cobra_rl.figures.style import TIGHT, Drawn, show
from cobra_rl.pretrained import Curious
from cobra_rl.spriteworld import make, render

COLUMNS, SAMPLES = 5, 200
LEVELS = 17  # lines of a grid


def clicks(agent: Curious) -> Drawn:
    """Position clicks over scenes."""
    scenes = explore_scenes(100, seed=TEST_SEED)
    figure = Figure(figsize=(1.5 * COLUMNS, 1.5 * 2))
    grid = figure.subplots(2, COLUMNS, gridspec_kw=TIGHT)
    actions = np.asarray(agent.propose(agent.encode(scenes.images[: 2 * COLUMNS]), jax.random.key(0), SAMPLES))
    for axes, image, action in zip(grid.ravel(), scenes.images, actions, strict=False):
        show(axes, image)
        axes.plot(*_pixels(action[:, :2], image.shape[0]), ".", color="white", markersize=2.0, alpha=0.8)
        axes.set(xlim=(-0.5, 63.5), ylim=(63.5, -0.5))
    return Drawn(
        figure,
        f"Position clicks of the exploration policy: {SAMPLES} samples (dots) in each of the first {2 * COLUMNS} "
        "held-out scenes. A uniform policy would hit a sprite about once in sixteen clicks.",
    )


def deformation(agent: Curious) -> Drawn:
    """Grids of position and of motion clicks, before and after D."""
    scenes = explore_scenes(100, seed=TEST_SEED)
    chosen = np.nonzero(np.asarray(scenes.sprites.alive).sum(axis=1) == 4)[0][:3]
    slots = agent.encode(scenes.images[chosen])
    figure = Figure(figsize=(2.1 * len(chosen), 4.5))
    grid = figure.subplots(2, len(chosen), gridspec_kw={"wspace": 0.08, "hspace": 0.16})
    for row, (start, name) in enumerate(((0, "position click"), (2, "motion click"))):
        for axes, image, scene in zip(grid[row], scenes.images[chosen], slots, strict=True):
            show(axes, image if start == 0 else np.zeros_like(image))
            lattice = _deformed(agent, scene, start)  # [L, L, 2]
            x, y = _pixels(lattice.reshape(-1, 2), image.shape[0])
            points = np.stack([x, y], -1).reshape(LEVELS, LEVELS, 2)
            lines = [*points, *points.transpose(1, 0, 2)]
            axes.add_collection(LineCollection(lines, colors="white", linewidths=0.5, alpha=0.7))
            axes.set(xlim=(-3, 66), ylim=(66, -3), facecolor="black")
        grid[row][0].set_ylabel(name)
    return Drawn(
        figure,
        "Deformation of uniform samples by D: a regular grid of the first two dimensions (above, over the scene) and "
        "of the last two (below) after the policy's most likely mean deformation, the other dimensions random. "
        "Position clicks are drawn to sprites, motion clicks hardly change.",
    )


def behaviour(agent: Curious) -> Drawn:
    """An episode of random play and one of curious play, from the same scene."""
    env, steps = make("exploration"), 8
    figure = Figure(figsize=(1.2 * steps, 4 * 1.2))
    grid = figure.subplots(4, steps, gridspec_kw=TIGHT)
    for row in range(4):
        curious, key = row % 2 == 1, jax.random.key(row // 2 + 3)
        state, image = env.reset(key)
        for t in range(steps):
            act_key, step_key = jax.random.split(jax.random.fold_in(key, t))
            if curious:
                action = agent.propose(agent.encode(image[None])[0], act_key, 1)[0]
            else:
                action = jax.random.uniform(act_key, (4,))
            show(grid[row, t], np.asarray(render(state, 128, action=action)))
            state, image, *_ = env.step(step_key, state, action)
        grid[row, 0].set_ylabel("curious" if curious else "random", rotation=0, ha="right", va="center", labelpad=6)
    return Drawn(
        figure,
        f"Random policy and exploration policy, {steps} steps from the same scene, for two scenes. Arrows are actions: "
        "they begin at the position click.",
    )


def _deformed(agent: Curious, slots: Float[Array, "K M"], start: int) -> Float[np.ndarray, "L L 2"]:
    """A regular grid in two dimensions of u, the others random, after the likeliest mean deformation."""
    line = np.linspace(0.02, 0.98, LEVELS)
    u = np.random.default_rng(0).random((LEVELS, LEVELS, 4))
    u[..., start], u[..., start + 1] = np.meshgrid(line, line)
    u = jnp.asarray(u.reshape(-1, 4), jnp.float32)
    mixture = agent.exploration(jnp.broadcast_to(slots, (len(u), *slots.shape)), u)
    likeliest = jnp.argmax(mixture.log_weight, axis=1)[:, None, None]
    mean = jnp.take_along_axis(mixture.mean, likeliest, axis=1)[:, 0]
    return np.asarray(jnp.clip(u + mean, 0.0, 1.0)[:, start : start + 2]).reshape(LEVELS, LEVELS, 2)


def _pixels(points: Float[np.ndarray, "n 2"], size: int) -> tuple[np.ndarray, np.ndarray]:
    """(x, y) in [0, 1], y up -> column and row of a picture."""
    return points[:, 0] * size - 0.5, (1.0 - points[:, 1]) * size - 0.5
