"""The transition model T, and its own guess of how wrong it is.

A slot-wise MLP T_net reads a slot and the action; it gives the slot's change and its share of the predicted error:

    z~_{t+1}^k = z_t^k + Delta_k,   e_pred = sum_k e_k,   (Delta_k, e_k) = T_net(z_t^k, a_t)

It is trained in pixels, through the frozen decoder, so that slots need no matching between one frame and the next:
L_T = ||V_dec(z~_{t+1}) - x_{t+1}||^2, summed over the image (the paper's appendix "Transition Module").

Axes: B batch, K slots, M latents, H W C image; an action has 4 dimensions.
"""

from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, UInt8

from cobra_rl.models import monet
from cobra_rl.models.monet import Monet
from cobra_rl.models.nets import MLP

NEAR = 4.0  # 1 / the half width of a sprite, in the unit of the latents that `CentredDecoder` takes for a centre


@dataclass(frozen=True)
class TransitionConfig:
    """The model and its loss. The defaults are the paper's."""

    latents: int = 8  # M
    hidden: tuple[int, ...] = (512, 512, 512)
    error_unit: float = 1.0  # of squared pixels: e_pred and its squared error are learnt in it
    centred: bool = False  # T_net also reads where the click is, as seen from the slot's centre (ours, for the laptop)
    place_cost: float = 1.0  # of a change of the first two latents, the centre, relative to the others'


class Imagined(NamedTuple):
    """What T makes of slots and actions."""

    slots: Float[Array, "*N K M"]  # z~_{t+1}
    error: Float[Array, "*N"]  # e_pred, in the unit of L_T


class Transition(eqx.Module):
    """T_net."""

    net: MLP
    config: TransitionConfig = eqx.field(static=True)

    def __init__(self, config: TransitionConfig, key: PRNGKeyArray):
        inputs = config.latents + 4 + 2 * config.centred
        self.net = MLP((inputs, *config.hidden, config.latents + 1), key, last_gain=0.01)
        self.config = config

    def __call__(self, slots: Float[Array, "*N K M"], action: Float[Array, "*N 4"]) -> Imagined:
        """One step ahead."""
        told = broadcast_action(action, slots)
        features = [slots, told]
        if self.config.centred:
            features.append(jnp.tanh(NEAR * (told[..., :2] - slots[..., :2])))
        out = self.net(jnp.concatenate(features, -1))
        return Imagined(slots + out[..., :-1], self.config.error_unit * out[..., -1].sum(-1))


def broadcast_action(action: Float[Array, "*N 4"], slots: Float[Array, "*N K M"]) -> Float[Array, "*N K 4"]:
    """The action beside each slot, from [0, 1] to [-2, 2]: as wide as the latents are."""
    return jnp.broadcast_to(4.0 * action[..., None, :] - 2.0, (*slots.shape[:-1], action.shape[-1]))


class Transitions(NamedTuple):
    """What actors send and the replay holds: vision is frozen, so images before the action are kept as slots only."""

    slots: Float[Array, "*N K M"]  # z_t
    action: Float[Array, "*N 4"]
    next_image: UInt8[Array, "*N H W 3"]  # x_{t+1}


def pixel_error(vision: Monet, slots: Float[Array, "B K M"], image: UInt8[Array, "B H W 3"]) -> Float[Array, " B"]:
    """||V_dec(z) - x||^2, summed over pixels and colours in [0, 1]."""
    difference = monet.decode(vision, slots).image - image.astype(jnp.float32) / 255.0
    return jnp.sum(difference**2, axis=(1, 2, 3))


def loss(
    model: Transition,
    vision: Monet,
    batch: Transitions,
    importance: Float[Array, " B"],
    change_cost: Float[Array, ""] | float = 1.0,
) -> tuple[Float[Array, ""], dict[str, Array]]:
    """L_T + (e_pred - L_T)^2 + cost |Delta|, weighted by importance; each transition's L_T is the metric `errors`.

    The cost of change is given, for it may change during training; the paper's is 1. In a world with motion noise it
    keeps T from fading what it moves: a paler sprite is less wrong where nobody can know the place. Where it is high, a
    change of place has to cost less, or else sprites are imagined to move too little.
    """
    imagined = model(batch.slots, batch.action)
    errors = pixel_error(vision, imagined.slots, batch.next_image)  # L_T
    surprise = ((imagined.error - jax.lax.stop_gradient(errors)) / model.config.error_unit) ** 2
    change = jnp.abs(imagined.slots - batch.slots).sum(axis=1)  # |Delta|, [B, M]
    change = model.config.place_cost * change[:, :2].sum(1) + change[:, 2:].sum(1)
    total = jnp.mean(importance * (errors + surprise + change_cost * change))
    metrics = {"transition": errors.mean(), "error_prediction": surprise.mean(), "change": change.mean()}
    return total, metrics | {"errors": errors}
