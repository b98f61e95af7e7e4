"""What a straight line reads, and which slots are quiet, on slots whose answers are known."""

import jax
import numpy as np
import pytest

from cobra_rl.evaluation.probes import linear_scores
from cobra_rl.evaluation.segmentation import empty_slot_scores
from cobra_rl.spriteworld import make


def some_sprites(count: int, seed: int):
    env = make("exploration")
    states = jax.jit(jax.vmap(env.initial))(jax.random.split(jax.random.key(seed), count))
    return jax.tree.map(lambda factor: np.asarray(factor)[:, 0], states.sprites)


def circle_and_shape(sprites, noise: float = 0.0, seed: int = 0):
    """Return slots in which hue is a point on a circle and shape is one-hot, rotated at random."""
    turn = 2 * np.pi * sprites.color[:, 0]
    slots = np.concatenate([np.stack([np.cos(turn), np.sin(turn)], 1), np.eye(12)[sprites.shape]], axis=1)
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(np.random.default_rng(3).normal(size=(14, 14)))[0]
    return (slots @ rotation + noise * rng.normal(size=slots.shape)).astype(np.float32)


def test_a_straight_line_reads_what_is_laid_out_straight():
    fitted, tested = some_sprites(300, 0), some_sprites(300, 1)
    scores = linear_scores((circle_and_shape(fitted), fitted), (circle_and_shape(tested), tested))
    assert scores == {"hue_r2": pytest.approx(1.0, abs=1e-6), "shape_linear": 1.0}


def test_a_straight_line_does_not_read_what_is_folded_up():
    """Hue as a number in [0, 1] is no circle; shape as the sign of a product of two latents is no half-space."""
    fitted, tested = some_sprites(1000, 0), some_sprites(1000, 1)

    def fold(sprites, seed):
        sign = np.random.default_rng(seed).choice([-1.0, 1.0], len(sprites.shape))
        parity = np.where(sprites.shape == np.unique(fitted.shape)[0], sign, -sign)
        return np.stack([sprites.color[:, 0], sign, parity], axis=1).astype(np.float32)

    scores = linear_scores((fold(fitted, 0), fitted), (fold(tested, 1), tested))
    assert scores["hue_r2"] < 0.7  # a line through a sine of one turn explains 0.61 of it, and nothing of the cosine
    assert scores["shape_linear"] < 0.5  # one of three shapes by chance: 0.33


def test_the_background_and_empty_slots_are_found_and_measured():
    rng = np.random.default_rng(0)
    slots = rng.normal(size=(400, 4, 5)).astype(np.float32)
    slots[:, 1] = 0.1 * slots[:, 1]  # the background
    slots[:, 3] = 0.5  # empty
    overlap = np.zeros((400, 3, 4), np.int64)
    overlap[:, 0, 1] = 3000
    overlap[:, 1, 0] = overlap[:, 2, 2] = 60
    scores = empty_slot_scores(slots, overlap)
    assert scores["background_std"] == pytest.approx(0.1, rel=0.15)  # the largest of five, each within 4 %
    assert scores["empty_std"] < 1e-6
