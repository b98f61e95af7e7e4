"""The environment: pure `reset` and `step`, and `render`.

Both can be called as they are, or inside `jax.jit` and `jax.vmap`. The state is a frozen pytree of
fixed size. There is no automatic reset here; the Gymnasium and dm_env adapters have one.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray, UInt8

from cobra_rl.spriteworld.actions import check_action, select_move
from cobra_rl.spriteworld.render import draw
from cobra_rl.spriteworld.scenes import SceneSampler
from cobra_rl.spriteworld.sprites import Sprites, sprites_from_factors
from cobra_rl.spriteworld.suite import EnvSpec, env_spec
from cobra_rl.spriteworld.tasks import GoalMark

IMAGE_SIZE = 64

Image = UInt8[Array, "H W 3"]
Info = dict[str, Array]
Tree = TypeVar("Tree")


class EnvState(eqx.Module):
    """All there is to know of an episode."""

    sprites: Sprites
    step: Int[Array, ""]  # steps taken since the reset


class Spriteworld:
    """One environment, defined by its `spec`. `make` builds those of the suite."""

    def __init__(self, spec: EnvSpec):
        self.spec = spec
        self._sample = SceneSampler(spec.scenes, spec.capacity, spec.shuffle)
        self._reset = jax.jit(self._pure_reset)
        self._step = jax.jit(self._pure_step)
        self._evaluate = jax.jit(lambda state: spec.task(state.sprites))

    def __repr__(self) -> str:
        return f"Spriteworld({self.spec.name}, mode={self.spec.mode}, variant={self.spec.variant})"

    @property
    def goals(self) -> tuple[GoalMark, ...]:
        """The hidden goals, to draw with `render`; agents never see them."""
        return self.spec.task.goals

    def reset(self, key: PRNGKeyArray) -> tuple[EnvState, Image]:
        """Draws an initial state. Success is never checked at reset."""
        return self._reset(key)

    def step(
        self, key: PRNGKeyArray, state: EnvState, action: ArrayLike
    ) -> tuple[EnvState, Image, Float[Array, ""], Bool[Array, ""], Bool[Array, ""], Info]:
        """(state, image, reward, terminated, truncated, info) after a click and a push.

        Success terminates, the step limit truncates. `info` has `success` and `moved`, the index of
        the pushed sprite or -1. An action that is NaN or outside [0, 1]^4 is a ValueError; within
        compiled code, where nothing can be raised, it moves nothing.
        """
        check_action(action)
        return self._step(key, state, jnp.asarray(action, jnp.float32))

    def evaluate(self, state: EnvState) -> tuple[Float[Array, ""], Bool[Array, ""]]:
        """(reward, success) of a state."""
        return self._evaluate(state)

    def advance(
        self, key: PRNGKeyArray, state: EnvState, action: Float[Array, " 4"]
    ) -> tuple[EnvState, Float[Array, ""], Bool[Array, ""], Bool[Array, ""], Info]:
        """`step` without its image, for use within compiled code: (state, reward, terminated, truncated, info)."""
        sprites, moved = select_move(key, state.sprites, action, self.spec.motion_noise)
        state = EnvState(sprites, state.step + 1)
        reward, success = self.spec.task(sprites)
        truncated = (state.step >= self.spec.max_steps) & ~success
        return state, reward, success, truncated, {"success": success, "moved": moved}

    def initial(self, key: PRNGKeyArray) -> EnvState:
        """`reset` without its image, for use within compiled code."""
        return EnvState(self._sample(key), jnp.int32(0))

    def draw(self, state: EnvState) -> Image:
        """The observation of a state, for use within compiled code; faster than `render` where shapes are few."""
        return draw(state.sprites, IMAGE_SIZE, shapes=self.spec.shapes)

    def _pure_reset(self, key: PRNGKeyArray) -> tuple[EnvState, Image]:
        state = self.initial(key)
        return state, self.draw(state)

    def _pure_step(self, key: PRNGKeyArray, state: EnvState, action: Float[Array, " 4"]):
        state, reward, terminated, truncated, info = self.advance(key, state, action)
        return state, self.draw(state), reward, terminated, truncated, info


@functools.cache
def make(task: str, mode: str = "train", variant: str = "paper") -> Spriteworld:
    """One of the suite's environments; the same arguments give the same object, compiled once.

    Args:
      task: one of `cobra_rl.spriteworld.TASKS`.
      mode: "train", or "test" for the task's robustness test.
      variant: "paper", or "released" for the rules of the public package 1.0.2.
    """
    return Spriteworld(env_spec(task, mode, variant))


def state_from_sprites(sprites: Sequence[Mapping | Sequence], capacity: int | None = None) -> EnvState:
    """A state at step 0 from a list of sprites, back to front.

    Each is a mapping with any of x, y, shape, angle (degrees), scale, c0, c1, c2 (hue, saturation,
    value), or a tuple of all eight in this order. `capacity` pads the state to that many sprites.
    """
    return EnvState(sprites_from_factors(sprites, capacity), jnp.int32(0))


@functools.partial(jax.jit, static_argnames=("size", "goals"))
def render(
    state: EnvState,
    size: int = IMAGE_SIZE,
    *,
    action: ArrayLike | None = None,
    goals: tuple[GoalMark, ...] = (),
) -> Image:
    """The image [size, size, 3] of a state, first row at the top.

    For people: a larger size, `action` to draw it as an arrow, and `goals=env.goals` to draw the
    hidden goals as crossed circles.
    """
    return draw(state.sprites, size, None if action is None else jnp.asarray(action, jnp.float32), goals)


def where_rows(chosen: Bool[ArrayLike, " B"], new: Tree, old: Tree) -> Tree:
    """Of batched states, or any trees with a leading axis B: row by row the one or the other."""
    return jax.tree.map(
        lambda one, other: jnp.where(jnp.reshape(chosen, (-1, *[1] * (other.ndim - 1))), one, other), new, old
    )
