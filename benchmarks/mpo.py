"""Speed of the baselines: environment steps a second with learning included, for all four of `cobra baseline`.

    .venv/bin/python benchmarks/mpo.py [--seconds 20] [--task NAME] [--only NAME ...] [--world FOLDER] [--out FILE]

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

from cobra_rl.config import BASELINE, BASELINES
from cobra_rl.environments import Problem
from cobra_rl.phases.baseline import prepare_baseline
from cobra_rl.spriteworld import REWARDED


def measure(name: str, task: str, seconds: float, world: Path | None) -> dict[str, float]:
    """Measure one baseline of the laptop preset."""
    features, policy = next(pair for pair, known in BASELINES.items() if known == name)
    config = dataclasses.replace(BASELINE["laptop"], features=features, policy=policy, first=1)
    asked = prepare_baseline(config, Problem(task), Path("unused"), world_folder=world)
    phase = asked.phase(seed=0, title=name)
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
    parser.add_argument("--world", type=Path, help="by default the shipped one")
    parser.add_argument("--out", type=Path, default=Path("results", "benchmark_mpo.json"))
    options = parser.parse_args()
    figures = {name: measure(name, options.task, options.seconds, options.world) for name in options.only}
    show(figures)
    write(options.out, task=options.task, figures=figures)


if __name__ == "__main__":
    main()
