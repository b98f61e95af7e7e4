"""What is wanted: the reward of a scene, predictor R, or its value, predictor V.

The paper's is a relation network over pairs of slots (appendices "Reward Predictor", "Sparse rewards"):

    R(z) = R_global( sum_{i<j} R_pair(z^i, z^j) )

It is all that a task teaches; everything else is frozen. Two things are ours, for the laptop:

- With `difference`, R_pair also reads |z^i - z^j|: how alike two things are and how far apart need then not be learnt
  anew for each pair of colours, and a task of like and unlike carries over to colours that it never had.
- With `single`, a simpler predictor learns beside it, R(z) = sum_k R_single(z^k): each thing is worth something by
  itself. Where that is so, more things than there were in training are no matter. Each new scene is a test for both,
  before they learn from it; the simpler one counts unless the relation network foretells rewards clearly better.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from cobra_rl.bounds import Bounds, Checked, Layers, Share, Width
from cobra_rl.models.nets import MLP, Loss
from cobra_rl.models.transition import Imagined

FORGET = 0.01  # share of the errors on earlier scenes that each new scene replaces


@dataclass(frozen=True)
class RewardConfig(Checked):
    """The predictor of rewards. The defaults are the paper's."""

    pair: Annotated[tuple[Width, ...], Bounds(1, 16)] = (128, 128)  # layers of R_pair
    whole: Layers = (128,)  # hidden layers of R_global
    difference: bool = False  # R_pair also reads the difference of the two slots (not in the paper)
    single: Layers = ()  # hidden layers of R_single (not in the paper); none: pairs only
    margin: Share = 0.5  # pairs count if their squared error on new scenes is below this share of that of R_single


class Relation(eqx.Module):
    """The relation network."""

    pair: MLP
    whole: MLP
    apart: Float[Array, "M F"] | None  # weights of |z^i - z^j| in the first layer of R_pair; they start at nothing

    def __init__(self, config: RewardConfig, latents: int, key: PRNGKeyArray):
        pair_key, whole_key = jax.random.split(key)
        self.pair = MLP((2 * latents, *config.pair), pair_key, last_gain=2.0)
        self.whole = MLP((config.pair[-1], *config.whole, 1), whole_key, last_gain=0.1)
        self.apart = jnp.zeros((latents, config.pair[0])) if config.difference else None

    def __call__(self, slots: Float[Array, "*N K M"]) -> Float[Array, "*N"]:
        """R_global of the sum of R_pair."""
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


class Reward(eqx.Module):
    """R, or V: the relation network, and with `single` the simpler predictor beside it."""

    relation: Relation
    single: MLP | None
    errors: Float[Array, "2"]  # squared error on new scenes, a running mean: of R_single and of the relation network
    config: RewardConfig = eqx.field(static=True)

    def __init__(self, config: RewardConfig, latents: int, key: PRNGKeyArray):
        relation_key, single_key = jax.random.split(key)
        self.relation = Relation(config, latents, relation_key)
        self.single = MLP((latents, *config.single, 1), single_key, last_gain=0.1) if config.single else None
        self.errors = jnp.ones(2)
        self.config = config

    def __call__(self, slots: Float[Array, "*N K M"]) -> Float[Array, "*N"]:
        """The reward, or the value, of a scene."""
        if self.single is None:
            return self.relation(slots)
        return jax.lax.cond(self.relates, lambda: self.relation(slots), lambda: self.sum_of_single(slots))

    @property
    def relates(self) -> Bool[Array, ""]:
        """Whether the relation network is the one that counts."""
        return self.errors[1] < self.config.margin * self.errors[0]

    def sum_of_single(self, slots: Float[Array, "*N K M"]) -> Float[Array, "*N"]:
        """What things are worth by themselves."""
        return self.single(slots)[..., 0].sum(-1)

    def predictions(self, slots: Float[Array, "*N K M"]) -> Float[Array, "*N 2"]:
        """Return what R_single and the relation network say; the latter twice if it is alone."""
        relation = self.relation(slots)
        single = relation if self.single is None else self.sum_of_single(slots)
        return jnp.stack([single, relation], -1)

    def tested(self, slots: Float[Array, "K M"], reward: Float[Array, ""]) -> "Reward":
        """Return the same predictor with its errors on a new scene noted: one that it has not learnt from yet."""
        wrong = (self.predictions(slots) - reward) ** 2
        return eqx.tree_at(lambda model: model.errors, self, (1.0 - FORGET) * self.errors + FORGET * wrong)


def reward_loss(model: Reward, slots: Float[Array, "B K M"], reward: Float[Array, " B"]) -> Loss:
    """||R(z) - r||^2, of R_single and of the relation network, which share no weights."""
    wrong = jnp.mean((model.predictions(slots) - reward[:, None]) ** 2, 0)
    loss = wrong[1] if model.single is None else wrong.sum()
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
