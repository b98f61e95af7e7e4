"""The exploration policy D deforms uniform samples u in [0, 1]^A into actions with a large predicted error e_pred.

    a = u + D_net(u, z),   Loss = cost |D_net(u, z)| - e_pred(z, a)

D_net gives the mean and scale of a Gaussian, from which the deformation is drawn. Gradients of this loss pass through
the transition model to the action but do not train it. The two are adversaries: the transition model minimises its
error, and D maximises the prediction of that error.

The paper's D_net, "whole", is one MLP that reads all slots at once and has to learn every order of the slots. Ours,
"slots", for preset laptop, is an MLP shared by all slots: for each slot it gives a Gaussian deformation and a logit,
and a categorical choice by these logits picks the slot. Both are mixtures of J Gaussians, with J = 1 and J = K. The
first two dimensions of an action are a position click, the others a motion.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from cobra_rl.bounds import Checked, Layers, NonNegative, Positive
from cobra_rl.models.nets import MLP, Loss
from cobra_rl.models.transition import Imagined, Scalar, Sizes, broadcast_action

Imagine = Callable[[Array, Array], Imagined]  # the transition model

LEAST_SCALE = 0.02  # a penalty on smaller scales keeps the Gaussian from collapsing
# Training makes log_weight = (e_pred - cost |D|) / choice_entropy, up to a constant; `deform` relies on that:
DISTANCE_COST = 1.5  # click_cost / choice_entropy of preset laptop: log_weight lost per frame width of deformation
# Let w be a slot's log_weight plus this cost, so that w does not depend on distance. A slot is worth a click if its w
# is at most this share of the range of w (from the best slot to the worst, an empty one) below the best. A fixed margin
# would not do: if all sprites are dim, it would admit empty slots; if one is bright, it would exclude the others.
AS_GOOD = 0.65


@dataclass(frozen=True)
class ExplorationConfig(Checked):
    """The exploration policy and its loss. The class defaults are the paper's; presets may override them."""

    net: Literal["whole", "slots"] = "whole"  # whole: D_net reads all slots at once (the paper); slots: one at a time
    hidden: Layers = (64, 64)  # widths of the hidden layers of D_net
    motion_cost: NonNegative = 210.0  # cost of deforming the motion, in squared pixels per frame width
    scale_penalty: NonNegative = 1e5  # penalty per unit by which the scale is below 0.02 (LEAST_SCALE)
    first_scale: Positive = 0.1  # scale of the Gaussian at the start of training
    choice_entropy: NonNegative = 0.0  # entropy bonus on the mixture weights, in squared pixels per nat


class Mixture(NamedTuple):
    """The distribution of the deformation of one u: J Gaussians and the logarithms of their probabilities."""

    log_weight: Float[Array, "*N J"]
    mean: Float[Array, "*N J A"]
    scale: Float[Array, "*N J A"]


class Deformation(eqx.Module):
    """D_net: (u, z) -> mean and scale, or for each slot (u, z^k) -> logit, mean and scale."""

    net: MLP
    whole: bool = eqx.field(static=True)

    def __init__(self, config: ExplorationConfig, sizes: Sizes, key: PRNGKeyArray):
        self.whole = config.net == "whole"
        inputs, outputs = (sizes.slots * sizes.latents, 0) if self.whole else (sizes.latents, 1)
        self.net = MLP((inputs + sizes.action, *config.hidden, outputs + 2 * sizes.action), key, last_gain=0.01)

    def __call__(self, slots: Float[Array, "*N K M"], u: Float[Array, "*N A"]) -> Float[Array, "*N J P"]:
        """Return logit, mean and scale before its softplus, P = 1 + 2A."""
        if not self.whole:
            return self.net(jnp.concatenate([broadcast_action(u, slots), slots], -1))
        out = self.net(jnp.concatenate([4.0 * u - 2.0, slots.reshape(*slots.shape[:-2], -1)], -1))
        return jnp.concatenate([jnp.zeros_like(out[..., :1]), out], -1)[..., None, :]


