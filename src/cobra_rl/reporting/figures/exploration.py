"""The exploration phase: roll-outs of the transition model, and the curiosity of the exploration policy."""

import itertools
from pathlib import Path

import jax
import numpy as np
from jaxtyping import Array, Float
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from cobra_rl.evaluation.explore import roll_out
from cobra_rl.evaluation.vision import TEST_SEED, Scenes, fixed_scenes
from cobra_rl.models.world import WorldModel
from cobra_rl.reporting.figures.style import COLORS, Drawn, caption, exploration_env, label, panels, picture_grid, show
from cobra_rl.reporting.films import Frame, picture
from cobra_rl.reporting.results import read_log

CLICK_COLUMNS = 5  # of `clicks`
SAMPLES = 200  # clicks in each scene
LEVELS = 17  # lines of a grid of `deformation`
EPISODE_STEPS = 8  # of an episode of `behaviour`
PUSHES = 6  # of a roll-out
SPEED = 0.09  # of the sprite that a roll-out pushes, in frame widths a step
MARGINS = {"wspace": 0.05, "hspace": 0.05, "left": 0.12, "right": 0.99, "bottom": 0.05, "top": 0.88}
CURIOUS_LOG = "explore_log.jsonl"
RUNS = {  # of `emergence`: the log of each run, its colour and what its actors are called
    CURIOUS_LOG: ("cobra", "curious"),
    "explore_whole_log.jsonl": ("uniform", r"curious, $D_\mathrm{net}$ as in the paper"),
    "explore_random_log.jsonl": ("random", "random"),
}
PANELS = {
    "hits": "actors' clicks\nthat strike a sprite",
    "position_error": "position error of a\npushed sprite (frame widths)",
    "ratio_to_unchanged": "pixel error, of that of\npredicting no change",
}


def rollouts(world: WorldModel, _: Path) -> Drawn:
    """Draw two scenes, one sprite of each pushed along a line."""
    return _rollouts(world, 2, 1, (0.85 * PUSHES + 1.85, 3.6), "two held-out scenes with several sprites")


def rollout_sheet(world: WorldModel, _: Path) -> Drawn:
    """Draw sixteen scenes: the appendix's large sheet."""
    return _rollouts(world, 8, 2, (1.2 * PUSHES + 2.0, 10.4), "sixteen held-out scenes, not chosen")


def clicks(world: WorldModel, _: Path) -> Drawn:
    """Draw position clicks over scenes."""
    images = _scenes(world).images[: 2 * CLICK_COLUMNS]
    size = images.shape[1]
    figure, grid = picture_grid([images[:CLICK_COLUMNS], images[CLICK_COLUMNS:]], 1.5)
    actions = world.propose(world.encode(images), jax.random.key(0), SAMPLES)
    for axes, action in zip(grid.flat, np.asarray(actions), strict=True):
        axes.plot(*_pixels(action[:, :2], size).T, ".", color="white", markersize=2.0, alpha=0.8)
        axes.set(xlim=(-0.5, size - 0.5), ylim=(size - 0.5, -0.5))
    return Drawn(figure, caption("clicks", samples=SAMPLES, scenes=2 * CLICK_COLUMNS))


def deformation(world: WorldModel, _: Path) -> Drawn:
    """Draw grids of position and of motion clicks after D."""
    scenes = _scenes(world)
    images = scenes.images[np.nonzero(np.asarray(scenes.sprites.alive).sum(axis=1) == 4)[0][:3]]
    size = images.shape[1]
    figure = Figure(figsize=(2.1 * len(images), 4.5))
    grid = figure.subplots(2, len(images), gridspec_kw={"wspace": 0.08, "hspace": 0.16})
    for row, start, name in ((grid[0], 0, "position click"), (grid[1], 2, "motion click")):
        for axes, image, scene in zip(row, images, world.encode(images), strict=True):
            show(axes, image if start == 0 else np.zeros_like(image))
            points = _pixels(deformed_grid(world, scene, start), size)
            for lines in (points, points.transpose(1, 0, 2)):
                axes.add_collection(LineCollection(list(lines), colors="white", linewidths=0.5, alpha=0.7))
            axes.set(xlim=(-3, size + 2), ylim=(size + 2, -3), facecolor="black")
        row[0].set_ylabel(name)
    return Drawn(figure, caption("deformation"))


def behaviour(world: WorldModel, _: Path) -> Drawn:
    """Draw an episode of random play and one of curious play, from the same scene, for two scenes."""
    rows = [_episode(actor, jax.random.key(seed)) for seed in (3, 4) for actor in (world.without_policy(), world)]
    return Drawn(picture_grid(rows, 1.2, ["random", "curious"] * 2)[0], caption("behaviour", steps=EPISODE_STEPS))


