"""Figures of a world model: what its slots hold, what it imagines and is curious about, and what tasks read of it."""

from pathlib import Path

import jax
import numpy as np
from jaxtyping import Array, Float
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from cobra_rl.bounds import conform
from cobra_rl.evaluation.explore import roll_out
from cobra_rl.evaluation.probes import PROBED_FACTORS, fit_probes, importances
from cobra_rl.evaluation.vision import TEST_SEED, Scenes, fixed_scenes, matched_slots, segment_scenes
from cobra_rl.models.world import WorldModel
from cobra_rl.reporting.figures.style import (
    COLORS,
    Drawn,
    caption,
    exploration_env,
    label,
    panels,
    picture_grid,
    show,
)
from cobra_rl.reporting.films import Frame, colored_masks, picture
from cobra_rl.reporting.results import read_log
from cobra_rl.spriteworld import REWARDED, SUITE, render, state_from_sprites
from cobra_rl.storage.files import read_json

DECOMPOSED = 10  # scenes of `decomposition`
STEPS = np.linspace(-1.5, 1.5, 9)  # of a traversal
LEAST = 0.1  # importance below which a latent has no label
SCENES = 500  # that importance is measured on
REWARD_PARTS = {"thing": "objects", "pair": "pairs of objects"}  # of a reward predictor, as `latents_read` calls them
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


def decomposition(world: WorldModel, _: Path) -> Drawn:
    """Draw scenes, where the attention sees slots, V_dec(V_enc(x)), and each slot's own reconstruction."""
    images = fixed_scenes(exploration_env(world), DECOMPOSED, seed=TEST_SEED).images  # the first, not chosen
    decoded = jax.device_get(world.decode(world.encode(images)))
    background = np.asarray(world.vision.background(world.masks(images)))
    rows = {"scene": images, "attention": colored_masks(world.vision, images), "reconstruction": decoded.image}
    for k in range(world.sizes.slots):
        name = f"slot {k} (background)" if (background == k).all() else f"slot {k}"
        rows[name] = decoded.components[:, k] * decoded.masks[:, k, :, :, None]
    return Drawn(picture_grid(list(rows.values()), 0.72, list(rows))[0], caption("decomposition", scenes=DECOMPOSED))


def traversals(world: WorldModel, _: Path) -> Drawn:
    """Draw one row per latent, the one that matters most first; labels come from the probes."""
    scenes = fixed_scenes(exploration_env(world), SCENES, seed=TEST_SEED)
    slots, sprites = matched_slots(segment_scenes(world, scenes), scenes)
    half = len(slots) // 2
    first = jax.tree.map(lambda factor: factor[:half], sprites)
    second = jax.tree.map(lambda factor: factor[half:], sprites)
    importance = importances(fit_probes(slots[:half], first), slots[half:], second)  # [M, F]
    order = np.argsort(-importance.sum(axis=1))

    scene, slot = _example(world)
    rows = []
    for latent in order:
        swept = np.repeat(scene, len(STEPS), axis=0)
        swept[:, slot, latent] = STEPS
        rows.append(np.asarray(world.decode(swept).image))
    figure, grid = picture_grid(rows, 0.72, [world.vision.latent_names[latent] for latent in order])
    for axes, latent in zip(grid[:, -1], order, strict=True):
        axes.yaxis.set_label_position("right")
        label(axes, _factors(importance[latent]), ha="left")
    for axes, step in zip(grid[0], STEPS, strict=True):
        axes.set_title(f"{step:+.2f}".replace("+0.00", "0"), fontsize=8)
    return Drawn(figure, caption("traversals", scenes=SCENES, least=f"{LEAST:.0%}"))


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


def latents_read(_: WorldModel, results: Path) -> Drawn:
    """Draw a row per task and a column per latent, for objects and for pairs: the darker, the more it is read."""
    path = results / "latents_read.json"
    if not path.exists():
        raise FileNotFoundError(f"There is no {path}; benchmarks/experiments/latents_read.py makes it.")
    found = conform(dict[str, dict[str, float]], read_json(path).get("figures"), f"{path}, figures,")
    tasks = [task for task in REWARDED if task in found]
    figure, grid = panels(9.0, 3.6, columns=len(REWARD_PARTS), sharey=True)
    most = max(value for rows in found.values() for name, value in rows.items() if ": " in name)
    for axes, (part, title) in zip(grid[0], REWARD_PARTS.items(), strict=True):
        names = [name for name in found[tasks[0]] if name.startswith(f"{part}: ")]
        norms = np.array([[found[task][name] for name in names] for task in tasks])
        axes.imshow(norms, cmap="Blues", vmin=0.0, vmax=most, aspect="auto")
        axes.set_xticks(range(len(names)), [name.partition(": ")[2] for name in names], rotation=45, ha="right")
        axes.set_yticks(range(len(tasks)), [SUITE[task].title for task in tasks])
        axes.set_title(f"latents of {title}", fontsize="medium")
        axes.tick_params(length=0)
        axes.set_frame_on(False)
        for (row, column), norm in np.ndenumerate(norms):
            if norm >= 0.1:
                color = "white" if norm > 0.6 * most else "black"
                axes.text(column, row, f"{norm:.1f}", ha="center", va="center", fontsize="x-small", color=color)
    return Drawn(figure, caption("latents_read"))


def _factors(importance: Float[np.ndarray, " F"]) -> str:
    """Name the factors that depend on a latent: at most three, the most dependent first."""
    strongest = [f for f in np.argsort(-importance)[:3] if importance[f] >= LEAST]
    return ", ".join(f"{PROBED_FACTORS[f]} {importance[f]:.0%}" for f in strongest) or "none"


def _example(world: WorldModel) -> tuple[Float[np.ndarray, "1 K M"], int]:
    """Return the slots of a scene with one triangle off the centre, and which of them is the triangle's."""
    sprite = {"x": 0.45, "y": 0.55, "shape": "triangle", "angle": 20.0, "scale": 0.13, "c0": 0.6, "c1": 0.8, "c2": 1.0}
    size = world.sizes.image
    image = np.asarray(render(state_from_sprites([sprite]), size))[None]
    middle = int(0.45 * size)  # both the column and, from the top, the row of the sprite's centre
    return np.array(world.encode(image)), int(np.asarray(world.masks(image))[0, :, middle, middle].argmax())


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
    steps = roll_out(
        world, exploration_env(world), scene, slots=slots, sprite=sprite, motion=motion[None], steps=PUSHES
    )
    after, _, pictures = zip(*steps, strict=True)
    imagined = [np.asarray(world.decode(slots).image[0]) for slots in (slots, *after)]
    return [images[0] for images in (scene.images, *pictures)], imagined, start
