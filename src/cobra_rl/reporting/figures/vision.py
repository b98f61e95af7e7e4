"""Figures of the vision module: decompositions of scenes, and latent traversals as in the appendix of the paper."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from cobra_rl.evaluation.probes import PROBED_FACTORS, fit_probes, importances
from cobra_rl.evaluation.vision import TEST_SEED, fixed_scenes, matched_slots, segment_scenes
from cobra_rl.models.world import WorldModel
from cobra_rl.reporting.figures.style import Drawn, caption, exploration_env, label, picture_grid
from cobra_rl.reporting.films import colored_masks
from cobra_rl.spriteworld import render, state_from_sprites

COLUMNS = 10  # scenes of `decomposition`
STEPS = np.linspace(-1.5, 1.5, 9)  # of a traversal
LEAST = 0.1  # importance below which a latent has no label
SCENES = 500  # that importance is measured on


def decomposition(world: WorldModel, _: Path) -> Drawn:
    """Draw scenes, where the attention sees slots, V_dec(V_enc(x)), and each slot's own reconstruction."""
    images = fixed_scenes(exploration_env(world), COLUMNS, seed=TEST_SEED).images  # the first, not chosen
    decoded = jax.device_get(world.decode(world.encode(images)))
    alone = decoded.components * decoded.masks[..., None]
    background = np.asarray(world.vision.background(world.masks(images)))
    rows = {
        "scene": images,
        "attention": colored_masks(world.vision, images),
        "reconstruction": decoded.image,
        **{
            f"slot {k}" + (" (background)" if (background == k).all() else ""): alone[:, k]
            for k in range(alone.shape[1])
        },
    }
    return Drawn(picture_grid(list(rows.values()), 0.72, list(rows))[0], caption("decomposition", scenes=COLUMNS))


def traversals(world: WorldModel, _: Path) -> Drawn:
    """Draw one row per latent, the one that matters most first; labels come from the probes."""
    scenes = fixed_scenes(exploration_env(world), SCENES, seed=TEST_SEED)
    slots, sprites = matched_slots(segment_scenes(world, scenes), scenes)
    half = len(slots) // 2
    first, second = (jax.tree.map(lambda factor, s=s: factor[s], sprites) for s in (slice(half), slice(half, None)))
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


def _factors(importance: Float[np.ndarray, " F"]) -> str:
    """Name the factors that depend on a latent: at most three, the most dependent first."""
    strongest = [f for f in np.argsort(-importance)[:3] if importance[f] >= LEAST]
    return ", ".join(f"{PROBED_FACTORS[f]} {importance[f]:.0%}" for f in strongest) or "none"


def _example(world: WorldModel) -> tuple[Float[np.ndarray, "1 K M"], int]:
    """Return the slots of a scene with one triangle off the centre, and which of them is the triangle's."""
    sprite = {"x": 0.45, "y": 0.55, "shape": "triangle", "angle": 20.0, "scale": 0.13, "c0": 0.6, "c1": 0.8, "c2": 1.0}
    size = world.sizes.image
    image = np.asarray(render(state_from_sprites([sprite]), size))[None]
    column = int(sprite["x"] * size)
    row = int((1.0 - sprite["y"]) * size)
    slot = int(jnp.argmax(world.masks(image)[0, :, row, column]))
    return np.array(world.encode(image)), slot
