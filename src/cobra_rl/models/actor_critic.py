"""Actor and critic of the model-free baselines, on pictures or on slots (the paper's appendix "Baselines").

    actor:   pi(a | x) = N(mean(x), scale(x)^2)        critic:   Q(x, a)

Both are the same kind of network: an MLP for each slot, a sum over slots, and an MLP on the sum:

    f(x) = f_whole( sum_k f_each(x^k) ),   and in the critic f_each reads (x^k, a)

A picture is treated as a single slot: the features that a small image encoder, the `Eye`, computes from it. The paper's
encoder is convolutional; that of preset laptop reads patches that do not overlap, which trains several times as fast on
a CPU. Actions are in [0, 1]^A. The Gaussian is not squashed: its samples may lie outside, and the critic is evaluated
only on clipped actions.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, UInt8

from cobra_rl.bounds import Bounds, Checked, Layers, Positive, Width
from cobra_rl.models.nets import MLP, Conv, Linear, space_to_depth
from cobra_rl.models.transition import Sizes

Observation = Any  # uint8 pictures [B, H, W, 3], or slots [B, K, M]
Some = Annotated[tuple[Width, ...], Bounds(1, 16)]  # layers, at least one
Side = Annotated[int, Bounds(1, 64)]
Sides = Annotated[tuple[Side, ...], Bounds(0, 16)]
LEAST_SCALE = 1e-3  # smallest scale of the policy: a Gaussian that collapsed would never learn again


@dataclass(frozen=True)
class ActorCriticConfig(Checked):
    """Layers of actor and critic. The class defaults are the paper's; presets may override them."""

    slot_actor: Some = (128, 128)  # on slots: layers of the actor's MLP for each slot
    slot_actor_whole: Layers = (128, 128)  # on slots: hidden layers of the actor after the sum
    slot_critic: Some = (512, 512)  # on slots: layers of the critic's MLP for each slot
    slot_critic_whole: Layers = (256,)  # on slots: hidden layers of the critic after the sum
    channels: Some = (32, 32)  # on pictures: channels of the image encoder's 3x3 convolutions, stride 2
    patches: Sides = ()  # on pictures: sides of patches that each layer joins, instead of convolutions
    shrink: Side = 1  # on pictures: factor by which pictures are downscaled first
    shared: bool = False  # on pictures: actor and critic share one encoder, which only the critic trains
    hidden: Some = (256, 256)  # on pictures: hidden layers of actor and critic after the encoder
    first_scale: Positive = 0.3  # initial standard deviation of the policy, in frame widths

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.patches and len(self.patches) != len(self.channels):
            layers = f"{len(self.patches)} sides for {len(self.channels)} channels"
            raise ValueError(f"patches of ActorCriticConfig has {layers}; there must be one for each, or none.")


class Gaussian(NamedTuple):
    """A distribution over actions, one for each scene."""

    mean: Float[Array, "*B A"]
    scale: Float[Array, "*B A"]

    def sample(self, key: PRNGKeyArray, count: int) -> Float[Array, "N *B A"]:
        """Draw `count` actions for each scene, not clipped to [0, 1]."""
        return self.mean + self.scale * jax.random.normal(key, (count, *self.mean.shape))

    def log_prob(self, actions: Float[Array, "*N A"]) -> Float[Array, "*N"]:
        """Return the log-density of actions."""
        each = -0.5 * ((actions - self.mean) / self.scale) ** 2 - jnp.log(self.scale) - 0.5 * jnp.log(2.0 * jnp.pi)
        return each.sum(-1)

    def kl_per_dimension(self, other: "Gaussian") -> Float[Array, "*B A"]:
        """Return KL(self || other) of each dimension of the action."""
        ratio = (self.scale / other.scale) ** 2
        return 0.5 * (ratio - 1.0 - jnp.log(ratio) + ((self.mean - other.mean) / other.scale) ** 2)


class Eye(eqx.Module):
    """Image encoder whose output is one slot: the paper's convolutions, or our layers, which join square patches."""

    layers: list[Conv] | list[Linear]
    patches: Sides = eqx.field(static=True)  # side of the patches that a layer joins; 1 for a convolution
    shrink: int = eqx.field(static=True)

    def __init__(self, config: ActorCriticConfig, key: PRNGKeyArray):
        keys = jax.random.split(key, len(config.channels))
        shapes = list(zip((3, *config.channels), config.channels, keys, strict=False))
        self.layers = [Conv(n_in, n_out, layer_key, stride=2) for n_in, n_out, layer_key in shapes]
        if config.patches:
            sized = zip(config.patches, shapes, strict=True)
            self.layers = [Linear(side**2 * n_in, n_out, layer_key) for side, (n_in, n_out, layer_key) in sized]
        self.patches, self.shrink = config.patches or (1,) * len(shapes), config.shrink

    def __call__(self, images: UInt8[Array, "B H W 3"]) -> Float[Array, "B 1 F"]:
        """Return the features of each picture."""
        x = shrunk(images, self.shrink)
        for layer, side in zip(self.layers, self.patches, strict=True):
            x = jax.nn.relu(layer(space_to_depth(x, side)))
        return x.reshape(x.shape[0], 1, -1)


