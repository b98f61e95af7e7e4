"""Replay, prioritised by the error of the transition model (Schaul et al. 2015), on flashbax."""

from typing import Any, NamedTuple

import flashbax
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

ReplayState = Any  # flashbax's; a pytree


class Sample(NamedTuple):
    """Transitions and how they were drawn."""

    items: Any  # with a leading axis B
    importance: Float[Array, " B"]  # weights that undo the priorities, the largest of the batch 1
    indices: Array


class Replay:
    """Pure functions over a `ReplayState`; to be called within compiled code that donates the state."""

    def __init__(self, capacity: int, batch: int):
        """Items are drawn in proportion to their priorities."""
        self._buffer = flashbax.make_prioritised_item_buffer(
            max_length=capacity, min_length=batch, sample_batch_size=batch, add_batches=True, priority_exponent=1.0
        )

    def init(self, item: Any) -> ReplayState:
        """An empty replay for items like this one."""
        return self._buffer.init(item)

    def add(self, state: ReplayState, items: Any) -> ReplayState:
        """Adds items with a leading axis; each gets the largest priority so far, to be seen at least once."""
        return self._buffer.add(state, items)

    def sample(self, state: ReplayState, key: Array, beta: Float[Array, ""] | float = 1.0) -> Sample:
        """A batch, weighted by (N probability)^-beta: with beta 1, as if all items were equally likely."""
        drawn = self._buffer.sample(state, key)
        weight = jnp.maximum(drawn.probabilities, 1e-12) ** -beta
        return Sample(drawn.experience, weight / weight.max(), drawn.indices)

    def update(self, state: ReplayState, indices: Array, priorities: Float[Array, " B"]) -> ReplayState:
        """New priorities for items that were drawn."""
        return self._buffer.set_priorities(state, indices, jnp.maximum(priorities, 1e-3))


def size(state: ReplayState) -> Array:
    """How many items there are."""
    capacity = jax.tree.leaves(state.experience)[0].shape[1]
    return jnp.where(state.is_full, capacity, state.current_index)
