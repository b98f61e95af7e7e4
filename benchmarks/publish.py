"""Publish the runs of `cobra solve all`: their results go to `results/solve/`, the agents of seed 0 are shipped.

    .venv/bin/python benchmarks/publish.py runs/solve [--suffix -released] [--no-agents]

The tables of README.md and docs/results.md are written by hand; `tests/show/test_results.py` says which rows are wrong.
"""

import argparse
import shutil
from pathlib import Path

from cobra_rl.agent import TASKS
from cobra_rl.spriteworld import REWARDED

RESULTS = Path("results", "solve")


def main() -> None:
    """Copy what is there, and say what is not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="the --out of `cobra solve all`")
    parser.add_argument("--suffix", default="", help="after the name of the task, such as -released or -uniform")
    parser.add_argument("--no-agents", action="store_true", help="only the results")
    options = parser.parse_args()
    for task in REWARDED:
        run, name = options.runs / task, f"{task}{options.suffix}"
        if not (run / "result.json").exists():
            print(f"{run}: not finished")
            continue
        shutil.copy(run / "result.json", RESULTS / f"{name}.json")
        if not options.no_agents:
            shipped = TASKS / name
            shutil.rmtree(shipped, ignore_errors=True)
            shutil.copytree(run / "seed0" / "reward", shipped / "seed0" / "reward")
            shutil.copy(run / "run.json", shipped / "run.json")
        print(f"{name}: published")


if __name__ == "__main__":
    main()
