"""The shipped weights, and the object that serves them."""

import dataclasses
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from cobra_rl.models import monet
from cobra_rl.models.monet import Decoded, Monet, MonetConfig
from cobra_rl.runtime.weights import WeightsError, load_weights, read_config

SHIPPED = Path(__file__).parent / "weights"

_encode = eqx.filter_jit(monet.encode)
_masks = eqx.filter_jit(monet.masks)
_decode = eqx.filter_jit(monet.decode)


class Vision:
    """V_enc and V_dec with their weights; calls are compiled, once for each batch size."""

    def __init__(self, model: Monet):
        self.model = model

    def encode(self, images) -> Float[Array, "B K M"]:
        """Images uint8 [B, 64, 64, 3] -> slots: one row an object, in no particular order."""
        return _encode(self.model, _checked(images, self.model.config.size))

    def masks(self, images) -> Float[Array, "B K H W"]:
        """Images -> where the attention sees each slot."""
        return _masks(self.model, _checked(images, self.model.config.size))

    def decode(self, slots) -> Decoded:
        """Slots -> the scene's image, each slot's own picture, and the decoder's masks."""
        return _decode(self.model, jnp.asarray(slots, jnp.float32))


def load_vision(folder: Path = SHIPPED / "vision") -> Vision:
    """The vision module whose weights lie in `folder`; a file that does not fit is refused."""
    config = read_config(folder, "vision")
    if unknown := config.keys() - {field.name for field in dataclasses.fields(MonetConfig)}:
        raise WeightsError(f"The weights in {folder} are of another model: this code knows no {sorted(unknown)}.")
    settings: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in config.items()}
    like = eqx.filter_eval_shape(Monet, MonetConfig(**settings), jax.random.key(0))
    return Vision(load_weights(folder, like, "vision"))


def load_pretrained() -> Vision:
    """The agent's shipped parts: `encode(images)`, `masks(images)`, `decode(slots)`."""
    return load_vision()


def _checked(images, size: int) -> Array:
    images = jnp.asarray(images)
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[1:] != (size, size, 3):
        raise ValueError(
            f"Images must be uint8 [B, {size}, {size}, 3], but got {images.dtype} {list(images.shape)}; "
            "add a batch axis to a single image with images[None]."
        )
    return images
