"""The reward predictor R, or value predictor V. It is all that is trained in a task; everything else is frozen.

The paper's predictor is a relation network over pairs of slots, `RelationReward` (its appendix "Reward Predictor"):

    R(z) = R_global( sum_{i<j} R_pair(z^i, z^j) )

Ours, `ObjectReward`, for preset laptop, adds up what each object is worth by itself and what two objects are worth to
each other by how they differ. It is the same for all orders of the slots, and learns from fewer rewards:

    R(z) = sum_k w_k R_thing(z^k) + P(z),   P(z) = sum_{i<j} w_i w_j R_pair(|z^i - z^j|)
    w_k = |z^k|^2 / (1 + |z^k|^2)

A reward for one target then holds for two, and what "alike" and "near" are worth holds for unseen colours and places.
An empty slot, whose latents are zero, adds nothing. Few rewards are seen, and many functions explain them; the loss

    (R(z) - r)^2 + pair_cost |P(z)| + latent_cost sum_m ( |W_thing^m| + |W_pair^m| )

prefers those that will hold elsewhere. Objects explain what they can: pairs that were never seen, such as two targets,
would otherwise add noise. And R reads few latents: W^m are the weights of latent m in the first layer, and a cost of
their norm (group lasso) sets them to zero where the latent does not matter, such as the shape if all sprites are to go
to one place. What R cannot express is a wish about two particular objects that is no sum of its two parts, such as red
near blue and anything else apart.

The costs shrink with the variance of the rewards where that is small, as with rare or small rewards: they would
otherwise silence everything.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from cobra_rl.bounds import Bounds, Checked, Layers, NonNegative, Width
from cobra_rl.models.nets import MLP, Loss
from cobra_rl.models.transition import Imagined, Scalar
from cobra_rl.models.vision import is_empty

LITTLE = 0.05  # variance of rewards below which costs shrink with it; the six tasks have more, in units of 10
FEW = 5  # slots that most scenes need: the background and four objects


@dataclass(frozen=True)
class RewardConfig(Checked):
    """What every reward predictor has."""

    pair: Annotated[tuple[Width, ...], Bounds(1, 16)] = (128, 128)  # widths of the layers of R_pair


@dataclass(frozen=True)
class RelationConfig(RewardConfig):
    """The paper's reward predictor, a relation network."""

    whole: Layers = (128,)  # widths of the hidden layers of R_global


@dataclass(frozen=True)
class ObjectConfig(RewardConfig):
    """Our reward predictor: a sum over objects and over how pairs of them differ."""

    pair: Annotated[tuple[Width, ...], Bounds(1, 16)] = (64, 64)  # widths of the layers of R_pair
    thing: Layers = (128, 128)  # widths of the hidden layers of R_thing
    latent_cost: NonNegative = 0.003  # group-lasso cost of the latents that are read: only those that matter are
    pair_cost: NonNegative = 0.03  # L1 cost of the pair terms P(z): single objects explain the reward where they can


class Reward(eqx.Module):
    """Base class of reward predictors R, or value predictors V."""

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

    pair: MLP
    whole: MLP
    config: RelationConfig = eqx.field(static=True)

    def __init__(self, config: RelationConfig, latents: int, key: PRNGKeyArray):
        pair_key, whole_key = jax.random.split(key)
        self.pair = MLP((2 * latents, *config.pair), pair_key, last_gain=2.0)
        self.whole = MLP((config.pair[-1], *config.whole, 1), whole_key, last_gain=0.1)
        self.config = config  # pyright: ignore[reportIncompatibleVariableOverride]

    def __call__(self, slots: Float[Array, "*N K M"]) -> Float[Array, "*N"]:
        """Predict the reward, or the value, of scenes; the first layer reads each slot once, not once per pair."""
        i, j = np.triu_indices(slots.shape[-2], k=1)
        first, *others = self.pair.layers
        left, right = jnp.split(first.weight, 2)
        hidden = (slots @ left)[..., i, :] + (slots @ right)[..., j, :] + first.bias  # W (z^i, z^j)
        for layer in others:
            hidden = layer(jax.nn.relu(hidden))
        return self.whole(jax.nn.relu(hidden).sum(-2))[..., 0]


