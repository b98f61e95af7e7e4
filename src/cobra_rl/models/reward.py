"""The reward predictor R, or value predictor V: a relation network over pairs of slots.

    R(z) = R_global( sum_{i<j} R_pair(z^i, z^j) )

It is all that is trained in a task; everything else is frozen (the paper's appendices "Reward Predictor" and "Sparse
rewards"). With `difference`, which is ours, R_pair also reads |z^i - z^j|. It then need not learn for each pair of
colours anew how similar and how far apart two objects are, and tasks about similarity generalise to unseen colours.
The weights of this difference are initialised to zero.
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
    """The reward predictor R, or the value predictor V."""

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
        """Predict the reward, or the value, of scenes."""
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
    """Return the mean of (R(z) - r)^2."""
    loss = jnp.mean((model(slots) - reward) ** 2)
    return loss, {"reward_loss": loss}


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

    The TD target is V(z_t) = r_t + discount V(z_{t+1}), and the value of a last scene is its reward. `target` is the
    network for the bootstrapped values; the paper does not specify it, and it may be `model` itself.
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
