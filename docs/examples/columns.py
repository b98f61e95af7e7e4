"""A vision module of one's own, from scratch: one file, with nothing that the contract does not ask for.

The picture is cut into columns, and the last slot, the background, has most of it. No latents are a place, no slot is
ever empty, and only whole pictures are drawn.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp

from cobra_rl.models.vision import Decoded, VisionModel, VisionModelConfig


@dataclass(frozen=True)
class ColumnsConfig(VisionModelConfig):
    """How many columns there are, and how wide."""

    slots: int = 3
    latents: int = 3
    width: int = 8  # of a column, in pixels


class Columns(VisionModel):
    """Slots are the mean colours of columns, plus a bias that is learnt."""

    bias: jnp.ndarray
    config: ColumnsConfig = eqx.field(static=True)

    def __init__(self, config, key):
        self.bias = 1.0 + 0.1 * jax.random.normal(key, (config.latents,))
        self.config = config

    @eqx.filter_jit
    def masks(self, images):
        """Cut every picture into the same columns."""
        column = jnp.minimum(jnp.arange(images.shape[2]) // self.config.width, self.config.slots - 1)
        masks = jax.nn.one_hot(column, self.config.slots, axis=0)[:, None]
        return jnp.broadcast_to(masks, (len(images), self.config.slots, *images.shape[1:3]))

    @eqx.filter_jit
    def encode(self, images):
        """Take the mean colour of each column; the bias keeps slots from being zero."""
        masks = self.masks(images)
        means = jnp.einsum("bkhw,bhwc->bkc", masks, images / 255.0) / masks.sum((2, 3))[..., None]
        return means + self.bias

    @eqx.filter_jit
    def decode(self, slots, lattice=None):
        """Fill each column with its colour."""
        size = self.config.size
        masks = self.masks(jnp.zeros((len(slots), size, size, 3), jnp.uint8))
        components = jnp.broadcast_to((slots - 1.0)[:, :, None, None], (*masks.shape, 3))
        return Decoded((components * masks[..., None]).sum(1), components, masks)

    def loss(self, images, key, weights, slots=None):
        """Return the mean squared error of the picture."""
        loss = jnp.mean((self.decode(self.encode(images)).image - images / 255.0) ** 2)
        return loss, {"loss": loss}