def shrunk(images: UInt8[Array, "B H W 3"], n: int) -> Float[Array, "B h w 3"]:
    """Scale pictures to [0, 1] and average each n x n pixels; written as a sum of slices, which is fast on a CPU."""
    cells = [images[:, i::n, j::n].astype(jnp.float32) for i in range(n) for j in range(n)]
    return sum(cells[1:], cells[0]) / (255.0 * n**2)


class SumNet(eqx.Module):
    """f_whole( sum_k f_each(x^k, a) ), or the same without an action."""

    each: MLP
    whole: MLP
    features: int = eqx.field(static=True)  # F: the first rows of the first weight; the others are for the action

    def __init__(
        self, features: int, action: int, each: tuple[int, ...], whole: tuple[int, ...], out: int, key: PRNGKeyArray
    ):
        each_key, whole_key = jax.random.split(key)
        self.each = MLP((features + action, *each), each_key, last_gain=2.0)
        self.whole = MLP((each[-1], *whole, out), whole_key, last_gain=0.01)
        self.features = features

    def __call__(
        self, features: Float[Array, "B K F"], actions: Float[Array, "*N B A"] | None = None
    ) -> Float[Array, "*N B O"]:
        """Return the outputs; what does not depend on the action is computed once for all N actions of a scene."""
        first, *others = self.each.layers
        hidden = features @ first.weight[: self.features] + first.bias  # W (x, a) = W_1 x + W_2 a
        if actions is not None:
            hidden = hidden + ((4.0 * actions - 2.0) @ first.weight[self.features :])[..., None, :]
        hidden = jax.nn.relu(hidden)
        for layer in others:
            hidden = jax.nn.relu(layer(hidden))
        return self.whole(hidden.sum(-2))


class ActorCritic(eqx.Module):
    """Actor and critic, with the image encoders that they use or share."""

    eyes: tuple[Eye, ...]  # the actor's and the critic's; one if they share it; none on slots
    actor: SumNet
    critic: SumNet
    first_scale: float = eqx.field(static=True)

    def __init__(self, config: ActorCriticConfig, sizes: Sizes, pixels: bool, key: PRNGKeyArray):
        """Build fresh networks, for pictures or for slots."""
        actor_key, critic_key, *eye_keys = jax.random.split(key, 4)
        features = sizes.latents
        actor, critic = (config.slot_actor, config.slot_actor_whole), (config.slot_critic, config.slot_critic_whole)
        self.eyes = ()
        if pixels:
            if sizes.image % (side := config.shrink * math.prod(config.patches)):
                raise ValueError(
                    f"Pictures of {sizes.image} pixels cannot be cut into patches of {side}; set other "
                    "--config.networks.patches or --config.networks.shrink."
                )
            self.eyes = tuple(Eye(config, eye_key) for eye_key in eye_keys[: 1 if config.shared else 2])
            image = jax.ShapeDtypeStruct((1, sizes.image, sizes.image, 3), jnp.uint8)
            features = eqx.filter_eval_shape(self.eyes[0], image).shape[-1]
            actor = critic = (config.hidden, ())
        self.actor = SumNet(features, 0, *actor, 2 * sizes.action, actor_key)
        self.critic = SumNet(features, sizes.action, *critic, 1, critic_key)
        self.first_scale = config.first_scale

    def policy(self, observation: Observation) -> Gaussian:
        """Return the distribution over actions in each scene."""
        features = self.eyes[0](observation) if self.eyes else observation
        shared = len(self.eyes) == 1
        mean, scale = jnp.split(self.actor(jax.lax.stop_gradient(features) if shared else features), 2, axis=-1)
        offset = jnp.log(jnp.expm1(self.first_scale))  # softplus(offset) = first_scale
        return Gaussian(0.5 + mean, jax.nn.softplus(scale + offset) + LEAST_SCALE)

    def value(self, observation: Observation, actions: Float[Array, "*N B A"]) -> Float[Array, "*N B"]:
        """Return Q of actions in [0, 1]^A, any number for each scene."""
        return self.critic(self.eyes[-1](observation) if self.eyes else observation, actions)[..., 0]
