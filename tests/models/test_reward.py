"""The relation network and its losses, against the formulas written out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cobra_rl.models import reward
from cobra_rl.models.reward import Reward, RewardConfig, Step
from cobra_rl.models.transition import Transition, TransitionConfig

CONFIG = RewardConfig(pair=(16, 12), whole=(8,))


def mlp(net, x):
    for layer in net.layers[:-1]:
        x = np.maximum(x @ np.asarray(layer.weight) + np.asarray(layer.bias), 0.0)
    return x @ np.asarray(net.layers[-1].weight) + np.asarray(net.layers[-1].bias)


def test_it_is_the_relation_network_of_the_paper():
    model = Reward(CONFIG, jax.random.key(0))
    slots = np.asarray(jax.random.normal(jax.random.key(1), (5, 4, 8)))
    total = sum(
        np.maximum(mlp(model.pair, np.concatenate([slots[:, i], slots[:, j]], axis=1)), 0.0)
        for i in range(4)
        for j in range(i + 1, 4)
    )
    np.testing.assert_allclose(model(jnp.asarray(slots)), mlp(model.whole, total)[:, 0], rtol=1e-4, atol=1e-5)


def test_the_symmetric_one_does_not_see_the_order_of_slots():
    slots = jax.random.normal(jax.random.key(1), (5, 4, 8))
    turned = slots[:, jnp.array([3, 1, 0, 2])]
    plain, symmetric = (Reward(RewardConfig(symmetric=s), jax.random.key(0)) for s in (False, True))
    np.testing.assert_allclose(symmetric(slots), symmetric(turned), rtol=1e-3, atol=1e-4)
    assert np.abs(np.asarray(plain(slots) - plain(turned))).max() > 1e-3


def test_the_reward_loss_is_the_mean_squared_error():
    model = Reward(CONFIG, jax.random.key(0))
    slots, r = jax.random.normal(jax.random.key(1), (5, 4, 8)), jnp.arange(5.0)
    loss, _ = reward.reward_loss(model, slots, r)
    np.testing.assert_allclose(loss, np.mean((np.asarray(model(slots)) - np.arange(5.0)) ** 2), rtol=1e-5)


def test_the_value_loss_is_the_three_of_the_paper():
    model = Reward(CONFIG, jax.random.key(0))
    transition = Transition(TransitionConfig(hidden=(8,)), jax.random.key(1))
    keys = jax.random.split(jax.random.key(2), 3)
    batch = Step(
        slots=jax.random.normal(keys[0], (5, 4, 8)),
        action=jax.random.uniform(keys[1], (5, 4)),
        reward=jnp.array([0.0, 1.0, 0.0, 0.0, 1.0]),
        discount=jnp.array([0.9, 0.0, 0.9, 0.9, 0.0]),
        next_slots=jax.random.normal(keys[2], (5, 4, 8)),
    )
    v, following = np.asarray(model(batch.slots)), np.asarray(model(batch.next_slots))
    imagined = np.asarray(model(transition(batch.slots, batch.action).slots))
    r, g = np.asarray(batch.reward), np.asarray(batch.discount)
    expected = [np.mean((r + g * following - v) ** 2), np.mean((r + g * imagined - v) ** 2)]
    expected.append(np.mean((following - imagined) ** 2))
    total, metrics = reward.value_loss(model, model, transition, batch)
    np.testing.assert_allclose([metrics[n] for n in ("td", "td_imagined", "consistency")], expected, rtol=1e-4)
    np.testing.assert_allclose(total, sum(expected), rtol=1e-4)


def test_a_terminated_step_has_no_future():
    """One state, reward 1 and the end: its value is 1 whatever follows."""
    import equinox as eqx
    import optax

    model = Reward(CONFIG, jax.random.key(0))
    transition = Transition(TransitionConfig(hidden=(8,)), jax.random.key(1))
    slots = jnp.ones((4, 3, 8))
    batch = Step(slots, jnp.full((4, 4), 0.5), jnp.ones(4), jnp.zeros(4), 2.0 * slots)
    optimiser = optax.adam(1e-2)
    state = optimiser.init(eqx.filter(model, eqx.is_array))

    @eqx.filter_jit
    def step(model, state):
        gradients = eqx.filter_grad(lambda m: reward.value_loss(m, model, transition, batch)[0])(model)
        updates, state = optimiser.update(gradients, state)
        return eqx.apply_updates(model, updates), state

    for _ in range(200):
        model, state = step(model, state)
    assert model(slots) == pytest.approx(1.0, abs=0.05)
