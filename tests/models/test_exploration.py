"""The exploration policy: its loss written out, and a probe problem with a known answer."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from cobra_rl import load_world, spriteworld
from cobra_rl.models.exploration import Deformation, ExplorationConfig, to_action
from cobra_rl.models.transition import Sizes
from cobra_rl.models.world import WorldModel
from cobra_rl.spriteworld.sprites import front_most_at

KINDS = ("joint", "per_slot")
SIZES = Sizes(slots=3, latents=8, action=4, image=64)


make_policy = eqx.filter_jit(Deformation)  # one program, not one for each operation


class Surprise(eqx.Module):
    """Of interest is where things are: a bump of height 80 at each slot's first two latents."""

    def __call__(self, slots, action):
        offset = action[..., None, :2] - (slots[..., :2] + 2.0) / 4.0
        bump = jnp.where(slots[..., 2] > 0.0, jnp.exp(-jnp.sum(offset**2, -1) / (2 * 0.06**2)), 0.0)
        return 80.0 * bump.sum(-1)


@functools.partial(jax.jit, static_argnums=(1, 2))
def scenes(key, count: int, slots: int = 3):
    """Things in all slots but the last, which is empty."""
    place_key, rest_key = jax.random.split(key)
    place = 4.0 * jax.random.uniform(place_key, (count, slots, 2)) - 2.0
    there = jnp.where(jnp.arange(slots) < slots - 1, 1.0, -1.0)
    rest = jax.random.normal(rest_key, (count, slots, 5))
    return jnp.concatenate([place, jnp.broadcast_to(there[:, None], (count, slots, 1)), rest], -1)


@pytest.mark.parametrize("net", KINDS)
def test_the_loss_is_the_papers(net):
    config = ExplorationConfig(net=net, hidden=(16,), motion_cost=50.0, choice_entropy=12.0)
    policy = make_policy(config, SIZES, jax.random.key(0))
    slots, key = scenes(jax.random.key(1), 5), jax.random.key(2)
    u_key, noise_key = jax.random.split(key)
    u = jax.random.uniform(u_key, (5, 4))
    mixture = jax.tree.map(np.asarray, eqx.filter_jit(policy)(slots, u))
    assert mixture.mean.shape == (5, 1 if net == "joint" else 3, 4)
    np.testing.assert_allclose(np.exp(mixture.log_weight).sum(axis=1), 1.0, rtol=1e-5)
    noise = np.asarray(jax.random.normal(noise_key, mixture.mean.shape))
    total, surprise = 0.0, eqx.filter_jit(Surprise())
    for b in range(5):
        for j in range(mixture.mean.shape[1]):
            deformation = mixture.mean[b, j] + mixture.scale[b, j] * noise[b, j]
            action = 1.0 - np.abs(1.0 - np.mod(np.asarray(u[b]) + deformation, 2.0))
            error = float(surprise(slots[b], jnp.asarray(action)))
            cost = 7.0 * np.abs(deformation[:2]).sum() + 50.0 * np.abs(deformation[2:]).sum()
            penalty = 1e5 * np.maximum(0.02 - mixture.scale[b, j], 0.0).sum()
            certainty = 12.0 * mixture.log_weight[b, j]
            total += np.exp(mixture.log_weight[b, j]) * (cost - error + penalty + certainty) / 5
    found, _ = eqx.filter_jit(policy.loss)(Surprise(), slots, key, click_cost=7.0)
    np.testing.assert_allclose(found, total, rtol=1e-4)


@pytest.mark.parametrize("net", KINDS)
def test_relative_costs_are_shares_of_the_curiosity(net):
    """Whatever unit curiosity has, the loss is in it too; and without a cost of motions, all numbers cost the same."""
    slots, key = scenes(jax.random.key(1), 5), jax.random.key(2)

    def loss_of(config, interest, cost):
        policy = make_policy(config, SIZES, jax.random.key(0))
        return eqx.filter_jit(policy.loss)(interest, slots, key, click_cost=cost)

    relative = ExplorationConfig(net=net, hidden=(16,), relative=True, scale_penalty=5.0, choice_entropy=0.3)
    total, metrics = loss_of(relative, Surprise(), 0.2)
    thousandfold, _ = loss_of(relative, lambda *seen: 1000.0 * Surprise()(*seen), 0.2)
    np.testing.assert_allclose(thousandfold, 1000.0 * total, rtol=1e-4)
    unit = float(metrics["curiosity"])
    absolute = ExplorationConfig(
        net=net, hidden=(16,), motion_cost=0.2 * unit, scale_penalty=5.0 * unit, choice_entropy=0.3 * unit
    )
    np.testing.assert_allclose(loss_of(absolute, Surprise(), 0.2 * unit)[0], total, rtol=1e-4)


