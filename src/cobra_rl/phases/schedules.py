"""What the training phases share: schedules, gradient steps, a check of memory, data parallelism."""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

from cobra_rl.backend import memory
from cobra_rl.config import ExploreConfig, Schedule, VisionConfig
from cobra_rl.phases.contract import Phase
from cobra_rl.spriteworld.base import Environment

Tree = TypeVar("Tree")


def at(schedule: Schedule, share: float) -> float:
    """Return the value of a schedule at a share (0 to 1) of the run."""
    times, values = zip(*schedule, strict=True)
    return float(np.interp(share, times, values))


def optimiser_of(
    config: VisionConfig | ExploreConfig, make: Callable[..., optax.GradientTransformation], warmup: int = 0
) -> optax.GradientTransformation:
    """Make an optimiser with gradient clipping, linear warm-up, a constant learning rate, then cosine decay."""
    rate = config.learning_rate
    begin = int(config.decay_from * config.steps)
    parts = [
        optax.linear_schedule(0.0 if warmup else rate, rate, warmup),
        optax.constant_schedule(rate),
        optax.cosine_decay_schedule(rate, max(config.steps - begin, 1), config.final_rate),
    ]
    optimiser = make(optax.join_schedules(parts, [warmup, begin]))
    return optax.chain(optax.clip_by_global_norm(config.clip), optimiser) if config.clip else optimiser


def muon(rate: optax.Schedule) -> optax.GradientTransformation:
    """Make Muon: the momentum of each matrix is made orthogonal, so that all of its directions learn equally fast.

    By Adam, what explains little of the loss, such as at which angle a thing stands, waits until all else has been
    learnt, since its gradient drowns in the noise of the others. The kernel of a convolution counts as a matrix
    from its inputs to its outputs; biases learn by Adam. Steps have the size that Adam's have.
    """

    def matrices(weights: Any) -> Any:
        dimensions = {2: optax.contrib.MuonDimensionNumbers(0, 1), 4: optax.contrib.MuonDimensionNumbers((0, 1, 2), 3)}
        return jax.tree.map(lambda weight: dimensions.get(weight.ndim), weights)

    return optax.contrib.muon(rate, adam_b2=0.99, muon_weight_dimension_numbers=matrices, consistent_rms=0.2)


def gradient_step(
    optimiser: optax.GradientTransformation, state: optax.OptState, model: Any, *given: Any, **options: Any
) -> tuple[Any, optax.OptState, Any, dict[str, Array]]:
    """Take a gradient step on `model.loss(*given, **options)`.

    Returns:
        The model and the state of its optimiser after the step, the gradients, and the metrics of the loss.
    """
    gradients, metrics = eqx.filter_grad(lambda model: model.loss(*given, **options), has_aux=True)(model)
    updates, state = optimiser.update(gradients, state, eqx.filter(model, eqx.is_array))
    return eqx.apply_updates(model, updates), state, gradients, metrics


class LearningPhase(Phase):
    """What the two phases that train networks on what was seen have in common; they set `config` and `history`."""

    read_every = 20
    evaluates = True

    def __init__(self, config: VisionConfig | ExploreConfig, env: Environment, seed: int, title: str):
        self.env = env
        self.seed = seed
        self.title = title
        self.steps = config.steps
        self.report_every = config.evaluate_every
        self.save_every = config.evaluate_every
        self._keys = jax.random.key(seed + 1)  # of the steps


def copied(tree: Tree) -> Tree:
    """Copy all arrays, since a compiled step donates its buffers and none may be shared."""
    # device_put needs no compilation for each shape
    return jax.tree.map(lambda leaf: jax.device_put(leaf, may_alias=False) if eqx.is_array(leaf) else leaf, tree)


def shared_by(batch: int) -> int:
    """Return how many devices share a batch: the greatest common divisor of its size and the number of devices."""
    return math.gcd(batch, jax.device_count())


def over_devices(batch: Tree) -> Tree:
    """Within compiled code, split the leading axis of all arrays over devices (data parallelism with `jax.sharding`).

    Weights are replicated on every device, and the compiler adds up their gradients: apart from rounding, the losses
    are those of a single device.
    """
    count = shared_by(len(jax.tree.leaves(batch)[0]))
    if count == 1:
        return batch
    return jax.lax.with_sharding_constraint(batch, NamedSharding(_mesh(count), PartitionSpec("batch")))


def on_devices(state: Tree, batch: int) -> Tree:
    """Replicate all arrays on the devices that share a batch of this size; else the second step would recompile."""
    count = shared_by(batch)
    if count == 1:
        return state
    replicated = NamedSharding(_mesh(count), PartitionSpec())
    return jax.tree.map(lambda leaf: jax.device_put(leaf, replicated) if eqx.is_array(leaf) else leaf, state)


def _mesh(count: int) -> Mesh:
    return Mesh(np.array(jax.devices()[:count]), ("batch",))


def check_memory(make: Callable[[], Any], option: str) -> None:
    """Raise a ValueError if what `make` returns would not fit into memory; it names the `option` to reduce."""
    leaves = jax.tree.leaves(eqx.filter(eqx.filter_eval_shape(make), lambda leaf: hasattr(leaf, "dtype")))
    needed = sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
    here, owner = memory()
    if needed > here:
        sizes = f"{needed / 1e9:,.0f} GB, and {owner} has {here / 1e9:,.0f} GB"
        raise ValueError(f"What is to be remembered needs {sizes} of memory; take a smaller {option}.")
