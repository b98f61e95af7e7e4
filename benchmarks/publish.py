"""Publish the runs of `cobra solve all`: results go to `results/solve/`, the agents of seed 0 are shipped, and the rows
of the tables in README.md and docs/results.md are written anew.

    .venv/bin/python benchmarks/publish.py runs/solve [--suffix -released] [--no-agents]

`tests/show/test_results.py` says which rows are wrong. The text around the tables is written by hand.
"""

import argparse
import shutil
from pathlib import Path

from cobra_rl.agent import TASKS
from cobra_rl.show.results import read_task
from cobra_rl.show.tables import markdown_row
from cobra_rl.spriteworld import REWARDED

RESULTS = Path("results", "solve")
TABLES = {  # the sections whose first table has a row per task, by suffix
    "": (("README.md", "## What came of it"), ("docs/results.md", "## The six tasks")),
    "-uniform": (("docs/results.md", "## Without the exploration policy at task time"),),
    "-released": (("docs/results.md", "## The released rules"),),
}


def write_row(page: str, section: str, row: str) -> None:
    """Put a row of a task in the place of the one that a section has for it."""
    before, heading, after = Path(page).read_text().partition(f"{section}\n")
    lines, title = after.splitlines(), row.split(" | ")[0]
    number = next(number for number, line in enumerate(lines) if line.startswith(f"{title} |"))
    lines[number] = row
    Path(page).write_text(before + heading + "\n".join(lines) + "\n")


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
        for page, section in TABLES.get(options.suffix, ()):
            write_row(page, section, markdown_row(read_task(Path("results"), f"solve/{name}")))
        print(f"{name}: published")


if __name__ == "__main__":
    main()
