"""Actor and critic of the model-free baselines, on pictures or on slots (the paper's appendix "Baselines").

    actor:   pi(a | x) = N(mean(x), scale(x)^2)        critic:   Q(x, a)

Both are the same kind of network: an MLP for each slot, a sum over slots, and an MLP on the sum:

    f(x) = f_global( sum_k f_slot(x^k) ),   and in the critic f_slot reads (x^k, a)

A picture is treated as a single slot: the features that a small `ImageEncoder` computes from it.
The paper's encoder is convolutional; that of preset laptop reads patches that do not overlap, which
trains several times as fast on a CPU. Actions are in [0, 1]^A. The Gaussian is not squashed: its
samples may lie outside, and the critic is evaluated only on clipped actions.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, UInt8

from cobra_rl.bounds import Bounds, Checked, Layers, NonEmptyLayers, Positive
from cobra_rl.models.nets import MLP, Conv, Linear, positive, space_to_depth
from cobra_rl.models.transition import Sizes

Observation = Any  # uint8 pictures [B, H, W, 3], or slots [B, K, M]
Side = Annotated[int, Bounds(1, 64)]
Sides = Annotated[tuple[Side, ...], Bounds(0, 16)]
MIN_SCALE = 1e-3  # smallest scale of the policy: a Gaussian that collapsed would never learn again


@dataclass(frozen=True)
class ActorCriticConfig(Checked):
    """Layers of actor and critic. The class defaults are the paper's; presets may override them."""

    older_names: ClassVar[Mapping[str, str]] = {
        "slot_actor": "actor_slot_layers",
        "slot_actor_whole": "actor_global_layers",
        "slot_critic": "critic_slot_layers",
        "slot_critic_whole": "critic_global_layers",
    }

    actor_slot_layers: NonEmptyLayers = (128, 128)  # on slots: layers of the actor's MLP for each slot
    actor_global_layers: Layers = (128, 128)  # on slots: hidden layers of the actor after the sum
    critic_slot_layers: NonEmptyLayers = (512, 512)  # on slots: layers of the critic's MLP for each slot
    critic_global_layers: Layers = (256,)  # on slots: hidden layers of the critic after the sum
    channels: NonEmptyLayers = (32, 32)  # on pictures: channels of the image encoder's 3x3 convolutions, stride 2
    patches: Sides = ()  # on pictures: sides of patches that each layer joins, instead of convolutions
    shrink: Side = 1  # on pictures: factor by which pictures are downscaled first
    shared: bool = False  # on pictures: actor and critic share one encoder, which only the critic trains
    hidden: NonEmptyLayers = (256, 256)  # on pictures: hidden layers of actor and critic after the encoder
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
        distance = (actions - self.mean) / self.scale
        return jnp.sum(-0.5 * distance**2 - jnp.log(self.scale) - 0.5 * jnp.log(2.0 * jnp.pi), -1)

    def kl_per_dimension(self, other: "Gaussian") -> Float[Array, "*B A"]:
        """Return KL(self || other) of each dimension of the action."""
        ratio = (self.scale / other.scale) ** 2
        return 0.5 * (ratio - 1.0 - jnp.log(ratio) + ((self.mean - other.mean) / other.scale) ** 2)


class ImageEncoder(eqx.Module):
    """Encode a picture to one slot: by the paper's convolutions, or by our layers, which join square patches."""

    layers: list[Conv | Linear]
    patches: Sides = eqx.field(static=True)  # side of the patches that a layer joins; 1 for a convolution
    shrink: int = eqx.field(static=True)

    def __init__(self, config: ActorCriticConfig, key: PRNGKeyArray):
        self.patches = config.patches or (1,) * len(config.channels)
        self.shrink = config.shrink
        keys = jax.random.split(key, len(config.channels))
        self.layers = [
            Linear(side**2 * n_in, n_out, layer_key) if config.patches else Conv(n_in, n_out, layer_key, stride=2)
            for n_in, n_out, side, layer_key in zip(
                (3, *config.channels), config.channels, self.patches, keys, strict=False
            )
        ]

    def __call__(self, images: UInt8[Array, "B H W 3"]) -> Float[Array, "B 1 F"]:
        """Return the features of each picture."""
        x = shrink(images, self.shrink)
        for layer, side in zip(self.layers, self.patches, strict=True):
            x = jax.nn.relu(layer(space_to_depth(x, side)))
        return x.reshape(x.shape[0], 1, -1)


