"""The environment: pure `reset` and `step`, which can be called as they are or inside `jax.jit` and `jax.vmap`."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray

from cobra_rl.bounds import Bounds, conform
from cobra_rl.cache import keep_compilations
from cobra_rl.spriteworld.actions import ACTION_SIZE, check_action, select_move
from cobra_rl.spriteworld.base import Image, TimeStep
from cobra_rl.spriteworld.renderer import draw
from cobra_rl.spriteworld.scenes import SceneSampler
from cobra_rl.spriteworld.sprites import SHAPES, Sprites, contains, front_most_at, sprites_from_factors
from cobra_rl.spriteworld.suite import IMAGE_SIZE, EnvSpec, env_spec
from cobra_rl.spriteworld.tasks import GoalMark

keep_compilations()

Pixels = Annotated[int, Bounds(1, 4096)]  # height and width of a picture


class EnvState(eqx.Module):
    """All there is to know about an episode under way."""

    sprites: Sprites
    step: Int[Array, ""]  # steps taken since the reset


class Spriteworld:
    """An `Environment` defined by its `spec`; those with equal specs are equal and share their compiled code.

    Args:
        spec: The scenes, the task and the rules; `make` builds the suite's environments by name.

    Raises:
        ValueError: If `spec` is no `EnvSpec`.
    """

    action_size = ACTION_SIZE

    def __init__(self, spec: EnvSpec):
        conform(EnvSpec, spec, "spec")
        self.spec = spec
        self.image_size = spec.image_size
        self.max_steps = spec.max_steps
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

    @jax.jit(static_argnums=0)
    def reset(self, key: PRNGKeyArray) -> tuple[EnvState, Image]:
        """Begin an episode. Whether the task is already solved is not checked here, only after a step.

        Args:
            key: A random key; the same key gives the same scene.

        Returns:
            The first state and its image, uint8 [H, W, 3].
        """
        state = self.initial(key)
        return state, self.draw(state)

    def step(self, key: PRNGKeyArray, state: EnvState, action: ArrayLike) -> TimeStep:
        """Click on a sprite and push it. An episode that is over is not reset (see `auto_reset`).

        Args:
            key: The random key of the motion noise.
            state: The state before the step.
            action: (click x, click y, motion x, motion y), each in [0, 1]; motion 0.5 is no motion along that axis.

        Returns:
            The next state, its image, its reward, and whether the episode was terminated by success or truncated by
            the step limit; `info` has `success` and `moved`, the index of the pushed sprite, or -1.

        Raises:
            ValueError: If the action has another shape, is NaN or lies outside [0, 1], or if a sprite has a shape that
                `spec` does not know, which `draw` could not draw. Within compiled code, where values are not known,
                shapes are not checked, and an action that is NaN or outside [0, 1] moves nothing.
        """
        check_action(action)
        self._check_shapes(state.sprites)
        return self._step(key, state, jnp.asarray(action, jnp.float32))

    def _check_shapes(self, sprites: Sprites) -> None:
        """Raise a ValueError if a sprite, unless it is traced, has a shape that `draw` was not specialised for."""
        if isinstance(sprites.shape, Tracer):
            return
        found = {SHAPES[index] for index in np.unique(np.asarray(sprites.shape)[np.asarray(sprites.alive)])}
        if others := found - set(self.spec.shapes):
            raise ValueError(
                f"{self!r} does not know the shape {', '.join(sorted(others))}: it draws {', '.join(self.spec.shapes)}"
                "; take an environment whose spec has it, or draw the state with render."
            )

    @jax.jit(static_argnums=0)
    def _step(self, key: PRNGKeyArray, state: EnvState, action: Float[Array, " 4"]) -> TimeStep:
        after = self.advance(key, state, action)
        return after._replace(image=self.draw(after.state))

    @jax.jit(static_argnums=0)
    def evaluate(self, state: EnvState) -> tuple[Float[Array, ""], Bool[Array, ""]]:
        """Return the reward of a step that leads to this state, and whether the task is solved there."""
        return self.spec.task(state.sprites)

    def initial(self, key: PRNGKeyArray) -> EnvState:
        """Draw the first state of an episode: `reset` without its image, for use within compiled code."""
        return EnvState(self._sample(key), jnp.int32(0))

    def advance(self, key: PRNGKeyArray, state: EnvState, action: Float[Array, " 4"]) -> TimeStep:
        """Take a step without drawing it, for use within compiled code; actions are not checked.

        Args:
            key: The random key of the motion noise.
            state: The state before the step.
            action: As in `step`; one that is NaN or outside [0, 1] moves nothing.

        Returns:
            As of `step`, but `image` is None.
        """
        sprites, moved = select_move(key, state.sprites, action, noise=self.spec.motion_noise)
        after = EnvState(sprites, state.step + 1)
        reward, success = self.spec.task(sprites)
        return TimeStep(
            state=after,
            image=None,
            reward=reward,
            terminated=success,
            truncated=(after.step >= self.max_steps) & ~success,
            info={"success": success, "moved": moved},
        )

    def draw(self, state: EnvState) -> Image:
        """Draw what an agent sees of a state, for use within compiled code.

        Args:
            state: A state whose sprites have only shapes of `spec.shapes`; others are drawn wrongly (see `render`).

        Returns:
            An image uint8 [H, W, 3], its first row at the top.
        """
        return draw(state.sprites, self.image_size, shapes=self.spec.shapes)


def make(task: str, mode: str = "train", variant: str = "paper") -> Spriteworld:
    """Build an environment of the suite; for one of your own, see `EnvSpec`.

    Args:
        task: A name in `TASKS`, such as "sorting".
        mode: "train" to learn in, or "test" for the robustness test, whose scenes differ from those in training.
        variant: "paper" for the paper's rules, or "released" for those of the public Spriteworld package 1.0.2.

    Returns:
        The environment; the same arguments give the same object.

    Raises:
        ValueError: If a name is unknown; the message lists the known ones.
    """
    return _environment(env_spec(task, mode, variant))


_environment = functools.cache(Spriteworld)


def state_from_sprites(sprites: Sequence[Mapping | Sequence], capacity: int | None = None) -> EnvState:
    """Build a state at step 0 from sprites of your choice.

    Every environment whose `spec.shapes` has all its shapes can step and draw it; `render` draws all shapes.

    Args:
        sprites: Sprites from back to front. Each is a mapping with any of x, y, shape, angle (degrees), scale, c0, c1,
            c2 (hue, saturation, value), or a tuple of all eight in this order.
        capacity: N, the number of sprites with padding; by default as many as are given.

    Returns:
        The state.

    Raises:
        ValueError: If a factor is unknown or out of range, or there are more sprites than `capacity`.
    """
    return EnvState(sprites_from_factors(sprites, capacity), jnp.int32(0))


@jax.jit(static_argnames=("size", "goals"))
def render(
    state: EnvState, size: int = IMAGE_SIZE, *, action: ArrayLike | None = None, goals: tuple[GoalMark, ...] = ()
) -> Image:
    """Draw a state for people, at any size and with any shapes.

    Args:
        state: The state to draw.
        size: Height and width of the image in pixels, at most 4096.
        action: An action to draw as an arrow from the click to where the sprite is pushed.
        goals: Goals to draw as crossed circles, such as `env.goals`.

    Returns:
        An image uint8 [size, size, 3], its first row at the top.
    """
    conform(Pixels, size, "size")
    arrow = None if action is None else jnp.asarray(action, jnp.float32)
    return draw(state.sprites, size, action=arrow, goals=goals)


@jax.jit(static_argnames="size")
def segment(state: EnvState, size: int = IMAGE_SIZE) -> Int[Array, "H W"]:
    """Label each pixel with the sprite that it shows.

    Args:
        state: The state to segment.
        size: Height and width of the label map in pixels.

    Returns:
        For each pixel, the index of the front-most sprite that contains its centre, or -1 for the background.
    """
    return _at_pixels(front_most_at, state, size)


@jax.jit(static_argnames="size")
def coverage(state: EnvState, size: int = IMAGE_SIZE) -> Bool[Array, "H W N"]:
    """Tell for each sprite which pixels it covers, also where other sprites hide it.

    Args:
        state: The state with N sprites.
        size: Height and width in pixels.

    Returns:
        For each pixel and sprite, whether the sprite contains the pixel's centre.
    """
    return _at_pixels(contains, state, size)


def _at_pixels(function: Callable[[Sprites, Array], Array], state: EnvState, size: int) -> Array:
    """Evaluate a function of sprites and a point at the centres of all pixels: [H, W, ...]."""
    conform(Pixels, size, "size")
    centres = (jnp.arange(size) + 0.5) / size
    points = jnp.stack(jnp.meshgrid(centres, centres[::-1]), axis=-1)  # [H, W, 2]
    return jax.vmap(jax.vmap(functools.partial(function, state.sprites)))(points)
