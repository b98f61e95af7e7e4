"""State -> which sprite each pixel shows: the true decomposition of a picture."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from cobra_rl.spriteworld.env import IMAGE_SIZE, EnvState
from cobra_rl.spriteworld.sprites import contains, front_most


@functools.partial(jax.jit, static_argnames="size")
def segment(state: EnvState, size: int = IMAGE_SIZE) -> Int[Array, "H W"]:
    """Index of the front-most sprite that contains the pixel's centre, -1 for the background; first row at the top."""
    return _at_pixels(lambda point: front_most(state.sprites, point), size)


@functools.partial(jax.jit, static_argnames="size")
def coverage(state: EnvState, size: int = IMAGE_SIZE) -> Bool[Array, "H W N"]:
    """Which sprites contain the pixel's centre, seen or hidden by others."""
    return _at_pixels(lambda point: contains(state.sprites, point), size)


def _at_pixels(function: Callable[[Array], Array], size: int) -> Array:
    """A function of a point, at the centres of all pixels: [H, W, ...]."""
    centres = (jnp.arange(size) + 0.5) / size
    points = jnp.stack(jnp.meshgrid(centres, centres[::-1]), axis=-1)  # [H, W, 2]
    return jax.vmap(jax.vmap(function))(points)
