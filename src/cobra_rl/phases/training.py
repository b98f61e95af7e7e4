"""What the training loops share: schedules, averages of weights, and the stop when a loss is no longer a number."""

import math
from pathlib import Path
from typing import TypeVar

import equinox as eqx
import jax
import numpy as np
import optax
from jaxtyping import Array

from cobra_rl.config import Schedule

Weights = TypeVar("Weights")


class Diverged(ArithmeticError):
    """The loss is no longer a number."""


def at(schedule: Schedule, share: float) -> float:
    """The value of a schedule at a share of the run."""
    times, values = zip(*schedule, strict=True)
    return float(np.interp(share, times, values))


def learning_rate(rate: float, steps: int, warmup: int, decay_from: float, final: float) -> optax.Schedule:
    """Linear warm-up, constant, then from a share of the run on a cosine down to `final` of it."""
    begin = int(decay_from * steps)
    parts = [
        optax.linear_schedule(0.0 if warmup else rate, rate, warmup),
        optax.constant_schedule(rate),
        optax.cosine_decay_schedule(rate, max(steps - begin, 1), final),
    ]
    return optax.join_schedules(parts, [warmup, begin])


def averaged(average: Weights, weights: Weights, decay: float) -> Weights:
    """An exponential average of weights, one step on."""
    return jax.tree.map(
        lambda old, new: decay * old + (1.0 - decay) * new if eqx.is_array(old) else old, average, weights
    )


def finite(metrics: dict[str, Array], step: int, folder: Path) -> dict[str, float]:
    """The metrics as numbers; `Diverged` if one of them is none."""
    scalars = {name: float(value) for name, value in metrics.items()}
    for name, value in scalars.items():
        if not math.isfinite(value):
            raise Diverged(
                f"The {name} is {value} at step {step}; the last good checkpoint is kept in "
                f"{folder / 'checkpoints'}: run the same command to go on from it, or take another --seed."
            )
    return scalars
