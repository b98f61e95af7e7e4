"""The agent of the exploration phase: episodes follow one another, and a share of its actions is random."""

import functools
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cobra_rl.agents.explorer import begin, play
from cobra_rl.collect.actors import LocalActors
from cobra_rl.runs.worlds import load_world
from cobra_rl.spriteworld import make


@pytest.fixture(scope="module")
def world(debug_world):
    return load_world(debug_world)


def test_transitions_follow_one_another(world):
    env, count = make("exploration"), 3
    functions = functools.partial(begin, env, count), functools.partial(play, env, 0.0, "pixels")
    actors = LocalActors(*functions, world.vision, seed=0)
    before = None
    for t in range(1, 13):
        (part,) = actors.collect(world.exploration)
        slots, action, image, *_ = part.transitions
        assert image.shape == (count, 64, 64, 3)
        assert ((np.asarray(action) >= 0.0) & (np.asarray(action) <= 1.0)).all()
        assert 0.0 <= float(part.hits) <= 1.0
        fresh = (t - 1) % env.spec.max_steps == 0  # episodes of ten steps
        if before is not None:
            same = np.allclose(np.asarray(world.encode(before)), np.asarray(slots), atol=1e-3)
            assert same != fresh
        before = image
    np.testing.assert_array_equal(np.asarray(actors.state.envs.step), 2)


def test_slots_may_be_remembered_in_place_of_pictures(world):
    """Of the scene after the action, not of the fresh one that follows the last of an episode."""
    env = make("exploration")
    start = jax.jit(lambda key: begin(env, 4, world.vision, key))(jax.random.key(0))
    seen = {}
    for kind in ("pixels", "slots"):
        turn = jax.jit(functools.partial(play, env, 0.0, kind, world.vision, None))
        state = start
        for _ in range(env.max_steps):
            state, collected = turn(state)
            seen.setdefault(kind, []).append((collected.transitions.next_observation, state.slots))
    for (image, slots), (after, same) in zip(seen["pixels"], seen["slots"], strict=True):
        np.testing.assert_allclose(after, world.encode(image), atol=1e-4)
        np.testing.assert_allclose(same, slots, atol=1e-4)
    last, fresh = seen["slots"][-1]
    assert np.abs(np.asarray(last) - np.asarray(fresh)).max() > 0.1


def test_a_share_of_actions_is_random(world):
    """Those of the policy stay as they are without it."""
    env = make("exploration")
    start = jax.jit(lambda key: begin(env, 16, world.vision, key))(jax.random.key(0))
    step = jax.jit(
        lambda uniform: play(env, uniform, "pixels", world.vision, world.exploration, start)[1].transitions.action
    )
    none, half, all_ = (np.asarray(step(jnp.float32(uniform))) for uniform in (0.0, 0.5, 1.0))
    same = (half == none).all(axis=1)
    assert 0 < same.sum() < 16
    np.testing.assert_array_equal(half[~same], all_[~same])
    assert (none != all_).any(axis=1).all()


@pytest.mark.slow
def test_it_plays_in_ray_processes(world):
    ray_actors = pytest.importorskip("cobra_rl.collect.ray_actors")
    env = make("exploration")
    functions = functools.partial(begin, env, 1), functools.partial(play, env, 0.2, "pixels")
    actors = ray_actors.RayActors(*functions, world.vision, count=1, seed=0)
    deadline = time.monotonic() + 240
    try:
        chunks = []
        while not chunks and time.monotonic() < deadline:
            chunks = actors.collect(world.exploration)
        slots, action, image, *_ = chunks[0].transitions
    finally:
        actors.close()
    assert action.shape == (ray_actors.CHUNK, 4)
    assert slots.shape[0] == ray_actors.CHUNK
    assert image.dtype == np.uint8
