"""Replay, prioritised by error (Schaul et al. 2015): items are drawn in proportion to error^alpha.

The replay keeps raw errors and applies the exponent when it draws, so that a change of alpha holds for all items at
once. A draw costs one pass over the errors, which at these capacities takes less time than a sum tree would.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

Exponent = Float[Array, ""] | float

LEAST_ERROR = 1e-3  # smaller errors count as this much, so that every item has a chance


class ReplayState(NamedTuple):
    """A ring of C items, of which the first `size` are in use."""

    items: Any  # a pytree of arrays [C, ...]
    error: Float[Array, " C"]  # the latest raw error of each item; 0 where there is no item
    position: Int[Array, ""]  # where the next item goes
    size: Int[Array, ""]  # how many items there are


class Sample(NamedTuple):
    """B items and how they were drawn."""

    items: Any  # a pytree of arrays [B, ...]
    importance: Float[Array, " B"]  # weights that undo the priorities; the largest of the batch is 1
    indices: Int[Array, " B"]  # where the items are, for `Replay.update`


@dataclasses.dataclass(frozen=True)
class Replay:
    """Pure functions over a `ReplayState`, to be called within compiled code that donates the state."""

    capacity: int  # how many items there is room for; the oldest make room for new ones
    batch: int  # how many items a sample has

    def init(self, item: Any) -> ReplayState:
        """Make an empty replay for items with the shapes and dtypes of `item`, a pytree of arrays."""
        return ReplayState(
            items=jax.tree.map(lambda leaf: jnp.zeros((self.capacity, *jnp.shape(leaf)), jnp.result_type(leaf)), item),
            error=jnp.zeros(self.capacity),
            position=jnp.int32(0),
            size=jnp.int32(0),
        )

    def add(self, state: ReplayState, items: Any) -> ReplayState:
        """Add items [N, ...], each with the largest error now in the replay, so that it is soon drawn."""
        number = jax.tree.leaves(items)[0].shape[0]
        if number > self.capacity:
            raise ValueError(f"{number} items at once do not fit into a replay of {self.capacity}.")
        places = (state.position + jnp.arange(number)) % self.capacity
        return ReplayState(
            items=jax.tree.map(lambda old, new: old.at[places].set(new), state.items, items),
            error=state.error.at[places].set(jnp.where(state.size > 0, state.error.max(), 1.0)),
            position=(state.position + number) % self.capacity,
            size=jnp.minimum(state.size + number, self.capacity),
        )

    def sample(self, state: ReplayState, key: PRNGKeyArray, alpha: Exponent, beta: Exponent) -> Sample:
        """Draw a batch: one item from each of B equal shares of the sum of all error^alpha (stratified).

        Args:
            state: The replay, which must not be empty.
            key: A random key.
            alpha: The exponent of the priorities; 0 makes all items equally likely.
            beta: The exponent of the importance weights (size * probability)^-beta; 1 undoes the priorities.

        Returns:
            The items, their importance weights, of which the largest is 1, and their indices for `update`.
        """
        used = jnp.arange(self.capacity) < state.size
        priority = jnp.where(used, jnp.maximum(state.error, LEAST_ERROR) ** alpha, 0.0)
        sums = jnp.cumsum(priority)
        shares = (jnp.arange(self.batch) + jax.random.uniform(key, (self.batch,))) / self.batch
        drawn = jnp.searchsorted(sums, shares * sums[-1], side="right")
        indices = jnp.clip(drawn, 0, state.size - 1)  # rounding may lead past the last item
        weight = (state.size * priority[indices] / sums[-1]) ** -beta
        return Sample(jax.tree.map(lambda leaf: leaf[indices], state.items), weight / weight.max(), indices)

    def sample_uniformly(self, state: ReplayState, key: PRNGKeyArray) -> Any:
        """Draw a batch of items, all equally likely and without a look at their errors."""
        indices = jax.random.randint(key, (self.batch,), 0, state.size)
        return jax.tree.map(lambda leaf: leaf[indices], state.items)

    def update(self, state: ReplayState, indices: Int[Array, " B"], errors: Float[Array, " B"]) -> ReplayState:
        """Replace errors of items.

        Args:
            state: The replay.
            indices: The places of the items, as `sample` gave them.
            errors: Their new errors, before any exponent.

        Returns:
            The replay with these errors.
        """
        return state._replace(error=state.error.at[indices].set(errors))
