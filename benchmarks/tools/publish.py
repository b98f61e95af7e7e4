"""Publish the runs of `cobra solve all` in a world: results go to `results/WORLD/solve/`, and the agents of seed 0 to
the folder of the world. The pages that show results are then written anew (see `results.py` beside this file).

    .venv/bin/python -m benchmarks.tools.publish runs/solve [--world NAME] [--suffix=-released] [--no-agents]
    .venv/bin/python -m benchmarks.tools.publish runs/baseline [--world NAME] --baselines

Agents of the paper's and of the released rules are shipped. With suffix -world1 or -world2, the runs are of a world
that was trained alike with another seed. The folders of baselines are called TASK-NAME, NAME being one of the four;
their results go to `results/WORLD/baseline/`. What `cobra evaluate RUN --sampled` has written to
`results/WORLD/sampled/TASK-NAME.json` is put beside them.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

from benchmarks.tools import results as results_pages
from cobra_rl.reporting.results import results_of
from cobra_rl.runs.worlds import DEFAULT_WORLD, home_of, named_worlds, world_sha256
from cobra_rl.spriteworld import REWARDED

SHIPPED = ("", "-released")  # whose agents are shipped
OTHER_SEEDS = ("-world1", "-world2")  # of runs in worlds that were trained alike with other seeds


def copy_result(source: Path, target: Path, world: str | None) -> None:
    """Copy a result.json of the suite, which must be of this world, if any is given.

    The path of its world becomes relative, so that it names no machine.
    """
    text = source.read_text()
    record = json.loads(text)
    if record["problem"]["env"]:
        sys.exit(f"{source} is of a task of one's own (--env); only tasks of the suite are published here.")
    if world and record["world"] and record["world"]["sha256"] != world_sha256(world):
        sys.exit(f"{source} learnt in another world than {world}; name its world with --world.")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text.replace(f"{Path.cwd()}/", ""))


def publish_baselines(runs: Path, world: str) -> None:
    """Copy the results of `cobra baseline`."""
    for path in sorted(runs.glob("*/result.json")):
        copy_result(path, results_of(world) / "baseline" / f"{path.parent.name}.json", world)
        print(f"{path.parent.name}: published")


def publish_tasks(runs: Path, world: str, suffix: str, agents: bool) -> None:
    """Copy the results of `cobra solve`, and the agents if they are to be shipped."""
    for task in REWARDED:
        run = runs / task
        name = f"{task}{suffix}"
        if not (run / "result.json").exists():
            print(f"{run}: not finished")
            continue
        used = None if suffix in OTHER_SEEDS else world
        copy_result(run / "result.json", results_of(world) / "solve" / f"{name}.json", used)
        if suffix in SHIPPED and agents:
            shipped = home_of(world) / "tasks" / name
            shutil.rmtree(shipped, ignore_errors=True)
            shutil.copytree(run / "seed0" / "reward", shipped / "seed0" / "reward")
            shutil.copy(run / "run.json", shipped / "run.json")
        print(f"{name}: published")


def main() -> None:
    """Copy what is there, and say what is not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="the --out of `cobra solve all`")
    parser.add_argument("--world", default=DEFAULT_WORLD, choices=named_worlds(), help="in which the runs learnt")
    parser.add_argument("--suffix", default="", help="after the name of the task, such as -released or -uniform")
    parser.add_argument("--no-agents", action="store_true", help="only the results")
    parser.add_argument("--baselines", action="store_true", help="the runs are of `cobra baseline`")
    options = parser.parse_args()
    if options.baselines:
        publish_baselines(options.runs, options.world)
    else:
        publish_tasks(options.runs, options.world, options.suffix, not options.no_agents)
    if options.world == DEFAULT_WORLD:
        results_pages.main([])


if __name__ == "__main__":
    main()
