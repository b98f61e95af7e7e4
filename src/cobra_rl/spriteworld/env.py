"""The environment: pure `reset` and `step`, which can be called as they are or inside `jax.jit` and `jax.vmap`."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray

from cobra_rl.bounds import Bounds, conform
from cobra_rl.cache import keep_compilations
from cobra_rl.spriteworld.actions import ACTION_SIZE, check_action, select_move
from cobra_rl.spriteworld.base import Image, TimeStep
from cobra_rl.spriteworld.names import MODES, TASKS, VARIANTS
from cobra_rl.spriteworld.renderer import draw
from cobra_rl.spriteworld.scenes import SceneSampler
from cobra_rl.spriteworld.sprites import Sprites, contains, front_most, sprites_from_factors
from cobra_rl.spriteworld.suite import IMAGE_SIZE, EnvSpec, env_spec, one_of
from cobra_rl.spriteworld.tasks import GoalMark

keep_compilations()

Pixels = Annotated[int, Bounds(1, 4096)]  # height and width of a picture


class EnvState(eqx.Module):
    """All there is to know about an episode under way."""

    sprites: Sprites
    step: Int[Array, ""]  # steps taken since the reset


class Spriteworld:
    """An `Environment` defined by its `spec`; those with equal specs are equal and share their compiled code."""

    action_size = ACTION_SIZE

    def __init__(self, spec: EnvSpec):
        conform(EnvSpec, spec, "spec")
        self.spec, self.image_size, self.max_steps = spec, spec.image_size, spec.max_steps
        self._sample = SceneSampler(spec.scenes, spec.capacity, spec.shuffle)
        self._hash = hash((type(self), spec))

    def __repr__(self) -> str:
        return f"Spriteworld({self.spec.name}, mode={self.spec.mode}, variant={self.spec.variant})"

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and self.spec == other.spec)  # pyright: ignore

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self):
        return type(self), (self.spec,)

    @property
    def goals(self) -> tuple[GoalMark, ...]:
        """The hidden goals, to draw with `render`; agents never see them."""
        return self.spec.task.goals

    @functools.partial(jax.jit, static_argnums=0)
    def reset(self, key: PRNGKeyArray) -> tuple[EnvState, Image]:
        """Begin an episode: the first state and its image. Success is never checked at reset."""
        state = self.initial(key)
        return state, self.draw(state)

    def step(self, key: PRNGKeyArray, state: EnvState, action: ArrayLike) -> TimeStep:
        """Click and push. Success terminates an episode, the step limit truncates it.

        An action (click x, click y, motion x, motion y) that is NaN or outside [0, 1] is a ValueError, but in compiled
        code, which cannot raise, it moves nothing. `info` has `success` and `moved`, the pushed sprite's index or -1.
        """
        check_action(action)
        return self._step(key, state, jnp.asarray(action, jnp.float32))

    @functools.partial(jax.jit, static_argnums=0)
    def _step(self, key: PRNGKeyArray, state: EnvState, action: Float[Array, " 4"]) -> TimeStep:
        after = self.advance(key, state, action)
        return after._replace(image=self.draw(after.state))

    @functools.partial(jax.jit, static_argnums=0)
    def evaluate(self, state: EnvState) -> tuple[Float[Array, ""], Bool[Array, ""]]:
        """Return the reward of a step that leads to this state, and whether the task is solved there."""
        return self.spec.task(state.sprites)

    def initial(self, key: PRNGKeyArray) -> EnvState:
        """Draw the first state of an episode: `reset` without its image, for use within compiled code."""
        return EnvState(self._sample(key), jnp.int32(0))

    def advance(self, key: PRNGKeyArray, state: EnvState, action: Float[Array, " 4"]) -> TimeStep:
        """Take a step without drawing it, for use within compiled code. See `step`; `image` is None."""
        sprites, moved = select_move(key, state.sprites, action, self.spec.motion_noise)
        after = EnvState(sprites, state.step + 1)
        reward, success = self.spec.task(sprites)
        truncated = (after.step >= self.max_steps) & ~success
        return TimeStep(after, None, reward, success, truncated, {"success": success, "moved": moved})

    def draw(self, state: EnvState) -> Image:
        """Draw the observation of a state, for use within compiled code; faster than `render` for few shapes."""
        return draw(state.sprites, self.image_size, shapes=self.spec.shapes)


def make(task: str, mode: str = "train", variant: str = "paper") -> Spriteworld:
    """Build an environment of the suite (`TASKS`); the same arguments give the same object. Your own: see `EnvSpec`.

    Mode "test" is the task's robustness test; variant "released" has the rules of the public package 1.0.2.
    """
    return _make(one_of("task", task, TASKS), one_of("mode", mode, MODES), one_of("variant", variant, VARIANTS))


@functools.cache
def _make(task: str, mode: str, variant: str) -> Spriteworld:
    return Spriteworld(env_spec(task, mode, variant))


def state_from_sprites(sprites: Sequence[Mapping | Sequence], capacity: int | None = None) -> EnvState:
    """Build a state at step 0, which fits every environment, from sprites, back to front, padded to `capacity`.

    Each is a mapping with any of x, y, shape, angle (degrees), scale, c0, c1, c2 (hue, saturation, value), or a tuple
    of all eight in this order.
    """
    return EnvState(sprites_from_factors(sprites, capacity), jnp.int32(0))


@functools.partial(jax.jit, static_argnames=("size", "goals"))
def render(
    state: EnvState, size: int = IMAGE_SIZE, *, action: ArrayLike | None = None, goals: tuple[GoalMark, ...] = ()
) -> Image:
    """Draw a state for people, at any size: an image [size, size, 3], its first row at the top.

    An action is an arrow from the click to where the sprite is pushed; goals (`env.goals`) are crossed circles.
    """
    conform(Pixels, size, "size")
    return draw(state.sprites, size, None if action is None else jnp.asarray(action, jnp.float32), goals)


@functools.partial(jax.jit, static_argnames="size")
def segment(state: EnvState, size: int = IMAGE_SIZE) -> Int[Array, "H W"]:
    """Label each pixel with the index of the front-most sprite that contains its centre, -1 for the background."""
    return _at_pixels(front_most, state, size)


@functools.partial(jax.jit, static_argnames="size")
def coverage(state: EnvState, size: int = IMAGE_SIZE) -> Bool[Array, "H W N"]:
    """Tell for each sprite which pixels' centres it contains, seen or hidden by others."""
    return _at_pixels(contains, state, size)


def _at_pixels(function: Callable[[Sprites, Array], Array], state: EnvState, size: int) -> Array:
    """Evaluate a function of sprites and a point at the centres of all pixels: [H, W, ...]."""
    conform(Pixels, size, "size")
    centres = (jnp.arange(size) + 0.5) / size
    points = jnp.stack(jnp.meshgrid(centres, centres[::-1]), axis=-1)  # [H, W, 2]
    return jax.vmap(jax.vmap(functools.partial(function, state.sprites)))(points)
