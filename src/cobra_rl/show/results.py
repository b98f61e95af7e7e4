"""What was measured: the files of results/, each with the command that made it."""

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cobra_rl.evaluation.task import bootstrap_interval, interquartile_mean
from cobra_rl.spriteworld import MODES, TASKS

FOLDERS = ("solve", "mpo_handheld", "mpo_raw")  # of results/: an agent each, a file a task


class Measured(NamedTuple):
    """A file of the results."""

    source: str  # as a reader of the repository finds it
    command: str
    record: Mapping[str, Any]


Solved = dict[str, dict[str, Measured]]  # what was run, such as solve or solve-uniform -> task -> its result


class Score(NamedTuple):
    """Interquartile mean over seeds and its 95 % interval; one seed has none."""

    mean: float
    interval: tuple[float, float] | None


def read(results: Path, file: str) -> Measured | None:
    """A file of the results; None if it has not been made."""
    path, source = results / file, f"results/{file}"
    if not path.exists():
        return None
    try:
        record = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{source} is not JSON: {error}.") from error
    if not isinstance(record, dict) or not record.get("command"):
        raise ValueError(f"{source} does not say which command made it.")
    return Measured(source, record["command"], record)


def read_solved(results: Path) -> Solved:
    """All results of `cobra solve` and of the baselines, in the suite's order of tasks."""
    solved: Solved = {}
    for folder in FOLDERS:
        names = sorted(path.stem for path in (results / folder).glob("*.json"))
        for name in names:
            task, dash, kind = name.partition("-")
            result = read(results, f"{folder}/{name}.json")
            assert result is not None
            seeds = result.record.get("seeds")
            if task not in TASKS or not seeds or not all(f"success_{mode}" in of for of in seeds for mode in MODES):
                raise ValueError(
                    f"{result.source} is not the result of a task: it is to be named after one and to hold the success "
                    "of its seeds in both modes."
                )
            solved.setdefault(folder + dash + kind, {})[task] = result
    return {kind: {task: of[task] for task in TASKS if task in of} for kind, of in solved.items()}


def of_seeds(result: Measured, name: str) -> list[float]:
    """A figure of each seed that has it: of the steps to 90 %, those of the seeds that got there."""
    return [float(seed[name]) for seed in result.record["seeds"] if seed.get(name) is not None]


def score(values: Sequence[float]) -> Score:
    """Over seeds."""
    return _score(tuple(values))


@functools.cache
def _score(values: tuple[float, ...]) -> Score:
    return Score(interquartile_mean(values), bootstrap_interval(values) if len(values) > 1 else None)
