"""The exploration policy D deforms uniform samples u in [0, 1]^A into actions with a large predicted error e_pred.

    a = u + D_net(u, z),   Loss = cost |D_net(u, z)| - e_pred(z, a)

D_net gives the mean and scale of a Gaussian, from which the deformation is drawn. Gradients of this
loss pass through the transition model to the action but do not train it. The two are adversaries:
the transition model minimises its error, and D maximises the prediction of that error.

The paper's D_net, "joint", is one MLP that reads all slots at once and has to learn every order of
the slots. Ours, "per_slot", for preset laptop, is an MLP shared by all slots: for each slot it
gives a Gaussian deformation and a logit, and a categorical choice by these logits picks the slot.
Both are mixtures of J Gaussians, with J = 1 and J = K.

The paper's cost is the same for all numbers of an action. For preset laptop, the first two are
known to be a position click and the others a motion, which costs more to deform (`motion_cost`).
"""

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from cobra_rl.bounds import Layers, NonNegative, Positive
from cobra_rl.models.curiosity import Interest
from cobra_rl.models.nets import MLP, Loss, positive
from cobra_rl.models.transition import Scalar, Sizes, broadcast_action
from cobra_rl.parts import PartConfig

MIN_SCALE = 0.02  # a penalty on smaller scales keeps the Gaussian from collapsing
# Training makes log_weight = (e_pred - cost |D|) / choice_entropy, up to a constant; `deform` relies on that:
DISTANCE_COST = 1.5  # click_cost / choice_entropy at the end of training: log_weight lost per unit of deformation
# Let w be a slot's log_weight plus this cost, so that w does not depend on distance. A slot is worth a click if its w
# is at most this share of the range of w below the best. The worst is a slot that is worth none: there is one in every
# scene that has more slots than objects. A fixed margin would not do: if all sprites are dim, it would admit empty
# slots; if one is bright, it would exclude the others.
WORTH_MARGIN = 0.65