def shrink(images: UInt8[Array, "B H W 3"], n: int) -> Float[Array, "B h w 3"]:
    """Scale pictures to [0, 1] and average each n x n pixels; written as a sum of slices, which is fast on a CPU."""
    cells = [images[:, i::n, j::n].astype(jnp.float32) for i in range(n) for j in range(n)]
    return sum(cells[1:], cells[0]) / (255.0 * n**2)


class SumNet(eqx.Module):
    """f_global( sum_k f_slot(x^k, a) ), or the same without an action."""

    slot_net: MLP
    global_net: MLP
    features: int = eqx.field(static=True)  # F: the first rows of the first weight; the others are for the action

    def __init__(
        self,
        features: int,
        action: int,
        out: int,
        *,
        slot_layers: tuple[int, ...],  # for each slot
        global_layers: tuple[int, ...],  # hidden ones after the sum
        key: PRNGKeyArray,
    ):
        slot_key, global_key = jax.random.split(key)
        self.slot_net = MLP((features + action, *slot_layers), slot_key, last_gain=2.0)
        self.global_net = MLP((slot_layers[-1], *global_layers, out), global_key, last_gain=0.01)
        self.features = features

    def __call__(
        self, features: Float[Array, "B K F"], actions: Float[Array, "*N B A"] | None = None
    ) -> Float[Array, "*N B O"]:
        """Return the outputs; what does not depend on the action is computed once for all N actions of a scene."""
        first = self.slot_net.layers[0]
        hidden = features @ first.weight[: self.features] + first.bias  # W (x, a) = W_1 x + W_2 a
        if actions is not None:
            hidden = hidden + ((4.0 * actions - 2.0) @ first.weight[self.features :])[..., None, :]
        return self.global_net(jax.nn.relu(self.slot_net.after_first(hidden)).sum(-2))


class ActorCritic(eqx.Module):
    """Actor and critic, with the image encoders that they use or share."""

    encoders: tuple[ImageEncoder, ...]  # the actor's and the critic's; one if they share it; none on slots
    actor: SumNet
    critic: SumNet
    first_scale: float = eqx.field(static=True)

    def __init__(self, config: ActorCriticConfig, sizes: Sizes, pixels: bool, key: PRNGKeyArray):
        """Build fresh networks, for pictures or for slots."""
        actor_key, critic_key, *encoder_keys = jax.random.split(key, 4)
        features = sizes.latents
        actor = {"slot_layers": config.actor_slot_layers, "global_layers": config.actor_global_layers}
        critic = {"slot_layers": config.critic_slot_layers, "global_layers": config.critic_global_layers}
        self.encoders = ()
        if pixels:
            if sizes.image % (side := config.shrink * math.prod(config.patches)):
                raise ValueError(
                    f"Pictures of {sizes.image} pixels cannot be cut into patches of {side}; set other "
                    "--config.networks.patches or --config.networks.shrink."
                )
            self.encoders = tuple(ImageEncoder(config, each) for each in encoder_keys[: 1 if config.shared else 2])
            image = jax.ShapeDtypeStruct((1, sizes.image, sizes.image, 3), jnp.uint8)
            features = eqx.filter_eval_shape(self.encoders[0], image).shape[-1]
            actor = critic = {"slot_layers": config.hidden, "global_layers": ()}
        self.actor = SumNet(features, 0, 2 * sizes.action, **actor, key=actor_key)
        self.critic = SumNet(features, sizes.action, 1, **critic, key=critic_key)
        self.first_scale = config.first_scale

    def policy(self, observation: Observation) -> Gaussian:
        """Return the distribution over actions in each scene."""
        features = self.encoders[0](observation) if self.encoders else observation
        if len(self.encoders) == 1:  # it is the critic's, which trains it
            features = jax.lax.stop_gradient(features)
        mean, scale = jnp.split(self.actor(features), 2, axis=-1)
        return Gaussian(0.5 + mean, positive(scale, self.first_scale) + MIN_SCALE)

    def value(self, observation: Observation, actions: Float[Array, "*N B A"]) -> Float[Array, "*N B"]:
        """Return Q of actions in [0, 1]^A, any number for each scene."""
        features = self.encoders[-1](observation) if self.encoders else observation
        return self.critic(features, actions)[..., 0]
