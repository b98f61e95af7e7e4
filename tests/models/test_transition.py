"""The transition model: each term of its loss against the formula written out."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cobra_rl.config import VISION
from cobra_rl.models import monet, transition
from cobra_rl.models.monet import Monet
from cobra_rl.models.nets import Lattice
from cobra_rl.models.transition import Transition, TransitionConfig, Transitions

CONFIG = TransitionConfig(hidden=(16, 16), error_unit=5.0, place_cost=0.5)


@pytest.fixture(scope="module")
def setting():
    vision = eqx.filter_jit(Monet)(VISION["debug"].model, jax.random.key(0))
    model = Transition(CONFIG, jax.random.key(1))
    keys = jax.random.split(jax.random.key(2), 3)
    batch = Transitions(
        jax.random.normal(keys[0], (4, 3, 8)),
        jax.random.uniform(keys[1], (4, 4)),
        jax.random.randint(keys[2], (4, 64, 64, 3), 0, 256).astype(jnp.uint8),
    )
    return vision, model, batch


def net(model, x):
    for layer in model.net.layers[:-1]:
        x = np.maximum(x @ np.asarray(layer.weight) + np.asarray(layer.bias), 0.0)
    return x @ np.asarray(model.net.layers[-1].weight) + np.asarray(model.net.layers[-1].bias)


def test_the_loss_is_the_papers(setting):
    vision, model, batch = setting
    importance = jnp.array([1.0, 0.5, 0.25, 0.1])
    slots, action = np.asarray(batch.slots), np.asarray(batch.action)
    told = np.repeat(4 * action[:, None] - 2, 3, axis=1)
    out = net(model, np.concatenate([slots, told], axis=-1))
    drawn = np.asarray(monet.decode(vision, jnp.asarray(slots + out[..., :8])).image)
    errors = ((drawn - np.asarray(batch.next_image) / 255.0) ** 2).sum(axis=(1, 2, 3))  # L_T
    e_pred = 5.0 * out[..., 8].sum(axis=1)
    terms = (
        errors
        + ((e_pred - errors) / 5.0) ** 2
        + 3.0 * (np.abs(out[..., :8]) * ([0.5] * 2 + [1.0] * 6)).sum(axis=(1, 2))
    )
    total, metrics = transition.loss(model, vision, batch, importance, change_cost=3.0)
    np.testing.assert_allclose(total, (np.asarray(importance) * terms).mean(), rtol=1e-4)
    np.testing.assert_allclose(metrics["errors"], errors, rtol=1e-4)
    np.testing.assert_allclose(model(batch.slots, batch.action).error, e_pred, rtol=1e-3, atol=1e-4)


def test_slots_are_treated_alike(setting):
    _, model, batch = setting
    order = jnp.array([2, 0, 1])
    straight, turned = model(batch.slots, batch.action), model(batch.slots[:, order], batch.action)
    np.testing.assert_allclose(straight.slots[:, order], turned.slots, atol=1e-5)
    np.testing.assert_allclose(straight.error, turned.error, rtol=1e-4, atol=1e-5)


def test_centred_it_reads_the_click_from_where_the_slot_is():
    """Two slots, moved together with their click: what T_net reads of the click near the slot is the same."""
    config = TransitionConfig(hidden=(8,), centred=True)
    model = Transition(config, jax.random.key(0))
    weights = model.net.layers[0].weight.at[:12].set(0.0)  # deaf to all but the click seen from the slot
    model = eqx.tree_at(lambda m: m.net.layers[0].weight, model, weights)
    slots, action = jax.random.normal(jax.random.key(1), (1, 2, 8)), jnp.array([[0.4, 0.5, 0.2, 0.8]])
    moved = slots.at[..., :2].add(4 * 0.1)  # a tenth of the frame, right and up
    here, there = model(slots, action), model(moved, action.at[:, :2].add(0.1))
    np.testing.assert_allclose(there.slots - moved, here.slots - slots, atol=1e-5)
    elsewhere = model(moved, action)
    assert np.abs(elsewhere.slots - moved - (here.slots - slots)).max() > 1e-4


def test_the_law_moves_what_is_touched_and_costs_nothing(setting):
    """With T_net silent but for the touch, each slot moves by touch * law(a), and only the looks' change costs."""
    vision, _, batch = setting
    model = Transition(TransitionConfig(hidden=(8,), law=4, place_cost=7.0), jax.random.key(0))
    last = model.net.layers[-1]
    touch = jnp.array([30.0])  # sigmoid: 1
    model = eqx.tree_at(
        lambda m: (m.net.layers[-1].weight, m.net.layers[-1].bias),
        model,
        (jnp.zeros_like(last.weight), jnp.zeros_like(last.bias).at[-1:].set(touch)),
    )
    hidden, out = model.law.layers
    action = 4 * np.asarray(batch.action) - 2
    law = np.maximum(action @ np.asarray(hidden.weight) + np.asarray(hidden.bias), 0.0) @ np.asarray(out.weight)
    moved = transition.LAW_SCALE * (law + np.asarray(out.bias))[:, None].repeat(3, axis=1)
    np.testing.assert_allclose(model(batch.slots, batch.action).slots - batch.slots, moved, atol=1e-5)
    _, metrics = transition.loss(model, vision, batch, jnp.ones(4))
    np.testing.assert_allclose(metrics["change"], np.abs(moved[..., 2:]).sum(axis=(1, 2)).mean(), rtol=1e-4)


def test_the_lattices_of_all_phases_together_see_each_pixel_once(setting):
    vision, _, batch = setting
    whole = transition.pixel_error(vision, batch.slots, batch.next_image)
    phases = jnp.array([(row, column) for row in (0, 1) for column in (0, 1)])
    error = jax.jit(lambda phase: transition.pixel_error(vision, batch.slots, batch.next_image, Lattice(2, phase)))
    estimates = np.stack([error(phase) for phase in phases])
    np.testing.assert_allclose(estimates.mean(axis=0), whole, rtol=1e-4)
    assert np.ptp(estimates, axis=0).min() > 1.0  # they do differ


def test_the_predicted_error_follows_the_error_and_not_the_other_way_round(setting):
    """Without it, T could make its predictions wrong in order to be right about their error."""
    vision, model, batch = setting
    weights = jnp.ones(4)

    def share(model, which):
        imagined = model(batch.slots, batch.action)
        errors = jax.lax.stop_gradient(transition.pixel_error(vision, imagined.slots, batch.next_image))
        surprise = (((imagined.error - errors) / 5.0) ** 2).mean()
        change = 3.0 * jnp.abs(imagined.slots - batch.slots).sum(axis=1) @ jnp.array([0.5] * 2 + [1.0] * 6)
        pixels = transition.pixel_error(vision, imagined.slots, batch.next_image).mean()
        return surprise if which == "surprise" else pixels + change.mean()

    whole = eqx.filter_grad(lambda m: transition.loss(m, vision, batch, weights, change_cost=3.0)[0])(model)
    parts = [eqx.filter_grad(lambda m, w=w: share(m, w))(model) for w in ("surprise", "pixels")]
    for expected, one, other in zip(*map(jax.tree.leaves, (whole, *parts)), strict=True):
        np.testing.assert_allclose(expected, one + other, rtol=1e-3, atol=1e-3)
