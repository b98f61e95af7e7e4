"""Speed of the baselines: environment steps a second with learning included, for all four of `cobra baseline`.

    .venv/bin/python benchmarks/mpo.py [--seconds 20] [--task NAME] [--only NAME ...] [--out results/benchmark_mpo.json]

Whole steps of the phase are timed: one step in each environment and the updates that the replay ratio asks for.
`core_ms` is the processor time of a step of one environment, which depends less than the rate on what else runs.
Nothing else should run meanwhile.
"""

from cobra_rl.cli.process import use_huge_pages

use_huge_pages()  # as `cobra baseline` does

import argparse
import dataclasses
import time
from pathlib import Path

import jax
from record import show, write

from cobra_rl.agents.mpo import Mpo
from cobra_rl.config import BASELINE, BASELINES
from cobra_rl.models.transition import Sizes
from cobra_rl.phases.baseline import BaselinePhase
from cobra_rl.spriteworld import REWARDED, make
from cobra_rl.worlds import load_world


def measure(name: str, task: str, seconds: float) -> dict[str, float]:
    """Measure one baseline of the laptop preset."""
    features, policy = next(pair for pair, known in BASELINES.items() if known == name)
    config = dataclasses.replace(BASELINE["laptop"], features=features, policy=policy, first=1)
    env, world = make(task), load_world() if config.uses_world else None
    sizes = Sizes(0, 0, env.action_size, env.image_size) if world is None else world.sizes
    phase = BaselinePhase(Mpo(config, sizes), env, world, seed=0, steps=1, title=name)
    state, turn = phase.init(), 0
    while turn < 3:  # the first compiles
        state, _ = phase.step(state, turn)
        turn += 1
    jax.block_until_ready(state)
    began, processor, first = time.perf_counter(), time.process_time(), turn
    while time.perf_counter() - began < seconds:
        state, _ = phase.step(state, turn)
        jax.block_until_ready(state.agent)
        turn += 1
    steps = (turn - first) * config.envs
    elapsed, used = time.perf_counter() - began, time.process_time() - processor
    return {
        "steps_per_second": steps / elapsed,
        "core_ms": 1000.0 * used / steps,
        "samples_per_step": config.replay_ratio,
    }


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--task", default="goal_finding_new_shape", choices=REWARDED)
    parser.add_argument("--only", nargs="+", default=list(BASELINES.values()), choices=list(BASELINES.values()))
    parser.add_argument("--out", type=Path, default=Path("results", "benchmark_mpo.json"))
    options = parser.parse_args()
    figures = {name: measure(name, options.task, options.seconds) for name in options.only}
    show(figures)
    write(options.out, task=options.task, figures=figures)


if __name__ == "__main__":
    main()
