"""The reward predictor R, or value predictor V. It is all that is trained in a task; everything else is frozen.

The paper's predictor is a relation network over pairs of slots, `RelationReward` (its appendix
"Reward Predictor"):

    R(z) = R_global( sum_{i<j} R_pair(z^i, z^j) )

Ours, `ObjectReward`, for preset laptop, adds up what each object is worth by itself and what two
objects are worth to each other by how they differ. It is the same for all orders of the slots, and
learns from fewer rewards:

    R(z) = sum_k w_k R_object(z^k) + P(z),   P(z) = sum_{i<j} w_i w_j R_pair(|z^i - z^j|)
    w_k = |z^k|^2 / (1 + |z^k|^2)

A reward for one target then holds for two, and what "alike" and "near" are worth holds for unseen
colours and places. Where a latent means more than one thing, it takes `learn_directions`: pairs are
compared by |U (z^i - z^j)| then, where the rows of U are unit vectors that are learnt; at first they
are the axes. An empty slot, whose latents are zero, adds nothing. (Where a vision module sets
no slot to zero, w_k merely gives large latents more weight.) Few rewards are seen, and many
functions explain them; the loss

    (R(z) - r)^2 + pair_cost |P(z)| + latent_cost sum_m ( |W_object^m| + |W_pair^m| )

prefers those that will hold elsewhere. Objects explain what they can: pairs that were never seen,
such as two targets, would otherwise add noise. And R reads few latents: W^m are the weights of
latent m in the first layer, and a cost of their norm (group lasso) sets them to zero where the
latent does not matter, such as the shape if all sprites are to go to one place. What R cannot
express is a wish about two particular objects that is no sum of its two parts, such as red near
blue and anything else apart.

The costs shrink with the variance of the rewards where that is small, as with rare or small
rewards: they would otherwise silence everything.
"""

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from cobra_rl.bounds import Layers, NonEmptyLayers, NonNegative
from cobra_rl.collect.transition import Transition
from cobra_rl.models.nets import MLP, Loss
from cobra_rl.models.transition import Imagined, Scalar
from cobra_rl.models.vision import without_empty
from cobra_rl.parts import PartConfig

LOW_VARIANCE = 0.05  # variance of rewards below which costs shrink with it; the six tasks have more, in units of 10


@dataclass(frozen=True)
class RewardConfig(PartConfig):
    """The configuration of a reward predictor."""

    kind: ClassVar[str] = "reward"


@dataclass(frozen=True)
class RelationConfig(RewardConfig):
    """The paper's reward predictor, a relation network."""

    older_names: ClassVar[Mapping[str, str]] = {"pair": "pair_layers", "whole": "global_layers"}

    pair_layers: NonEmptyLayers = (128, 128)  # widths of the layers of R_pair
    global_layers: Layers = (128,)  # widths of the hidden layers of R_global


@dataclass(frozen=True)
class ObjectConfig(RewardConfig):
    """Our reward predictor: a sum over objects and over how pairs of them differ."""

    older_names: ClassVar[Mapping[str, str]] = {"pair": "pair_layers", "thing": "object_layers"}

    pair_layers: NonEmptyLayers = (64, 64)  # widths of the hidden layers of R_pair
    object_layers: Layers = (128, 128)  # widths of the hidden layers of R_object
    latent_cost: NonNegative = 0.003  # group-lasso cost of the latents that are read: only those that matter are
    learn_directions: bool = False  # compare pairs along directions that are learnt, instead of latent by latent
    pair_cost: NonNegative = 0.03  # L1 cost of the pair terms P(z): single objects explain the reward where they can


class Reward(eqx.Module):
    """Base class of reward predictors R, or value predictors V: built from a configuration, M and a random key."""

    config: eqx.AbstractVar[RewardConfig]

    @abc.abstractmethod
    def __call__(self, slots: Float[Array, "*N K M"]) -> Float[Array, "*N"]:
        """Predict the reward, or the value, of scenes."""

    def loss(self, slots: Float[Array, "B K M"], reward: Float[Array, " B"], variance: Scalar = 1.0) -> Loss:
        """Return the mean of (R(z) - r)^2.

        Args:
            slots: The slots of B scenes.
            reward: The true reward of each scene.
            variance: That of all rewards so far, which costs in the loss may be relative to.

        Returns:
            The loss, and the metric `reward_loss`, the squared error.
        """
        loss = jnp.mean((self(slots) - reward) ** 2)
        return loss, {"reward_loss": loss}


