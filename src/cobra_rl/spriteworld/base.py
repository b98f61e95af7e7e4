"""What training needs of an environment: the contract that Spriteworld and any other world fulfil."""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, UInt8

Image = UInt8[Array, "H W 3"]
State = Any  # a pytree; each environment has its own


class TimeStep(NamedTuple):
    """What one step of an environment gives. Shapes are those of a single environment; `jax.vmap` adds an axis."""

    state: State
    image: Image | None  # None from `advance`, which does not draw
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]  # the episode ended by its own rules, for example by success
    truncated: Bool[Array, ""]  # the episode ran out of steps
    info: dict[str, Array]

    @property
    def done(self) -> Bool[Array, "*B"]:
        """Whether the episode is over, for either reason."""
        return self.terminated | self.truncated


@runtime_checkable
class Environment(Protocol):
    """A world with images and continuous actions: a hashable value whose methods are pure, to be compiled by JAX.

    Compiled functions are cached by environment: give equal environments equal hashes if you make many of them.
    """

    @property
    def action_size(self) -> int:
        """A: actions lie in [0, 1]^A."""
        ...

    @property
    def image_size(self) -> int:
        """H = W: images are uint8 [H, W, 3]."""
        ...

    @property
    def max_steps(self) -> int:
        """The number of steps after which an episode is truncated."""
        ...

    def initial(self, key: PRNGKeyArray) -> State:
        """Draw the first state of an episode."""
        ...

    def draw(self, state: State) -> Image:
        """Draw the observation of a state."""
        ...

    def advance(self, key: PRNGKeyArray, state: State, action: Float[Array, " A"]) -> TimeStep:
        """Take a step without drawing it: its `image` is None. Do not reset an episode that is over."""
        ...


def auto_reset(env: Environment, key: PRNGKeyArray, step: TimeStep) -> State:
    """Begin a new episode where the last one is over; for a batch of steps, use `jax.vmap`.

    Args:
        env: The environment that took the step.
        key: The random key of the new episode's first state.
        step: The result of `env.advance`.

    Returns:
        A fresh initial state if `step.done`, else `step.state`.
    """
    return jax.tree.map(lambda new, old: jnp.where(step.done, new, old), env.initial(key), step.state)
