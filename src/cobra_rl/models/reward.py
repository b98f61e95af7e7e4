"""What is wanted: a relation network over pairs of slots, as reward predictor R or as value predictor V.

    R(z) = R_global( sum_{i<j} R_pair(z^i, z^j) )

It is all that a task teaches; everything else is frozen (the paper's appendices "Reward Predictor", "Sparse rewards").

Axes: B batch, K slots, M latents.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from cobra_rl.models.nets import MLP
from cobra_rl.models.transition import Imagined


@dataclass(frozen=True)
class RewardConfig:
    """The relation network. The defaults are the paper's."""

    latents: int = 8  # M
    pair: tuple[int, ...] = (128, 128)  # layers of R_pair
    whole: tuple[int, ...] = (128,)  # hidden layers of R_global


class Reward(eqx.Module):
    """R, or V."""

    pair: MLP
    whole: MLP
    config: RewardConfig = eqx.field(static=True)

    def __init__(self, config: RewardConfig, key: PRNGKeyArray):
        pair_key, whole_key = jax.random.split(key)
        self.pair = MLP((2 * config.latents, *config.pair), pair_key, last_gain=2.0)
        self.whole = MLP((config.pair[-1], *config.whole, 1), whole_key, last_gain=0.1)
        self.config = config

    def __call__(self, slots: Float[Array, "*N K M"]) -> Float[Array, "*N"]:
        """The reward, or the value, of a scene."""
        i, j = np.triu_indices(slots.shape[-2], k=1)
        first, *others = self.pair.layers
        left, right = (slots @ part for part in jnp.split(first.weight, 2))  # W (z^i, z^j) = W_1 z^i + W_2 z^j
        hidden = jax.nn.relu(left[..., i, :] + right[..., j, :] + first.bias)
        for layer in others:
            hidden = jax.nn.relu(layer(hidden))
        return self.whole(hidden.sum(-2))[..., 0]


def reward_loss(
    model: Reward, slots: Float[Array, "B K M"], reward: Float[Array, " B"]
) -> tuple[Float[Array, ""], dict[str, Array]]:
    """||R(z) - r||^2."""
    loss = jnp.mean((model(slots) - reward) ** 2)
    return loss, {"reward_loss": loss}


class Step(NamedTuple):
    """What a value is learnt from. Of a terminated step, the discount is 0."""

    slots: Float[Array, "*N K M"]
    action: Float[Array, "*N 4"]
    reward: Float[Array, "*N"]
    discount: Float[Array, "*N"]
    next_slots: Float[Array, "*N K M"]


def value_loss(
    model: Reward, target: Reward, transition: Callable[[Array, Array], Imagined], batch: Step
) -> tuple[Float[Array, ""], dict[str, Array]]:
    """The paper's three losses: TD, TD to the imagined slots, and agreement of the two.

    `target` gives the values that are bootstrapped from; the paper does not say, and `model` itself will do.
    """
    imagined = jax.lax.stop_gradient(transition(batch.slots, batch.action).slots)
    value = model(batch.slots)
    td = jnp.mean((_bootstrap(batch, target(batch.next_slots)) - value) ** 2)
    td_imagined = jnp.mean((_bootstrap(batch, target(imagined)) - value) ** 2)
    consistency = jnp.mean((model(batch.next_slots) - model(imagined)) ** 2)
    total = td + td_imagined + consistency
    return total, {"td": td, "td_imagined": td_imagined, "consistency": consistency}


def _bootstrap(batch: Step, following: Float[Array, " B"]) -> Float[Array, " B"]:
    return jax.lax.stop_gradient(batch.reward + batch.discount * following)
