"""The transition model T, which predicts the next slots and its own error.

A slot-wise MLP T_net reads a slot and the action; it gives the slot's change and its share of the
predicted error:

    z~_{t+1}^k = z_t^k + Delta_k,   e_pred = sum_k e_k,   (Delta_k, e_k) = T_net(z_t^k, a_t)

That is the paper's model, `SlotTransition`. `LawTransition` is ours, for preset laptop. It adds a
law of motion, law(a_t): how the action moves an object that it touches, the same for all slots.
T_net gives the degree touch_k to which the action touches a slot, the residual r_k that the law
does not explain, the error at rest, and what a touch adds to it:

    Delta_k = r_k + touch_k law(a_t),   e_k = e_k^still + touch_k e_k^touched,   touch_k in [0, 1]
    (r_k, touch_k, e_k^still, e_k^touched) = T_net(z_t^k, a_t)

All pushes train the same law, which therefore averages over the motion noise that r_k alone would
overfit. The fewer parameters it has, the better it averages: an affine law has A + 1 per
coordinate.

There are two losses L_T. "pixels", the paper's, goes through the frozen decoder, so that slots need
not be matched between successive frames: L_T = ||V_dec(z~_{t+1}) - x_{t+1}||^2, summed over the
image. "slots", which the paper's appendix "Transition Module" describes beside it, compares each
slot of z_{t+1} = V_enc(x_{t+1}) with the prediction for the slot of z_t that is most like it:

    L_T = sum_j ||z_{t+1}^j - z~_{t+1}^{i(j)}||^2,   i(j) = argmin_i ||z_{t+1}^j - z_t^i||^2
"""

import abc
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from cobra_rl.bounds import Bounds, Layers, NonNegative, Positive
from cobra_rl.collect.transition import Transition
from cobra_rl.models.nets import MLP, Lattice, Loss
from cobra_rl.models.vision import Images, Place, Slots, VisionModel, is_empty
from cobra_rl.parts import PartConfig

Scalar = Float[Array, ""] | float
NEAR = 4.0  # 1 / the half width of a sprite, where the frame is [-2, 2]^2
# Output scales make the law learn faster than T_net's residual. At first the law is zero and an action touches what is
# near the click; T_net then learns the objects' borders. With a large TOUCH_SCALE the touch within them is almost 1.
OWN_SCALE = 0.1
LAW_SCALE = 2.0
TOUCH_SCALE = 6.0


class Sizes(NamedTuple):
    """The sizes of a world model, which the vision module and the environment determine."""

    slots: int  # K
    latents: int  # M
    action: int  # A
    image: int  # H = W


@dataclass(frozen=True)
class TransitionConfig(PartConfig):
    """The paper's transition model."""

    kind: ClassVar[str] = "transition"

    hidden: Layers = (512, 512, 512)  # widths of the hidden layers of T_net
    error_unit: Positive = 1.0  # unit of e_pred and of its error in the loss, in that of L_T
    loss: Literal["pixels", "slots"] = "pixels"  # what L_T compares; pixels: squared pixels, slots: squared latents
    jump: NonNegative = 0.0  # slots: a slot's error well above this counts linearly, and is not sought; 0: squared, all


@dataclass(frozen=True)
class LawConfig(TransitionConfig):
    """Our transition model: one law of motion for all slots, and T_net also reads the click relative to the slot."""

    law: Annotated[int, Bounds(0, 65_536)] = 0  # hidden units of the law of motion; 0: the law is affine
    place_cost: NonNegative = 1.0  # cost of moving a slot otherwise than by the law, relative to other changes


class Imagined(NamedTuple):
    """The prediction of T for slots and actions."""

    slots: Float[Array, "*N K M"]  # z~_{t+1}
    error: Float[Array, "*N"]  # e_pred, in the unit of L_T: the paper's curiosity


class Change(NamedTuple):
    """The predicted change of each slot."""

    delta: Float[Array, "*N K M"]
    size: Float[Array, "*N"]  # |Delta| as it counts in the loss: the paper's is the sum over all slots and latents
    error: Float[Array, "*N K"]  # the slot's share of e_pred


