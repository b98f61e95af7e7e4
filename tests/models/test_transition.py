"""The transition model: each term of its loss against the formula written out."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy

from cobra_rl.collect.transition import Transition
from cobra_rl.config import VISION
from cobra_rl.models import transition
from cobra_rl.models.monet import Monet
from cobra_rl.models.nets import Lattice
from cobra_rl.models.transition import LawConfig, LawTransition, Sizes, SlotTransition, TransitionConfig
from cobra_rl.models.vision import PLACE

CONFIG = TransitionConfig(hidden=(16, 16), error_unit=5.0)
LAW = LawConfig(hidden=(16, 16), error_unit=5.0, law=4, place_cost=0.5)
M = 12
SIZES = Sizes(slots=3, latents=M, action=4, image=64)
MODELS = {
    "paper": lambda key: SlotTransition(CONFIG, SIZES, None, key),
    "law": lambda key: LawTransition(LAW, SIZES, PLACE, key),
    "affine": lambda key: LawTransition(dataclasses.replace(LAW, law=0), SIZES, PLACE, key),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    """Build each model in turn. The last layers of a fresh one are all but silent; these are not."""
    fresh = MODELS[request.param](jax.random.key(1))
    return eqx.tree_at(lambda m: m.net.layers[-1].weight, fresh, 30.0 * fresh.net.layers[-1].weight)


@pytest.fixture(scope="module")
def vision():
    return eqx.filter_jit(Monet)(VISION["debug"].model, jax.random.key(0))


@pytest.fixture
def batch():
    """Of each scene one slot lies within the click's reach, and one at its border."""
    keys = jax.random.split(jax.random.key(2), 3)
    slots, action = jax.random.normal(keys[0], (4, 3, M)), jax.random.uniform(keys[1], (4, 4))
    reach = jnp.array([[0.1, 0.0], [0.2, 0.1]])
    slots = slots.at[:, :2, :2].set(4.0 * action[:, None, :2] - 2.0 + reach)
    image = jax.random.randint(keys[2], (4, 64, 64, 3), 0, 256).astype(jnp.uint8)
    return Transition(slots, action, image)


def run_mlp(mlp, x):
    for layer in mlp.layers[:-1]:
        x = np.maximum(x @ np.asarray(layer.weight) + np.asarray(layer.bias), 0.0)
    return x @ np.asarray(mlp.layers[-1].weight) + np.asarray(mlp.layers[-1].bias)


def written_out(model, slots, action):
    """The change, e_pred and the size of the change, in plain NumPy."""
    push = np.repeat(4 * action[:, None] - 2, 3, axis=1)
    if isinstance(model, SlotTransition):
        out = run_mlp(model.net, np.concatenate([slots, push], axis=-1))
        return out[..., :M], 5.0 * out[..., M].sum(axis=1), np.abs(out[..., :M]).sum(axis=(1, 2))
    click = transition.NEAR * (push[..., :2] - slots[..., :2])
    out = run_mlp(model.net, np.concatenate([slots, push, np.tanh(click)], axis=-1))
    own, (still, touched, border) = transition.OWN_SCALE * out[..., :M], np.moveaxis(out[..., M:], -1, 0)
    touch = scipy.special.expit(transition.TOUCH_SCALE * (1.0 - np.sum(click**2, axis=-1) + border))
    assert touch.min() < 0.01
    assert np.sum((touch > 0.05) & (touch < 0.95)) > 1
    delta = np.array(own)
    delta[..., :2] += touch[..., None] * transition.LAW_SCALE * run_mlp(model.law, push)
    delta[..., :2] = np.clip(slots[..., :2] + delta[..., :2], -2.0, 2.0) - slots[..., :2]  # nothing leaves the frame
    size = 0.5 * np.abs(own[..., :2]).sum(axis=(1, 2)) + np.abs(delta[..., 2:]).sum(axis=(1, 2))
    return delta, 5.0 * (still + touch * touched).sum(axis=1), size


