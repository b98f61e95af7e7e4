"""The two reward predictors and their losses, against the formulas written out."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from cobra_rl.agents import cobra
from cobra_rl.bounds import from_json, to_json
from cobra_rl.collect.transition import Transition
from cobra_rl.models import reward
from cobra_rl.models.reward import ObjectConfig, RelationConfig, RewardConfig
from cobra_rl.models.transition import Imagined, Sizes, SlotTransition, TransitionConfig
from cobra_rl.models.vision import COMMON_SLOTS

CONFIG = RelationConfig(pair_layers=(16, 12), global_layers=(8,))
OBJECTS = ObjectConfig(pair_layers=(16, 12), object_layers=(8,))
make_reward = eqx.filter_jit(cobra.make_reward)  # one program, not one for each operation
predict = eqx.filter_jit(lambda model, slots: model(slots))
PAIRS = [(i, j) for i in range(4) for j in range(i + 1, 4)]


def mlp(net, x):
    for layer in net.layers[:-1]:
        x = np.maximum(x @ np.asarray(layer.weight) + np.asarray(layer.bias), 0.0)
    return x @ np.asarray(net.layers[-1].weight) + np.asarray(net.layers[-1].bias)


def test_the_relation_network_is_that_of_the_paper():
    model = make_reward(CONFIG, 8, jax.random.key(0))
    slots = np.asarray(jax.random.normal(jax.random.key(1), (5, 4, 8)))
    pairs = (np.concatenate([slots[:, i], slots[:, j]], axis=1) for i, j in PAIRS)
    total = sum(np.maximum(mlp(model.pair_net, pair), 0.0) for pair in pairs)
    np.testing.assert_allclose(
        predict(model, jnp.asarray(slots)), mlp(model.global_net, total)[:, 0], rtol=1e-4, atol=1e-5
    )


def parts(model, slots):
    """The two sums of our predictor, written out."""
    square = np.sum(slots**2, axis=-1)
    weight = square / (1.0 + square)
    things = sum(weight[:, k] * mlp(model.object_net, slots[:, k])[:, 0] for k in range(4))
    pairs = (
        weight[:, i] * weight[:, j] * mlp(model.pair_net, np.abs(slots[:, i] - slots[:, j]))[:, 0] for i, j in PAIRS
    )
    return things, sum(pairs)


def test_ours_is_a_sum_over_things_and_over_the_differences_of_pairs():
    model = make_reward(OBJECTS, 8, jax.random.key(0))
    slots = np.array(jax.random.normal(jax.random.key(1), (5, 4, 8)))
    slots[:, 2] = 0.0  # an empty slot
    np.testing.assert_allclose(predict(model, jnp.asarray(slots)), sum(parts(model, slots)), rtol=1e-4, atol=1e-5)


def test_its_loss_has_costs_of_what_pairs_say_and_of_latents_that_are_read():
    model = make_reward(OBJECTS, 8, jax.random.key(0))
    slots, r = np.array(jax.random.normal(jax.random.key(1), (5, 4, 8))), np.arange(5.0)
    things, pairs = parts(model, slots)
    loss, _ = eqx.filter_jit(lambda model, *batch: model.loss(*batch))(model, jnp.asarray(slots), jnp.asarray(r))
    read = sum(
        np.linalg.norm(np.asarray(net.layers[0].weight), axis=1).sum() for net in (model.object_net, model.pair_net)
    )
    costs = OBJECTS.pair_cost * np.mean(np.abs(pairs)) + OBJECTS.latent_cost * read
    expected = np.mean((things + pairs - r) ** 2) + costs
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_ours_is_worth_the_same_in_any_order():
    model = make_reward(OBJECTS, 8, jax.random.key(0))
    slots = jax.random.normal(jax.random.key(1), (5, 4, 8))
    np.testing.assert_allclose(predict(model, slots[:, ::-1]), predict(model, slots), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("used", COMMON_SLOTS)
@pytest.mark.parametrize("last", [0.0, 1.0])  # where the last slot is empty in all scenes, it is left out
def test_empty_slots_add_nothing(last, used):
    model = make_reward(OBJECTS, 8, jax.random.key(0))
    slots = jax.random.normal(jax.random.key(1), (5, 7, 8)).at[:, used:].set(0.0).at[0, -1, 0].set(last)
    few = jnp.concatenate([slots[:, :used], slots[:, -1:]], axis=1)[:, : used + int(last)]
    np.testing.assert_allclose(predict(model, slots), predict(model, few), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("used", COMMON_SLOTS)
def test_seeds_side_by_side_leave_out_what_is_empty_in_all_of_them(used):
    """One branch is computed, not both, also with gradients; what it gives is as one after the other."""
    models = eqx.filter_vmap(lambda key: make_reward(OBJECTS, 8, key))(jax.random.split(jax.random.key(0), 3))
    slots = jax.random.normal(jax.random.key(1), (3, 5, 7, 8)).at[:, :, used:].set(0.0)
    rewards = jnp.arange(15.0).reshape(3, 5)
    gradient = eqx.filter_value_and_grad(lambda model, slots, rewards: model.loss(slots, rewards)[0])
    side_by_side = eqx.filter_vmap(gradient)
    program = str(eqx.filter_make_jaxpr(side_by_side)(models, slots, rewards)[0])
    assert " cond[" in program
    for scenes in (slots, slots.at[1, 2, -1, 0].set(1.0)):
        together = eqx.filter_jit(side_by_side)(models, scenes, rewards)
        for seed in range(3):
            alone = jax.tree.map(lambda leaf, seed=seed: leaf[seed] if eqx.is_array(leaf) else leaf, models)
            one = eqx.filter_jit(gradient)(alone, scenes[seed], rewards[seed])
            for found, expected in zip(jax.tree.leaves(together), jax.tree.leaves(one), strict=True):
                np.testing.assert_allclose(found[seed], expected, rtol=1e-4, atol=1e-5)


def test_a_predictor_that_nobody_registered_is_refused():
    with pytest.raises(ValueError, match=r"RewardConfig belongs to no reward; there are relation, object"):
        make_reward(RewardConfig(), 8, jax.random.key(0))


@pytest.mark.parametrize("config", [CONFIG, OBJECTS])
def test_a_configuration_is_read_back_as_the_kind_that_it_was(config):
    assert from_json(RewardConfig, to_json(config), "config.json") == config


def test_the_reward_loss_is_the_mean_squared_error():
    model = make_reward(CONFIG, 8, jax.random.key(0))
    slots, r = jax.random.normal(jax.random.key(1), (5, 4, 8)), jnp.arange(5.0)
    loss, _ = model.loss(slots, r)
    np.testing.assert_allclose(loss, np.mean((np.asarray(predict(model, slots)) - np.arange(5.0)) ** 2), rtol=1e-5)


def test_the_value_loss_is_the_three_of_the_paper():
    model = make_reward(CONFIG, 8, jax.random.key(0))
    transition = SlotTransition(TransitionConfig(hidden=(8,)), Sizes(4, 8, 4, 64), None, jax.random.key(1))
    keys = jax.random.split(jax.random.key(2), 3)
    batch = Transition(
        observation=jax.random.normal(keys[0], (5, 4, 8)),
        reward_before=jnp.array([0.0, 0.5, 0.0, -1.0, 0.0]),
        action=jax.random.uniform(keys[1], (5, 4)),
        next_observation=jax.random.normal(keys[2], (5, 4, 8)),
        reward=jnp.array([0.5, 1.0, 0.0, 0.0, 2.0]),
        terminated=jnp.array([False, True, False, False, True]),
    )
    v, following = (np.asarray(predict(model, slots)) for slots in (batch.observation, batch.next_observation))
    imagined = np.asarray(predict(model, eqx.filter_jit(transition)(batch.observation, batch.action).slots))
    r, after, ended = (np.asarray(part) for part in (batch.reward_before, batch.reward, batch.terminated))
    expected = [np.mean((r + 0.9 * np.where(ended, after, there) - v) ** 2) for there in (following, imagined)]
    expected[0] += np.mean(ended * (after - following) ** 2)  # the last scenes' own TD error
    expected.append(np.mean((following - imagined) ** 2))
    total, metrics = eqx.filter_jit(reward.value_loss)(model, model, transition, batch=batch, discount=0.9)
    np.testing.assert_allclose([metrics[n] for n in ("td", "td_imagined", "consistency")], expected, rtol=1e-4)
    np.testing.assert_allclose(total, sum(expected), rtol=1e-4)


def fitted(model, loss, steps, seed, rate=3e-3):
    """`loss(model, target, key)` made small, the target a copy of the model every 50 steps."""
    optimiser = optax.adam(rate)

    def update(carry, step):
        model, target, state = carry
        target = jax.tree.map(lambda new, old: jnp.where(step % 50 == 0, new, old), model, target)
        gradients = jax.grad(loss)(model, target, jax.random.fold_in(jax.random.key(100 + seed), step))
        updates, state = optimiser.update(gradients, state)
        return (eqx.apply_updates(model, updates), target, state), None

    start = (model, model, optimiser.init(model))
    return jax.jit(lambda start: jax.lax.scan(update, start, jnp.arange(steps))[0][0])(start)


def scenes(key, count):
    """Slots, and a reward like those of the tasks: things of one colour (latent 2) want to be in the middle."""
    slots = jax.random.normal(key, (count, 4, 8))
    distance = jnp.linalg.norm(slots[..., :2], axis=-1)
    return slots, jnp.sum(jnp.where(slots[..., 2] > 0.0, 0.5 - distance, 0.0), axis=1)


def unexplained(config: RewardConfig, seed: int) -> float:
    """The share of a reward's variance that is left after 2,500 updates."""
    model = make_reward(config, 8, jax.random.key(seed))
    model = fitted(model, lambda m, _, key: m.loss(*scenes(key, 64))[0], 2500, seed)
    slots, truth = jax.jit(scenes, static_argnums=1)(jax.random.key(200 + seed), 1000)
    return float(np.mean((predict(model, slots) - truth) ** 2) / np.var(truth))


