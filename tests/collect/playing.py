"""A world for actors that knows no pictures: its transitions are random numbers, which tell the streams apart."""

import jax
import jax.numpy as jnp
import numpy as np

from cobra_rl.collect.actors import Collected


def begin(parts, key):
    return {"key": key, "step": jnp.int32(0)}


def play(parts, policy, state):
    key, here = jax.random.split(state["key"])
    number = jax.random.uniform(here, (1,)) * parts["scale"] + (0.0 if policy is None else policy)
    collected = Collected({"number": number, "step": state["step"][None]}, jnp.float32(0.5))
    return {"key": key, "step": state["step"] + 1}, collected


def fail(parts, key):
    raise ValueError("there is no world to play in")


def stream(seed: int, number: int, steps: int) -> np.ndarray:
    """What actor `number` of a run draws."""
    start = begin({}, jax.random.fold_in(jax.random.key(seed), number))
    parts = {"scale": jnp.float32(2.0)}
    _, drawn = jax.lax.scan(lambda state, _: play(parts, None, state), start, length=steps)
    return np.asarray(drawn.transitions["number"])[:, 0]