def emergence(_: WorldModel, results: Path) -> Drawn:
    """Draw curiosity emerging, and what it does for imagination; a run that has not been made is left out."""
    logs = {file: rows for file in RUNS if (rows := read_log(results, file))}
    if CURIOUS_LOG not in logs:
        raise FileNotFoundError(f"There is no {results / CURIOUS_LOG}: this figure is drawn from it.")
    figure, grid = panels(3.1 * len(PANELS), 2.5, columns=len(PANELS))
    for axes, (metric, name) in zip(grid[0], PANELS.items(), strict=True):
        for file, rows in logs.items():
            color, actors = RUNS[file]
            steps = [row["env_steps"] / 1000 for row in rows]
            values = [row.get(metric) for row in rows]  # None, where it was not measured, is a gap
            axes.plot(steps, values, color=COLORS[color], label=actors)
        axes.set(xlabel="environment steps (thousands)", ylabel=name, ylim=(0.0, None))
    grid[0, 1].legend(frameon=False, title="actors", fontsize=7, title_fontsize=7)
    return Drawn(figure, caption("emergence", has_others=len(logs) > 1))


def deformed_grid(world: WorldModel, slots: Float[Array, "K M"], start: int) -> Float[np.ndarray, "L L 2"]:
    """Deform a regular grid in two dimensions of the action space, from `start` on, the other dimensions random."""
    line = np.linspace(0.02, 0.98, LEVELS)
    u = np.random.default_rng(0).random((LEVELS, LEVELS, world.sizes.action))
    u[..., start], u[..., start + 1] = np.meshgrid(line, line)
    u = u.reshape(-1, world.sizes.action)
    actions = world.deform(np.broadcast_to(slots, (len(u), *slots.shape)), u)
    return np.asarray(actions)[:, start : start + 2].reshape(LEVELS, LEVELS, 2)


def _scenes(world: WorldModel) -> Scenes:
    return fixed_scenes(exploration_env(world), 100, 1, seed=TEST_SEED)


def _pixels(points: Float[np.ndarray, "*n 2"], size: int) -> Float[np.ndarray, "*n 2"]:
    """Convert (x, y) in [0, 1], y up, to columns and rows of a picture."""
    return np.stack([points[..., 0] * size - 0.5, (1.0 - points[..., 1]) * size - 0.5], -1)


def _episode(world: WorldModel, key: Array) -> list[Frame]:
    env = exploration_env(world)
    frames = []
    state, image = env.reset(key)
    for t in range(EPISODE_STEPS):
        act_key, step_key = jax.random.split(jax.random.fold_in(key, t))
        action = world.propose(world.encode(np.asarray(image)[None])[0], act_key, 1)[0]
        frames.append(picture(env, state, 128, action))
        state, image = env.step(step_key, state, action)[:2]
    return frames


def _rollouts(world: WorldModel, rows: int, columns: int, size: tuple[float, float], scenes: str) -> Drawn:
    figure = Figure(figsize=size)
    for number, part in enumerate(figure.subfigures(rows, columns, squeeze=False).flat):
        grid = part.subplots(2, PUSHES + 1, gridspec_kw=MARGINS)
        truth, imagined, start = _roll(world, number)
        for axes, image in zip(grid.flat, [*truth, *imagined], strict=True):
            show(axes, image)
        for t, axes in enumerate(grid[0] if number < 2 else ()):
            axes.set_title(f"t = {t}" if t else "start", fontsize=7, pad=2)
        x, y = _pixels(start, len(truth[0]))
        radius = 0.16 * len(truth[0])
        grid[0, 0].add_patch(Circle((x, y), radius, fill=False, linestyle=":", color="white", linewidth=1.2))
        for axes, name in zip(grid[:, 0], ("truth", "imagined") if number % columns == 0 else (), strict=False):
            label(axes, name, labelpad=4, fontsize=8)
    return Drawn(figure, caption("rollouts", scenes=scenes))


def _roll(world: WorldModel, number: int) -> tuple[list[np.ndarray], list[np.ndarray], Float[np.ndarray, " 2"]]:
    """Push a scene's topmost sprite through the middle: pictures of truth and imagination, and where it began."""
    scenes = _scenes(world)
    several = np.nonzero(np.asarray(scenes.sprites.alive).sum(axis=1) >= 3)[0]
    scene = jax.tree.map(lambda leaf: leaf[several[number : number + 1]], scenes)
    sprite = np.array([scene.labels[scene.labels >= 0].max()])
    start = np.asarray(scene.sprites.position)[0, sprite[0]]
    towards = np.array([0.5, 0.5]) - start + 1e-3
    motion = 0.5 + SPEED / 0.25 * towards / np.abs(towards).max()
    slots = np.asarray(world.encode(scene.images))
    steps = roll_out(world, exploration_env(world), scene, slots=slots, sprite=sprite, motion=motion[None])
    after, _, pictures = zip(*itertools.islice(steps, PUSHES), strict=True)
    imagined = [np.asarray(world.decode(slots).image[0]) for slots in (slots, *after)]
    return [images[0] for images in (scene.images, *pictures)], imagined, start
