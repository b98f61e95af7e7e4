"""Linear readability of slots, and noise of empty slots.

A reward predictor sees only a few hundred scenes, and soon learns rewards that depend on the latents in a simple way.
"""

import numpy as np
from jaxtyping import Float

from cobra_rl.evaluation.probes import on_circle
from cobra_rl.evaluation.segmentation import Overlap
from cobra_rl.spriteworld import Sprites

Matched = tuple[Float[np.ndarray, "_ M"], Sprites]  # slots and the sprites that they are matched to
EMPTY_PIXELS = 4  # a slot that wins fewer pixels than this is empty


def linear_scores(fitted: Matched, tested: Matched) -> dict[str, float]:
    """Measure how well linear least squares read hue, as a point on the circle, and shape, one-hot.

    Args:
        fitted: The slots and sprites to fit on.
        tested: The slots and sprites to test on.

    Returns:
        `hue_r2`, the R^2 of hue, and `shape_linear`, the accuracy of shape, or NaN if all sprites to fit on have the
        same shape.
    """
    fit_slots, fit_sprites = fitted
    slots, sprites = tested
    mean = fit_slots.mean(axis=0)
    std = fit_slots.std(axis=0) + 1e-6

    def with_one(slots: np.ndarray) -> np.ndarray:
        return np.concatenate([(slots - mean) / std, np.ones((len(slots), 1))], axis=1).astype(np.float64)

    def read(target: np.ndarray) -> np.ndarray:
        return with_one(slots) @ np.linalg.lstsq(with_one(fit_slots), target, rcond=None)[0]

    hue = on_circle(np.asarray(sprites.color[:, 0]))
    error = ((read(on_circle(np.asarray(fit_sprites.color[:, 0]))) - hue) ** 2).sum()
    shapes = np.unique(fit_sprites.shape)
    guess = shapes[read(np.asarray(fit_sprites.shape)[:, None] == shapes).argmax(axis=1)]
    return {
        "hue_r2": float(1.0 - error / ((hue - hue.mean(axis=0)) ** 2).sum()),
        "shape_linear": float((guess == sprites.shape).mean()) if len(shapes) > 1 else float("nan"),
    }


def empty_slot_scores(slots: Float[np.ndarray, "B K M"], overlap: Overlap) -> dict[str, float]:
    """Measure how much slots vary that hold no object.

    Args:
        slots: The slots of B scenes.
        overlap: How many pixels each sprite and the background have in each slot (see `count_overlap`).

    Returns:
        The standard deviation over scenes of the latent that varies most: `background_std` in the slot with most of the
        background, `empty_std` in slots with fewer than 4 pixels, or NaN if there are none.
    """
    background = slots[np.arange(len(slots)), overlap[:, 0].argmax(axis=1)]
    empty = slots[overlap.sum(axis=1) < EMPTY_PIXELS]
    return {
        "background_std": float(background.std(axis=0).max()),
        "empty_std": float(empty.std(axis=0).max()) if len(empty) else float("nan"),
    }
