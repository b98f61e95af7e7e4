"""Speed of the baselines: environment steps a second with learning included, for all four of `cobra baseline`.

    .venv/bin/python -m benchmarks.speed.mpo [--seconds 20] [--task NAME] [--only NAME ...] [--world NAME|FOLDER]
        [--out FILE]

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

from benchmarks.tools.record import show, write
from cobra_rl.agents.mpo import Mpo
from cobra_rl.config import BASELINES, MPO
from cobra_rl.environments import Problem
from cobra_rl.runs.task import prepare
from cobra_rl.spriteworld import REWARDED


def measure(name: str, task: str, seconds: float, world: str | None) -> dict[str, float]:
    """Measure one baseline of the laptop preset."""
    features, policy = next(pair for pair, known in BASELINES.items() if known == name)
    config = dataclasses.replace(MPO["laptop"], features=features, policy=policy, warmup_steps=1)
    run = prepare(config, Problem(task), Path("unused"), world_folder=world)
    learner, env = Mpo(config), run.train_env
    state, turn = learner.begin(env, run.world, [0]), 0
    while turn < 3:  # the first compiles
        state, _, _ = learner.step(env, run.world, state)
        turn += 1
    jax.block_until_ready(state)
    began, processor, first = time.perf_counter(), time.process_time(), turn
    while time.perf_counter() - began < seconds:
        state, _, _ = learner.step(env, run.world, state)
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
    parser.add_argument("--world", help="its name or folder; by default the one that `cobra worlds` marks")
    parser.add_argument("--out", type=Path, default=Path("results", "benchmark_mpo.json"))
    options = parser.parse_args()
    figures = {name: measure(name, options.task, options.seconds, options.world) for name in options.only}
    show(figures)
    write(options.out, task=options.task, figures=figures)


if __name__ == "__main__":
    main()
