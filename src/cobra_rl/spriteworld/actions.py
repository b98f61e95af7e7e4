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
    """What the motion click asks for: (0.5, 0.5) is no motion, 0.125 the most along an axis."""
    return MOTION_SCALE * (action[2:] - 0.5)


def select_move(
    key: PRNGKeyArray, sprites: Sprites, action: Float[Array, " 4"], noise: float
) -> tuple[Sprites, Int[Array, ""]]:
    """Moves the front-most sprite under the click; its centre stays in the frame.

    Gaussian noise of standard deviation `noise` is added to the displacement of the sprite that
    moves. Compiled code cannot raise, so there an action that is NaN or outside [0, 1] moves nothing.

    Returns the sprites and the index of the one that was pushed, -1 if none.
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
    """Raises ValueError, in one sentence, unless `action` is finite, in [0, 1] and [*batch_shape, 4].

    The values of a traced action are unknown; only its shape is checked.
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