@pytest.mark.parametrize(
    "config", [RelationConfig(pair_layers=(64, 64), global_layers=(64,)), ObjectConfig(object_layers=(64, 64))]
)
def test_it_learns_a_reward_that_it_can_express(config):
    assert unexplained(config, seed=0) < 0.1


def values_on_a_chain(seed: int, length: int, discount: float):
    """Scenes 0 to `length` - 1, always one to the right; the last has reward 1."""

    def scene(state):
        return jnp.broadcast_to(jax.nn.one_hot(state, 8)[..., None, :], (*state.shape, 3, 8))

    def transition(slots, _):
        return Imagined(jnp.roll(slots, 1, axis=-1), jnp.zeros(slots.shape[:-2]))

    def loss(model, target, key):
        state = jax.random.randint(key, (32,), 0, length - 1)
        last = state == length - 2
        batch = Transition(
            scene(state),
            jnp.zeros((32, 4)),
            scene(state + 1),
            reward=last.astype(jnp.float32),
            reward_before=jnp.zeros(32),
            terminated=last,
        )
        return reward.value_loss(model, target, transition, batch=batch, discount=discount)[0]

    model = fitted(make_reward(CONFIG, 8, jax.random.key(seed)), loss, 1500, seed)
    return np.asarray(predict(model, scene(jnp.arange(length))))


