"""The transition model T, and its own guess of how wrong it is.

A slot-wise MLP T_net reads a slot and the action; it gives the slot's change and its share of the predicted error:

    z~_{t+1}^k = z_t^k + Delta_k,   e_pred = sum_k e_k,   (Delta_k, e_k) = T_net(z_t^k, a_t)

That is the paper's, `Transition`. `LawTransition` is ours, for the laptop: it also has a law, what the action does to
whatever it touches, where that is moved to, the same for all slots, while T_net says how much it touches each of them,
what the law leaves unexplained, and how wrong it will be of what is touched and of what is not,

    Delta_k = r_k + touch_k law(a_t),   e_k = e_k^still + touch_k e_k^touched,   touch_k in [0, 1]
    (r_k, touch_k, e_k^still, e_k^touched) = T_net(z_t^k, a_t)

All pushes teach the same law, so that it averages over motion noise that r_k would learn by heart. The fewer weights it
has, the better it averages: an affine law has A + 1 for each coordinate.

Both are trained in pixels, through the frozen decoder, so that slots need no matching between one frame and the next:
L_T = ||V_dec(z~_{t+1}) - x_{t+1}||^2, summed over the image (the paper's appendix "Transition Module").
"""

import abc
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, UInt8

from cobra_rl.bounds import Bounds, Checked, Layers, NonNegative, Positive
from cobra_rl.models.nets import MLP, Lattice, Loss
from cobra_rl.models.vision import PLACE, Images, Place, Slots, VisionModel

Scalar = Float[Array, ""] | float
NEAR = 4.0  # 1 / the half width of a sprite, in the unit of the latents of PLACE
# The law is learnt faster than what is to be left for T_net. It starts at nothing and touches what is near the click;
# T_net then learns where the borders of things are. Within them a touch is all but 1, or its scatter would be in moves.
OWN_SCALE, LAW_SCALE, TOUCH_SCALE = 0.1, 2.0, 6.0


class Sizes(NamedTuple):
    """The sizes of a world model, stated once: by the vision module and the environment."""

    slots: int  # K
    latents: int  # M
    action: int  # A
    image: int  # H = W


@dataclass(frozen=True)
class TransitionConfig(Checked):
    """The paper's transition model."""

    hidden: Layers = (512, 512, 512)  # widths of the hidden layers of T_net
    error_unit: Positive = 1.0  # unit of e_pred and of its error in the loss, in squared pixels


@dataclass(frozen=True)
class LawConfig(TransitionConfig):
    """Our transition model: one law of motion for all slots, and T_net also reads the click relative to the slot."""

    law: Annotated[int, Bounds(0, 65_536)] = 0  # hidden units of the law of motion; 0: the law is affine
    place_cost: NonNegative = 1.0  # cost of moving a slot otherwise than by the law, relative to other changes


class Imagined(NamedTuple):
    """What T makes of slots and actions."""

    slots: Float[Array, "*N K M"]  # z~_{t+1}
    error: Float[Array, "*N"]  # e_pred, in the unit of L_T: the curiosity signal


class Change(NamedTuple):
    """What T_net gives for each slot."""

    delta: Float[Array, "*N K M"]
    unexplained: Float[Array, "*N K M"]  # the part of it that is not the law's
    error: Float[Array, "*N K"]  # its share of e_pred


class Transitions(NamedTuple):
    """What actors send and the replay holds: vision is frozen, so images before the action are kept as slots only."""

    slots: Float[Array, "*N K M"]  # z_t
    action: Float[Array, "*N A"]
    next_image: UInt8[Array, "*N H W 3"]  # x_{t+1}


class TransitionModel(eqx.Module):
    """What is common to transition models. D maximises `Imagined.error`: a subclass may define it otherwise."""

    config: eqx.AbstractVar[TransitionConfig]

    @abc.abstractmethod
    def change(self, slots: Float[Array, "*N K M"], action: Float[Array, "*N A"]) -> Change:
        """Return the change of each slot in one step."""

    def change_size(self, change: Change) -> Float[Array, " B"]:
        """Return |Delta|, the size of a change as the loss counts it: summed over all latents."""
        return jnp.abs(change.delta).sum((1, 2))

    def __call__(self, slots: Float[Array, "*N K M"], action: Float[Array, "*N A"]) -> Imagined:
        """Imagine one step ahead."""
        change = self.change(slots, action)
        return Imagined(slots + change.delta, change.error.sum(-1))

    def loss(
        self,
        vision: VisionModel,
        batch: Transitions,
        importance: Float[Array, " B"],
        change_cost: Scalar = 1.0,
        lattice: Lattice | None = None,
    ) -> Loss:
        """L_T + (e_pred - L_T)^2 + cost |Delta|, weighted by importance; each transition's L_T is the metric `errors`.

        L_T is a constant in the error loss: T does not learn to be predictable. `change_cost` may change in training;
        the paper's is 1. In a world with motion noise it keeps T from fading what it moves: a paler sprite is less
        wrong where nobody can know the place.
        """
        change = self.change(batch.slots, batch.action)
        errors = pixel_error(vision, batch.slots + change.delta, batch.next_image, lattice)  # L_T
        surprise = ((change.error.sum(-1) - jax.lax.stop_gradient(errors)) / self.config.error_unit) ** 2
        size = self.change_size(change)
        total = jnp.mean(importance * (errors + surprise + change_cost * size))
        metrics = {"transition": errors.mean(), "error_prediction": surprise.mean(), "change": size.mean()}
        return total, metrics | {"errors": errors}


