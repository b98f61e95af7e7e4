"""Curiosity: what the exploration policy D seeks. The paper's is the error that T expects of its own prediction.

A curiosity may have networks of its own, such as an ensemble or an inverse model, and a loss that trains them on the
transitions from which T learns. Gradients pass through it to the action, as through T, and do not train it.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from cobra_rl.collect.transition import Transition
from cobra_rl.models.nets import Loss
from cobra_rl.models.transition import Imagined, Sizes
from cobra_rl.models.vision import VisionModel
from cobra_rl.parts import PartConfig

Interest = Callable[[Array, Array], Float[Array, "*N"]]  # slots [*N, K, M] and actions [*N, A] -> what D maximises


@dataclass(frozen=True)
class CuriosityConfig(PartConfig):
    """The configuration of a curiosity."""

    kind: ClassVar[str] = "curiosity"


class Curiosity(eqx.Module):
    """Base class of curiosities: built from a configuration, `Sizes` and a random key."""

    config: eqx.AbstractVar[CuriosityConfig]

    @abc.abstractmethod
    def __call__(
        self, slots: Float[Array, "*N K M"], action: Float[Array, "*N A"], imagined: Imagined
    ) -> Float[Array, "*N"]:
        """Return how interesting actions are.

        Args:
            slots: The slots of N scenes.
            action: An action in each.
            imagined: What the transition model predicts for it: slots and e_pred.
        """

    def loss(self, vision: VisionModel, batch: Transition) -> Loss:
        """Return the loss of networks of its own, and metrics by name; without networks, there is none.

        Args:
            vision: The frozen vision module.
            batch: B transitions, as the transition model learns from them.
        """
        return jnp.float32(0.0), {}


class PredictedError(Curiosity):
    """The paper's: e_pred(z, a)."""

    config: CuriosityConfig = eqx.field(static=True)

    def __init__(self, config: CuriosityConfig, sizes: Sizes, key: PRNGKeyArray):
        self.config = config

    def __call__(
        self, slots: Float[Array, "*N K M"], action: Float[Array, "*N A"], imagined: Imagined
    ) -> Float[Array, "*N"]:
        """Return the error that the transition model expects of its prediction."""
        return imagined.error
