"""Click and push (SelectMove in the original package): an action in [0, 1]^4 is (click x, y, motion x, y)."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Int, PRNGKeyArray

from cobra_rl.bounds import shown
from cobra_rl.spriteworld.sprites import Sprites, front_most

ACTION_SIZE = 4
MOTION_SCALE = 0.25


def displacement(action: Float[Array, " 4"]) -> Float[Array, " 2"]:
    """Compute the motion (dx, dy) that an action asks for, at most 0.125 frame widths along an axis."""
    return MOTION_SCALE * (action[2:] - 0.5)


def select_move(
    key: PRNGKeyArray, sprites: Sprites, action: Float[Array, " 4"], noise: float
) -> tuple[Sprites, Int[Array, ""]]:
    """Move the front-most sprite under the click, if any, and return its index, or -1; its centre stays in the frame.

    `noise` is a standard deviation. An action that is NaN or outside [0, 1] moves nothing: compiled code cannot raise.
    """
    valid = jnp.all((action >= 0.0) & (action <= 1.0))
    moved = jnp.where(valid, front_most(sprites, action[:2]), -1)
    motion = displacement(action)
    if noise > 0.0:
        motion = motion + noise * jax.random.normal(key, (2,))
    pushed = jnp.arange(sprites.alive.shape[0]) == moved
    position = jnp.where(pushed[:, None], jnp.clip(sprites.position + motion, 0.0, 1.0), sprites.position)
    return dataclasses.replace(sprites, position=position), moved


def check_action(action, batch_shape: tuple[int, ...] = ()) -> None:
    """Raise a ValueError unless actions have the right shape and, where not traced, are finite and in [0, 1]."""
    shape = (*batch_shape, ACTION_SIZE)
    try:
        values = action if isinstance(action, Tracer) else np.asarray(action)
    except ValueError:  # rows of different lengths
        values = np.array(None)
    if values.shape != shape or values.dtype.kind not in "biuf":
        found = f"{values.dtype} {values.shape}" if values.dtype != object else shown(action)
        raise ValueError(f"An action has numbers of shape {shape} (click x, click y, motion x, motion y), not {found}.")
    if not isinstance(values, Tracer) and not np.all((values >= 0.0) & (values <= 1.0)):
        raise ValueError(f"An action must be finite and lie in [0, 1]^4, but got {shown(values.tolist())}.")
