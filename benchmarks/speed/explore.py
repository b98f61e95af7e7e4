"""The explore phase's speed: learner updates, environment steps in this process and with 1, 2 and 4 Ray actors.

    .venv/bin/python -m benchmarks.speed.explore [--seconds 20] [--actors 1 2 4] [--out results/benchmark_explore.json]

With Ray, the learner of the laptop preset runs beside the actors, as in training: what is measured is how many updates
and environment steps a second the two reach together, and the share of time that the learner spends on asking the
actors. Without, the same in one process. Nothing else should run meanwhile.
"""

from cobra_rl.cli.process import use_huge_pages

use_huge_pages()  # as `cobra train explore` does

import argparse
import dataclasses
import time
from pathlib import Path

import jax

from benchmarks.tools.record import show, write
from cobra_rl.collect.actors import Actors, Collected, LocalActors
from cobra_rl.collect.ray_actors import RayActors
from cobra_rl.config import EXPLORE
from cobra_rl.phases.explore import ExplorePhase, actor_functions
from cobra_rl.runs.worlds import find_vision, load_vision
from cobra_rl.spriteworld import make
from cobra_rl.storage.weights import sha256

CONFIG = dataclasses.replace(EXPLORE["laptop"], capacity=5000, min_replay_size=1, validation_scenes=1)
ENV = make("exploration")


class Timed:
    """Actors that note how long they were waited for and what they brought."""

    replaced = 0

    def __init__(self, actors: Actors):
        self.actors, self.seconds, self.played = actors, 0.0, 0

    def collect(self, policy, wait: bool) -> list[Collected]:
        """Collect, and wait until the transitions are there."""
        began = time.perf_counter()
        parts = jax.block_until_ready(self.actors.collect(policy, wait))
        self.seconds += time.perf_counter() - began
        self.played += sum(part.transitions.action.shape[0] for part in parts)
        return parts

    def close(self) -> None:
        """Stop the actors."""
        self.actors.close()


def measure(actors: Actors, vision, seconds: float) -> dict[str, float]:
    """Measure the rates of the phase's own steps: `CONFIG.updates` of them follow each call of the actors."""
    timed = Timed(actors)
    phase = ExplorePhase(CONFIG, ENV, vision, sha256(find_vision(None)), seed=0, actors=timed)
    state, step = phase.init(), 0

    def turn(state, step):
        for _ in range(CONFIG.updates):
            state, metrics = phase.step(state, step)
            step += 1
        jax.block_until_ready(metrics)
        return state, step

    for _ in range(3):  # compiles
        state, step = turn(state, step)
    timed.seconds, timed.played, first = 0.0, 0, step
    began = time.perf_counter()
    while (elapsed := time.perf_counter() - began) < seconds:
        state, step = turn(state, step)
    return {
        "updates_per_second": (step - first) / elapsed,
        "env_steps_per_second": timed.played / elapsed,
        "share_of_time_with_actors": timed.seconds / elapsed,
    }


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--actors", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--out", type=Path, default=Path("results", "benchmark_explore.json"))
    options = parser.parse_args()
    vision = load_vision()
    local = LocalActors(*actor_functions(CONFIG, ENV, CONFIG.envs), vision, 0)
    figures = {"in this process": measure(local, vision, options.seconds)}
    for count in options.actors:
        actors = RayActors(*actor_functions(CONFIG, ENV, 1), vision, count, 0)
        figures[f"{count} Ray actors"] = measure(actors, vision, options.seconds)
        actors.close()
    show(figures)
    write(options.out, figures=figures)


if __name__ == "__main__":
    main()
