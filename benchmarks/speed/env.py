"""Steps per second, rendering included, beside the real package in the same run.

    .venv/bin/python -m benchmarks.speed.env [--seconds 3] [--out results/benchmark_env.json]

Timings are noisy; the ratios of one run are what to look at. Nothing else should run meanwhile.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import oracle
from benchmarks.tools.record import write
from cobra_rl import spriteworld
from cobra_rl.spriteworld import gym_id

BATCHES = (1, 4, 16, 64, 256, 1024, 4096)


def rate(step, per_call: int, seconds: float) -> float:
    """Measure environment steps per second of `step()`: the median of five equal parts."""
    step()
    rates = []
    for _ in range(5):
        calls, start = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds / 5:
            step()
            calls += 1
        rates.append(per_call * calls / elapsed)
    return float(np.median(rates))


def real_package(task: str, seconds: float) -> float:
    """The public package, with uniform random actions."""
    env = oracle.make(task)
    env.reset()
    rng = np.random.default_rng(0)
    return rate(lambda: env.step(rng.uniform(size=4)), 1, seconds)


def gym_single(task: str, seconds: float) -> float:
    """The single Gymnasium environment, resets included."""
    env = gymnasium.make(gym_id(task), variant="released")
    env.reset(seed=0)
    rng = np.random.default_rng(0)

    def step():
        _, _, terminated, truncated, _ = env.step(rng.random(4, np.float32))
        if terminated or truncated:
            env.reset()

    return rate(step, 1, seconds)


def gym_vector(task: str, batch: int, seconds: float) -> float:
    """The Gymnasium vector environment: images as NumPy arrays, automatic resets."""
    env = gymnasium.make_vec(gym_id(task), num_envs=batch, variant="released")
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    return rate(lambda: env.step(rng.random((batch, 4), np.float32)), batch, seconds)


def functional(task: str, batch: int, seconds: float) -> float:
    """The functional core under jit and vmap; images stay on the device."""
    env = spriteworld.make(task, "train", "released")
    step = jax.jit(jax.vmap(env.step))
    keys = jax.random.split(jax.random.key(0), batch)
    state, _ = jax.jit(jax.vmap(env.reset))(keys)
    actions = jax.random.uniform(jax.random.key(1), (batch, env.action_size), jnp.float32)
    return rate(lambda: jax.block_until_ready(step(keys, state, actions)), batch, seconds)


def main() -> None:
    """Measure, print two tables and write the raw numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each number")
    parser.add_argument("--out", type=Path, default=Path("results/benchmark_env.json"))
    args = parser.parse_args()
    console = Console()

    growth = {}
    table = Table("batch", "functional core", "Gymnasium vector", title="exploration: steps/s as the batch grows")
    for batch in BATCHES:
        growth[batch] = functional("exploration", batch, args.seconds), gym_vector("exploration", batch, args.seconds)
        table.add_row(str(batch), *(f"{r:,.0f}" for r in growth[batch]))
    console.print(table)

    best = max(BATCHES, key=lambda batch: growth[batch][0])
    rows = {}
    table = Table("task", "real package", "single Gymnasium", "batched", title=f"steps/s; batch of {best}")
    for task in spriteworld.TASKS:
        base, single = real_package(task, args.seconds), gym_single(task, args.seconds)
        batched = functional(task, best, args.seconds)
        rows[task] = {"real": base, "single": single, "batched": batched}
        table.add_row(task, f"{base:,.0f}", *(f"{r:,.0f} ({r / base:.0f}x)" for r in (single, batched)))
    console.print(table)

    write(
        args.out,
        batch=best,
        steps_per_second=rows,
        ratio_single={task: row["single"] / row["real"] for task, row in rows.items()},
        ratio_batched={task: row["batched"] / row["real"] for task, row in rows.items()},
        growth={str(b): {"functional": f, "gym_vector": g} for b, (f, g) in growth.items()},
    )


if __name__ == "__main__":
    main()
