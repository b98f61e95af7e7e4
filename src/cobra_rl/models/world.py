"""The world model: vision, transition model T and exploration policy D in one, the product of the exploration phase."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from cobra_rl.bounds import to_json
from cobra_rl.models.exploration import Exploration, ExplorationConfig
from cobra_rl.models.transition import Imagined, LawTransition, Sizes, TransitionConfig, TransitionModel, pixel_error
from cobra_rl.models.vision import Decoded, VisionModel, VisionModelConfig, without_empty
from cobra_rl.parts import make_part
from cobra_rl.storage.weights import Weights


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
            Slots [B, K, M] in no particular order: one per object, one or more for the background,
            the rest empty.

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
            The scenes' images [B, H, W, 3], each slot's own picture [B, K, H, W, 3], and the
            decoder's masks [B, K, H, W]; colours are about in [0, 1].
        """
        return self.vision.decode(jnp.asarray(slots, jnp.float32))

    @eqx.filter_jit
    def imagine(self, slots, actions) -> Imagined:
        """T: predict the slots after one step.

        Args:
            slots: Slots [*N, K, M].
            actions: One action in [0, 1]^A for each scene, [*N, A].

        Returns:
            The predicted slots [*N, K, M], and e_pred [*N], the pixel error that T expects of its
            prediction.
        """
        return self.transition(jnp.asarray(slots, jnp.float32), jnp.asarray(actions, jnp.float32))

    @eqx.filter_jit
    def scenes_after(self, slots: Float[Array, "*N K M"], actions: Float[Array, "*N A"]) -> Float[Array, "*N K M"]:
        """T: predict the slots after one step, as `imagine` does, but not the error; empty slots take no time.

        Args:
            slots: Slots [*N, K, M].
            actions: One action for each scene, [*N, A].

        Returns:
            The predicted slots.
        """
        if type(self.transition) is not LawTransition:  # else slots are moved each for itself, and empty ones stay
            return self.imagine(slots, actions).slots

        def moved(some: Float[Array, "*N k M"]) -> Float[Array, "*N K M"]:
            after = self.imagine(some, actions).slots
            return jnp.concatenate([after, slots[..., some.shape[-2] :, :]], -2)

        return without_empty(moved, slots)

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
        return self.exploration.sample(slots, key)

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
        u = jnp.asarray(u, jnp.float32)
        return u if self.exploration is None else self.exploration.deform(jnp.asarray(slots, jnp.float32), u)

    @eqx.filter_jit
    def pixel_error(self, slots, images) -> Float[Array, " B"]:
        """Return the pixel error ||V_dec(z) - x||^2 of slots, summed over pixels and colours in [0, 1].

        Args:
            slots: Slots [B, K, M], for example imagined ones.
            images: The true images, uint8 [B, H, W, 3].

        Returns:
            The error of each scene.
        """
        return pixel_error(self.vision, jnp.asarray(slots, jnp.float32), jnp.asarray(images))

    def without_policy(self) -> "WorldModel":
        """Return the same world with uniform proposals."""
        return WorldModel(self.vision, self.transition, None, self.action_size)

    def _checked(self, images) -> Array:
        images = images if hasattr(images, "dtype") else np.asarray(images)
        size = self.vision.config.size
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[1:] != (size, size, 3):
            advice = "; add a batch axis to a single image with images[None]" if images.ndim == 3 else ""
            raise ValueError(
                f"Images must be uint8 [B, {size}, {size}, 3], but got {images.dtype} {list(images.shape)}{advice}."
            )
        return jnp.asarray(images)


def sizes_of(vision: VisionModelConfig, action_size: int) -> Sizes:
    """Return the sizes of a world model."""
    return Sizes(vision.slots, vision.latents, action_size, vision.size)


def make_vision(config: VisionModelConfig, key: PRNGKeyArray) -> VisionModel:
    """Build a vision module with fresh weights."""
    return make_part(config, key)


def make_transition(config: TransitionConfig, vision: VisionModel, action: int, key: PRNGKeyArray) -> TransitionModel:
    """Build a transition model with fresh weights for the slots of a vision module and actions of this size."""
    return make_part(config, sizes_of(vision.config, action), vision.place, key)


def make_exploration(config: ExplorationConfig, vision: VisionModel, action: int, key: PRNGKeyArray) -> Exploration:
    """Build an exploration policy with fresh weights for the slots of a vision module and actions of this size."""
    return make_part(config, sizes_of(vision.config, action), key)


def vision_weights(vision: VisionModel) -> Weights:
    """Return the weights of a vision module with their description, to be saved."""
    return Weights(vision, to_json(vision.config), "vision")


def part_weights(part: str, model: Any, action_size: int, vision_sha256: str) -> Weights:
    """Return the weights of a transition model or an exploration policy with their description, to be saved.

    Args:
        part: "transition" or "exploration".
        model: The model.
        action_size: A, the dimension of an action.
        vision_sha256: The sha256 of the vision module that it was trained on.
    """
    return Weights(model, {"action_size": action_size, "vision": vision_sha256} | to_json(model.config), part)
