"""Latent traversals: the appendix's figure of how disentangled a slot is."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from cobra_rl.evaluation.probes import FACTORS, fit_probes, importances
from cobra_rl.evaluation.vision import TEST_SEED, fixed_scenes, matched_slots, see
from cobra_rl.models.world import WorldModel
from cobra_rl.show.figures.style import TIGHT, Drawn, exploration_env, show
from cobra_rl.spriteworld import render, state_from_sprites

STEPS = np.linspace(-1.5, 1.5, 9)
LEAST = 0.1  # importance below which a latent has no label
SCENES = 500


def traversals(world: WorldModel, _: Path) -> Drawn:
    """Draw one row per latent, the one that matters most first; labels come from the probes."""
    scenes = fixed_scenes(exploration_env(world), SCENES, seed=TEST_SEED)
    slots, sprites = matched_slots(see(world, scenes), scenes)
    half = len(slots) // 2
    first, second = (jax.tree.map(lambda factor, s=s: factor[s], sprites) for s in (slice(half), slice(half, None)))
    importance = importances(fit_probes(slots[:half], first), slots[half:], second)  # [M, F]
    order = np.argsort(-importance.sum(axis=1))

    scene, slot = _example(world)
    figure = Figure(figsize=(0.72 * len(STEPS), 0.72 * len(order)))
    grid = figure.subplots(len(order), len(STEPS), gridspec_kw=TIGHT)
    for row, latent in enumerate(order):
        swept = np.repeat(scene, len(STEPS), axis=0)
        swept[:, slot, latent] = STEPS
        for axes, picture in zip(grid[row], np.asarray(world.decode(swept).image), strict=True):
            show(axes, picture)
        grid[row][0].set_ylabel(f"latent {latent + 1}", rotation=0, ha="right", va="center", labelpad=6)
        grid[row][-1].yaxis.set_label_position("right")
        grid[row][-1].set_ylabel(_label(importance[latent]), rotation=0, ha="left", va="center", labelpad=6)
    for axes, step in zip(grid[0], STEPS, strict=True):
        axes.set_title(f"{step:+.2f}".replace("+0.00", "0"), fontsize=8)
    return Drawn(
        figure,
        "Latent traversals. Each row sweeps one latent of one slot from -1.5 to 1.5, the others fixed, and shows the "
        "reconstruction; rows in the order of how much the latent matters. Labels are measured, not given by eye: "
        "the factors whose probe suffers when the latent is shuffled among sprites, and by what share of the error "
        f"that shuffling whole slots makes ({SCENES} held-out scenes). A latent below {LEAST:.0%} everywhere: none.",
    )


def _label(importance: Float[np.ndarray, " F"]) -> str:
    """Name the factors that depend on a latent: at most three, the most dependent first."""
    strongest = [f for f in np.argsort(-importance)[:3] if importance[f] >= LEAST]
    return ", ".join(f"{FACTORS[f]} {importance[f]:.0%}" for f in strongest) or "none"


def _example(world: WorldModel) -> tuple[Float[np.ndarray, "1 K M"], int]:
    """Return the slots of a scene with one triangle off the centre, and which of them is the triangle's."""
    sprite = {"x": 0.45, "y": 0.55, "shape": "triangle", "angle": 20.0, "scale": 0.13, "c0": 0.6, "c1": 0.8, "c2": 1.0}
    size = world.sizes.image
    image = np.asarray(render(state_from_sprites([sprite]), size))[None]
    column, row = int(sprite["x"] * size), int((1.0 - sprite["y"]) * size)
    slot = int(jnp.argmax(world.masks(image)[0, 1:, row, column])) + 1
    return np.array(world.encode(image)), slot