class TransitionModel(eqx.Module):
    """Base class of transition models: built from a configuration, `Sizes`, the `Place` of a slot or None, and a key.

    The policy D maximises `Imagined.error`, which a subclass may redefine.
    """

    config: eqx.AbstractVar[TransitionConfig]

    @abc.abstractmethod
    def change(self, slots: Float[Array, "*N K M"], action: Float[Array, "*N A"]) -> Change:
        """Predict the change of each slot in one step."""

    def __call__(self, slots: Float[Array, "*N K M"], action: Float[Array, "*N A"]) -> Imagined:
        """Predict the slots after one step, and the error of this prediction (`Imagined`)."""
        change = self.change(slots, action)
        return Imagined(slots + change.delta, change.error.sum(-1))

    def loss(
        self,
        vision: VisionModel,
        batch: Transition,
        importance: Float[Array, " B"],
        *,
        change_cost: Scalar = 1.0,
        lattice: Lattice | None = None,
    ) -> Loss:
        """Return the mean of importance (L_T + ((e_pred - L_T) / error_unit)^2 + change_cost |Delta|).

        No gradient passes through L_T in the term of e_pred, so that T does not learn to be
        predictable. With motion noise, the cost of |Delta| keeps T from fading the sprites that it
        moves: where the position is uncertain, a paler sprite has a smaller pixel error. In slots,
        the best guess is the mean position with the looks unchanged, and no such cost is needed.

        Args:
            vision: The frozen vision module, whose decoder draws the predicted slots.
            batch: B transitions: slots z_t, actions, and what follows: the pictures x_{t+1}, uint8
                [B, H, W, 3], or if the loss compares slots, z_{t+1} [B, K, M].
            importance: Weights that correct for prioritised sampling.
            change_cost: The cost of |Delta| in the unit of L_T; the paper's is 1.
            lattice: The patches from which L_T is estimated; None uses all pixels.

        Returns:
            The loss, and the metrics `transition` (mean L_T), `error_prediction`, `change`, and
            `errors`, the L_T [B] of each transition, from which the replay computes its priorities.
        """
        change = self.change(batch.observation, batch.action)
        predicted = batch.observation + change.delta
        if self.config.loss == "slots":
            apart = matched_distance(batch.observation, predicted, batch.next_observation)
            errors = linear_above(apart, self.config.jump).sum(-1)
            expected = bounded_above(apart, self.config.jump).sum(-1)
        else:
            errors = pixel_error(vision, predicted, batch.next_observation, lattice=lattice)
            expected = errors
        surprise = ((change.error.sum(-1) - jax.lax.stop_gradient(expected)) / self.config.error_unit) ** 2
        return jnp.mean(importance * (errors + surprise + change_cost * change.size)), {
            "transition": errors.mean(),
            "error_prediction": surprise.mean(),
            "change": change.size.mean(),
            "errors": expected,
        }


class SlotTransition(TransitionModel):
    """The paper's transition model: one slot-wise MLP, which knows nothing of clicks, places or empty slots."""

    net: MLP
    config: TransitionConfig = eqx.field(static=True)

    def __init__(self, config: TransitionConfig, sizes: Sizes, place: Place | None, key: PRNGKeyArray):
        net_key, _ = jax.random.split(key)
        self.net = MLP((sizes.latents + sizes.action, *config.hidden, sizes.latents + 1), net_key, last_gain=0.01)
        self.config = config

    def change(self, slots: Float[Array, "*N K M"], action: Float[Array, "*N A"]) -> Change:
        """Predict the change by T_net alone; there is no law."""
        out = self.net(jnp.concatenate([slots, broadcast_action(action, slots)], -1))
        delta = out[..., :-1]
        return Change(delta, jnp.abs(delta).sum((-2, -1)), self.config.error_unit * out[..., -1])