@dataclass(frozen=True)
class ExplorationConfig(PartConfig):
    """The exploration policy and its loss. The class defaults are the paper's; presets may override them."""

    kind: ClassVar[str] = "exploration"

    net: Literal["joint", "per_slot"] = "joint"  # joint: D_net reads all slots at once (the paper); per_slot: one each
    hidden: Layers = (64, 64)  # widths of the hidden layers of D_net
    motion_cost: NonNegative | None = None  # cost of deforming all but the first two numbers; None: as click_cost
    relative: bool = False  # costs, penalty and entropy are in units of the mean curiosity, not in that of L_T
    scale_penalty: NonNegative = 1e5  # penalty per unit by which the scale is below 0.02
    first_scale: Positive = 0.1  # scale of the Gaussian at the start of training
    choice_entropy: NonNegative = 0.0  # entropy bonus on the mixture weights, in squared pixels per nat

    @classmethod
    def upgrade(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        """Turn the words of version 0.2 for `net` into those of now."""
        net = {"whole": "joint", "slots": "per_slot"}.get(str(data.get("net")))
        return dict(data) | ({"net": net} if net else {})


class Mixture(NamedTuple):
    """The distribution of the deformation of one u: J Gaussians and the logarithms of their probabilities."""

    log_weight: Float[Array, "*N J"]
    mean: Float[Array, "*N J A"]
    scale: Float[Array, "*N J A"]


class Exploration(eqx.Module):
    """Base class of exploration policies D: built from a configuration, `Sizes` and a random key."""

    config: eqx.AbstractVar[ExplorationConfig]

    @abc.abstractmethod
    def sample(self, slots: Float[Array, "B K M"], key: PRNGKeyArray) -> Float[Array, "B A"]:
        """Draw one action for each scene: deform a uniform sample.

        Args:
            slots: Slots [B, K, M].
            key: A random key.

        Returns:
            Actions [B, A] in [0, 1].
        """

    @abc.abstractmethod
    def deform(self, slots: Float[Array, "*N K M"], u: Float[Array, "*N A"]) -> Float[Array, "*N A"]:
        """Deform actions deterministically.

        Args:
            slots: Slots [*N, K, M].
            u: Actions [*N, A] in [0, 1].

        Returns:
            The deformed actions [*N, A], in [0, 1].
        """

    @abc.abstractmethod
    def loss(self, interest: Interest, slots: Float[Array, "B K M"], key: PRNGKeyArray, *, click_cost: Scalar) -> Loss:
        """Return the training loss.

        Args:
            interest: How interesting actions are, by transition model and curiosity; gradients pass through it to the
                action but should not train it.
            slots: Slots [B, K, M].
            key: The random key of u and of the deformations.
            click_cost: The cost of deforming the position click, in squared pixels per frame width.

        Returns:
            The loss, and metrics by name.
        """


class Deformation(Exploration):
    """D as a mixture of Gaussians, which D_net gives: (u, z) or, for each slot, (u, z^k) -> logit, mean, scale."""

    net: MLP
    action_size: int = eqx.field(static=True)
    config: ExplorationConfig = eqx.field(static=True)

    def __init__(self, config: ExplorationConfig, sizes: Sizes, key: PRNGKeyArray):
        joint = config.net == "joint"
        inputs = sizes.action + sizes.latents * (sizes.slots if joint else 1)
        outputs = 2 * sizes.action + (0 if joint else 1)  # a single Gaussian needs no logit
        self.net = MLP((inputs, *config.hidden, outputs), key, last_gain=0.01)
        self.action_size = sizes.action
        self.config = config

    def __call__(self, slots: Float[Array, "*N K M"], u: Float[Array, "*N A"]) -> Mixture:
        """Return the distribution of the deformation of u."""
        seen = slots.reshape(*slots.shape[:-2], 1, -1) if self.config.net == "joint" else slots  # [*N, J, M or KM]
        out = self.net(jnp.concatenate([broadcast_action(u, seen), seen], -1))
        log_weight = jax.nn.log_softmax(out[..., 0])  # 0 if there is only one, whatever it is computed from
        mean, scale = jnp.split(out[..., -2 * self.action_size :], 2, axis=-1)
        return Mixture(log_weight, mean, positive(scale, self.config.first_scale))

    def sample(self, slots: Float[Array, "B K M"], key: PRNGKeyArray) -> Float[Array, "B A"]:
        """Draw one action for each scene: deform a uniform sample by one of the Gaussians."""
        uniform_key, pick_key, noise_key = jax.random.split(key, 3)
        u = jax.random.uniform(uniform_key, (slots.shape[0], self.action_size))
        mixture = self(slots, u)
        pick = jax.random.categorical(pick_key, mixture.log_weight)
        noise = _picked(mixture.scale, pick) * jax.random.normal(noise_key, u.shape)
        return to_action(u + _picked(mixture.mean, pick) + noise)

    def deform(self, slots: Float[Array, "*N K M"], u: Float[Array, "*N A"]) -> Float[Array, "*N A"]:
        """Deform actions deterministically: of the slots worth a click, choose the one nearest to the click of u.

        With the paper's D_net, which does not choose among slots, this adds the mean deformation.
        """
        mixture = self(slots, u)
        rest = 1.0 if self.config.motion_cost is None else 0.0  # beside a click, a motion counts nothing
        distance = deformation_cost(mixture.mean, 1.0, rest)
        worth = mixture.log_weight + DISTANCE_COST * distance
        best = worth.max(-1, keepdims=True)
        least = worth.min(-1, keepdims=True)
        candidate = worth >= best - WORTH_MARGIN * (best - least)
        nearest = jnp.argmin(jnp.where(candidate, distance, jnp.inf), axis=-1)
        return to_action(u + _picked(mixture.mean, nearest))

    def loss(self, interest: Interest, slots: Float[Array, "B K M"], key: PRNGKeyArray, *, click_cost: Scalar) -> Loss:
        """Return cost |D| - e_pred(z, u + D), in expectation over the mixture, plus the penalty on small scales.

        With `relative`, costs are shares of the mean of e_pred, so that they need not be known for
        each vision module and each environment anew.

        For e_pred, which is the paper's, stands what the chosen curiosity finds interesting.

        With `choice_entropy`, the optimal probability of a Gaussian is in proportion to
        exp((e_pred - cost |D|) / choice_entropy), so that the policy also clicks on sprites whose
        e_pred is a little smaller than the largest.

        The metrics are `curiosity` (mean e_pred), `click_deformation`, `motion_deformation` and
        `scale`.
        """
        uniform_key, noise_key = jax.random.split(key)
        u = jax.random.uniform(uniform_key, (slots.shape[0], self.action_size))
        mixture = self(slots, u)
        weight = jnp.exp(mixture.log_weight)  # [B, J]
        deformation = mixture.mean + mixture.scale * jax.random.normal(noise_key, mixture.mean.shape)  # D_net(u, z)
        action = to_action(u[:, None] + deformation)
        error = interest(jnp.broadcast_to(slots[:, None], (*weight.shape, *slots.shape[1:])), action)  # e_pred [B, J]
        rest_cost = click_cost if self.config.motion_cost is None else self.config.motion_cost
        cost = deformation_cost(deformation, click_cost, rest_cost)
        penalty = self.config.scale_penalty * jnp.maximum(MIN_SCALE - mixture.scale, 0.0).sum(-1)
        certainty = self.config.choice_entropy * mixture.log_weight  # its mean is minus the entropy of the choice

        def expected(each: Float[Array, "B J"]) -> Float[Array, ""]:
            return jnp.sum(weight * each, axis=1).mean()

        unit = jnp.abs(jax.lax.stop_gradient(expected(error))) if self.config.relative else 1.0
        size = jnp.abs(deformation)
        return expected(unit * (cost + penalty + certainty) - error), {
            "curiosity": expected(error),
            "click_deformation": expected(size[..., :2].mean(-1)),
            "motion_deformation": expected(size[..., 2:].mean(-1)),
            "scale": expected(mixture.scale.mean(-1)),
        }


def deformation_cost(deformation: Float[Array, "*N A"], click_cost: Scalar, rest_cost: Scalar) -> Float[Array, "*N"]:
    """Return |D|, weighted by the cost of its first two numbers and that of the others."""
    size = jnp.abs(deformation)
    return click_cost * size[..., :2].sum(-1) + rest_cost * size[..., 2:].sum(-1)


def _picked(of_each: Float[Array, "*N J A"], pick: Int[Array, "*N"]) -> Float[Array, "*N A"]:
    """Return what belongs to the Gaussian that was picked."""
    return jnp.take_along_axis(of_each, pick[..., None, None], axis=-2)[..., 0, :]


def to_action(point: Float[Array, "*N A"]) -> Float[Array, "*N A"]:
    """Reflect a point at the borders of [0, 1]^A; clipping would pile actions up there and stop their gradients."""
    return 1.0 - jnp.abs(1.0 - jnp.mod(point, 2.0))
