"""Scene decomposition: the paper's figure of what MONet makes of scenes, one column a scene."""

from pathlib import Path

import jax
import numpy as np
from matplotlib.figure import Figure

from cobra_rl.evaluation.vision import TEST_SEED, fixed_scenes
from cobra_rl.models.world import WorldModel
from cobra_rl.show.figures.style import TIGHT, Drawn, colored_masks, exploration_env, show

SCENES = 10


def decomposition(world: WorldModel, _: Path) -> Drawn:
    """Draw scenes, where the attention sees slots, V_dec(V_enc(x)), and each slot's own reconstruction."""
    env = exploration_env(world)
    images = fixed_scenes(env, SCENES, seed=TEST_SEED).images  # the first of the held-out scenes, not chosen
    slots = world.encode(images)
    attention = np.asarray(world.masks(images))
    decoded = jax.device_get(world.decode(slots))
    alone = decoded.components * decoded.masks[..., None]
    rows = {
        "scene": images,
        "attention": colored_masks(attention),
        "reconstruction": decoded.image,
        **{f"slot {k}" + (" (background)" if k == 0 else ""): alone[:, k] for k in range(alone.shape[1])},
    }
    figure = Figure(figsize=(0.72 * SCENES, 0.72 * len(rows)))
    grid = figure.subplots(len(rows), SCENES, gridspec_kw=TIGHT)
    for axes_row, (name, pictures) in zip(grid, rows.items(), strict=True):
        axes_row[0].set_ylabel(name, rotation=0, ha="right", va="center", labelpad=6)
        for axes, picture in zip(axes_row, pictures, strict=True):
            show(axes, picture)
    return Drawn(
        figure,
        f"Scene decomposition. One column a scene: the first {SCENES} of the held-out exploration scenes with 2-6 "
        "sprites. Rows: the scene; the attention masks, a colour a slot; the reconstruction V_dec(V_enc(x)); each "
        "slot's own picture under the decoder's mask. Slots that are not needed stay blank.",
    )
