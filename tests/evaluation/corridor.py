"""An environment without sprites, whose right answers are known."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from cobra_rl.spriteworld.base import TimeStep


class Walker(NamedTuple):
    """Where the walker is; a state need not say how old the episode is."""

    place: Float[Array, ""]  # in [0, 1]
    left: Float[Array, ""]  # steps to go


@dataclass(frozen=True)
class Corridor:
    """A walker goes a tenth to the right where the first number of the action is above a half; 1 is the goal."""

    action_size: int = 2
    image_size: int = 64
    max_steps: int = 12

    def initial(self, key):
        return Walker(0.3 + 0.1 * jax.random.uniform(key), jnp.float32(self.max_steps))

    def advance(self, key, state, action):
        after = Walker(state.place + jnp.where(action[0] > 0.5, 0.1, 0.0), state.left - 1.0)
        success = after.place >= 1.0
        truncated = (after.left <= 0.0) & ~success
        return TimeStep(after, None, after.place, success, truncated, {})

    def draw(self, state):
        """A white column as high as the frame, on black."""
        column = jnp.abs((jnp.arange(self.image_size) + 0.5) / self.image_size - state.place) < 0.05
        bright = jnp.broadcast_to(column[None, :, None], (self.image_size, self.image_size, 3))
        return (255 * bright).astype(jnp.uint8)
