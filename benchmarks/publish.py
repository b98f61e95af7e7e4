"""Publish the runs of `cobra solve all`: results go to `results/solve/`, the agents of seed 0 are shipped, and the rows
of the tables in README.md and docs/results.md are written anew.

    .venv/bin/python benchmarks/publish.py runs/solve [--suffix=-released] [--no-agents]
    .venv/bin/python benchmarks/publish.py runs/baseline --baselines

Agents of the paper's and of the released rules are shipped. With suffix -world1 or -world2, the runs of another world,
the rows of that world beside the others are written, once all worlds have one. The folders of baselines are called
TASK-NAME, NAME being one of the four; their results go to `results/baseline/`. What `cobra evaluate RUN --sampled` has
written to `results/sampled/TASK-NAME.json` is put beside them.

`tests/show/test_results.py` says which rows are wrong. The text around the tables is written by hand.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

from cobra_rl.agent import TASKS
from cobra_rl.show.results import EXPLORE, VISION, read_explore, read_measured, read_task, read_vision
from cobra_rl.show.tables import (
    markdown_baseline,
    markdown_beside,
    markdown_kept,
    markdown_metrics,
    markdown_reference,
    markdown_row,
    markdown_sampled,
    markdown_worlds,
)
from cobra_rl.show.task_results import BASELINES
from cobra_rl.spriteworld import REWARDED

RESULTS = Path("results")
SHIPPED = ("", "-released")  # whose agents are shipped
EVALUATIONS = {"vision": read_vision, "explore": read_explore}
WORLDS = ("", "-world1", "-world2")  # the shipped world, and those of other seeds
TABLES = {  # the sections whose first table has a row per task, by suffix
    "": (("docs/results.md", "## The six tasks"),),
    "-uniform": (("docs/results.md", "## Without the exploration policy at task time"),),
    "-released": (("docs/results.md", "## The released rules"),),
    "-checks": (("docs/results.md", "### The greedy agent, checked every 25 steps"),),
}
ROWS = {"-checks": markdown_kept}  # how a row is written, where it is not by `markdown_row`


def write_row(page: str, section: str, row: str, cells: int = 1) -> None:
    """Put a row in the place of the one of the same first `cells` that a section has."""
    before, heading, after = Path(page).read_text().partition(f"{section}\n")
    lines, title = after.splitlines(), " | ".join(row.split(" | ")[:cells])
    numbers = [number for number, line in enumerate(lines) if line.startswith(f"{title} |")]
    if not numbers:
        sys.exit(f"{page} has no row {title!r} below {section!r}; write one by hand first.")
    lines[numbers[0]] = row
    Path(page).write_text(before + heading + "\n".join(lines) + "\n")


def copy_result(source: Path, target: Path) -> None:
    """Copy a result.json of the suite; the path of its world becomes relative, so that it names no machine."""
    text = source.read_text()
    if json.loads(text)["problem"]["env"]:
        sys.exit(f"{source} is of a task of one's own (--env); only tasks of the suite are published here.")
    target.write_text(text.replace(f"{Path.cwd()}/", ""))


def write_readme() -> None:
    """Write the rows of README's table; once a baseline is published, with the column of MPO handheld / raw."""
    for task in REWARDED:
        beside = [read_task(RESULTS, f"baseline/{task}-{name}") for name in ("mpo_handheld", "mpo_raw")]
        more = f" {markdown_beside(*beside)} |" if (RESULTS / "baseline").exists() else ""
        write_row("README.md", "## Results", markdown_row(read_task(RESULTS, f"solve/{task}")) + more)


def write_references(page: str, section: str) -> None:
    """Write the rows that put COBRA between chance, uniform proposals and knowing all."""
    for task in REWARDED:
        found = [read_task(RESULTS, f"solve/{task}{suffix}") for suffix in ("", "-uniform")]
        if all(found):
            write_row(page, section, markdown_reference(*found))


def write_worlds(page: str, section: str) -> None:
    """Write the rows of a section that stand for all worlds: those of the tasks, of vision and of exploration."""
    for task in REWARDED:
        results = [read_task(RESULTS, f"solve/{task}{world}") for world in WORLDS]
        if all(results):
            write_row(page, section, markdown_worlds(results))
    names = [world.replace("-", "_") for world in WORLDS]
    seen, explored = ([read(RESULTS, f"{kind}{name}") for name in names] for kind, read in EVALUATIONS.items())
    rows = markdown_metrics(VISION, [each.main for each in seen]) if all(seen) else []
    rows += markdown_metrics(EXPLORE, [each.metrics for each in explored]) if all(explored) else []
    for row in rows:
        write_row(page, section, row)


def publish_baselines(runs: Path) -> None:
    """Copy the results of `cobra baseline`, and write their rows."""
    (RESULTS / "baseline").mkdir(exist_ok=True)
    for path in sorted(runs.glob("*/result.json")):
        copy_result(path, RESULTS / "baseline" / f"{path.parent.name}.json")
        print(f"{path.parent.name}: published")
    for task in REWARDED:
        for result in filter(None, (read_task(RESULTS, f"baseline/{task}-{name}") for name in BASELINES)):
            write_row("docs/results.md", "## Beside MPO", markdown_baseline(result), cells=2)
            sampled = read_measured(RESULTS, f"sampled/{task}-{result.agent}")
            if sampled:
                row = markdown_sampled(result, sampled)
                write_row("docs/results.md", "### The mean of the policy and its samples", row, cells=2)
    write_readme()


def main() -> None:
    """Copy what is there, and say what is not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="the --out of `cobra solve all`")
    parser.add_argument("--suffix", default="", help="after the name of the task, such as -released or -uniform")
    parser.add_argument("--no-agents", action="store_true", help="only the results")
    parser.add_argument("--baselines", action="store_true", help="the runs are of `cobra baseline`")
    options = parser.parse_args()
    if options.baselines:
        return publish_baselines(options.runs)
    for task in REWARDED:
        run, name = options.runs / task, f"{task}{options.suffix}"
        if not (run / "result.json").exists():
            print(f"{run}: not finished")
            continue
        copy_result(run / "result.json", RESULTS / "solve" / f"{name}.json")
        if options.suffix in SHIPPED and not options.no_agents:
            shipped = TASKS / name
            shutil.rmtree(shipped, ignore_errors=True)
            shutil.copytree(run / "seed0" / "reward", shipped / "seed0" / "reward")
            shutil.copy(run / "run.json", shipped / "run.json")
        for page, section in TABLES.get(options.suffix, ()):
            row = ROWS.get(options.suffix, markdown_row)
            write_row(page, section, row(read_task(RESULTS, f"solve/{name}")))
        print(f"{name}: published")
    if not options.suffix:
        write_readme()
    if options.suffix in ("", "-uniform"):
        write_references("docs/results.md", "### Between chance and knowing all")
    if options.suffix in WORLDS:
        write_worlds("docs/results.md", "## Three worlds")


if __name__ == "__main__":
    main()
