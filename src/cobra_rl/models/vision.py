"""The contract of a vision module (such as `monet.py`): V_enc, V_dec, masks, a loss, and what slots tell the others.

T, D and R get slots and nothing else, be they encoded or imagined, so that what a slot holds must
show in its latents:

- A slot of zeros holds nothing (`is_empty`): T may leave it as it is, and R may leave it out. A
  module that can tell which slots hold nothing sets them to zero in `encode`; one that cannot has
  no empty slots, and all parts work.
- Two latents are a position if `place` says so. Only `LawTransition`, and the page when it asks for
  the reward of a sprite elsewhere, need that, and refuse a module without it.
- Slots come in no particular order. Which one holds the background, `background` reads from the
  masks.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt8

from cobra_rl.bounds import Bounds
from cobra_rl.models.nets import Lattice, Loss, all_true
from cobra_rl.parts import PartConfig

Images = UInt8[Array, "B H W 3"]
Slots = Float[Array, "B K M"]


@dataclass(frozen=True)
class Place:
    """The convention for the position of a slot, if a vision module follows it: two latents that are linear in (x, y).

    MONet's factored encoder writes the mask's centroid to them and its decoder draws around it;
    `LawTransition` compares it with the click.
    """

    first: int = 0  # the latents `first` and `first` + 1 are x and y
    units: float = 4.0  # change of a latent over a frame width: the frame is [-2, 2], which gives about unit variance

    @property
    def indices(self) -> slice:
        """Where the two latents are among all."""
        return slice(self.first, self.first + 2)

    def latents(self, slots: Float[Array, "*N M"]) -> Float[Array, "*N 2"]:
        """Return the two latents as they are."""
        return slots[..., self.indices]

    def put(self, slots: Float[Array, "*N M"], latents: Float[Array, "*N 2"]) -> Float[Array, "*N M"]:
        """Return the slots with these two latents instead of theirs."""
        return slots.at[..., self.indices].set(latents)

    def of(self, slots: Float[Array, "*N M"]) -> Float[Array, "*N 2"]:
        """Return (x, y) in frame coordinates [0, 1]^2, y up."""
        return self.latents(slots) / self.units + 0.5

    def canvas(self, slots: Float[Array, "*N M"]) -> Float[Array, "*N 2"]:
        """Return (x, y) in the coordinates that networks draw in, [-1, 1]^2 (`nets.coordinates`)."""
        return 2.0 / self.units * self.latents(slots)

    def from_canvas(self, point: Float[Array, "*N 2"]) -> Float[Array, "*N 2"]:
        """Return the two latents of a point in [-1, 1]^2."""
        return self.units / 2.0 * point


PLACE = Place()
PLACE_NAMES = ["place, left to right", "place, down to up"]
COMMON_SLOTS = (3, 4, 5)  # slots that many scenes need: the background and two to four objects
EMPTY_NORM2 = 1e-6  # |z^k|^2 of an empty slot is below this; our encoder's have at most 1e-7, and objects far more


def is_empty(slots: Float[Array, "*N K M"]) -> Bool[Array, "*N K"]:
    """Tell which slots hold nothing: those whose latents are all zero, the mean of the prior."""
    return jnp.sum(slots**2, -1) < EMPTY_NORM2


def without_empty(function: Callable[[Float[Array, "*N k M"]], Any], slots: Float[Array, "*N K M"]) -> Any:
    """Call a function of slots to which empty ones add nothing, and leave most of those out: it takes less time.

    Slots after the first few (3 to 5, `COMMON_SLOTS`) are left out if they are empty in all scenes of a batch.
    What is returned must have the same shape for any number of slots.
    """
    sizes = [size for size in COMMON_SLOTS if size < slots.shape[-2]]
    if not sizes:
        return function(slots)
    fits = [all_true(is_empty(slots[..., size:, :])) for size in sizes]
    branches = [lambda size=size: function(slots[..., :size, :]) for size in (*sizes, slots.shape[-2])]
    return jax.lax.switch(len(sizes) - sum(fit.astype(int) for fit in fits), branches)


@dataclass(frozen=True)
class VisionModelConfig(PartConfig):
    """The sizes that every vision module has; all other parts of the agent take them from here."""

    kind: ClassVar[str] = "vision"

    slots: Annotated[int, Bounds(2, 64)] = 8  # K, number of slots: for six sprites, the background and a spare
    latents: Annotated[int, Bounds(1, 1024)] = 8  # M, number of latents of a slot
    size: Annotated[int, Bounds(8, 1024)] = 64  # H = W, side of the pictures in pixels


class LossWeights(NamedTuple):
    """Weights of loss terms that may change during training; a module without such a term ignores its weight."""

    beta: Float[Array, ""] | float = 0.5  # KL of the latents
    gamma: Float[Array, ""] | float = 0.5  # KL of the masks


class Decoded(NamedTuple):
    """The output of V_dec."""

    image: Float[Array, "B H W 3"]  # the scene, RGB about [0, 1]
    components: Float[Array, "B K H W 3"]  # each slot's own picture
    masks: Float[Array, "B K H W"]  # p(c = k | z): where each slot is seen


class VisionModel(eqx.Module):
    """Base class of vision modules. Decorate `encode`, `decode` and `masks` with `eqx.filter_jit`: users call them."""

    config: eqx.AbstractVar[VisionModelConfig]

    @property
    def place(self) -> Place | None:
        """The two latents that are the position of a slot; None, the default, if none are by construction."""
        return None

    @property
    def patch(self) -> int:
        """The side, in pixels, of the patches that V_dec can draw separately; 0: it draws only whole pictures."""
        return 0

    @property
    def latent_names(self) -> list[str]:
        """The names of the latents of a slot; by default they are numbered."""
        names = [f"latent {index}" for index in range(self.config.latents)]
        if self.place is not None:
            names[self.place.indices] = PLACE_NAMES
        return names

    @abc.abstractmethod
    def encode(self, images: Images) -> Slots:
        """V_enc: encode images to slots.

        Args:
            images: Images uint8 [B, H, W, 3].

        Returns:
            Slots [B, K, M] in no particular order; those that hold nothing are zero, if the module
            can tell.
        """

    @abc.abstractmethod
    def masks(self, images: Images) -> Float[Array, "B K H W"]:
        """Return where the encoder sees each slot.

        Args:
            images: Images uint8 [B, H, W, 3].

        Returns:
            Masks [B, K, H, W] in [0, 1], which sum to 1 over the slots.
        """

    def background(self, masks: Float[Array, "B K H W"]) -> Int[Array, " B"]:
        """Return the slot of each scene that holds the background: by default the one that covers most of the picture.

        Args:
            masks: Masks [B, K, H, W], as `masks` returns them.

        Returns:
            The index of a slot for each scene.
        """
        return jnp.argmax(masks.sum((2, 3)), axis=1)

    @abc.abstractmethod
    def decode(self, slots: Slots, lattice: Lattice | None = None) -> Decoded:
        """V_dec: draw slots.

        Args:
            slots: Slots [B, K, M].
            lattice: The patches to draw, laid side by side; None draws whole pictures.

        Returns:
            The scene, and each slot's own picture and mask.
        """

    @abc.abstractmethod
    def loss(self, images: Images, key: PRNGKeyArray, weights: LossWeights, slots: int | None = None) -> Loss:
        """Return the training loss.

        Args:
            images: Images uint8 [B, H, W, 3].
            key: The random key of whatever the loss samples, such as latents.
            weights: The weights of the loss terms that change during training.
            slots: The number of slots to use; it may be less than K, the default, early in
                training.

        Returns:
            The loss, and metrics by name.
        """
