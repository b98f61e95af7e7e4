"""The replay: how often items are drawn, and the weights that make up for it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cobra_rl.collect.replay import LEAST_ERROR, Replay, ReplayState
from cobra_rl.storage import checkpoint

ERRORS = np.array([0.5, 1.0, 2.0, 8.0])


def filled(replay: Replay, errors: np.ndarray) -> ReplayState:
    """A replay of the items 0, 1, 2, ... with these errors."""
    state = replay.add(replay.init({"x": jnp.float32(0)}), {"x": jnp.arange(float(len(errors)))})
    return replay.update(state, jnp.arange(len(errors)), jnp.asarray(errors, jnp.float32))


@functools.partial(jax.jit, static_argnums=0)
def samples(replay: Replay, state: ReplayState, keys, alpha, beta):
    return jax.vmap(lambda key: replay.sample(state, key, alpha, beta))(keys)


def draw(replay: Replay, state: ReplayState, alpha: float, beta: float = 1.0, count: int = 400, seed: int = 0):
    """Items and importance weights of many samples, [count, batch] each."""
    drawn = samples(replay, state, jax.random.split(jax.random.key(seed), count), alpha, beta)
    return np.asarray(drawn.items["x"]).astype(int), np.asarray(drawn.importance)


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.6, 1.0, 2.0])
def test_items_are_drawn_in_proportion_to_a_power_of_their_error(alpha):
    items, _ = draw(Replay(capacity=8, batch=4), filled(Replay(8, 4), ERRORS), alpha)
    expected = ERRORS**alpha / (ERRORS**alpha).sum()
    # The spread of a share over ten seeds is at most 0.007.
    np.testing.assert_allclose(np.bincount(items.ravel(), minlength=4) / items.size, expected, atol=0.03)


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (1.0, 0.5), (0.3, 1.0), (0.3, 0.0)])
def test_importance_is_a_power_of_the_probability_and_at_most_one(alpha, beta):
    items, importance = draw(Replay(8, 4), filled(Replay(8, 4), ERRORS), alpha, beta)
    weight = ERRORS[items] ** (-alpha * beta)
    np.testing.assert_allclose(importance, weight / weight.max(axis=1, keepdims=True), rtol=1e-4)


def test_importance_weights_undo_the_priorities():
    """The average of N * probability^-1 * x over draws is the plain sum of x, whatever the priorities."""
    errors = np.array([1.0, 2.0, 1.5, 5.3])
    replay = Replay(4, 32)
    items, importance = draw(replay, filled(replay, errors), alpha=1.0, count=500)
    assert (items == 0).any(axis=1).all()  # so that all batches are normalised by the same largest weight
    weighted = (importance * items).sum() / importance.sum()
    assert abs(weighted - 1.5) < 0.02  # the spread over ten seeds is 0.0016
    assert abs(items.mean() - 20.9 / 9.8) < 0.02  # without the weights


def test_a_change_of_alpha_holds_for_all_items_at_once():
    """The errors were written under alpha 1; drawn with alpha 0 they are all alike."""
    replay = Replay(8, 4)
    state = filled(replay, ERRORS)
    for alpha in (1.0, 0.0, 1.0):
        items, importance = draw(replay, state, alpha)
        share = np.mean(items == 3)
        assert abs(share - (0.25 if alpha == 0.0 else 8.0 / 11.5)) < 0.03  # the spread over ten seeds is 0.007
        assert (importance == 1.0).all() == (alpha == 0.0)


def test_new_items_get_the_largest_error_there_is_now():
    replay = Replay(4, 4)
    state = replay.add(replay.init({"x": jnp.float32(0)}), {"x": jnp.arange(2.0)})
    np.testing.assert_array_equal(state.error, [1.0, 1.0, 0.0, 0.0])  # the first have nothing to go by
    state = replay.update(state, jnp.arange(2), jnp.array([5.0, 70.0]))
    state = replay.update(state, jnp.array([1]), jnp.array([3.0]))  # 70 is forgotten
    state = replay.add(state, {"x": jnp.array([2.0])})
    np.testing.assert_array_equal(state.error, [5.0, 3.0, 5.0, 0.0])


def test_new_items_are_seen_and_old_ones_forgotten():
    replay = Replay(capacity=4, batch=4)
    state = replay.init({"x": jnp.float32(0), "image": jnp.zeros((2, 2), jnp.uint8)})
    for start in (0, 3, 6):
        assert int(state.size) == min(start, 4)
        number = jnp.arange(start, start + 3)
        images = jnp.broadcast_to(number[:, None, None], (3, 2, 2)).astype(jnp.uint8)
        state = replay.add(state, {"x": number.astype(jnp.float32), "image": images})
    np.testing.assert_array_equal(state.items["x"], [8, 5, 6, 7])
    np.testing.assert_array_equal(state.items["image"][:, 0, 0], [8, 5, 6, 7])
    assert state.items["image"].dtype == jnp.uint8
    items, _ = draw(replay, state, 1.0, count=50)
    assert set(items.ravel()) == {5, 6, 7, 8}
    with pytest.raises(ValueError, match="5 items at once do not fit into a replay of 4"):
        replay.add(state, {"x": jnp.zeros(5), "image": jnp.zeros((5, 2, 2), jnp.uint8)})


def test_places_without_an_item_are_never_drawn_and_errors_of_zero_are():
    replay = Replay(capacity=1000, batch=64)
    state = filled(replay, np.zeros(3))
    items, importance = draw(replay, state, 1.0, count=100)
    assert set(items.ravel()) == {0, 1, 2}
    np.testing.assert_allclose(importance, 1.0, rtol=1e-5)
    mixed, _ = draw(replay, filled(replay, np.array([0.0, 100 * LEAST_ERROR])), 1.0, count=1000)
    assert abs(np.mean(mixed == 0) - 1 / 101) < 0.002  # the spread over ten seeds is 0.00014


def test_a_falling_exponent_leaves_hardly_any_importance_below_a_tenth():
    """A scaled-down run of the preset laptop: alpha falls from 1 to 0.1, errors fall tenfold, data keep coming.

    If an item kept the exponent of the time at which its error was written, and new items got the all-time maximum,
    0.36 of the importance weights after the fall of alpha would be below 0.1 (measured); with raw errors, none is.
    """
    replay, random = Replay(8000, 64), np.random.default_rng(0)
    add, update, sample = (jax.jit(method) for method in (replay.add, replay.update, replay.sample))
    hardness = random.lognormal(0.0, 1.0, 100_000).astype(np.float32)  # of each item that ever comes
    state, importance, arrived = replay.init({"x": jnp.int32(0)}), [], 0
    for step in range(600):
        share = step / 600
        if step % 4 == 0:
            state = add(state, {"x": jnp.arange(arrived, arrived + 48)})
            arrived += 48
        alpha = float(np.interp(share, (0.2, 0.35), (1.0, 0.1)))
        beta = float(np.interp(share, (0.1, 0.25), (0.5, 1.0)))
        batch = sample(state, jax.random.key(step), alpha, beta)
        errors = 100.0 * np.exp(-5.0 * share) * hardness[np.asarray(batch.items["x"])]
        state = update(state, batch.indices, jnp.asarray(errors))
        if share > 0.35:
            importance.append(np.asarray(batch.importance))
    assert np.mean(np.stack(importance) < 0.1) < 0.01


def test_the_state_can_be_donated_and_kept_in_a_checkpoint(tmp_path):
    replay = Replay(8, 4)
    add = jax.jit(replay.add, donate_argnums=0)
    state = add(replay.init({"x": jnp.float32(0)}), {"x": jnp.arange(3.0)})
    checkpoint.save(tmp_path, 1, state, meta={})
    again = checkpoint.restore(tmp_path, replay.init({"x": jnp.float32(0)})).tree
    assert jax.tree.structure(again) == jax.tree.structure(state)
    for one, other in zip(jax.tree.leaves(again), jax.tree.leaves(state), strict=True):
        np.testing.assert_array_equal(one, other)
    assert int(add(again, {"x": jnp.arange(3.0)}).size) == 6