class Transition(TransitionModel):
    """The paper's T."""

    net: MLP
    config: TransitionConfig = eqx.field(static=True)

    def __init__(self, config: TransitionConfig, sizes: Sizes, place: Place | None, key: PRNGKeyArray):
        net_key, _ = jax.random.split(key)
        self.net = MLP((sizes.latents + sizes.action, *config.hidden, sizes.latents + 1), net_key, last_gain=0.01)
        self.config = config

    def change(self, slots: Float[Array, "*N K M"], action: Float[Array, "*N A"]) -> Change:
        """Return T_net's change, all of it unexplained by any law."""
        out = self.net(jnp.concatenate([slots, broadcast_action(action, slots)], -1))
        delta = out[..., :-1]
        return Change(delta, delta, self.config.error_unit * out[..., -1])


class LawTransition(TransitionModel):
    """T with a law that is the same for all slots."""

    net: MLP
    law: MLP
    config: LawConfig = eqx.field(static=True)

    def __init__(self, config: LawConfig, sizes: Sizes, place: Place | None, key: PRNGKeyArray):
        if place != PLACE or sizes.action < 2:
            needs = "slots that say where they are and an action that begins with a click"
            raise ValueError(f"The transition model with a law needs {needs}; take the paper's transition model.")
        net_key, law_key = jax.random.split(key)
        inputs = sizes.latents + sizes.action + 2
        self.net = MLP((inputs, *config.hidden, sizes.latents + 3), net_key, last_gain=0.01)
        hidden = (config.law,) if config.law else ()
        self.law = MLP((sizes.action, *hidden, 2), law_key, last_gain=0.01)
        self.config = config  # pyright: ignore[reportIncompatibleVariableOverride]

    def change(self, slots: Float[Array, "*N K M"], action: Float[Array, "*N A"]) -> Change:
        """Return the law's change of what is touched, and T_net's own of each slot."""
        push = broadcast_action(action, slots)
        click = NEAR * (push[..., :2] - PLACE.latents(slots))  # as seen from the slot
        out = self.net(jnp.concatenate([slots, push, jnp.tanh(click)], -1))
        own, (still, touched, border) = OWN_SCALE * out[..., :-3], jnp.moveaxis(out[..., -3:], -1, 0)
        near = 1.0 - jnp.sum(click**2, -1) + border
        touch = jax.nn.sigmoid(TOUCH_SCALE * near)
        place = PLACE.latents(slots)
        moved = PLACE.latents(own) + touch[..., None] * LAW_SCALE * self.law(push)
        stopped = PLACE.within(place + moved) - place  # nothing leaves the frame
        delta = own.at[..., PLACE.first : PLACE.first + 2].set(stopped)
        return Change(delta, own, self.config.error_unit * (still + touch * touched))

    def change_size(self, change: Change) -> Float[Array, " B"]:
        """Return |Delta|; the law's change of place costs nothing, or sprites would be imagined to move too little."""
        place = jnp.abs(PLACE.latents(change.unexplained)).sum((1, 2))
        looks = jnp.abs(change.delta[..., PLACE.first + 2 :]).sum((1, 2))
        return self.config.place_cost * place + looks


def broadcast_action(action: Float[Array, "*N A"], slots: Float[Array, "*N K M"]) -> Float[Array, "*N K A"]:
    """Put the action beside each slot, from [0, 1] to [-2, 2]: as wide as the latents are, in the units of PLACE."""
    return jnp.broadcast_to(4.0 * action[..., None, :] - 2.0, (*slots.shape[:-1], action.shape[-1]))


def pixel_error(vision: VisionModel, slots: Slots, image: Images, lattice: Lattice | None = None) -> Float[Array, " B"]:
    """||V_dec(z) - x||^2, summed over pixels and colours in [0, 1]; with a lattice, an estimate from its patches."""
    drawn, target = vision.decode(slots, lattice).image, image.astype(jnp.float32) / 255.0
    if lattice is None:
        return jnp.sum((drawn - target) ** 2, axis=(1, 2, 3))
    return lattice.every**2 * jnp.sum((drawn - lattice.thin_image(target)) ** 2, axis=(1, 2, 3))
