"""Actor and critic of the baselines: the paper's layers, our image encoder, and who learns from whom."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cobra_rl.config import MPO
from cobra_rl.models.actor_critic import MIN_SCALE, ActorCritic, ActorCriticConfig, Gaussian, ImageEncoder, shrink
from cobra_rl.models.transition import Sizes
from untrained import untrained

SIZES = Sizes(slots=5, latents=6, action=4, image=64)
PAPER, LAPTOP = MPO["paper"].networks, MPO["laptop"].networks
SMALL = ActorCriticConfig(
    actor_slot_layers=(16, 16), actor_global_layers=(16,), critic_slot_layers=(16, 16), critic_global_layers=(16,),
    channels=(8, 8), hidden=(16, 16), shrink=4,
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
    return tuple([layer.weight.shape for layer in part.layers] for part in (net.slot_net, net.global_net))


def test_on_slots_the_layers_are_the_papers():
    networks = eqx.filter_eval_shape(ActorCritic, PAPER, SIZES, False, jax.random.key(0))
    assert networks.encoders == ()
    assert weights_of(networks.actor) == ([(6, 128), (128, 128)], [(128, 128), (128, 128), (128, 8)])
    assert weights_of(networks.critic) == ([(6 + 4, 512), (512, 512)], [(512, 256), (256, 1)])


def test_on_pictures_the_layers_are_the_papers():
    networks = eqx.filter_eval_shape(ActorCritic, PAPER, SIZES, True, jax.random.key(0))
    assert len(networks.encoders) == 2  # the actor's and the critic's
    for encoder in networks.encoders:
        assert [layer.kernel.shape for layer in encoder.layers] == [(3, 3, 3, 32), (3, 3, 32, 32)]
        assert [layer.stride for layer in encoder.layers] == [2, 2]
        assert (encoder.patches, encoder.shrink) == ((1, 1), 1)
    cells = 16 * 16 * 32
    assert weights_of(networks.actor) == ([(cells, 256), (256, 256)], [(256, 8)])
    assert weights_of(networks.critic) == ([(cells + 4, 256), (256, 256)], [(256, 1)])


def test_the_papers_image_encoder_is_the_one_written_out():
    encoder = untrained(lambda key: ImageEncoder(ActorCriticConfig(channels=(4, 5)), key))
    images = pictures(size=8)
    x = images / 255.0
    for layer in encoder.layers:
        padded = np.pad(x, ((0, 0), (0, 1), (0, 1), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))[:, ::2, ::2]
        x = np.maximum(np.einsum("bhwiyx,yxio->bhwo", windows, np.asarray(layer.kernel, np.float64)), 0.0)
    assert x.shape == (2, 2, 2, 5)
    np.testing.assert_allclose(eqx.filter_jit(encoder)(images), x.reshape(2, 1, -1), atol=1e-5)


def test_on_a_laptop_each_feature_sees_its_own_patch_of_a_shared_encoder():
    networks = drawn(LAPTOP, pixels=True)
    (encoder,) = networks.encoders
    images = pictures()
    changed = images.copy()
    changed[:, 16:32, 32:48] = 255 - images[:, 16:32, 32:48]
    look, act = eqx.filter_jit(encoder), eqx.filter_jit(networks.policy)
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
def test_a_picture_that_is_shrunk_is_the_mean_of_its_blocks(n):
    images = pictures(size=8)
    wanted = images.reshape(2, 8 // n, n, 8 // n, n, 3).mean((2, 4)) / 255.0
    np.testing.assert_allclose(jax.jit(shrink, static_argnums=1)(images, n), wanted, atol=1e-6)


def trained(networks, loss):
    """The parts that a loss would change."""
    change = eqx.filter_jit(eqx.filter_grad(loss))(networks)
    parts = {f"encoder {number}": encoder for number, encoder in enumerate(change.encoders)}
    parts |= {"actor": change.actor, "critic": change.critic}
    return {name for name, part in parts.items() if any(np.any(leaf) for leaf in jax.tree.leaves(part))}


@pytest.mark.parametrize(
    ("shared", "by_policy", "by_value"),
    [(True, {"actor"}, {"encoder 0", "critic"}), (False, {"encoder 0", "actor"}, {"encoder 1", "critic"})],
)
def test_a_shared_encoder_is_trained_by_the_critic_alone(shared, by_policy, by_value):
    networks = drawn(dataclasses.replace(SMALL, shared=shared), pixels=True)
    seen, actions = jnp.asarray(pictures()), jnp.full((2, 4), 0.3)
    assert trained(networks, lambda networks: networks.policy(seen).log_prob(actions).sum()) == by_policy
    assert trained(networks, lambda networks: networks.value(seen, actions).sum()) == by_value


def written_out(net, inputs):
    """An MLP for each slot with ReLU after all of its layers, the sum over slots, an MLP on the sum; in NumPy."""
    hidden = inputs
    for layer in net.slot_net.layers:
        hidden = np.maximum(hidden @ np.asarray(layer.weight) + np.asarray(layer.bias), 0.0)
    hidden = hidden.sum(-2)
    for layer in net.global_net.layers[:-1]:
        hidden = np.maximum(hidden @ np.asarray(layer.weight) + np.asarray(layer.bias), 0.0)
    return hidden @ np.asarray(net.global_net.layers[-1].weight) + np.asarray(net.global_net.layers[-1].bias)


def test_actor_and_critic_are_the_sums_written_out():
    networks, slots = drawn(SMALL, pixels=False), scenes()
    out = written_out(networks.actor, np.asarray(slots))
    policy, value = eqx.filter_jit(networks.policy)(slots), eqx.filter_jit(networks.value)
    np.testing.assert_allclose(policy.mean, 0.5 + out[:, :4], atol=1e-5)
    np.testing.assert_allclose(policy.scale, np.log1p(np.expm1(0.3) * np.exp(out[:, 4:])) + MIN_SCALE, atol=1e-5)
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
    networks = eqx.filter_jit(ActorCritic)(dataclasses.replace(SMALL, first_scale=0.7), SIZES, False, jax.random.key(0))
    policy = networks.policy(jnp.zeros((1, 5, 6)))
    np.testing.assert_allclose(policy.mean, 0.5)
    np.testing.assert_allclose(policy.scale, 0.7 + MIN_SCALE, rtol=1e-5)


def test_a_policy_never_collapses_to_a_point():
    networks = drawn(SMALL, pixels=False)
    last = networks.actor.global_net.layers[-1]
    networks = eqx.tree_at(lambda networks: networks.actor.global_net.layers[-1].bias, networks, last.bias - 100.0)
    policy = networks.policy(scenes())
    np.testing.assert_allclose(policy.scale, MIN_SCALE)
    assert np.isfinite(policy.log_prob(policy.mean + 0.5)).all()


def test_samples_have_the_mean_and_the_scale_of_their_scene_and_may_lie_outside():
    policy = Gaussian(jnp.array([[0.0, 0.5], [1.0, 0.2]]), jnp.array([[0.1, 0.2], [0.3, 0.05]]))
    samples = np.asarray(policy.sample(jax.random.key(0), 4000))
    error = np.asarray(policy.scale) / 4000**0.5
    assert (np.abs(samples.mean(0) - policy.mean) < 5.0 * error).all()
    assert (np.abs(samples.std(0) - policy.scale) < 5.0 * error).all()
    assert samples.min() < 0.0
    assert samples.max() > 1.0
