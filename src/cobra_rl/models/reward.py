"""What is wanted: a relation network over pairs of slots, as reward predictor R or as value predictor V.

    R(z) = R_global( sum_{i<j} R_pair(z^i, z^j) )

It is all that a task teaches; everything else is frozen (the paper's appendices "Reward Predictor", "Sparse rewards").
With `difference`, ours, R_pair also reads |z^i - z^j|: how alike two things are and how far apart need then not be
learnt anew for each pair of colours, and a task of like and unlike carries over to colours that it never had. Its
weights start at nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from cobra_rl.bounds import Bounds, Checked, Layers, Width
from cobra_rl.models.nets import MLP, Loss
from cobra_rl.models.transition import Imagined


@dataclass(frozen=True)
class RewardConfig(Checked):
    """The reward predictor, a relation network. The class defaults are the paper's; presets may override them."""

    pair: Annotated[tuple[Width, ...], Bounds(1, 16)] = (128, 128)  # widths of the layers of R_pair
    whole: Layers = (128,)  # widths of the hidden layers of R_global
    difference: bool = False  # R_pair also reads the difference |z^i - z^j| of its two slots (not in the paper)


class Reward(eqx.Module):
    """R, or V."""

    pair: MLP
    whole: MLP
    apart: Float[Array, "M F"] | None  # weights of |z^i - z^j| in the first layer of R_pair
    config: RewardConfig = eqx.field(static=True)

    def __init__(self, config: RewardConfig, latents: int, key: PRNGKeyArray):
        pair_key, whole_key = jax.random.split(key)
        self.pair = MLP((2 * latents, *config.pair), pair_key, last_gain=2.0)
        self.whole = MLP((config.pair[-1], *config.whole, 1), whole_key, last_gain=0.1)
        self.apart = jnp.zeros((latents, config.pair[0])) if config.difference else None
        self.config = config

    def __call__(self, slots: Float[Array, "*N K M"]) -> Float[Array, "*N"]:
        """The reward, or the value, of a scene."""
        i, j = np.triu_indices(slots.shape[-2], k=1)
        first, *others = self.pair.layers
        left, right = jnp.split(first.weight, 2)
        hidden = (slots @ left)[..., i, :] + (slots @ right)[..., j, :] + first.bias  # W (z^i, z^j)
        if self.apart is not None:
            hidden += jnp.abs(slots[..., i, :] - slots[..., j, :]) @ self.apart
        for layer in others:
            hidden = layer(jax.nn.relu(hidden))
        hidden = jax.nn.relu(hidden)
        return self.whole(hidden.sum(-2))[..., 0]


def reward_loss(model: Reward, slots: Float[Array, "B K M"], reward: Float[Array, " B"]) -> Loss:
    """||R(z) - r||^2."""
    loss = jnp.mean((model(slots) - reward) ** 2)
    return loss, {"reward_loss": loss}


class Step(NamedTuple):
    """What happened in a step: a scene, its reward, an action, the scene that followed, its reward."""

    slots: Float[Array, "*N K M"]  # z_t
    reward: Float[Array, "*N"]  # r_t; 0 in a fresh scene
    action: Float[Array, "*N A"]
    next_slots: Float[Array, "*N K M"]
    next_reward: Float[Array, "*N"]
    ended: Bool[Array, "*N"]  # solved: z_{t+1} is the last scene. Running out of time is no end.


def value_loss(
    model: Reward, target: Reward, transition: Callable[[Array, Array], Imagined], batch: Step, discount: float
) -> Loss:
    """The paper's three losses: TD, TD to the imagined slots, and agreement of the two.

    V(z_t) = r_t + discount V(z_{t+1}), and a last scene is worth its reward. `target` gives the values that are
    bootstrapped from; the paper does not say, and `model` itself will do.
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