def test_the_loss_is_its_formula(model, vision, batch):
    """L_T + (e_pred - L_T)^2 + cost |Delta|, the paper's; with a law, its change of place costs nothing."""
    importance = jnp.array([1.0, 0.5, 0.25, 0.1])
    slots = np.asarray(batch.observation)
    delta, e_pred, size = written_out(model, slots, np.asarray(batch.action))
    drawn = np.asarray(vision.decode(jnp.asarray(slots + delta)).image)
    errors = ((drawn - np.asarray(batch.next_observation) / 255.0) ** 2).sum(axis=(1, 2, 3))  # L_T
    terms = errors + ((e_pred - errors) / 5.0) ** 2 + 3.0 * size
    total, metrics = eqx.filter_jit(type(model).loss)(model, vision, batch, importance, change_cost=3.0)
    np.testing.assert_allclose(total, (np.asarray(importance) * terms).mean(), rtol=1e-4)
    np.testing.assert_allclose(metrics["errors"], errors, rtol=1e-4)
    np.testing.assert_allclose(metrics["change"], size.mean(), rtol=1e-4)
    np.testing.assert_allclose(model(batch.observation, batch.action).slots, slots + delta, atol=1e-5)
    np.testing.assert_allclose(model(batch.observation, batch.action).error, e_pred, rtol=1e-3, atol=1e-4)


FORMS = (transition.linear_above, transition.bounded_above)


def test_in_slots_each_is_compared_with_the_prediction_for_the_one_most_like_it():
    rng = np.random.default_rng(0)
    slots = rng.normal(size=(4, 3, M)).astype(np.float32)
    after = slots[:, [2, 0, 0]] + 0.1 * rng.normal(size=(4, 3, M)).astype(np.float32)  # two are most like the first
    predicted = slots + 0.3 * rng.normal(size=slots.shape).astype(np.float32)
    expected = np.zeros(4)
    for b in range(4):
        for j in range(3):
            nearest = np.argmin([np.sum((after[b, j] - slots[b, i]) ** 2) for i in range(3)])
            assert nearest == [2, 0, 0][j]
            expected[b] += np.sum((after[b, j] - predicted[b, nearest]) ** 2)
    found = transition.matched_distance(*map(jnp.asarray, (slots, predicted, after))).sum(-1)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_a_jump_counts_linearly_in_what_is_minimised_and_no_more_in_what_is_sought():
    distance = np.array([1e-3, 3e-3, 0.1, 0.5, 20.0], np.float32)
    minimised, sought = (np.asarray(of(jnp.asarray(distance**2), 0.5)) for of in FORMS)
    np.testing.assert_allclose(minimised[:2], distance[:2] ** 2, rtol=1e-2)
    np.testing.assert_allclose(sought[:2], distance[:2] ** 2, rtol=1e-2)
    np.testing.assert_allclose(minimised[-1], 2 * 0.5 * 20.0 - 2 * 0.5**2, rtol=1e-2)
    np.testing.assert_allclose(sought[-1], 0.5**2, rtol=1e-6)
    assert (np.diff(minimised) > 0).all()
    assert (np.diff(sought) > 0).all()
    for of in FORMS:
        np.testing.assert_array_equal(of(jnp.asarray(distance), 0.0), distance)


def test_with_jumps_the_loss_is_that_of_the_linear_and_the_priorities_that_of_the_bounded_distances(vision):
    config = TransitionConfig(hidden=(8,), loss="slots", jump=0.5)
    net = eqx.filter_jit(SlotTransition)(config, SIZES, None, jax.random.key(0))
    keys = jax.random.split(jax.random.key(1), 3)
    slots, after = (jax.random.normal(key, (4, 3, M)) for key in keys[:2])
    batch = Transition(slots, jax.random.uniform(keys[2], (4, 4)), after)
    change = net.change(slots, batch.action)
    apart = transition.matched_distance(slots, slots + change.delta, after)
    minimised, sought = (of(apart, 0.5).sum(-1) for of in FORMS)
    loss, metrics = net.loss(vision, batch, jnp.ones(4), change_cost=0.0)
    np.testing.assert_allclose(metrics["errors"], sought, rtol=1e-5)
    np.testing.assert_allclose(loss, np.mean(minimised + (change.error.sum(-1) - sought) ** 2), rtol=1e-5)


