"""Models with random weights, for tests to whose point these do not matter: nothing has to be compiled to draw them."""

from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

Model = TypeVar("Model")


def untrained(make: Callable[[jax.Array], Model], seed: int = 0) -> Model:
    """What `make` would make of a key, but with weights by NumPy: normal, of variance 1 / fan-in; biases are zero."""
    rng = np.random.default_rng(seed)

    def draw(leaf):
        if not isinstance(leaf, jax.ShapeDtypeStruct):
            return leaf
        scale = np.prod(leaf.shape[:-1]) ** -0.5 if len(leaf.shape) > 1 else 0.0
        return jnp.asarray(scale * rng.standard_normal(leaf.shape), leaf.dtype)

    return jax.tree.map(draw, eqx.filter_eval_shape(make, jax.random.key(0)))
