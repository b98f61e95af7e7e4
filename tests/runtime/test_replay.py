"""The replay: how often items are drawn, and the weights that make up for it."""

import jax
import jax.numpy as jnp
import numpy as np

from cobra_rl.runtime import replay as module
from cobra_rl.runtime.replay import Replay

PRIORITIES = np.array([1.0, 2.0, 3.0, 4.0])


def draws(replay: Replay, state, count: int = 400):
    sample = jax.jit(replay.sample)
    return [sample(state, key) for key in jax.random.split(jax.random.key(0), count)]


def test_items_are_drawn_in_proportion_to_their_priority():
    replay = Replay(capacity=8, batch=4)
    state = replay.add(replay.init({"x": jnp.float32(0)}), {"x": jnp.arange(4.0)})
    state = replay.update(state, jnp.arange(4), jnp.asarray(PRIORITIES))
    samples = draws(replay, state)
    items = np.stack([s.items["x"] for s in samples]).astype(int)
    np.testing.assert_allclose(np.bincount(items.ravel()) / items.size, PRIORITIES / 10, atol=0.04)
    drawn = PRIORITIES[items]  # beta = 1: weights go as 1 / priority, the largest of a batch is 1
    relative = drawn.min(axis=1, keepdims=True) / drawn
    np.testing.assert_allclose([s.importance for s in samples], relative, rtol=1e-4)
    halfway = jax.jit(replay.sample)(state, jax.random.split(jax.random.key(0), 400)[0], 0.5)
    np.testing.assert_allclose(halfway.importance, np.sqrt(relative[0]), rtol=1e-4)


def test_weighted_draws_are_as_good_as_uniform_ones():
    """Sum of x / probability estimates the plain sum: what importance weights are for."""
    replay = Replay(capacity=4, batch=4)
    state = replay.add(replay.init({"x": jnp.float32(0)}), {"x": jnp.arange(4.0)})
    state = replay.update(state, jnp.arange(4), jnp.array([1.0, 1.0, 1.0, 5.0]))
    sample = jax.jit(replay.sample)
    means = []
    for key in jax.random.split(jax.random.key(1), 500):
        s = sample(state, key)
        means.append(float((s.importance * s.items["x"]).sum() / s.importance.sum()))
    assert abs(np.mean(means) - 1.5) < 0.4  # self-normalised, so a little biased; without the weights it would be 2.25


def test_new_items_are_seen_and_old_ones_forgotten():
    replay = Replay(capacity=4, batch=4)
    state = replay.init({"x": jnp.float32(0)})
    state = replay.add(state, {"x": jnp.arange(4.0)})
    state = replay.update(state, jnp.arange(4), jnp.full(4, 2.0))
    assert int(module.size(state)) == 4
    state = replay.add(state, {"x": jnp.array([10.0, 11.0])})
    items = np.concatenate([s.items["x"] for s in draws(replay, state, 100)])
    assert set(items.tolist()) == {2.0, 3.0, 10.0, 11.0}
    np.testing.assert_allclose(np.mean(items >= 10.0), 0.5, atol=0.1)  # new items come with the largest priority
