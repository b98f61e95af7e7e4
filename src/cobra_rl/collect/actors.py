"""Actors step environments with a policy and collect transitions, for any environment and policy.

What playing means is given by two pure functions, `begin(parts, key) -> state` and `play(parts, policy, state) ->
(state, collected)`. Their `parts` are a pytree of what they need beside the policy, such as the weights of the vision
module: as an argument it is not compiled in as a constant.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray


class Collected(NamedTuple):
    """The transitions that actors collected."""

    transitions: Any  # a pytree of arrays with a leading axis
    hits: Float[Array, "..."]  # share of actions that moved something


@runtime_checkable
class Actors(Protocol):
    """The interface of actors, as a learner uses it."""

    replaced: int = 0  # actors that died and were replaced

    def collect(self, policy: Any, wait: bool) -> list[Collected]:
        """Return what was played since the last call, with `policy` from now on; `wait` for it if nothing is ready."""
        ...

    def close(self) -> None:
        """Stop the actors; by default there is no other process in which they play."""


class LocalActors(Actors):
    """All environments in this process; their `state`, in the middle of episodes, belongs in checkpoints."""

    def __init__(self, begin: Callable, play: Callable, parts: Any, seed: int | PRNGKeyArray):
        self._parts = parts
        self._play = eqx.filter_jit(play)  # compiled once for all actors with this function
        self.state = eqx.filter_jit(begin)(parts, jax.random.key(seed) if isinstance(seed, int) else seed)

    def collect(self, policy: Any, wait: bool = True) -> list[Collected]:
        """Take one step in each environment; there is nothing to wait for."""
        self.state, collected = self._play(self._parts, policy, self.state)
        return [collected]