class RelationReward(Reward):
    """The paper's relation network."""

    pair_net: MLP
    global_net: MLP
    config: RelationConfig = eqx.field(static=True)

    def __init__(self, config: RelationConfig, latents: int, key: PRNGKeyArray):
        pair_key, global_key = jax.random.split(key)
        self.pair_net = MLP((2 * latents, *config.pair_layers), pair_key, last_gain=2.0)
        self.global_net = MLP((config.pair_layers[-1], *config.global_layers, 1), global_key, last_gain=0.1)
        self.config = config  # pyright: ignore[reportIncompatibleVariableOverride]

    def __call__(self, slots: Float[Array, "*N K M"]) -> Float[Array, "*N"]:
        """Predict the reward, or the value, of scenes; the first layer reads each slot once, not once per pair."""
        i, j = np.triu_indices(slots.shape[-2], k=1)
        first = self.pair_net.layers[0]
        left, right = jnp.split(first.weight, 2)
        hidden = (slots @ left)[..., i, :] + (slots @ right)[..., j, :] + first.bias  # W (z^i, z^j)
        return self.global_net(jax.nn.relu(self.pair_net.after_first(hidden)).sum(-2))[..., 0]


class ObjectReward(Reward):
    """Our predictor: what each object is worth by itself, and two objects by how they differ."""

    object_net: MLP
    pair_net: MLP
    directions: Float[Array, "M M"] | None  # U before its rows get unit length, one in each column
    config: ObjectConfig = eqx.field(static=True)

    def __init__(self, config: ObjectConfig, latents: int, key: PRNGKeyArray):
        object_key, pair_key = jax.random.split(key)
        self.object_net = MLP((latents, *config.object_layers, 1), object_key, last_gain=0.1)
        self.pair_net = MLP((latents, *config.pair_layers, 1), pair_key, last_gain=0.01)
        self.directions = jnp.eye(latents) if config.learn_directions else None
        self.config = config  # pyright: ignore[reportIncompatibleVariableOverride]

    def __call__(self, slots: Float[Array, "*N K M"]) -> Float[Array, "*N"]:
        """Predict the reward, or the value, of scenes."""
        objects, pairs = self.parts(slots)
        return objects + pairs

    def loss(self, slots: Float[Array, "B K M"], reward: Float[Array, " B"], variance: Scalar = 1.0) -> Loss:
        """Return the mean of (R(z) - r)^2 + pair_cost |P(z)|; arguments and metrics are those of `Reward.loss`."""
        objects, pairs = self.parts(slots)
        error = jnp.mean((objects + pairs - reward) ** 2)
        read = sum(jnp.linalg.norm(net.layers[0].weight, axis=1).sum() for net in (self.object_net, self.pair_net))
        cost = self.config.pair_cost * jnp.mean(jnp.abs(pairs)) + self.config.latent_cost * read
        return error + jnp.minimum(variance / LOW_VARIANCE, 1.0) * cost, {"reward_loss": error}

    def parts(self, slots: Float[Array, "*N K M"]) -> tuple[Float[Array, "*N"], Float[Array, "*N"]]:
        """Return the two sums of R(z): over objects, and P(z) over pairs. Empty slots add nothing to either."""
        return without_empty(self._parts, slots)

    def _parts(self, slots: Float[Array, "*N K M"]) -> tuple[Float[Array, "*N"], Float[Array, "*N"]]:
        """Return both sums, over all the slots given."""
        i, j = np.triu_indices(slots.shape[-2], k=1)
        norm2 = jnp.sum(slots**2, -1)
        weight = norm2 / (1.0 + norm2)  # w_k
        objects = self.object_net(slots)[..., 0]
        compared = slots
        if self.directions is not None:
            compared = slots @ (self.directions / jnp.linalg.norm(self.directions, axis=0))
        pairs = self.pair_net(jnp.abs(compared[..., i, :] - compared[..., j, :]))[..., 0]
        return (weight * objects).sum(-1), (weight[..., i] * weight[..., j] * pairs).sum(-1)


def value_loss(
    model: Reward, target: Reward, transition: Callable[[Array, Array], Imagined], *, batch: Transition, discount: float
) -> Loss:
    """Return the sum of the paper's three losses: TD, TD with the imagined next slots, and consistency of the two.

    The TD target is V(z_t) = r_t + discount V(z_{t+1}), and the value of a last scene is its
    reward.

    Args:
        model: The value predictor V that learns.
        target: The network for the bootstrapped values. The paper does not specify it; it may be `model` itself.
        transition: The transition model, such as `WorldModel.imagine`; no gradient passes through it.
        batch: B steps, whose observations are slots.
        discount: The discount factor.

    Returns:
        The loss, and its three terms as the metrics `td`, `td_imagined` and `consistency`.
    """
    imagined = jax.lax.stop_gradient(transition(batch.observation, batch.action).slots)
    value = model(batch.observation)
    arrived = model(batch.next_observation)

    def error(following: Float[Array, " B"]) -> Float[Array, " B"]:
        target_value = batch.reward_before + discount * jnp.where(batch.terminated, batch.reward, following)
        return (jax.lax.stop_gradient(target_value) - value) ** 2

    last = jnp.where(batch.terminated, (batch.reward - arrived) ** 2, 0.0)
    td = jnp.mean(error(target(batch.next_observation)) + last)
    td_imagined = jnp.mean(error(target(imagined)))
    consistency = jnp.mean((arrived - model(imagined)) ** 2)
    return td + td_imagined + consistency, {"td": td, "td_imagined": td_imagined, "consistency": consistency}
