"""MONet's speed: a training step, encoding 1 and 64 images, beside the same network in PyTorch in the same run.

    make bench     (or: .venv/bin/python -m benchmarks.speed.vision [--presets laptop paper] [--out FILE])

Both libraries get the same weights, the same images and two threads; before anything is timed, both must encode the
images to the same slots. JAX and PyTorch take turns, and the medians are compared. Ours is timed twice: the update
alone, which is what PyTorch does, and the whole step of `cobra train vision`, frames of random play included. Nothing
else should run meanwhile.
"""

from cobra_rl.cli.process import use_huge_pages

use_huge_pages()  # as `cobra train vision` does; PyTorch gets it too

import argparse
import dataclasses
import os
import resource
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.speed import torch_monet
from benchmarks.tools.record import write
from cobra_rl.config import VISION
from cobra_rl.models.vision import LossWeights
from cobra_rl.phases.schedules import copied
from cobra_rl.phases.vision import VisionPhase, make_optimiser, random_frames
from cobra_rl.spriteworld import make

ROUNDS = 7


def seconds(functions: dict, least: float) -> dict[str, float]:
    """Return the median time of a call of each function; they take turns, each for `least` seconds or one call."""
    for function in functions.values():
        function()
    times = {name: [] for name in functions}
    for _ in range(ROUNDS):
        for name, function in functions.items():
            calls, start = 0, time.perf_counter()
            while not calls or time.perf_counter() - start < least:
                function()
                calls += 1
            times[name].append((time.perf_counter() - start) / calls)
    return {name: float(np.median(values)) for name, values in times.items()}


def peak_gflops() -> float:
    """Return the best rate of several matrix products of 2048 x 2048 floats."""
    a = jnp.ones((2048, 2048))
    product = jax.jit(lambda a: a @ a)
    product(a).block_until_ready()
    best = np.inf
    for _ in range(20):
        start = time.perf_counter()
        product(a).block_until_ready()
        best = min(best, time.perf_counter() - start)
    return 2 * 2048**3 / best / 1e9


def measure(preset: str, least: float) -> dict:
    """Measure a preset."""
    config, env = dataclasses.replace(VISION[preset], validation_scenes=1), make("exploration")
    phase = VisionPhase(config, env, 0)
    state = phase.init()
    frames = jax.jit(lambda key: random_frames(key, env, 64))(jax.random.key(0))
    images = np.array(frames)  # a copy: PyTorch wants to own it
    ours, theirs = state.model, torch_monet.from_jax(state.model)
    with torch.no_grad():
        slots = torch_monet.encode(theirs, torch.from_numpy(images[:4])).numpy()
    difference = float(np.abs(slots - np.asarray(ours.encode(jnp.asarray(images[:4])))).max())
    if difference > 1e-2 * max(1.0, float(np.abs(slots).max())):
        raise SystemExit(f"PyTorch and JAX disagree by {difference} on the slots of preset {preset}.")

    functions, flops = _encoders(ours, theirs, images)
    train, train_flops = _trainers(phase, state, theirs, images)
    times = seconds(functions, least) | seconds(train, least)
    flops |= train_flops
    return {
        "seconds": times,
        "ratio_to_torch": {
            name: times[f"torch {name}"] / times[f"jax {name}"] for name in ("update", "encode 1", "encode 64")
        },
        "gflop": {name: value / 1e9 for name, value in flops.items()},
        "gflop_per_second": {name: value / 1e9 / times[name] for name, value in flops.items()},
        "batch": config.batch,
        "difference_of_slots": difference,
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _encoders(ours, theirs, images):
    compiled, functions, flops = eqx.filter_jit(lambda model, images: model.encode(images)), {}, {}
    for count in (1, 64):
        batch = images[:count]

        def jax_encode(batch=batch):
            return np.asarray(compiled(ours, jnp.asarray(batch)))

        def torch_encode(batch=batch):
            with torch.inference_mode():
                return torch_monet.encode(theirs, torch.from_numpy(batch)).numpy()

        functions |= {f"jax encode {count}": jax_encode, f"torch encode {count}": torch_encode}
        flops[f"jax encode {count}"] = compiled.lower(ours, jnp.asarray(batch)).lowered.cost_analysis()["flops"]
    return functions, flops


def _trainers(phase, state, theirs, images):
    config, optimiser = phase.config, make_optimiser(phase.config)
    batch, key = jnp.asarray(images[: config.batch]), jax.random.key(1)
    weights = LossWeights(jnp.float32(0.5), jnp.float32(0.5))

    @eqx.filter_jit(donate="all-except-first")
    def update(given, model, optimiser_state):
        gradients = eqx.filter_grad(lambda model: model.loss(*given), has_aux=True)(model)[0]
        updates, optimiser_state = optimiser.update(gradients, optimiser_state)
        return eqx.apply_updates(model, updates), optimiser_state

    given = (batch, key, weights)
    flops = update.lower(given, state.model, state.optimiser).lowered.cost_analysis()["flops"]
    held = {"update": copied((state.model, state.optimiser)), "step": copied(state)}

    def jax_update():
        held["update"] = jax.block_until_ready(update(given, *held["update"]))

    def jax_step():
        held["step"] = jax.block_until_ready(
            phase.step(held["step"], config.steps - 1)[0]
        )  # the last stage: all sprites, all slots

    parameters = [leaf for leaf in jax.tree.leaves(theirs) if isinstance(leaf, torch.nn.Parameter)]
    algorithm = torch.optim.Adam if config.optimiser == "adam" else torch.optim.RMSprop
    torch_optimiser = algorithm(parameters, lr=1e-4)
    torch_batch = torch.from_numpy(images[: config.batch])
    torch.manual_seed(0)

    def torch_update():
        noise = torch.randn(config.model.slots, config.batch, config.model.latents)
        torch_optimiser.zero_grad()
        torch_monet.loss(theirs, torch_batch, noise, 0.5, 0.5).backward()
        torch_optimiser.step()

    return {"jax update": jax_update, "torch update": torch_update, "jax step": jax_step}, {"jax update": flops}


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--presets", nargs="+", default=["laptop", "paper"], choices=["laptop", "paper", "debug"])
    parser.add_argument("--seconds", type=float, default=2.0, help="of each of the seven rounds, at least one call")
    parser.add_argument("--out", type=Path, default=Path("results", "benchmark_vision.json"))
    options = parser.parse_args()
    torch.set_num_threads(os.cpu_count() or 1)
    peak = peak_gflops()
    figures = {preset: measure(preset, options.seconds) for preset in options.presets}
    table = Table("", *options.presets, title=f"milliseconds; matrix products reach {peak:.0f} GFLOP/s")
    for name in figures[options.presets[0]]["seconds"]:
        table.add_row(name, *(f"{1e3 * f['seconds'][name]:.1f}" for f in figures.values()))
    for name in figures[options.presets[0]]["ratio_to_torch"]:
        table.add_row(f"{name}: times PyTorch's speed", *(f"{f['ratio_to_torch'][name]:.2f}" for f in figures.values()))
    for name in figures[options.presets[0]]["gflop_per_second"]:
        shares = (
            f"{f['gflop_per_second'][name]:.0f} ({f['gflop_per_second'][name] / peak:.0%})" for f in figures.values()
        )
        table.add_row(f"{name}: GFLOP/s (share of peak)", *shares)
    Console().print(table)
    write(
        options.out,
        versions={"torch": torch.__version__},
        matmul_peak_gflop_per_second=peak,
        presets={preset: dataclasses.asdict(VISION[preset].model) for preset in options.presets},
        figures=figures,
    )


if __name__ == "__main__":
    main()
