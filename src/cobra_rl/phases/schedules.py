"""What the training phases share: schedules, learning rates, averages of weights."""

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from cobra_rl.config import Schedule

Tree = TypeVar("Tree")


def at(schedule: Schedule, share: float) -> float:
    """Return the value of a schedule at a share of the run."""
    times, values = zip(*schedule, strict=True)
    return float(np.interp(share, times, values))


def learning_rate(rate: float, steps: int, warmup: int, decay_from: float, final: float) -> optax.Schedule:
    """Make a learning rate: linear warm-up, constant, then from a share of the run on a cosine down to `final`."""
    begin = int(decay_from * steps)
    parts = [
        optax.linear_schedule(0.0 if warmup else rate, rate, warmup),
        optax.constant_schedule(rate),
        optax.cosine_decay_schedule(rate, max(steps - begin, 1), final),
    ]
    return optax.join_schedules(parts, [warmup, begin])


def clipped(optimiser: optax.GradientTransformation, norm: float) -> optax.GradientTransformation:
    """Clip gradients at a norm before they reach an optimiser; 0: any norm may pass."""
    return optax.chain(optax.clip_by_global_norm(norm), optimiser) if norm else optimiser


def averaged(average: Tree, weights: Tree, decay: float) -> Tree:
    """Take an exponential average of weights one step on."""
    return jax.tree.map(
        lambda old, new: decay * old + (1.0 - decay) * new if eqx.is_array(old) else old, average, weights
    )


def copied(tree: Tree) -> Tree:
    """Copy all arrays: a compiled step gives its buffers away, and none may be shared."""
    return jax.tree.map(lambda leaf: jnp.copy(leaf) if eqx.is_array(leaf) else leaf, tree)
