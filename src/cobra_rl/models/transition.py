"""The transition model T, and its own guess of how wrong it is.

A slot-wise MLP T_net reads a slot and the action; it gives the slot's change and its share of the predicted error:

    z~_{t+1}^k = z_t^k + Delta_k,   e_pred = sum_k e_k,   (Delta_k, e_k) = T_net(z_t^k, a_t)

Ours, for the laptop, also has a law: what the action does to whatever it touches, one small MLP for all slots, while
T_net says how much it touches each of them and what the law leaves unexplained,

    Delta_k = r_k + touch_k law(a_t),   (r_k, touch_k, e_k) = T_net(z_t^k, a_t),   touch_k in [0, 1]

All pushes teach the same law, so that it averages over motion noise that r_k would learn by heart.

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
from cobra_rl.models.nets import MLP, Lattice

NEAR = 4.0  # 1 / the half width of a sprite, in the unit of the latents that `CentredDecoder` takes for a centre
# The law is learnt faster than what is to be left for T_net. It starts at nothing and touches all: what is not touched
# then closes its gate, and what is touched keeps it at 1, where noise cannot sway it.
OWN_SCALE, LAW_SCALE, TOUCH_SCALE = 0.1, 2.0, 2.0


@dataclass(frozen=True)
class TransitionConfig:
    """The model and its loss. The defaults are the paper's."""

    latents: int = 8  # M
    hidden: tuple[int, ...] = (512, 512, 512)
    error_unit: float = 1.0  # of squared pixels: e_pred and its squared error are learnt in it
    centred: bool = False  # T_net also reads where the click is, as seen from the slot's centre (ours, for the laptop)
    law: int = 0  # 0: none; else the hidden units of the law (ours, for the laptop)
    place_cost: float = 1.0  # of a change of the centre (latents 0 and 1) that no law explains, relative to others'


class Imagined(NamedTuple):
    """What T makes of slots and actions."""

    slots: Float[Array, "*N K M"]  # z~_{t+1}
    error: Float[Array, "*N"]  # e_pred, in the unit of L_T


class Change(NamedTuple):
    """What T_net gives for each slot."""

    delta: Float[Array, "*N K M"]
    unexplained: Float[Array, "*N K M"]  # the part of it that is not the law's
    error: Float[Array, "*N K"]  # its share of e_pred


class Transition(eqx.Module):
    """T_net, and the law if there is one."""

    net: MLP
    law: MLP | None
    config: TransitionConfig = eqx.field(static=True)

    def __init__(self, config: TransitionConfig, key: PRNGKeyArray):
        net_key, law_key = jax.random.split(key)
        inputs = config.latents + 4 + 2 * config.centred
        self.net = MLP((inputs, *config.hidden, config.latents + 1 + (config.law > 0)), net_key, last_gain=0.01)
        self.law = MLP((4, config.law, config.latents), law_key, last_gain=0.01) if config.law else None
        self.config = config

    def change(self, slots: Float[Array, "*N K M"], action: Float[Array, "*N 4"]) -> Change:
        """Of each slot, in one step."""
        told = broadcast_action(action, slots)
        features = [slots, told]
        if self.config.centred:
            features.append(jnp.tanh(NEAR * (told[..., :2] - slots[..., :2])))
        out = self.net(jnp.concatenate(features, -1))
        own, error = out[..., : self.config.latents], self.config.error_unit * out[..., self.config.latents]
        if self.law is None:
            return Change(own, own, error)
        own, touch = OWN_SCALE * own, jax.nn.sigmoid(TOUCH_SCALE * (1.0 + out[..., -1:]))
        return Change(own + touch * LAW_SCALE * self.law(told), own, error)

    def __call__(self, slots: Float[Array, "*N K M"], action: Float[Array, "*N 4"]) -> Imagined:
        """One step ahead."""
        change = self.change(slots, action)
        return Imagined(slots + change.delta, change.error.sum(-1))


def broadcast_action(action: Float[Array, "*N 4"], slots: Float[Array, "*N K M"]) -> Float[Array, "*N K 4"]:
    """The action beside each slot, from [0, 1] to [-2, 2]: as wide as the latents are."""
    return jnp.broadcast_to(4.0 * action[..., None, :] - 2.0, (*slots.shape[:-1], action.shape[-1]))


class Transitions(NamedTuple):
    """What actors send and the replay holds: vision is frozen, so images before the action are kept as slots only."""

    slots: Float[Array, "*N K M"]  # z_t
    action: Float[Array, "*N 4"]
    next_image: UInt8[Array, "*N H W 3"]  # x_{t+1}


def pixel_error(
    vision: Monet, slots: Float[Array, "B K M"], image: UInt8[Array, "B H W 3"], lattice: Lattice | None = None
) -> Float[Array, " B"]:
    """||V_dec(z) - x||^2, summed over pixels and colours in [0, 1]; with a lattice, an estimate from its patches."""
    drawn, target = monet.decode(vision, slots, lattice).image, image.astype(jnp.float32) / 255.0
    if lattice is None:
        return jnp.sum((drawn - target) ** 2, axis=(1, 2, 3))
    seen = lattice.thin_image(target, vision.config.decoder_patch)
    return lattice.every**2 * jnp.sum((drawn - seen) ** 2, axis=(1, 2, 3))


def loss(
    model: Transition,
    vision: Monet,
    batch: Transitions,
    importance: Float[Array, " B"],
    change_cost: Float[Array, ""] | float = 1.0,
    lattice: Lattice | None = None,
) -> tuple[Float[Array, ""], dict[str, Array]]:
    """L_T + (e_pred - L_T)^2 + cost |Delta|, weighted by importance; each transition's L_T is the metric `errors`.

    The cost of change is given, for it may change during training; the paper's is 1. In a world with motion noise it
    keeps T from fading what it moves: a paler sprite is less wrong where nobody can know the place. Where it is high, a
    change of place has to cost less, or else sprites are imagined to move too little; what the law says of the place
    costs nothing.
    """
    change = model.change(batch.slots, batch.action)
    errors = pixel_error(vision, batch.slots + change.delta, batch.next_image, lattice)  # L_T
    surprise = ((change.error.sum(-1) - jax.lax.stop_gradient(errors)) / model.config.error_unit) ** 2
    place, looks = (jnp.abs(part).sum((1, 2)) for part in (change.unexplained[..., :2], change.delta[..., 2:]))
    size = model.config.place_cost * place + looks  # |Delta|
    total = jnp.mean(importance * (errors + surprise + change_cost * size))
    metrics = {"transition": errors.mean(), "error_prediction": surprise.mean(), "change": size.mean()}
    return total, metrics | {"errors": errors}
