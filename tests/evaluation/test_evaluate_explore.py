"""Scores of the exploration phase on proposals and pushes whose right answer is known."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from corridor import Corridor

from cobra_rl.config import EXPLORE, VISION
from cobra_rl.evaluation.explore import aim_clicks, explore_scores, initial_states, policy_scores, push_sprites
from cobra_rl.evaluation.vision import fixed_scenes
from cobra_rl.models.world import WorldModel, make_exploration, make_transition, make_vision
from cobra_rl.spriteworld import make
from untrained import untrained

ENV = make("exploration")


@pytest.fixture(scope="module")
def scenes():
    return fixed_scenes(ENV, 20, 1)


def on_the_topmost(scenes) -> np.ndarray:
    return np.array([labels[labels >= 0].max() for labels in scenes.labels])


def test_clicks_on_the_topmost_sprite_strike_it_and_no_other(scenes):
    counted = np.asarray(scenes.sprites.alive)
    sprite = on_the_topmost(scenes)
    clicks = aim_clicks(scenes.labels, sprite, np.random.default_rng(0))
    proposals = np.concatenate([clicks[:, None], np.full((20, 1, 2), 0.9)], axis=-1).repeat(8, axis=1)
    scores = policy_scores(proposals, scenes, counted)
    assert scores["hit_rate"] == 1.0
    assert scores["sprites_struck"] == pytest.approx(20 / counted.sum())
    assert (scores["octant_least"], scores["octant_most"]) == (0.0, 8.0)


def scores_of_uniform_proposals(seed):
    scenes = fixed_scenes(ENV, 20, 1, seed=seed)
    proposals = np.random.default_rng(seed).random((20, 500, ENV.action_size))
    scores = policy_scores(proposals, scenes, np.asarray(scenes.sprites.alive))
    return scores | {"hits beyond area": scores["hit_rate"] - (scenes.labels >= 0).mean()}


def test_uniform_proposals_strike_by_area_and_go_everywhere():
    # Over ten seeds 0.0008 +- 0.0025, 0.963 +- 0.014 and 1.031 +- 0.009: the bars are 3.7, 8 and 13 spreads away.
    scores = scores_of_uniform_proposals(seed=0)
    assert abs(scores["hits beyond area"]) < 0.01
    assert 0.85 < scores["octant_least"] <= scores["octant_most"] < 1.15


def scenes_changed_by_pushes(seed):
    """How many of 20 pictures change when the topmost sprite is pushed; the truth is checked on the way."""
    scenes, rng = fixed_scenes(ENV, 20, 1, seed=seed), np.random.default_rng(seed)
    sprite = on_the_topmost(scenes)
    action = np.concatenate([aim_clicks(scenes.labels, sprite, rng), rng.random((20, 2))], axis=1)
    before = np.asarray(scenes.sprites.position)
    states, images = push_sprites(ENV, initial_states(scenes.sprites), action)
    moved = np.asarray(states.sprites.position) - before
    rows = np.arange(20)
    expected = np.clip(before[rows, sprite] + 0.25 * (action[:, 2:] - 0.5), 0.0, 1.0) - before[rows, sprite]
    np.testing.assert_allclose(moved[rows, sprite], expected, atol=1e-6)
    moved[rows, sprite] = 0.0
    assert not moved.any()
    return (images != scenes.images).any(axis=(1, 2, 3)).sum()


def test_a_push_moves_the_struck_sprite_by_a_quarter_of_the_motion_click():
    assert scenes_changed_by_pushes(seed=0) >= 19  # 20 for each of ten seeds


def test_a_click_on_nothing_is_on_the_background(scenes):
    clicks = aim_clicks(scenes.labels, np.full(20, -1), np.random.default_rng(2))
    size = scenes.labels.shape[1]
    column, row = (clicks * [size, -size] + [0, size]).astype(int).T
    assert (scenes.labels[np.arange(20), row, column] == -1).all()


def untrained_world(action_size):
    config, vision = EXPLORE["debug"], untrained(lambda key: make_vision(VISION["debug"].model, key))
    transition = untrained(lambda key: make_transition(config.transition, vision, action_size, key))
    policy = untrained(lambda key: make_exploration(config.exploration, vision, action_size, key))
    return WorldModel(vision, transition, policy, action_size)


def test_in_other_environments_imagination_is_scored_by_pictures():
    env = Corridor()
    scorer = explore_scores(env, 100)
    assert scorer.images.shape == (100, 64, 64, 3)
    world = untrained_world(env.action_size)
    idle = eqx.tree_at(lambda world: world.transition, world, jax.tree.map(jnp.zeros_like, world.transition))
    scores = scorer.score(idle.without_policy())
    assert set(scores) == {"ratio_to_encoded", "ratio_to_unchanged", "changed", "changed_uniform"}
    assert scores["ratio_to_unchanged"] == pytest.approx(1.0)  # it imagines no change
    assert scorer.score(world)["ratio_to_unchanged"] != pytest.approx(1.0)
    # The walker goes every other time: 0.5 +- 0.05 of 100 actions, and the bar is four spreads away.
    assert scores["changed_uniform"] == pytest.approx(0.5, abs=0.2)
    assert scores["changed"] == pytest.approx(0.5, abs=0.2)


def test_sprites_are_scored_where_there_are_some():
    scores = explore_scores(ENV, 20).score(untrained_world(ENV.action_size))
    assert set(scores) == {
        "hit_rate", "position_error", "others_drift", "empty_drift", "ratio_to_encoded", "ratio_to_unchanged",
    }  # fmt: skip
    assert all(np.isfinite(value) for value in scores.values())
