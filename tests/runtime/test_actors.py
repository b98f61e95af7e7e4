"""Actors, in this process and as real Ray processes."""

import os
import signal
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cobra_rl.models import monet
from cobra_rl.models.exploration import Exploration, ExplorationConfig
from cobra_rl.pretrained import load_vision
from cobra_rl.runtime.actors import LocalActors, begin, play
from cobra_rl.spriteworld import make


@pytest.fixture(scope="module")
def vision(debug_vision):
    return load_vision(debug_vision).model


@pytest.fixture(scope="module")
def policy():
    return Exploration(ExplorationConfig(net="slots", hidden=(16,)), jax.random.key(0))


def test_transitions_follow_one_another(vision, policy):
    env, count = make("exploration"), 3
    actors = LocalActors(env, vision, count, seed=0)
    encode, before = jax.jit(lambda images: monet.encode(vision, images)), None
    for t in range(1, 13):
        (part,) = actors.collect(policy)
        slots, action, image = part.transitions
        assert image.shape == (count, 64, 64, 3)
        assert ((np.asarray(action) >= 0.0) & (np.asarray(action) <= 1.0)).all()
        assert 0.0 <= float(part.hits) <= 1.0
        fresh = (t - 1) % env.spec.max_steps == 0  # episodes of ten steps
        if before is not None:
            same = np.allclose(np.asarray(encode(before)), np.asarray(slots), atol=1e-3)
            assert same != fresh
        before = image
    np.testing.assert_array_equal(np.asarray(actors.state.envs.step), 2)


def test_a_share_of_actions_is_random(vision, policy):
    """Those of the policy stay as they are without it."""
    env = make("exploration")
    start = jax.jit(lambda key: begin(env, vision, key, 16))(jax.random.key(0))
    actions = jax.jit(lambda uniform: play(env, vision, policy, start, uniform)[1].transitions.action)
    none, half, all_ = (np.asarray(actions(jnp.float32(uniform))) for uniform in (0.0, 0.5, 1.0))
    same = (half == none).all(axis=1)
    assert 0 < same.sum() < 16
    np.testing.assert_array_equal(half[~same], all_[~same])
    assert (none != all_).any(axis=1).all()


def test_a_dead_ray_actor_is_replaced_and_the_replay_keeps_filling(vision, policy):
    ray_actors = pytest.importorskip("cobra_rl.runtime.ray_actors")
    actors = ray_actors.RayActors(vision, count=2, seed=0)
    try:
        chunks = actors.collect(policy)
        deadline = time.monotonic() + 240
        while len(chunks) < 2 and time.monotonic() < deadline:
            chunks += actors.collect(policy)
        assert chunks[0].transitions.action.shape == (ray_actors.CHUNK, 4)
        assert chunks[0].transitions.next_image.dtype == np.uint8
        os.kill(actors.processes()[0], signal.SIGKILL)
        later = 0
        while (later < 4 or not actors.replaced) and time.monotonic() < deadline:
            later += len(actors.collect(None))
        assert actors.replaced == 1
        assert later >= 4
        assert len(set(actors.processes())) == 2
    finally:
        actors.close()
