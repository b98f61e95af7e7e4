"""What slots hold: decompositions of scenes, latent traversals, and which latents the reward predictors read."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from cobra_rl.bounds import conform
from cobra_rl.evaluation.probes import PROBED_FACTORS, fit_probes, importances
from cobra_rl.evaluation.vision import TEST_SEED, fixed_scenes, matched_slots, segment_scenes
from cobra_rl.models.world import WorldModel
from cobra_rl.reporting.figures.style import Drawn, caption, exploration_env, label, panels, picture_grid
from cobra_rl.reporting.films import colored_masks
from cobra_rl.spriteworld import REWARDED, SUITE, render, state_from_sprites
from cobra_rl.storage.files import read_json

DECOMPOSED = 10  # scenes of `decomposition`
STEPS = np.linspace(-1.5, 1.5, 9)  # of a traversal
LEAST = 0.1  # importance below which a latent has no label
SCENES = 500  # that importance is measured on
REWARD_PARTS = {"thing": "objects", "pair": "pairs of objects"}  # of a reward predictor, as `latents_read` calls them


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
    return np.array(world.encode(image)), int(jnp.argmax(world.masks(image)[0, :, middle, middle]))
