"""A world without sprites: round lamps, and actions that click on a lamp and give it a hue.

It needs nothing of Spriteworld but the types: any hashable object with these three methods and three attributes can be
handed to `--env`, in all three phases:

    cobra train vision --env docs/examples/lamps.py:exploration --preset debug --out runs/lamps/vision
    cobra train explore --env docs/examples/lamps.py:exploration --preset debug \
        --vision runs/lamps/vision --out runs/lamps/explore
    cobra solve --env docs/examples/lamps.py:task --preset debug \
        --world runs/lamps/explore/world --out runs/lamps/task
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt8

from cobra_rl.spriteworld import TimeStep

RADIUS = 0.1  # of a lamp, in frame widths
GREEN = 1 / 3


class LampState(NamedTuple):
    """N lamps: where they are, and of what hue."""

    place: Float[Array, "N 2"]  # in [0, 1]^2, y up
    hue: Float[Array, " N"]
    step: Int[Array, ""]


@dataclass(frozen=True)
class Lamps:
    """An environment (`cobra_rl.spriteworld.Environment`): an action (x, y, hue) gives the lamp at (x, y) that hue."""

    rewarded: bool  # whether all lamps are to be green
    count: int = 2
    action_size: int = 3
    image_size: int = 64
    max_steps: int = 10

    def initial(self, key: PRNGKeyArray) -> LampState:
        """Draw the first state of an episode."""
        place_key, hue_key = jax.random.split(key)
        place = jax.random.uniform(place_key, (self.count, 2))
        return LampState(place, jax.random.uniform(hue_key, (self.count,)), jnp.int32(0))

    def advance(self, key: PRNGKeyArray, state: LampState, action: Float[Array, " 3"]) -> TimeStep:
        """Take one step without drawing it."""
        struck = jnp.linalg.norm(state.place - action[:2], axis=1) < RADIUS
        state = LampState(state.place, jnp.where(struck, action[2], state.hue), state.step + 1)
        distance = jnp.abs(state.hue - GREEN)
        reward = -10.0 * distance.sum() if self.rewarded else jnp.float32(0.0)
        solved = jnp.all(distance < 0.1) & self.rewarded
        return TimeStep(state, None, reward, solved, state.step >= self.max_steps, {})

    def draw(self, state: LampState) -> UInt8[Array, "H W 3"]:
        """Draw the observation of a state."""
        centres = (jnp.arange(self.image_size) + 0.5) / self.image_size
        x, y = jnp.meshgrid(centres, 1.0 - centres)
        offset = jnp.stack([x, y], -1)[None] - state.place[:, None, None]
        lit = (jnp.linalg.norm(offset, axis=-1) < RADIUS)[..., None]
        color = jnp.clip(jnp.abs((6.0 * state.hue[:, None] + jnp.array([0.0, 4.0, 2.0])) % 6.0 - 3.0) - 1.0, 0.0, 1.0)
        return (255 * jnp.where(lit, color[:, None, None], 0.0).max(0)).astype(jnp.uint8)


exploration = Lamps(rewarded=False)
task = Lamps(rewarded=True)
