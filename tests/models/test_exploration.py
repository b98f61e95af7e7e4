"""The exploration policy: its loss written out, and a probe problem with a known answer."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from cobra_rl.models import exploration
from cobra_rl.models.exploration import Exploration, ExplorationConfig
from cobra_rl.models.transition import Imagined

KINDS = ("whole", "slots")


class Surprise(eqx.Module):
    """A transition model that is wrong where things are: a bump of height 80 at each slot's first two latents."""

    def __call__(self, slots, action) -> Imagined:
        offset = action[..., None, :2] - (slots[..., :2] + 2.0) / 4.0
        bump = jnp.where(slots[..., 2] > 0.0, jnp.exp(-jnp.sum(offset**2, -1) / (2 * 0.06**2)), 0.0)
        return Imagined(slots, 80.0 * bump.sum(-1))


def scenes(key, count: int, slots: int = 3):
    """Things in all slots but the last, which is empty."""
    place_key, rest_key = jax.random.split(key)
    place = 4.0 * jax.random.uniform(place_key, (count, slots, 2)) - 2.0
    there = jnp.where(jnp.arange(slots) < slots - 1, 1.0, -1.0)
    rest = jax.random.normal(rest_key, (count, slots, 5))
    return jnp.concatenate([place, jnp.broadcast_to(there[:, None], (count, slots, 1)), rest], -1)


@pytest.mark.parametrize("net", KINDS)
def test_the_loss_is_the_papers(net):
    config = ExplorationConfig(slots=3, net=net, hidden=(16,), motion_cost=50.0, choice_entropy=12.0)
    policy = Exploration(config, jax.random.key(0))
    slots, key = scenes(jax.random.key(1), 5), jax.random.key(2)
    u_key, noise_key = jax.random.split(key)
    u = jax.random.uniform(u_key, (5, 4))
    mixture = jax.tree.map(np.asarray, policy(slots, u))
    assert mixture.mean.shape == (5, 1 if net == "whole" else 3, 4)
    np.testing.assert_allclose(np.exp(mixture.log_weight).sum(axis=1), 1.0, rtol=1e-5)
    noise = np.asarray(jax.random.normal(noise_key, mixture.mean.shape))
    total = 0.0
    for b in range(5):
        for j in range(mixture.mean.shape[1]):
            deformation = mixture.mean[b, j] + mixture.scale[b, j] * noise[b, j]
            action = 1.0 - np.abs(1.0 - np.mod(np.asarray(u[b]) + deformation, 2.0))
            error = float(Surprise()(slots[b], jnp.asarray(action)).error)
            cost = 7.0 * np.abs(deformation[:2]).sum() + 50.0 * np.abs(deformation[2:]).sum()
            penalty = 1e5 * np.maximum(0.02 - mixture.scale[b, j], 0.0).sum()
            certainty = 12.0 * mixture.log_weight[b, j]
            total += np.exp(mixture.log_weight[b, j]) * (cost - error + penalty + certainty) / 5
    found, _ = exploration.loss(policy, Surprise(), slots, key, 7.0)
    np.testing.assert_allclose(found, total, rtol=1e-4)


def test_actions_are_mirrored_at_the_border_and_no_gradient_dies():
    point = jnp.array([-0.3, 0.5, 1.2, 2.1])
    np.testing.assert_allclose(exploration.to_action(point), [0.3, 0.5, 0.8, 0.1], atol=1e-6)
    gradient = jax.grad(lambda p: exploration.to_action(p).sum())(point)
    np.testing.assert_array_equal(gradient, [-1.0, 1.0, -1.0, 1.0])


@pytest.mark.parametrize("net", KINDS)
def test_actions_are_legal(net):
    policy = Exploration(ExplorationConfig(slots=3, net=net, first_scale=1.0), jax.random.key(0))
    actions = np.asarray(exploration.propose(policy, scenes(jax.random.key(1), 1)[0], jax.random.key(2), 500))
    assert actions.shape == (500, 4)
    assert (actions >= 0.0).all()
    assert (actions <= 1.0).all()
    assert len(np.unique(actions[:, 0])) > 100


def test_it_learns_to_click_where_the_surprise_is():
    policy = Exploration(ExplorationConfig(slots=3, net="slots", motion_cost=100.0), jax.random.key(0))
    optimiser = optax.adam(2e-3)

    @eqx.filter_jit
    def step(policy, state, key):
        scene_key, loss_key = jax.random.split(key)
        slots = scenes(scene_key, 64)
        gradients = eqx.filter_grad(lambda p: exploration.loss(p, Surprise(), slots, loss_key, 5.0)[0])(policy)
        updates, state = optimiser.update(gradients, state)
        return eqx.apply_updates(policy, updates), state

    def measure(policy):
        slots = scenes(jax.random.key(9), 200)
        actions = jax.vmap(lambda s, k: exploration.propose(policy, s, k, 64))(
            slots, jax.random.split(jax.random.key(8), 200)
        )
        offset = jnp.abs(actions[:, :, None, :2] - (slots[:, None, :2, :2] + 2.0) / 4.0).max(-1)  # [B, P, things]
        near = np.asarray(offset < 0.1)
        motion = float(jnp.abs(actions[..., 2:].mean(axis=1) - 0.5).mean())
        return near.any(-1).mean(), near.any(1).mean(), motion

    hits, _, _ = measure(policy)
    assert hits < 0.12  # two squares of 0.04, some of it outside
    state = optimiser.init(eqx.filter(policy, eqx.is_array))
    for i in range(1500):
        policy, state = step(policy, state, jax.random.fold_in(jax.random.key(3), i))
    hits, struck, motion = measure(policy)
    assert hits > 0.7
    assert struck > 0.95  # both things, not only the easier one
    assert motion < 0.1  # motions stay spread about the middle
