"""What the rest of COBRA needs of a vision module (`monet.py` is one): V_enc, V_dec, masks, a loss, where a slot is."""

import abc
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, UInt8

from cobra_rl.bounds import Bounds, Checked
from cobra_rl.models.nets import Lattice, Loss

Images = UInt8[Array, "B H W 3"]
Slots = Float[Array, "B K M"]


@dataclass(frozen=True)
class Place:
    """Where a slot is, for vision modules that say so: two latents that are linear in the frame's coordinates.

    The encoder puts the mask's centroid there, the decoder draws around it, the transition model compares the click.
    """

    first: int = 0  # the latents `first` and `first` + 1 are x and y
    units: float = 4.0  # of a latent, to a frame width: the frame is [-2, 2], about unit variance

    def latents(self, slots: Float[Array, "*N M"]) -> Float[Array, "*N 2"]:
        """Return the two latents as they are."""
        return slots[..., self.first : self.first + 2]

    def of(self, slots: Float[Array, "*N M"]) -> Float[Array, "*N 2"]:
        """Return (x, y) in frame coordinates [0, 1]^2, y up."""
        return self.latents(slots) / self.units + 0.5

    def within(self, latents: Float[Array, "*N 2"]) -> Float[Array, "*N 2"]:
        """Bring two latents back to the frame's border, if they are beyond it."""
        return jnp.clip(latents, -0.5 * self.units, 0.5 * self.units)

    def canvas(self, slots: Float[Array, "*N M"]) -> Float[Array, "*N 2"]:
        """Return (x, y) in the coordinates that networks draw in, [-1, 1]^2 (`nets.coordinates`)."""
        return 2.0 / self.units * self.latents(slots)

    def from_canvas(self, point: Float[Array, "*N 2"]) -> Float[Array, "*N 2"]:
        """Return the two latents of a point in [-1, 1]^2."""
        return self.units / 2.0 * point


PLACE = Place()
PLACE_NAMES = ["place, left to right", "place, down to up"]


@dataclass(frozen=True)
class VisionModelConfig(Checked):
    """The sizes that every vision module has; the whole agent takes them from here."""

    slots: Annotated[int, Bounds(2, 64)] = 8  # K, number of slots: for six sprites, the background and a spare
    latents: Annotated[int, Bounds(1, 1024)] = 8  # M, number of latents of a slot
    size: Annotated[int, Bounds(8, 1024)] = 64  # H = W, side of the pictures in pixels


class LossWeights(NamedTuple):
    """Weights of loss terms that may change during training; a module without such a term ignores its weight."""

    beta: Float[Array, ""] | float = 0.5  # KL of the latents
    gamma: Float[Array, ""] | float = 0.5  # KL of the masks


class Decoded(NamedTuple):
    """What V_dec makes of slots."""

    image: Float[Array, "B H W 3"]  # the scene, RGB about [0, 1]
    components: Float[Array, "B K H W 3"]  # each slot's own picture
    masks: Float[Array, "B K H W"]  # p(c = k | z): where each slot is seen


class VisionModel(eqx.Module):
    """A vision module. Decorate `encode`, `decode` and `masks` with `eqx.filter_jit`: people call them directly."""

    config: eqx.AbstractVar[VisionModelConfig]

    @property
    @abc.abstractmethod
    def place(self) -> Place | None:
        """Where a slot is, if the latents say so by construction."""

    @property
    def patch(self) -> int:
        """The side, in pixels, of the patches that V_dec can draw one by one; 0: only whole pictures."""
        return 0

    @property
    def latent_names(self) -> list[str]:
        """What each latent of a slot is called: a number, unless the module knows better."""
        names = [f"latent {index}" for index in range(self.config.latents)]
        if self.place is not None:
            names[self.place.first : self.place.first + 2] = PLACE_NAMES
        return names

    @abc.abstractmethod
    def encode(self, images: Images) -> Slots:
        """V_enc: one row a slot, in no particular order."""

    @abc.abstractmethod
    def masks(self, images: Images) -> Float[Array, "B K H W"]:
        """Return where the encoder sees each slot; the masks sum to 1 over the slots."""

    @abc.abstractmethod
    def decode(self, slots: Slots, lattice: Lattice | None = None) -> Decoded:
        """V_dec: the scene, and each slot's own picture and mask; with a lattice, only its patches."""

    @abc.abstractmethod
    def loss(self, images: Images, key: PRNGKeyArray, weights: LossWeights, slots: int | None = None) -> Loss:
        """Return the training loss and its metrics; `slots` may be fewer than K early in training."""
