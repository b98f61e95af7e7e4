"""Scores of the exploration phase on proposals and pushes whose right answer is known."""

import jax
import numpy as np
import pytest

from cobra_rl.evaluation.explore import aim, explore_scenes, policy_scores, push, states_from


@pytest.fixture(scope="module")
def scenes():
    return explore_scenes(20)


def on_the_topmost(scenes) -> np.ndarray:
    return np.array([labels[labels >= 0].max() for labels in scenes.labels])


def test_clicks_on_the_topmost_sprite_strike_it_and_no_other(scenes):
    counted = np.asarray(scenes.sprites.alive)
    sprite = on_the_topmost(scenes)
    clicks = aim(scenes.labels, sprite, np.random.default_rng(0))
    proposals = np.concatenate([clicks[:, None], np.full((20, 1, 2), 0.9)], axis=-1).repeat(8, axis=1)
    scores = policy_scores(proposals, scenes, counted)
    assert scores["hit_rate"] == 1.0
    assert scores["sprites_struck"] == pytest.approx(20 / counted.sum())
    assert (scores["octant_least"], scores["octant_most"]) == (0.0, 8.0)


def test_uniform_proposals_strike_by_area_and_go_everywhere(scenes):
    proposals = np.random.default_rng(0).random((20, 500, 4))
    scores = policy_scores(proposals, scenes, np.asarray(scenes.sprites.alive))
    assert scores["hit_rate"] == pytest.approx((scenes.labels >= 0).mean(), abs=0.01)
    assert 0.85 < scores["octant_least"] <= scores["octant_most"] < 1.15


def test_a_push_moves_the_struck_sprite_by_a_quarter_of_the_motion_click(scenes):
    sprite, rng = on_the_topmost(scenes), np.random.default_rng(1)
    action = np.concatenate([aim(scenes.labels, sprite, rng), rng.random((20, 2))], axis=1)
    before = np.asarray(scenes.sprites.position)
    pushed = push(states_from(scenes.sprites), action, sprite)
    moved = np.asarray(pushed.states.sprites.position) - before
    rows = np.arange(20)
    expected = np.clip(before[rows, sprite] + 0.25 * (action[:, 2:] - 0.5), 0.0, 1.0) - before[rows, sprite]
    np.testing.assert_allclose(moved[rows, sprite], expected, atol=1e-6)
    moved[rows, sprite] = 0.0
    assert not moved.any()
    changed = jax.device_get(pushed.images) != scenes.images
    assert changed.any(axis=(1, 2, 3)).sum() >= 19


def test_a_click_on_nothing_is_on_the_background(scenes):
    clicks = aim(scenes.labels, np.full(20, -1), np.random.default_rng(2))
    column, row = (clicks * [64, -64] + [0, 64]).astype(int).T
    assert (scenes.labels[np.arange(20), row, column] == -1).all()