class LawTransition(TransitionModel):
    """Our transition model, with a law of motion that is the same for all slots."""

    net: MLP
    law: MLP
    place: Place = eqx.field(static=True)
    config: LawConfig = eqx.field(static=True)

    def __init__(self, config: LawConfig, sizes: Sizes, place: Place | None, key: PRNGKeyArray):
        if place is None or sizes.action < 2:
            raise ValueError(
                "The transition model with a law needs slots that say where they are and an action that begins with a "
                "click; take the paper's transition model (--config.transition paper)."
            )
        net_key, law_key = jax.random.split(key)
        layers = (sizes.latents + sizes.action + 2, *config.hidden, sizes.latents + 3)
        self.net = MLP(layers, net_key, last_gain=0.01)
        self.law = MLP((sizes.action, *([config.law] if config.law else []), 2), law_key, last_gain=0.01)
        self.place = place
        self.config = config  # pyright: ignore[reportIncompatibleVariableOverride]

    def change(self, slots: Float[Array, "*N K M"], action: Float[Array, "*N A"]) -> Change:
        """Move slots that are touched by the law and add T_net's residual; an empty slot does not change.

        The law's motion counts nothing in the size of the change: else T would underestimate how
        far sprites move.
        """
        push = broadcast_action(action, slots)
        click = NEAR * (push[..., :2] - 2.0 * self.place.canvas(slots))  # as seen from the slot
        out = self.net(jnp.concatenate([slots, push, jnp.tanh(click)], -1))
        still, touched, nearer = jnp.moveaxis(out[..., -3:], -1, 0)
        exists = ~is_empty(slots)
        own = jnp.where(exists[..., None], OWN_SCALE * out[..., :-3], 0.0)
        near = 1.0 - jnp.sum(click**2, -1) + nearer
        touch = jnp.where(exists, jax.nn.sigmoid(TOUCH_SCALE * near), 0.0)
        before = self.place.latents(slots)
        moved = self.place.latents(own) + touch[..., None] * LAW_SCALE * self.law(push)
        border = 0.5 * self.place.units
        delta = self.place.put(own, jnp.clip(before + moved, -border, border) - before)  # nothing leaves the frame
        looks = jnp.abs(jnp.delete(delta, self.place.indices, axis=-1)).sum((-2, -1))
        size = self.config.place_cost * jnp.abs(self.place.latents(own)).sum((-2, -1)) + looks
        return Change(delta, size, self.config.error_unit * (still + touch * touched))


def broadcast_action(action: Float[Array, "*N A"], slots: Float[Array, "*N K M"]) -> Float[Array, "*N K A"]:
    """Repeat the action for each slot and scale it from [0, 1] to [-2, 2], about the range of latents."""
    return jnp.broadcast_to(4.0 * action[..., None, :] - 2.0, (*slots.shape[:-1], action.shape[-1]))


def matched_distance(slots: Slots, predicted: Slots, after: Slots) -> Float[Array, "B K"]:
    """Return the squared distance of each slot that there is afterwards from what was predicted for it, in latents.

    Slots have no order, so that each is compared with the prediction for the slot that it was most
    like before. Two may be matched to the same one.

    Args:
        slots: Slots [B, K, M] before the action.
        predicted: What is predicted for each of them.
        after: The slots encoded after the action.
    """
    distance = jnp.sum((after[:, :, None] - slots[:, None]) ** 2, -1)
    match = jnp.argmin(distance, -1)  # [B, K]
    return jnp.sum((after - jnp.take_along_axis(predicted, match[:, :, None], axis=1)) ** 2, -1)


def linear_above(squared: Float[Array, "*N"], jump: float) -> Float[Array, "*N"]:
    """Turn squared distances d^2 into what T minimises: d^2 where d is small, 2 jump d where it is large.

    What a slot looks like jumps where its object comes to lie below another, or gets free. A slot-wise T cannot
    foresee that, and squares, whose best guess is the mean, would spoil what it can foresee. (Pseudo-Huber; with 0,
    all distances are squared.)
    """
    return 2.0 * squared / (jnp.sqrt(1.0 + squared / jump**2) + 1.0) if jump else squared


def bounded_above(squared: Float[Array, "*N"], jump: float) -> Float[Array, "*N"]:
    """Turn squared distances d^2 into what T expects, and D seeks: d^2 where d is small, jump^2 where it is large.

    Else D would seek little but jumps, which T can never learn, and T would see few simple pushes. (With 0, nothing is
    bounded.)
    """
    return jump**2 * -jnp.expm1(-squared / jump**2) if jump else squared


def pixel_error(
    vision: VisionModel, slots: Slots, image: Images, *, lattice: Lattice | None = None
) -> Float[Array, " B"]:
    """Return the pixel error ||V_dec(z) - x||^2 of slots, summed over pixels and colours.

    Args:
        vision: The vision module whose decoder draws the slots.
        slots: Slots [B, K, M].
        image: The true images, uint8 [B, H, W, 3]; they are scaled to [0, 1].
        lattice: The patches from which the error is estimated; None uses all pixels.

    Returns:
        The error of each scene.
    """
    target = image.astype(jnp.float32) / 255.0
    if lattice is None:
        return jnp.sum((vision.decode(slots).image - target) ** 2, axis=(1, 2, 3))
    drawn = vision.decode(slots, lattice).image
    return lattice.every**2 * jnp.sum((drawn - lattice.thin_image(target)) ** 2, axis=(1, 2, 3))
