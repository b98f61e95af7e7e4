"""The shipped weights, and the object that serves them."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from cobra_rl.models import exploration, monet
from cobra_rl.models.exploration import Exploration, ExplorationConfig
from cobra_rl.models.monet import Decoded, Monet, MonetConfig
from cobra_rl.models.transition import Imagined, Transition, TransitionConfig
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


class Curious(Vision):
    """Vision with the transition model and the exploration policy: the whole exploration phase."""

    def __init__(self, vision: Vision, transition: Transition, exploration: Exploration):
        super().__init__(vision.model)
        self.transition, self.exploration = transition, exploration

    def imagine(self, slots, actions) -> Imagined:
        """Slots [B, K, M] and actions [B, 4] -> the slots one step later, and the error e_pred to expect."""
        return _imagine(self.transition, jnp.asarray(slots, jnp.float32), jnp.asarray(actions, jnp.float32))

    def propose(self, slots, key: PRNGKeyArray, n: int) -> Float[Array, "*B n 4"]:
        """n actions for one scene [K, M], or for each of several [B, K, M]."""
        slots = jnp.asarray(slots, jnp.float32)
        if slots.ndim == 2:
            return _propose(self.exploration, slots[None], key, n)[0]
        return _propose(self.exploration, slots, key, n)


@eqx.filter_jit
def _imagine(transition: Transition, slots, actions) -> Imagined:
    return transition(slots, actions)


@eqx.filter_jit
def _propose(policy: Exploration, slots: Float[Array, "B K M"], key: PRNGKeyArray, n: int) -> Float[Array, "B n 4"]:
    keys = jax.random.split(key, slots.shape[0])
    return jax.vmap(lambda slots, key: exploration.propose(policy, slots, key, n))(slots, keys)


def load_vision(folder: Path = SHIPPED / "vision") -> Vision:
    """The vision module whose weights lie in `folder`; a file that does not fit is refused."""
    return Vision(load_model(folder, "vision", Monet, MonetConfig))


def load_curious(vision: Vision, folder: Path = SHIPPED) -> Curious:
    """The transition model and the exploration policy whose weights lie in `folder`, with the vision they go with."""
    transition = load_model(folder / "transition", "transition", Transition, TransitionConfig)
    policy = load_model(folder / "exploration", "exploration", Exploration, ExplorationConfig)
    return Curious(vision, transition, policy)


def load_pretrained() -> Curious:
    """The shipped exploration phase: `encode`, `masks` and `decode`, `imagine(slots, actions)` and `propose`."""
    return load_curious(load_vision())


def load_model(folder: Path, kind: str, model: Callable, config: type) -> Any:
    """A model from its weights and the configuration beside them; refused if either does not fit."""
    found = read_config(folder, kind)
    if unknown := found.keys() - {field.name for field in dataclasses.fields(config)}:
        raise WeightsError(f"The weights in {folder} are of another model: this code knows no {sorted(unknown)}.")
    settings = config(**{key: tuple(v) if isinstance(v, list) else v for key, v in found.items()})
    return load_weights(folder, eqx.filter_eval_shape(model, settings, jax.random.key(0)), kind)


def _checked(images, size: int) -> Array:
    images = jnp.asarray(images)
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[1:] != (size, size, 3):
        raise ValueError(
            f"Images must be uint8 [B, {size}, {size}, 3], but got {images.dtype} {list(images.shape)}; "
            "add a batch axis to a single image with images[None]."
        )
    return images
