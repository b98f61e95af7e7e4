"""State -> which sprite each pixel shows: the true decomposition of an image."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from cobra_rl.spriteworld.env import EnvState
from cobra_rl.spriteworld.sprites import contains, front_most
from cobra_rl.spriteworld.suite import IMAGE_SIZE


@functools.partial(jax.jit, static_argnames="size")
def segment(state: EnvState, size: int = IMAGE_SIZE) -> Int[Array, "H W"]:
    """Label each pixel with the index of the front-most sprite that contains its centre, -1 for the background."""
    return _at_pixels(lambda point: front_most(state.sprites, point), size)


@functools.partial(jax.jit, static_argnames="size")
def coverage(state: EnvState, size: int = IMAGE_SIZE) -> Bool[Array, "H W N"]:
    """Tell for each sprite which pixels' centres it contains, seen or hidden by others."""
    return _at_pixels(lambda point: contains(state.sprites, point), size)


def _at_pixels(function: Callable[[Array], Array], size: int) -> Array:
    """Evaluate a function of a point at the centres of all pixels: [H, W, ...]."""
    centres = (jnp.arange(size) + 0.5) / size
    points = jnp.stack(jnp.meshgrid(centres, centres[::-1]), axis=-1)  # [H, W, 2]
    return jax.vmap(jax.vmap(function))(points)
