"""The explore phase's speed: learner updates, environment steps in this process and with 1, 2 and 4 Ray actors.

    .venv/bin/python benchmarks/explore.py [--seconds 20] [--actors 1 2 4] [--out results/benchmark_explore.json]

With Ray, the learner of the laptop preset runs beside the actors, as in training: what is measured is how many updates
and environment steps a second the two reach together, and the share of time that the learner spends on asking the
actors. Without, the same in one process. Nothing else should run meanwhile.
"""

from cobra_rl.process import use_huge_pages

use_huge_pages()  # as `cobra train explore` does

import argparse
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
from record import show, write

from cobra_rl.config import EXPLORE
from cobra_rl.phases.explore import Scheduled, example, initial_learner, make_update
from cobra_rl.pretrained import load_vision
from cobra_rl.runtime.actors import Actors, LocalActors
from cobra_rl.runtime.ray_actors import RayActors
from cobra_rl.runtime.replay import Replay
from cobra_rl.spriteworld import make

CONFIG = EXPLORE["laptop"]


def measure(actors: Actors, vision, updates: int, seconds: float) -> dict[str, float]:
    """Rates of the loop of `phases/explore.py`, `updates` of the learner between two calls of the actors."""
    learner, replay = initial_learner(CONFIG, 0), Replay(5000, CONFIG.batch)
    memory = replay.init(example(vision))
    add = eqx.filter_jit(lambda items, memory: replay.add(memory, items), donate="all-except-first")
    update = make_update(CONFIG, vision, replay, curious=True)
    now = Scheduled(*(jnp.float32(getattr(CONFIG, name)[-1][1]) for name in Scheduled._fields))

    def turn(learner, memory, wait: bool):
        began, played = time.perf_counter(), 0
        for part in actors.collect(learner.exploration, wait):
            memory = jax.block_until_ready(add(part.transitions, memory))
            played += part.transitions.action.shape[0]
        asked = time.perf_counter() - began
        for i in range(updates):
            learner, memory, metrics = update(learner, memory, jax.random.key(i), now)
        jax.block_until_ready(metrics["transition"])
        return learner, memory, played, asked

    for _ in range(3):  # compiles
        learner, memory, _, _ = turn(learner, memory, wait=True)
    began, turns, played, asked = time.perf_counter(), 0, 0, 0.0
    while (elapsed := time.perf_counter() - began) < seconds:
        learner, memory, new, time_asked = turn(learner, memory, wait=False)
        turns, played, asked = turns + 1, played + new, asked + time_asked
    return {
        "updates_per_second": turns * updates / elapsed,
        "env_steps_per_second": played / elapsed,
        "share_of_time_with_actors": asked / elapsed,
    }


def main() -> None:
    """Measures, prints a table, writes JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--actors", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--out", type=Path, default=Path("results", "benchmark_explore.json"))
    options = parser.parse_args()
    vision = load_vision().model
    figures = {}
    local = LocalActors(make("exploration"), vision, CONFIG.envs, 0)
    figures["in this process"] = measure(local, vision, CONFIG.updates, options.seconds)
    for count in options.actors:
        actors = RayActors(vision, count, 0)
        figures[f"{count} Ray actors"] = measure(actors, vision, CONFIG.updates, options.seconds)
        actors.close()
    show(figures)
    write(options.out, figures=figures)


if __name__ == "__main__":
    main()