def test_it_learns_from_slots_what_an_action_does(vision):
    """A probe problem with a known answer: all slots are shifted by the action and come back in random order."""
    config = TransitionConfig(hidden=(32,), loss="slots")
    net = eqx.filter_jit(SlotTransition)(config, SIZES, None, jax.random.key(0))
    optimiser = optax.adam(3e-3)

    def draw(key):
        keys = jax.random.split(key, 3)
        slots = 3.0 * jax.random.normal(keys[0], (64, 3, M))
        action = jax.random.uniform(keys[1], (64, 4))
        after = slots.at[..., :2].add(0.5 * action[:, None, :2])
        order = jax.vmap(lambda key: jax.random.permutation(key, 3))(jax.random.split(keys[2], 64))
        return Transition(slots, action, jnp.take_along_axis(after, order[:, :, None], axis=1)), after

    @eqx.filter_jit
    def step(net, state, key):
        gradients, metrics = eqx.filter_grad(
            lambda net: net.loss(vision, draw(key)[0], jnp.ones(64), change_cost=0.0), has_aux=True
        )(net)
        updates, state = optimiser.update(gradients, state)
        return eqx.apply_updates(net, updates), state, metrics["transition"]

    state = optimiser.init(eqx.filter(net, eqx.is_array))
    for i in range(400):
        net, state, _ = step(net, state, jax.random.key(i))
    batch, after = draw(jax.random.key(1000))
    error = np.abs(eqx.filter_jit(net)(batch.observation, batch.action).slots - after)
    unmoved = np.abs(np.asarray(batch.observation) - after)
    assert error[..., :2].mean() < 0.3 * unmoved[..., :2].mean()


def test_slots_are_treated_alike(model, batch):
    order = jnp.array([2, 0, 1])
    straight, turned = model(batch.observation, batch.action), model(batch.observation[:, order], batch.action)
    np.testing.assert_allclose(straight.slots[:, order], turned.slots, atol=1e-5)
    np.testing.assert_allclose(straight.error, turned.error, rtol=1e-4, atol=1e-5)


def test_with_a_law_it_reads_the_click_from_where_the_slot_is():
    """Two slots, moved together with their click: what T_net reads of the click near the slot is the same."""
    model = LawTransition(LawConfig(hidden=(8,)), SIZES, PLACE, jax.random.key(0))
    weights = model.net.layers[0].weight.at[: M + 4].set(0.0)  # deaf to all but the click seen from the slot
    model = eqx.tree_at(lambda m: m.net.layers[0].weight, model, weights)
    model = eqx.tree_at(lambda m: m.law, model, replace_fn=lambda law: jax.tree.map(jnp.zeros_like, law))
    slots, action = jax.random.normal(jax.random.key(1), (1, 2, M)), jnp.array([[0.4, 0.5, 0.2, 0.8]])
    moved = slots.at[..., :2].add(4 * 0.1)  # a tenth of the frame, right and up
    # The law, which knows no places and may depend on the click itself, is silent
    here, there = (model.change(*scene).delta for scene in ((slots, action), (moved, action.at[:, :2].add(0.1))))
    np.testing.assert_allclose(there, here, atol=1e-5)
    assert np.abs(model.change(moved, action).delta - here).max() > 1e-4


