"""Click and push, the action space of COBRA (SelectMove in the original package).

An action in [0, 1]^4 is (click x, click y, motion x, motion y).
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Int, PRNGKeyArray

from cobra_rl.spriteworld.sprites import Sprites, front_most

ACTION_SIZE = 4
MOTION_SCALE = 0.25


def displacement(action: Float[Array, " 4"]) -> Float[Array, " 2"]:
    """Compute the motion that an action asks for.

    Args:
      action: (click x, click y, motion x, motion y).

    Returns:
      (dx, dy) in frame widths: 0 for a motion of (0.5, 0.5), at most 0.125 along an axis.
    """
    return MOTION_SCALE * (action[2:] - 0.5)


def select_move(
    key: PRNGKeyArray, sprites: Sprites, action: Float[Array, " 4"], noise: float
) -> tuple[Sprites, Int[Array, ""]]:
    """Move the front-most sprite under the click; its centre stays in the frame.

    Args:
      key: randomness for the noise.
      sprites: the sprites, from back to front.
      action: (click x, click y, motion x, motion y). One that is NaN or outside [0, 1] moves nothing,
        for compiled code cannot raise.
      noise: standard deviation of the Gaussian noise on the displacement of the sprite that moves.

    Returns:
      The sprites, and the index of the one that was pushed, -1 if none.
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
    """Raise a ValueError of one sentence unless actions are finite, in [0, 1] and of the right shape.

    The values of a traced action are unknown; only its shape is checked.

    Args:
      action: anything that NumPy takes for an array.
      batch_shape: the axes that should stand before the action's own.
    """
    shape = (*batch_shape, ACTION_SIZE)
    if np.shape(action) != shape:
        raise ValueError(
            f"An action has shape {shape} (click x, click y, motion x, motion y), but got shape {np.shape(action)}."
        )
    if isinstance(action, Tracer):
        return
    values = np.asarray(action, np.float32)
    if not np.all((values >= 0.0) & (values <= 1.0)):
        raise ValueError(
            f"An action must be finite and lie in [0, 1]^4, but got {np.array2string(values, threshold=8)}."
        )
