"""How well slots segment a picture into its sprites: the foreground's ARI, and the share of sprites alone in a slot.

Shapes, stated once for the module: B scenes, N sprites, K slots, P pixels (or any points). All scores follow from
how many pixels each sprite has in each slot, `overlap[B, 1 + N, K]`; its row 0 is the background.

The ARI is own code: scikit-learn, which the tests compare with, takes one scene at a time (0.8 s to import, 51 MB).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

WHOLE = 0.8  # at least this share of a sprite's visible pixels in one slot, or it is split
PURE = 0.8  # at least this share of the slot's foreground pixels its own, or the slot is shared

EMPTY_PIXELS = 4  # a slot that wins fewer pixels than this is empty

Overlap = Int[np.ndarray, "B rows K"]


def count_overlap(truth: Int[np.ndarray, "*B P"], guess: Int[np.ndarray, "*B P"], sprites: int, slots: int) -> Overlap:
    """Count the pixels of each sprite in each slot.

    Args:
        truth: The sprite that each pixel shows, -1 for the background.
        guess: The slot that each pixel is assigned to.
        sprites: N, the number of sprites.
        slots: K, the number of slots.

    Returns:
        The counts [B, 1 + N, K]; row 0 is the background.
    """
    truth = truth.reshape(-1, truth.shape[-1])
    scene = np.arange(len(truth))[:, None]  # 64 bits, so that small labels cannot overflow
    cells = (scene * (1 + sprites) + truth + 1) * slots + guess.reshape(truth.shape)
    counts = np.bincount(cells.ravel(), minlength=len(truth) * (1 + sprites) * slots)
    return counts.reshape(-1, 1 + sprites, slots)


def adjusted_rand_index(overlap: Overlap) -> Float[np.ndarray, " B"]:
    """Compute the adjusted Rand index (ARI) of two labellings of the same pixels, for each scene.

    Args:
        overlap: How many pixels have each pair of labels, [B, rows, K]; all rows count.

    Returns:
        1 where the labellings are the same but for the names of labels; about 0 where they agree only by chance.
    """

    def pairs(counts: np.ndarray) -> np.ndarray:
        return (counts * (counts - 1) / 2).reshape(len(overlap), -1).sum(axis=1)

    in_truth = pairs(overlap.sum(axis=2))
    in_guess = pairs(overlap.sum(axis=1))
    expected = in_truth * in_guess / np.maximum(pairs(overlap.sum(axis=(1, 2))), 1)
    most = (in_truth + in_guess) / 2
    same = most == expected  # only where both labellings are one cluster, or all clusters are single points
    return np.where(same, 1.0, (pairs(overlap) - expected) / np.where(same, 1.0, most - expected))


def foreground_ari(overlap: Overlap) -> Float[np.ndarray, " B"]:
    """Compute the foreground ARI (FG-ARI) of each scene, over the sprites' pixels only.

    Args:
        overlap: The counts of `count_overlap`, whose row 0, the background, is left out.

    Returns:
        The FG-ARI of each scene; NaN where fewer than two sprites are visible.
    """
    sprites = overlap[:, 1:]
    visible = (sprites.sum(axis=2) > 0).sum(axis=1)
    return np.where(visible >= 2, adjusted_rand_index(sprites), np.nan)


class Match(NamedTuple):
    """How each sprite is segmented, and its slot."""

    slot: Int[np.ndarray, "B N"]  # the slot with most of its visible pixels
    counted: Bool[np.ndarray, "B N"]  # at least half of its pixels within the frame are visible
    whole: Bool[np.ndarray, "B N"]  # nearly all of its pixels are in that slot
    pure: Bool[np.ndarray, "B N"]  # the slot is nearly its own, and not the background's


def match(overlap: Overlap, areas: Int[np.ndarray, "B N"]) -> Match:
    """Match each sprite to the slot that has most of its pixels.

    Args:
        overlap: The counts of `count_overlap`.
        areas: How many pixels each sprite would have if no other sprite hid it.

    Returns:
        The slot of each sprite, and whether it counts, is whole, and has the slot to itself.
    """
    sprites = overlap[:, 1:]
    visible = sprites.sum(axis=2)
    slot = sprites.argmax(axis=2)
    background = overlap[:, 0].argmax(axis=1)
    foreground = np.take_along_axis(sprites.sum(axis=1), slot, axis=1)  # of the sprite's slot
    return Match(
        slot=slot,
        counted=(areas > 0) & (2 * visible >= areas),
        whole=sprites.max(axis=2) >= WHOLE * visible,
        pure=(sprites.max(axis=2) >= PURE * foreground) & (slot != background[:, None]),
    )


def match_shares(found: Match) -> dict[str, float]:
    """Measure what share of the counted sprites vision takes apart well.

    Args:
        found: The match of sprites to slots.

    Returns:
        Three shares that add up to 1, or NaN if no sprite counts: `alone` has a slot to itself, `split` lies in several
        slots, `shared` lies in one slot with other sprites or the background.
    """
    whole = found.whole[found.counted]
    pure = found.pure[found.counted]
    shares = {"alone": whole & pure, "split": ~whole, "shared": whole & ~pure}
    return {name: float(share.mean()) if share.size else float("nan") for name, share in shares.items()}


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
