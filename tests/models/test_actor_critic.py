"""Actor and critic of the baselines: the paper's layers, our image encoder, and who learns from whom."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cobra_rl.config import BASELINE
from cobra_rl.models.actor_critic import LEAST_SCALE, ActorCritic, ActorCriticConfig, Eye, Gaussian, shrunk
from cobra_rl.models.transition import Sizes
from untrained import untrained

KEY = jax.random.key(0)
SIZES = Sizes(slots=5, latents=6, action=4, image=64)
PAPER, LAPTOP = BASELINE["paper"].networks, BASELINE["laptop"].networks
SMALL = ActorCriticConfig(
    slot_actor=(16, 16), slot_actor_whole=(16,), slot_critic=(16, 16), slot_critic_whole=(16,), channels=(8, 8),
    hidden=(16, 16), shrink=4,
)  # fmt: skip


def drawn(config, pixels):
    """Networks with random weights, and biases that are not zero."""
    networks = untrained(lambda key: ActorCritic(config, SIZES, pixels, key))
    rng = np.random.default_rng(1)
    return jax.tree.map(
        lambda leaf: jnp.asarray(0.1 * rng.standard_normal(leaf.shape), leaf.dtype) if leaf.ndim == 1 else leaf,
        networks,
    )


def pictures(count=2, size=64):
    return np.random.default_rng(2).integers(0, 256, (count, size, size, 3), np.uint8)


def scenes(count=3):
    return jnp.asarray(np.random.default_rng(3).standard_normal((count, *SIZES[:2])), jnp.float32)


def weights_of(net):
    """Shapes of the layers before and after the sum."""
    return tuple([layer.weight.shape for layer in part.layers] for part in (net.each, net.whole))


def test_on_slots_the_layers_are_the_papers():
    networks = eqx.filter_eval_shape(ActorCritic, PAPER, SIZES, False, KEY)
    assert networks.eyes == ()
    assert weights_of(networks.actor) == ([(6, 128), (128, 128)], [(128, 128), (128, 128), (128, 8)])
    assert weights_of(networks.critic) == ([(6 + 4, 512), (512, 512)], [(512, 256), (256, 1)])


def test_on_pictures_the_layers_are_the_papers():
    networks = eqx.filter_eval_shape(ActorCritic, PAPER, SIZES, True, KEY)
    assert len(networks.eyes) == 2  # the actor's and the critic's
    for eye in networks.eyes:
        assert [layer.kernel.shape for layer in eye.layers] == [(3, 3, 3, 32), (3, 3, 32, 32)]
        assert [layer.stride for layer in eye.layers] == [2, 2]
        assert (eye.patches, eye.shrink) == ((1, 1), 1)
    cells = 16 * 16 * 32
    assert weights_of(networks.actor) == ([(cells, 256), (256, 256)], [(256, 8)])
    assert weights_of(networks.critic) == ([(cells + 4, 256), (256, 256)], [(256, 1)])


def test_the_papers_eye_is_the_one_written_out():
    eye = untrained(lambda key: Eye(ActorCriticConfig(channels=(4, 5)), key))
    images = pictures(size=8)
    x = images / 255.0
    for layer in eye.layers:
        padded = np.pad(x, ((0, 0), (0, 1), (0, 1), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))[:, ::2, ::2]
        x = np.maximum(np.einsum("bhwiyx,yxio->bhwo", windows, np.asarray(layer.kernel, np.float64)), 0.0)
    assert x.shape == (2, 2, 2, 5)
    np.testing.assert_allclose(eqx.filter_jit(eye)(images), x.reshape(2, 1, -1), atol=1e-5)


def test_on_a_laptop_each_feature_sees_its_own_patch_of_a_shared_eye():
    networks = drawn(LAPTOP, pixels=True)
    (eye,) = networks.eyes
    images = pictures()
    changed = images.copy()
    changed[:, 16:32, 32:48] = 255 - images[:, 16:32, 32:48]
    look, act = eqx.filter_jit(eye), eqx.filter_jit(networks.policy)
    before, after = look(images), look(changed)
    assert before.shape == (2, 1, 4 * 4 * 32)
    differ = np.any((before != after).reshape(2, 4, 4, 32), axis=-1)
    assert np.argwhere(differ).tolist() == [[0, 1, 2], [1, 1, 2]]
    policy, other = act(images), act(changed)
    values = eqx.filter_jit(networks.value)(images, jnp.full((7, 2, 4), 0.3))
    assert (policy.mean.shape, policy.scale.shape, values.shape) == ((2, 4), (2, 4), (7, 2))
    assert all(np.isfinite(part).all() for part in (*policy, values))
    assert (policy.mean != other.mean).all()


@pytest.mark.parametrize("n", [1, 2, 4])
def test_a_shrunk_picture_is_the_mean_of_its_blocks(n):
    images = pictures(size=8)
    wanted = images.reshape(2, 8 // n, n, 8 // n, n, 3).mean((2, 4)) / 255.0
    np.testing.assert_allclose(jax.jit(shrunk, static_argnums=1)(images, n), wanted, atol=1e-6)


def trained(networks, loss):
    """The parts that a loss would change."""
    change = eqx.filter_jit(eqx.filter_grad(loss))(networks)
    parts = {f"eye {number}": eye for number, eye in enumerate(change.eyes)}
    parts |= {"actor": change.actor, "critic": change.critic}
    return {name for name, part in parts.items() if any(np.any(leaf) for leaf in jax.tree.leaves(part))}


@pytest.mark.parametrize(
    ("shared", "by_policy", "by_value"),
    [(True, {"actor"}, {"eye 0", "critic"}), (False, {"eye 0", "actor"}, {"eye 1", "critic"})],
)
def test_a_shared_eye_is_trained_by_the_critic_alone(shared, by_policy, by_value):
    networks = drawn(dataclasses.replace(SMALL, shared=shared), pixels=True)
    seen, actions = jnp.asarray(pictures()), jnp.full((2, 4), 0.3)
    assert trained(networks, lambda networks: networks.policy(seen).log_prob(actions).sum()) == by_policy
    assert trained(networks, lambda networks: networks.value(seen, actions).sum()) == by_value


def written_out(net, inputs):
    """An MLP for each slot with ReLU after all of its layers, the sum over slots, an MLP on the sum; in NumPy."""
    hidden = inputs
    for layer in net.each.layers:
        hidden = np.maximum(hidden @ np.asarray(layer.weight) + np.asarray(layer.bias), 0.0)
    hidden = hidden.sum(-2)
    for layer in net.whole.layers[:-1]:
        hidden = np.maximum(hidden @ np.asarray(layer.weight) + np.asarray(layer.bias), 0.0)
    return hidden @ np.asarray(net.whole.layers[-1].weight) + np.asarray(net.whole.layers[-1].bias)


def test_actor_and_critic_are_the_sums_written_out():
    networks, slots = drawn(SMALL, pixels=False), scenes()
    out = written_out(networks.actor, np.asarray(slots))
    policy, value = eqx.filter_jit(networks.policy)(slots), eqx.filter_jit(networks.value)
    np.testing.assert_allclose(policy.mean, 0.5 + out[:, :4], atol=1e-5)
    np.testing.assert_allclose(policy.scale, np.log1p(np.expm1(0.3) * np.exp(out[:, 4:])) + LEAST_SCALE, atol=1e-5)
    actions = np.random.default_rng(4).random((7, 3, 4), np.float32)
    with_action = np.concatenate(
        [np.broadcast_to(slots, (7, 3, 5, 6)), np.broadcast_to(4.0 * actions[:, :, None] - 2.0, (7, 3, 5, 4))], -1
    )
    values = value(slots, actions)
    np.testing.assert_allclose(values, written_out(networks.critic, with_action)[..., 0], atol=1e-4)
    np.testing.assert_allclose(value(slots, actions[2]), values[2], atol=1e-5)


def test_slots_may_come_in_any_order():
    networks, slots = drawn(SMALL, pixels=False), scenes()

    @jax.jit
    def outputs(slots):
        return jnp.concatenate([*networks.policy(slots), networks.value(slots, jnp.full((3, 4), 0.2))[:, None]], -1)

    first = outputs(slots)
    np.testing.assert_allclose(outputs(slots[:, jnp.array([3, 0, 4, 1, 2])]), first, atol=1e-5)
    for slot in range(5):  # none is left out
        assert (np.abs(outputs(slots.at[:, slot].add(1.0)) - first).max(0) > 1e-3).all()


def test_on_pictures_too_the_critic_sees_all_of_the_action():
    networks, seen = drawn(SMALL, pixels=True), jnp.asarray(pictures())
    slope = jax.jit(jax.grad(lambda actions: networks.value(seen, actions).sum()))(jnp.full((2, 4), 0.4))
    assert (np.abs(slope) > 1e-4).all()


def test_a_fresh_policy_clicks_around_the_middle_of_an_empty_scene():
    networks = eqx.filter_jit(ActorCritic)(dataclasses.replace(SMALL, first_scale=0.7), SIZES, False, KEY)
    policy = networks.policy(jnp.zeros((1, 5, 6)))
    np.testing.assert_allclose(policy.mean, 0.5)
    np.testing.assert_allclose(policy.scale, 0.7 + LEAST_SCALE, rtol=1e-5)


def test_a_policy_never_collapses_to_a_point():
    networks = drawn(SMALL, pixels=False)
    last = networks.actor.whole.layers[-1]
    networks = eqx.tree_at(lambda networks: networks.actor.whole.layers[-1].bias, networks, last.bias - 100.0)
    policy = networks.policy(scenes())
    np.testing.assert_allclose(policy.scale, LEAST_SCALE)
    assert np.isfinite(policy.log_prob(policy.mean + 0.5)).all()


def test_samples_have_the_mean_and_the_scale_of_their_scene_and_may_lie_outside():
    policy = Gaussian(jnp.array([[0.0, 0.5], [1.0, 0.2]]), jnp.array([[0.1, 0.2], [0.3, 0.05]]))
    samples = np.asarray(policy.sample(KEY, 4000))
    error = np.asarray(policy.scale) / 4000**0.5
    assert (np.abs(samples.mean(0) - policy.mean) < 5.0 * error).all()
    assert (np.abs(samples.std(0) - policy.scale) < 5.0 * error).all()
    assert samples.min() < 0.0
    assert samples.max() > 1.0