def test_the_law_moves_what_is_touched_and_costs_nothing(vision, batch):
    """With T_net silent but for the touch, each slot moves by touch * law(a), and that costs nothing."""
    model = LawTransition(LawConfig(hidden=(8,), law=4, place_cost=7.0), SIZES, PLACE, jax.random.key(0))
    last = model.net.layers[-1]
    touch = jnp.array([1e4])  # sigmoid: 1, however far the click is
    model = eqx.tree_at(
        lambda m: (m.net.layers[-1].weight, m.net.layers[-1].bias),
        model,
        (jnp.zeros_like(last.weight), jnp.zeros_like(last.bias).at[-1:].set(touch)),
    )
    law = run_mlp(model.law, 4 * np.asarray(batch.action) - 2)
    moved = transition.LAW_SCALE * law[:, None].repeat(3, axis=1)
    imagined = np.asarray(model(batch.observation, batch.action).slots)
    np.testing.assert_allclose(imagined[..., :2], np.clip(batch.observation[..., :2] + moved, -2.0, 2.0), atol=1e-5)
    np.testing.assert_array_equal(imagined[..., 2:], batch.observation[..., 2:])  # a law moves and does not repaint
    _, metrics = model.loss(vision, batch, jnp.ones(4))
    assert metrics["change"] == 0.0


def test_what_is_empty_stays_empty():
    """An empty slot has the latents of the middle of the frame; a click there moves an object, but not nothing."""
    model = LawTransition(LAW, SIZES, PLACE, jax.random.key(0))
    slots = jnp.zeros((1, 2, M)).at[0, 0, 4].set(1.0)
    imagined = model(slots, jnp.array([[0.5, 0.5, 0.9, 0.9]])).slots
    assert np.abs(imagined[0, 0] - slots[0, 0]).max() > 1e-4
    np.testing.assert_array_equal(imagined[0, 1], slots[0, 1])


def test_the_law_needs_to_know_where_a_slot_is():
    with pytest.raises(ValueError, match=r"needs slots that say where they are.*take the paper's transition model"):
        LawTransition(LAW, SIZES, None, jax.random.key(0))
    with pytest.raises(ValueError, match="an action that begins with a click"):
        LawTransition(LAW, SIZES._replace(action=1), PLACE, jax.random.key(0))


def test_the_lattices_of_all_phases_together_see_each_pixel_once(vision, batch):
    whole = transition.pixel_error(vision, batch.observation, batch.next_observation)
    phases = jnp.array([(row, column) for row in (0, 1) for column in (0, 1)])

    @jax.jit
    def error(phase):
        return transition.pixel_error(
            vision, batch.observation, batch.next_observation, lattice=Lattice(2, phase, vision.patch)
        )

    estimates = np.stack([error(phase) for phase in phases])
    np.testing.assert_allclose(estimates.mean(axis=0), whole, rtol=1e-4)
    assert np.ptp(estimates, axis=0).min() > 1.0  # they do differ: over ten seeds by 608 at least


def test_the_predicted_error_follows_the_error_and_not_the_other_way_round(model, vision, batch):
    """Without it, T could make its predictions wrong in order to be right about their error."""
    weights = jnp.ones(4)

    def share(model, which):
        imagined = model(batch.observation, batch.action)
        errors = jax.lax.stop_gradient(transition.pixel_error(vision, imagined.slots, batch.next_observation))
        surprise = (((imagined.error - errors) / 5.0) ** 2).mean()
        change = 3.0 * model.change(batch.observation, batch.action).size
        pixels = transition.pixel_error(vision, imagined.slots, batch.next_observation).mean()
        return surprise if which == "surprise" else pixels + change.mean()

    whole = eqx.filter_jit(eqx.filter_grad(lambda m: m.loss(vision, batch, weights, change_cost=3.0)[0]))(model)
    parts = [eqx.filter_jit(eqx.filter_grad(lambda m, w=w: share(m, w)))(model) for w in ("surprise", "pixels")]
    for expected, one, other in zip(*map(jax.tree.leaves, (whole, *parts)), strict=True):
        np.testing.assert_allclose(expected, one + other, rtol=1e-3, atol=1e-3)
