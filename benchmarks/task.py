"""The task phase's speed: environment steps a second of Algorithm 1 (B = 128, N = 10), and where the time goes.

    .venv/bin/python benchmarks/task.py [--seconds 10] [--seeds 1 2 4 8] [--out results/benchmark_task.json]

The parts (encoding, search, learning, environment with its drawing) are timed one by one, each compiled by itself; the
step is one compiled call, so its time is not exactly their sum. Nothing else should run meanwhile.
"""

from cobra_rl.process import use_huge_pages

use_huge_pages()  # as `cobra solve` does

import argparse
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from record import show, write

from cobra_rl.agents import learner
from cobra_rl.agents.search import search
from cobra_rl.config import TASK
from cobra_rl.models import monet
from cobra_rl.pretrained import load_pretrained
from cobra_rl.spriteworld import make

CONFIG, ENV = TASK["laptop"], make("goal_finding_more_targets")


def rate(call, seconds: float) -> float:
    """Calls a second; the first two compile."""
    for _ in range(2):
        jax.block_until_ready(call())
    began, calls = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - began) < seconds:
        jax.block_until_ready(call())
        calls += 1
    return calls / elapsed


def measure(frozen: learner.Frozen, seeds: int, seconds: float) -> dict[str, float]:
    """Rates of the whole step and of its parts, for so many seeds side by side."""
    keys = jax.vmap(jax.random.key)(np.arange(seeds))
    state = eqx.filter_jit(lambda frozen, keys: learner.begin(CONFIG, ENV, frozen, keys, 1000))(frozen, keys)
    turn = eqx.filter_jit(lambda frozen, state: learner.step(CONFIG, ENV, frozen, False, state))
    holder = [state]

    def step():
        holder[0], outcome = turn(frozen, holder[0])
        return outcome

    whole = rate(step, seconds)
    state = holder[0]
    images = jnp.concatenate([jax.vmap(ENV.draw)(state.envs)] * 2)
    encode = eqx.filter_jit(lambda frozen, images: monet.encode(frozen.vision, images))

    @eqx.filter_jit
    def choose(frozen, state):
        def one(predictor, slots, key):
            return search(frozen.exploration, frozen.transition, predictor, slots, key, CONFIG.proposals, 0.2).action

        return jax.vmap(one)(state.predictor, state.slots, state.key)

    @eqx.filter_jit
    def learn(frozen, state):
        def one(predictor, optimiser, memory, key):
            return learner.learn_from(CONFIG, frozen.transition, predictor, predictor, optimiser, memory, key)

        return jax.vmap(one)(state.predictor, state.optimiser, state.memory, state.key)

    @jax.jit
    def world(envs, actions, keys):
        after, *_ = jax.vmap(ENV.advance)(keys, envs, actions)
        return jax.vmap(ENV.draw)(after), jax.vmap(ENV.draw)(jax.vmap(ENV.initial)(keys))

    actions = choose(frozen, state)
    parts = {
        "encode": rate(lambda: encode(frozen, images), seconds / 2),
        "search": rate(lambda: choose(frozen, state), seconds / 2),
        "learn": rate(lambda: jax.tree.leaves(learn(frozen, state)), seconds / 2),
        "environment": rate(lambda: world(state.envs, actions, state.key), seconds / 2),
    }
    total = sum(1.0 / value for value in parts.values())
    shares = {f"share_{name}": 1.0 / value / total for name, value in parts.items()}
    return {"steps_per_second": whole * seeds, "steps_per_second_each": whole, **shares}


def main() -> None:
    """Measures, prints a table, writes JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 4, 8])
    parser.add_argument("--out", type=Path, default=Path("results", "benchmark_task.json"))
    options = parser.parse_args()
    frozen = learner.frozen_parts(load_pretrained())
    figures = {f"{seeds} seeds": measure(frozen, seeds, options.seconds) for seeds in options.seeds}
    show(figures)
    write(options.out, figures=figures)


if __name__ == "__main__":
    main()
