"""Scene decomposition: the paper's figure of what MONet makes of scenes, one column a scene."""

import jax
import numpy as np
from matplotlib.figure import Figure

from cobra_rl.evaluation.vision import TEST_SEED, fixed_scenes
from cobra_rl.figures.style import TIGHT, Drawn, colored_masks, show
from cobra_rl.pretrained import Vision

SCENES = 10


def decomposition(vision: Vision) -> Drawn:
    """Rows: the scene, where the attention sees slots, V_dec(V_enc(x)), and each slot's own reconstruction."""
    images = fixed_scenes(scenes=SCENES, seed=TEST_SEED).images  # the first of the held-out scenes, not chosen
    slots = vision.encode(images)
    attention = np.asarray(vision.masks(images))
    decoded = jax.device_get(vision.decode(slots))
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