def test_values_on_a_chain_are_discounted_rewards():
    """V(s) = 0.8^(4 - s)."""
    found = values_on_a_chain(seed=0, length=5, discount=0.8)
    np.testing.assert_allclose(found, 0.8 ** (4.0 - np.arange(5)), atol=0.05)  # over ten seeds off by at most 1e-6


def test_ours_learns_which_latents_matter():
    """The reward of `scenes` is about latents 0 to 2 of 8."""
    model = make_reward(OBJECTS, 8, jax.random.key(0))
    model = fitted(model, lambda m, _, key: m.loss(*scenes(key, 64))[0], 2500, 0)
    weight = np.linalg.norm(np.asarray(model.object_net.layers[0].weight), axis=1)
    assert weight[3:].max() < 0.1 * weight[:3].min()  # 0.03 times; without the cost 0.25 times


def test_small_rewards_do_not_silence_all_latents():
    """With rewards a hundredth as large, half of their variance is explained; with costs that do not shrink, 3 %."""

    def loss(model, _, key):
        slots, reward = scenes(key, 64)
        return model.loss(slots, 0.01 * reward, 1e-4 * jnp.var(reward))[0]

    model = fitted(make_reward(ObjectConfig(object_layers=(64, 64)), 8, jax.random.key(0)), loss, 2500, 0)
    slots, truth = jax.jit(scenes, static_argnums=1)(jax.random.key(200), 1000)
    assert np.mean((predict(model, slots) - 0.01 * truth) ** 2) < 0.7 * np.var(0.01 * truth)