def test_actions_are_mirrored_at_the_border_and_no_gradient_dies():
    point = jnp.array([-0.3, 0.5, 1.2, 2.1])
    np.testing.assert_allclose(to_action(point), [0.3, 0.5, 0.8, 0.1], atol=1e-6)
    gradient = jax.grad(lambda p: to_action(p).sum())(point)
    np.testing.assert_array_equal(gradient, [-1.0, 1.0, -1.0, 1.0])


@pytest.mark.parametrize("net", KINDS)
def test_actions_are_legal(net):
    policy = make_policy(ExplorationConfig(net=net, first_scale=1.0), SIZES, jax.random.key(0))
    scene = jnp.broadcast_to(scenes(jax.random.key(1), 1), (500, 3, 8))
    actions = np.asarray(eqx.filter_jit(policy.sample)(scene, jax.random.key(2)))
    assert actions.shape == (500, 4)
    assert (actions >= 0.0).all()
    assert (actions <= 1.0).all()
    assert len(np.unique(actions[:, 0])) > 100


@pytest.mark.parametrize(("motion_cost", "chosen"), [(1.0, 1), (None, 0)])
def test_deform_counts_all_numbers_of_an_action_unless_it_is_told_of_a_click(motion_cost, chosen):
    """Of two slots worth as much, the first asks for another click, the second for a motion that is farther away."""
    config = ExplorationConfig(net="per_slot", hidden=(), motion_cost=motion_cost)
    policy = make_policy(config, SIZES, jax.random.key(0))
    layer = policy.net.layers[0]  # reads u, then the slot; gives logit, mean and scale
    weight = jnp.zeros_like(layer.weight).at[4, 1].set(1.0).at[5, 3].set(1.0).at[6, 0].set(1.0)
    policy = eqx.tree_at(lambda p: p.net.layers[0].weight, policy, weight)
    slots = jnp.zeros((3, 8)).at[:2, :2].set(jnp.array([[0.2, 0.0], [0.0, 0.3]])).at[2, 2].set(-9.0)
    u = jnp.array([0.5, 0.4, 0.3, 0.2])
    moved = np.asarray(eqx.filter_jit(policy.deform)(slots, u) - u)
    np.testing.assert_allclose(moved, [[0.2, 0.0, 0.0, 0.0], [0.0, 0.0, 0.3, 0.0]][chosen], atol=1e-5)


@pytest.mark.parametrize("net", KINDS)
def test_deform_is_deterministic_and_legal(net):
    policy = make_policy(ExplorationConfig(net=net, hidden=(16,)), SIZES, jax.random.key(0))
    last = policy.net.layers[-1]
    far = eqx.tree_at(lambda p: p.net.layers[-1].weight, policy, 100.0 * last.weight)  # far beyond the frame
    slots = scenes(jax.random.key(1), 50)
    u = jax.random.uniform(jax.random.key(2), (50, 4))
    deform = eqx.filter_jit(far.deform)
    actions = np.asarray(deform(slots, u))
    np.testing.assert_array_equal(actions, deform(slots, u))
    assert actions.shape == (50, 4)
    assert (actions >= 0.0).all()
    assert (actions <= 1.0).all()
    assert np.abs(actions - u).max() > 0.1  # it does deform


def test_deform_goes_to_the_nearest_of_those_worth_a_click():
    """Of three slots the first is near and worth nothing, the second is nearer than the third."""
    policy = make_policy(ExplorationConfig(net="per_slot", hidden=()), SIZES, jax.random.key(0))
    layer = policy.net.layers[0]  # reads u, then the slot; gives logit, mean and scale
    weight = jnp.zeros_like(layer.weight).at[4 + 2, 0].set(5.0).at[4 + 0, 1].set(1.0)  # latent 2: worth; 0: along x
    policy = eqx.tree_at(lambda p: p.net.layers[0].weight, policy, weight)
    slots = jnp.zeros((3, 8)).at[:, 0].set(jnp.array([0.05, 0.2, 0.3])).at[:, 2].set(jnp.array([-1.0, 0.9, 1.0]))
    u = jnp.array([0.5, 0.4, 0.3, 0.2])
    np.testing.assert_allclose(eqx.filter_jit(policy.deform)(slots, u), [0.7, 0.4, 0.3, 0.2], atol=1e-5)


