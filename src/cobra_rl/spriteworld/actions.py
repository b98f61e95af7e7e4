"""Click and push (SelectMove in the original package): an action in [0, 1]^4 is (click x, y, motion x, y)."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Int, PRNGKeyArray

from cobra_rl.bounds import shown
from cobra_rl.spriteworld.sprites import Sprites, front_most_at

ACTION_SIZE = 4
MOTION_SCALE = 0.25


def displacement(action: Float[Array, " 4"]) -> Float[Array, " 2"]:
    """Compute the motion (dx, dy) that an action asks for, at most 0.125 frame widths along an axis."""
    return MOTION_SCALE * (action[2:] - 0.5)


def select_move(
    key: PRNGKeyArray, sprites: Sprites, action: Float[Array, " 4"], *, noise: float
) -> tuple[Sprites, Int[Array, ""]]:
    """Move the front-most sprite under the click, if any; its centre stays in the frame.

    Args:
        key: The random key of the motion noise.
        sprites: The sprites before the step.
        action: (click x, click y, motion x, motion y); one that is NaN or outside [0, 1] moves nothing.
        noise: The standard deviation of the motion noise, in frame widths.

    Returns:
        The sprites after the step, and the index of the sprite that was pushed, or -1.
    """
    valid = jnp.all((action >= 0.0) & (action <= 1.0))
    moved = jnp.where(valid, front_most_at(sprites, action[:2]), -1)
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
