"""The shipped agents of the released rules in the real Spriteworld package, whose pictures and rules are its own.

    .venv/bin/python -m benchmarks.experiments.real_package [--episodes 50] [--world NAME] [--out FILE]

Agents act greedily on the package's observations. Needs the package (`make test` installs it).
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from benchmarks.tools.record import show, write

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import oracle  # the package, with the names that it misses put back
from cobra_rl import Agent
from cobra_rl.reporting.results import results_of
from cobra_rl.spriteworld import MODES, REWARDED

SEED = 1905  # of the package's one random state


def success(agent: Agent, task: str, mode: str, episodes: int) -> float:
    """Return the share of episodes that the agent solves."""
    env, won = oracle.make(task, mode), 0
    np.random.seed(SEED)
    for _ in range(episodes):
        step = env.reset()
        while not step.last():
            step = env.step(agent.act(np.asarray(step.observation["image"])))
        won += bool(env.success())
    return won / episodes


def main() -> None:
    """Play all tasks in both modes, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--world", help="whose agents play; by default the one that `cobra worlds` marks")
    parser.add_argument("--out", type=Path, help="by default real_package.json among the results of the world")
    options = parser.parse_args()
    figures = {}
    for task in REWARDED:
        agent = Agent.pretrained(task, "released", options.world)
        figures[task] = {mode: success(agent, task, mode, options.episodes) for mode in MODES}
        print(task, figures[task], flush=True)
    show(figures)
    write(options.out or results_of(options.world) / "real_package.json", episodes=options.episodes, figures=figures)


if __name__ == "__main__":
    main()