@pytest.fixture(scope="module")
def shipped() -> WorldModel:
    return load_world()


@pytest.mark.parametrize("task", spriteworld.REWARDED)
def test_deform_strikes_the_nearest_sprite_in_the_tasks(task, shipped):
    """On initial scenes, 60 with 20 u each, of the shipped world.

    Over ten seeds, the least share that strikes a sprite is 0.985 (standard deviation at most 0.005) and the least that
    strikes the nearest one 0.853 (standard deviation at most 0.015): both bars are far more than three of these away.
    """
    env = spriteworld.make(task)
    states, images = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), 60))
    u = np.random.default_rng(0).random((60, 20, 4))
    slots = np.repeat(np.asarray(shipped.encode(images))[:, None], 20, axis=1)
    actions = shipped.deform(slots, u)
    under_click = jax.vmap(lambda sprites, clicks: jax.vmap(lambda click: front_most_at(sprites, click))(clicks))
    struck = np.asarray(jax.jit(under_click)(states.sprites, actions[..., :2]))
    distance = np.linalg.norm(u[:, :, None, :2] - np.asarray(states.sprites.position)[:, None], axis=-1)
    nearest = np.where(np.asarray(states.sprites.alive)[:, None], distance, np.inf).argmin(axis=-1)
    assert np.mean(struck >= 0) > 0.9
    assert np.mean(struck == nearest) > 0.7


def clicks_of(policy, seed: int) -> tuple[float, float, float]:
    """The share of clicks near a thing, the share of things clicked near, and how far mean motions are off centre."""
    scene_key, sample_key = jax.random.split(jax.random.key(seed))
    slots = scenes(scene_key, 200)
    drawn = eqx.filter_jit(policy.sample)(jnp.repeat(slots, 64, axis=0), sample_key)
    actions, slots = np.asarray(drawn).reshape(200, 64, 4), np.asarray(slots)
    offset = np.abs(actions[:, :, None, :2] - (slots[:, None, :2, :2] + 2.0) / 4.0).max(-1)  # [B, P, things]
    near = offset < 0.1
    motion = float(np.abs(actions[..., 2:].mean(axis=1) - 0.5).mean())
    return float(near.any(-1).mean()), float(near.any(1).mean()), motion


def curious(seed: int) -> tuple[Deformation, Deformation]:
    """A policy before and after 1,500 updates."""
    policy = first = make_policy(ExplorationConfig(net="per_slot", motion_cost=100.0), SIZES, jax.random.key(seed))
    optimiser = optax.adam(2e-3)

    @eqx.filter_jit
    def step(policy, state, key):
        scene_key, loss_key = jax.random.split(key)
        slots = scenes(scene_key, 64)
        gradients = eqx.filter_grad(lambda p: p.loss(Surprise(), slots, loss_key, click_cost=5.0)[0])(policy)
        updates, state = optimiser.update(gradients, state)
        return eqx.apply_updates(policy, updates), state

    state = optimiser.init(eqx.filter(policy, eqx.is_array))
    for i in range(1500):
        policy, state = step(policy, state, jax.random.fold_in(jax.random.key(100 + seed), i))
    return first, policy


def test_it_learns_to_click_where_the_surprise_is():
    # Over ten seeds (standard deviation): hits 0.071 (0.004) before and 0.999 (0.0004) after, struck 0.9995 (0.001),
    # motion 0.029 (0.001): each bar is more than ten standard deviations away.
    before, after = curious(seed=0)
    hits, _, _ = clicks_of(before, seed=0)
    assert hits < 0.12  # two squares of 0.04, some of it outside
    hits, struck, motion = clicks_of(after, seed=0)
    assert hits > 0.7
    assert struck > 0.95  # both things, not only the easier one
    assert motion < 0.1  # motions stay spread about the middle
