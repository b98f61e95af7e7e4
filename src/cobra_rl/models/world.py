"""The world model: vision, transition model T and exploration policy D in one, and the registries of all three."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from cobra_rl.models import transition
from cobra_rl.models.exploration import Exploration, ExplorationConfig
from cobra_rl.models.monet import Monet, MonetConfig
from cobra_rl.models.transition import Imagined, Sizes, TransitionConfig, TransitionModel
from cobra_rl.models.vision import Decoded, VisionModel, VisionModelConfig


class WorldModel(eqx.Module):
    """Vision module, transition model and exploration policy in one. Methods are pure, and compiled once per shape."""

    vision: VisionModel
    transition: TransitionModel
    exploration: Exploration | None  # without it, proposals are uniform: the paper's ablation
    action_size: int = eqx.field(static=True)

    @property
    def sizes(self) -> Sizes:
        """The sizes of slots, actions and pictures."""
        return sizes_of(self.vision.config, self.action_size)

    def encode(self, images) -> Float[Array, "B K M"]:
        """V_enc: encode images to slots.

        Args:
            images: Images uint8 [B, H, W, 3]; for a single one, pass `image[None]`.

        Returns:
            Slots [B, K, M] in no particular order: one per object, one or more for the background, the rest empty.

        Raises:
            ValueError: If the images have another type or shape.
        """
        return self.vision.encode(self._checked(images))

    def masks(self, images) -> Float[Array, "B K H W"]:
        """Return where the encoder sees each slot.

        Args:
            images: Images uint8 [B, H, W, 3]; for a single one, pass `image[None]`.

        Returns:
            Masks [B, K, H, W] in [0, 1], which sum to 1 over the slots.

        Raises:
            ValueError: If the images have another type or shape.
        """
        return self.vision.masks(self._checked(images))

    def decode(self, slots) -> Decoded:
        """V_dec: draw slots.

        Args:
            slots: Slots [B, K, M], encoded or imagined.

        Returns:
            The scenes' images [B, H, W, 3], each slot's own picture [B, K, H, W, 3], and the decoder's masks
            [B, K, H, W]; colours are about in [0, 1].
        """
        return self.vision.decode(jnp.asarray(slots, jnp.float32))

    @eqx.filter_jit
    def imagine(self, slots, actions) -> Imagined:
        """T: predict the slots after one step.

        Args:
            slots: Slots [*N, K, M].
            actions: One action in [0, 1]^A for each scene, [*N, A].

        Returns:
            The predicted slots [*N, K, M], and e_pred [*N], the pixel error that T expects of its prediction.
        """
        return self.transition(jnp.asarray(slots, jnp.float32), jnp.asarray(actions, jnp.float32))

    @eqx.filter_jit
    def sample(self, slots: Float[Array, "B K M"], key: PRNGKeyArray) -> Float[Array, "B A"]:
        """D: draw one action for each scene; uniformly if there is no exploration policy.

        Args:
            slots: Slots [B, K, M].
            key: A random key.

        Returns:
            Actions [B, A] in [0, 1].
        """
        if self.exploration is None:
            return jax.random.uniform(key, (slots.shape[0], self.action_size))
        return self.exploration.sample(slots, self.action_size, key)

    @eqx.filter_jit
    def propose(self, slots, key: PRNGKeyArray, n: int) -> Float[Array, "*B n A"]:
        """D: draw several actions for each scene; uniformly if there is no exploration policy.

        Args:
            slots: The slots of one scene [K, M], or of several [B, K, M].
            key: A random key.
            n: The number of actions for each scene.

        Returns:
            Actions [n, A], or [B, n, A], in [0, 1].
        """
        slots = jnp.asarray(slots, jnp.float32)

        def for_one(slots: Float[Array, "K M"], key: PRNGKeyArray) -> Float[Array, "n A"]:
            return self.sample(jnp.broadcast_to(slots, (n, *slots.shape)), key)

        if slots.ndim == 2:
            return for_one(slots, jax.random.split(key, 1)[0])
        return jax.vmap(for_one)(slots, jax.random.split(key, slots.shape[0]))

    @eqx.filter_jit
    def deform(self, slots, u) -> Float[Array, "*B A"]:
        """D, deterministic: move the click of actions to the nearest object that is worth a click.

        The motion is deformed too, though a trained policy changes it little.

        Args:
            slots: Slots [*B, K, M].
            u: Actions [*B, A] in [0, 1].

        Returns:
            The deformed actions [*B, A]; `u` itself if there is no exploration policy.
        """
        slots, u = jnp.asarray(slots, jnp.float32), jnp.asarray(u, jnp.float32)
        return u if self.exploration is None else self.exploration.deform(slots, u)

    @eqx.filter_jit
    def pixel_error(self, slots, images) -> Float[Array, " B"]:
        """Return the pixel error ||V_dec(z) - x||^2 of slots, summed over pixels and colours in [0, 1].

        Args:
            slots: Slots [B, K, M], for example imagined ones.
            images: The true images, uint8 [B, H, W, 3].

        Returns:
            The error of each scene.
        """
        return transition.pixel_error(self.vision, jnp.asarray(slots, jnp.float32), jnp.asarray(images))

    def without_policy(self) -> "WorldModel":
        """Return the same world with uniform proposals."""
        return WorldModel(self.vision, self.transition, None, self.action_size)

    def _checked(self, images) -> Array:
        images, size = images if hasattr(images, "dtype") else np.asarray(images), self.vision.config.size
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[1:] != (size, size, 3):
            wanted, found = f"uint8 [B, {size}, {size}, 3]", f"{images.dtype} {list(images.shape)}"
            advice = "; add a batch axis to a single image with images[None]" if images.ndim == 3 else ""
            raise ValueError(f"Images must be {wanted}, but got {found}{advice}.")
        return jnp.asarray(images)


def sizes_of(vision: VisionModelConfig, action_size: int) -> Sizes:
    """Return the sizes of a world model."""
    return Sizes(vision.slots, vision.latents, action_size, vision.size)


class Kind(NamedTuple):
    """An entry of a registry: the configuration and the class of a model."""

    config: type
    model: type


VISIONS: Mapping[str, Kind] = {"monet": Kind(MonetConfig, Monet)}
TRANSITIONS: Mapping[str, Kind] = {
    "paper": Kind(TransitionConfig, transition.Transition),
    "law": Kind(transition.LawConfig, transition.LawTransition),
}
EXPLORATIONS: Mapping[str, Kind] = {"deformation": Kind(ExplorationConfig, Exploration)}


def name_of(kinds: Mapping[str, Kind], config: Any) -> str:
    """Return the name under which a configuration's model is registered."""
    names = {kind.config: name for name, kind in kinds.items()}
    if type(config) not in names:
        known = ", ".join(known.__name__ for known in names)
        raise ValueError(f"No model is registered for {type(config).__name__}; there is one for each of {known}.")
    return names[type(config)]


def make_vision(config: VisionModelConfig, key: PRNGKeyArray) -> VisionModel:
    """Build a vision module with fresh weights."""
    return VISIONS[name_of(VISIONS, config)].model(config, key)


def make_transition(config: TransitionConfig, vision: VisionModel, action: int, key: PRNGKeyArray) -> TransitionModel:
    """Build a transition model with fresh weights for the slots of a vision module and actions of this size."""
    return TRANSITIONS[name_of(TRANSITIONS, config)].model(config, sizes_of(vision.config, action), vision.place, key)


def make_exploration(config: ExplorationConfig, vision: VisionModel, action: int, key: PRNGKeyArray) -> Exploration:
    """Build an exploration policy with fresh weights for the slots of a vision module and actions of this size."""
    return EXPLORATIONS[name_of(EXPLORATIONS, config)].model(config, sizes_of(vision.config, action), key)