class ObjectReward(Reward):
    """Our predictor: what each object is worth by itself, and two objects by how they differ."""

    thing: MLP
    pair: MLP
    config: ObjectConfig = eqx.field(static=True)

    def __init__(self, config: ObjectConfig, latents: int, key: PRNGKeyArray):
        thing_key, pair_key = jax.random.split(key)
        self.thing = MLP((latents, *config.thing, 1), thing_key, last_gain=0.1)
        self.pair = MLP((latents, *config.pair, 1), pair_key, last_gain=0.01)
        self.config = config  # pyright: ignore[reportIncompatibleVariableOverride]

    def __call__(self, slots: Float[Array, "*N K M"]) -> Float[Array, "*N"]:
        """Predict the reward, or the value, of scenes."""
        things, pairs = self.parts(slots)
        return things + pairs

    def loss(self, slots: Float[Array, "B K M"], reward: Float[Array, " B"], variance: Scalar = 1.0) -> Loss:
        """Return the mean of (R(z) - r)^2 + pair_cost |P(z)|; arguments and metrics are those of `Reward.loss`."""
        things, pairs = self.parts(slots)
        error = jnp.mean((things + pairs - reward) ** 2)
        read = sum(jnp.linalg.norm(net.layers[0].weight, axis=1).sum() for net in (self.thing, self.pair))
        cost = self.config.pair_cost * jnp.mean(jnp.abs(pairs)) + self.config.latent_cost * read
        return error + jnp.minimum(variance / LITTLE, 1.0) * cost, {"reward_loss": error}

    def parts(self, slots: Float[Array, "*N K M"]) -> tuple[Float[Array, "*N"], Float[Array, "*N"]]:
        """Return the two sums of R(z): over objects, and P(z) over pairs.

        Most scenes have fewer objects than slots. Slots after the first `FEW` are left out if all of them are empty,
        which takes half the time and changes nothing.
        """
        if slots.shape[-2] <= FEW:
            return self._parts(slots)
        few = jnp.all(is_empty(slots[..., FEW:, :]))
        return jax.lax.cond(few, lambda: self._parts(slots[..., :FEW, :]), lambda: self._parts(slots))

    def _parts(self, slots: Float[Array, "*N K M"]) -> tuple[Float[Array, "*N"], Float[Array, "*N"]]:
        """Return both sums, over all the slots given."""
        i, j = np.triu_indices(slots.shape[-2], k=1)
        square = jnp.sum(slots**2, -1)
        exists = square / (1.0 + square)
        things = self.thing(slots)[..., 0]
        pairs = self.pair(jnp.abs(slots[..., i, :] - slots[..., j, :]))[..., 0]
        return (exists * things).sum(-1), (exists[..., i] * exists[..., j] * pairs).sum(-1)


class Step(NamedTuple):
    """One step of an environment: a scene, its reward, the action, the next scene and its reward."""

    slots: Float[Array, "*N K M"]  # z_t
    reward: Float[Array, "*N"]  # r_t; 0 in a fresh scene
    action: Float[Array, "*N A"]
    next_slots: Float[Array, "*N K M"]
    next_reward: Float[Array, "*N"]
    ended: Bool[Array, "*N"]  # solved: z_{t+1} is the last scene. Truncation by the time limit does not count.


def value_loss(
    model: Reward, target: Reward, transition: Callable[[Array, Array], Imagined], batch: Step, discount: float
) -> Loss:
    """Return the sum of the paper's three losses: TD, TD with the imagined next slots, and consistency of the two.

    The TD target is V(z_t) = r_t + discount V(z_{t+1}), and the value of a last scene is its reward.

    Args:
        model: The value predictor V that learns.
        target: The network for the bootstrapped values. The paper does not specify it; it may be `model` itself.
        transition: The transition model, such as `WorldModel.imagine`; no gradient passes through it.
        batch: B steps.
        discount: The discount factor.

    Returns:
        The loss, and its three terms as the metrics `td`, `td_imagined` and `consistency`.
    """
    imagined = jax.lax.stop_gradient(transition(batch.slots, batch.action).slots)
    value, arrived = model(batch.slots), model(batch.next_slots)

    def error(following: Float[Array, " B"]) -> Float[Array, " B"]:
        worth = jnp.where(batch.ended, batch.next_reward, following)
        return (jax.lax.stop_gradient(batch.reward + discount * worth) - value) ** 2

    last = jnp.where(batch.ended, (batch.next_reward - arrived) ** 2, 0.0)
    td = jnp.mean(error(target(batch.next_slots)) + last)
    td_imagined = jnp.mean(error(target(imagined)))
    consistency = jnp.mean((arrived - model(imagined)) ** 2)
    total = td + td_imagined + consistency
    return total, {"td": td, "td_imagined": td_imagined, "consistency": consistency}