class Exploration(eqx.Module):
    """D, as a mixture of Gaussians."""

    net: Deformation
    config: ExplorationConfig = eqx.field(static=True)

    def __init__(self, config: ExplorationConfig, sizes: Sizes, key: PRNGKeyArray):
        self.net, self.config = Deformation(config, sizes, key), config

    def __call__(self, slots: Float[Array, "*N K M"], u: Float[Array, "*N A"]) -> Mixture:
        """Return the distribution of the deformation of u."""
        out = self.net(slots, u)
        offset = jnp.log(jnp.expm1(self.config.first_scale))  # softplus(offset) = first_scale
        mean, scale = jnp.split(out[..., 1:], 2, axis=-1)
        return Mixture(jax.nn.log_softmax(out[..., 0]), mean, jax.nn.softplus(scale + offset))

    def sample(self, slots: Float[Array, "B K M"], action_size: int, key: PRNGKeyArray) -> Float[Array, "B A"]:
        """Draw one action for each scene: deform a uniform sample.

        Args:
            slots: Slots [B, K, M].
            action_size: A, the dimension of an action.
            key: A random key.

        Returns:
            Actions [B, A] in [0, 1].
        """
        uniform_key, pick_key, noise_key = jax.random.split(key, 3)
        u = jax.random.uniform(uniform_key, (slots.shape[0], action_size))
        mixture = self(slots, u)
        pick = jax.random.categorical(pick_key, mixture.log_weight)[:, None, None]
        mean, scale = (jnp.take_along_axis(part, pick, axis=1)[:, 0] for part in (mixture.mean, mixture.scale))
        return to_action(u + mean + scale * jax.random.normal(noise_key, u.shape))

    def deform(self, slots: Float[Array, "*N K M"], u: Float[Array, "*N A"]) -> Float[Array, "*N A"]:
        """Deform actions deterministically: of the slots worth a click, choose the one nearest to the click of u.

        With the paper's D_net, which does not choose among slots, this adds the mean deformation.

        Args:
            slots: Slots [*N, K, M].
            u: Actions [*N, A] in [0, 1].

        Returns:
            The deformed actions [*N, A], in [0, 1].
        """
        mixture = self(slots, u)
        distance = jnp.abs(mixture.mean[..., :2]).sum(-1)
        worth = mixture.log_weight + DISTANCE_COST * distance
        best, least = worth.max(-1, keepdims=True), worth.min(-1, keepdims=True)
        candidate = worth >= best - AS_GOOD * (best - least)
        pick = jnp.argmin(jnp.where(candidate, distance, jnp.inf), axis=-1)[..., None, None]
        return to_action(u + jnp.take_along_axis(mixture.mean, pick, axis=-2)[..., 0, :])

    def loss(
        self, imagine: Imagine, slots: Float[Array, "B K M"], action_size: int, key: PRNGKeyArray, click_cost: Scalar
    ) -> Loss:
        """Return cost |D| - e_pred(z, u + D), in expectation over the mixture, plus the penalty on small scales.

        With `choice_entropy`, the optimal probability of a Gaussian is in proportion to exp((e_pred - cost |D|) /
        choice_entropy), so that the policy also clicks on sprites whose e_pred is a little smaller than the largest.

        Args:
            imagine: The transition model; gradients pass through it to the action but should not train it.
            slots: Slots [B, K, M].
            action_size: A, the dimension of an action.
            key: The random key of u and of the deformations.
            click_cost: The cost of deforming the position click, in squared pixels per frame width.

        Returns:
            The loss, and the metrics `curiosity` (mean e_pred), `click_deformation`, `motion_deformation` and `scale`.
        """
        config = self.config
        uniform_key, noise_key = jax.random.split(key)
        u = jax.random.uniform(uniform_key, (slots.shape[0], action_size))
        mixture = self(slots, u)
        weight = jnp.exp(mixture.log_weight)  # [B, J]
        deformation = mixture.mean + mixture.scale * jax.random.normal(noise_key, mixture.mean.shape)  # D_net(u, z)
        action = to_action(u[:, None] + deformation)
        scenes = jnp.broadcast_to(slots[:, None], (*weight.shape, *slots.shape[1:]))
        error = imagine(scenes, action).error  # [B, J]
        size = jnp.abs(deformation)
        cost = click_cost * size[..., :2].sum(-1) + config.motion_cost * size[..., 2:].sum(-1)
        penalty = config.scale_penalty * jnp.maximum(LEAST_SCALE - mixture.scale, 0.0).sum(-1)
        certainty = config.choice_entropy * mixture.log_weight  # its mean is minus the entropy of the choice

        def expected(each: Float[Array, "B J"]) -> Float[Array, ""]:
            return jnp.sum(weight * each, axis=1).mean()

        total = expected(cost - error + penalty + certainty)
        return total, {
            "curiosity": expected(error),
            "click_deformation": expected(size[..., :2].mean(-1)),
            "motion_deformation": expected(size[..., 2:].mean(-1)),
            "scale": expected(mixture.scale.mean(-1)),
        }


def to_action(point: Float[Array, "*N A"]) -> Float[Array, "*N A"]:
    """Reflect a point at the borders of [0, 1]^A; clipping would pile actions up there and stop their gradients."""
    return 1.0 - jnp.abs(1.0 - jnp.mod(point, 2.0))