def test_directions_are_the_axes_at_first():
    slots = jax.random.normal(jax.random.key(1), (5, 4, 8))
    models = [
        make_reward(dataclasses.replace(OBJECTS, learn_directions=learn), 8, jax.random.key(0))
        for learn in (False, True)
    ]
    np.testing.assert_allclose(*(predict(model, slots) for model in models), rtol=1e-5, atol=1e-6)


def test_directions_have_unit_length():
    model = make_reward(dataclasses.replace(OBJECTS, learn_directions=True), 8, jax.random.key(0))
    directions = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
    slots = np.random.default_rng(1).normal(size=(5, 4, 8)).astype(np.float32)
    turned = slots @ (directions / np.sqrt((directions**2).sum(axis=0)))
    model = eqx.tree_at(lambda m: m.directions, model, jnp.asarray(directions))
    objects, pairs = eqx.filter_jit(model.parts)(jnp.asarray(slots))
    np.testing.assert_allclose(objects, parts(model, slots)[0], rtol=1e-4, atol=1e-5)
    weight = (slots**2).sum(-1) / (1.0 + (slots**2).sum(-1))
    expected = sum(
        weight[:, i] * weight[:, j] * mlp(model.pair_net, np.abs(turned[:, i] - turned[:, j]))[:, 0] for i, j in PAIRS
    )
    np.testing.assert_allclose(pairs, expected, rtol=1e-4, atol=1e-5)


def test_what_two_have_in_common_is_found_where_no_latent_means_it_alone():
    """Alike are those with the same mean of all latents: learnt directions find it from few scenes, the axes do not."""

    def draw(key, count):
        slots = jax.random.normal(key, (count, 2, 8))
        mean = slots.sum(-1) / 8**0.5
        return slots, -jnp.abs(mean[:, 0] - mean[:, 1])

    seen = jax.jit(draw, static_argnums=1)(jax.random.key(0), 300)
    slots, truth = jax.jit(draw, static_argnums=1)(jax.random.key(1), 1000)
    unexplained = []
    for learn in (False, True):
        config = ObjectConfig(pair_layers=(32, 32), object_layers=(16,), latent_cost=0.001, pair_cost=0.0)
        model = make_reward(dataclasses.replace(config, learn_directions=learn), 8, jax.random.key(0))

        def loss(model, _, key):
            rows = jax.random.randint(key, (64,), 0, 300)
            return model.loss(seen[0][rows], seen[1][rows])[0]

        model = fitted(model, loss, 2500, 0)
        unexplained.append(float(np.mean((predict(model, slots) - truth) ** 2) / np.var(truth)))
    assert unexplained[1] < 0.5 * unexplained[0]
