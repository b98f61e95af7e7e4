"""Crashes, as files see them: what a process that dies at any rename or fsync leaves behind, and whether that is enough.

A run is copied before and after each rename and each fsync: these are the folders that a crash would leave. The same
call in each of them must end as the run that was not interrupted, to the bit. All runs share one process, so that
everything is compiled once.
"""

import contextlib
import dataclasses
import hashlib
import io
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax

from cobra_rl.config import EXPLORE, TASK, VISION
from cobra_rl.environments import Problem
from cobra_rl.models.world import make_vision
from cobra_rl.phases import explore, task, vision
from cobra_rl.runtime import checkpoint
from cobra_rl.runtime.weights import save_weights
from cobra_rl.spriteworld import make
from cobra_rl.worlds import load_world, vision_weights

TIMES = ("minutes", "seconds", "command")  # what may differ between two runs
UNTOLD = ("tensorboard", "checkpoints", ".lock", "run.json")  # compared otherwise, or for eyes only
VISION_CONFIG = dataclasses.replace(VISION["debug"], steps=6, evaluate_every=3)
EXPLORE_CONFIG = dataclasses.replace(EXPLORE["debug"], steps=6, evaluate_every=3)

Phase = Callable[[Path], Any]  # trains in a folder; the same call resumes


def phases(folder: Path) -> dict[str, Phase]:
    """The three phases on the smallest presets, each with two checkpoints; what they build on is made in `folder`."""
    env, seen, world = make("exploration"), folder / "vision", folder / "explored"
    model = eqx.filter_jit(lambda key: make_vision(VISION_CONFIG.model, key))(jax.random.key(0))
    save_weights(seen, *vision_weights(model))
    task.TaskPhase.save_every = task.TaskPhase.report_every = 4
    problem = Problem("goal_finding_new_shape")

    def solve(place: Path) -> Any:
        if not (world / "world" / "world.json").exists():
            explore.train(EXPLORE_CONFIG, env, seen, world)
        known = {"world": load_world(world), "world_folder": world}
        return task.solve(TASK["debug"], problem=problem, folder=place, steps=8, final=1, **known)

    return {
        "vision": lambda place: vision.train(VISION_CONFIG, env, place),
        "explore": lambda place: explore.train(EXPLORE_CONFIG, env, seen, place),
        "task": solve,
    }


class Crashed(BaseException):
    """Nothing catches it."""


@contextlib.contextmanager
def recorded(folder: Path, copies: Path) -> Iterator[list[str]]:
    """Copy `folder` before and after each rename and fsync, unless it is as it was; yields the names of all points."""
    points: list[str] = []
    seen: set[str] = set()
    real = {name: getattr(os, name) for name in ("replace", "fsync")}

    def copy(point: str) -> None:
        points.append(point)
        if folder.exists() and (state := fingerprint(folder)) not in seen:
            seen.add(state)
            shutil.copytree(folder, copies / f"{len(points):04d}")

    def spy(name: str) -> Callable:
        def call(*arguments: Any) -> Any:
            copy(f"before {name}")
            result = real[name](*arguments)
            copy(f"after {name}")
            return result

        return call

    try:
        for name in real:
            setattr(os, name, spy(name))
        yield points
    finally:
        for name, function in real.items():
            setattr(os, name, function)


def crash_everywhere(train: Phase, folder: Path, every: int = 1, first: int = 0) -> dict[str, Any]:
    """Resume from what a crash at each rename and fsync would leave; with `every`, from each n-th of these states.

    Returns:
        the number of crash points, of different states that they leave and of resumes, and what was lost.
    """
    whole, copies = folder / "whole", folder / "copies"
    with quiet(), recorded(whole, copies) as points:
        train(whole)
    expected, lost = outcome(whole), []
    states = sorted(copies.iterdir())
    for place in states[first::every]:
        lost += [f"{points[int(place.name) - 1]} ({place.name}): {what}" for what in resumed(train, place, expected)]
        shutil.rmtree(place)
    return {"points": len(points), "states": len(states), "tried": len(states[first::every]), "lost": lost}


def resumed(train: Phase, folder: Path, expected: dict[str, str]) -> list[str]:
    """Give the same call again, and name what is then not as it should be."""
    try:
        with quiet():
            train(folder)
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
    return differences(expected, outcome(folder))


def differences(expected: dict[str, str], found: dict[str, str]) -> list[str]:
    """The names of files that are missing, too many, or not the same."""
    return sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))


def outcome(folder: Path) -> dict[str, str]:
    """What a run left, by name: a digest of each file without times, and of all that the newest checkpoint holds."""
    found = {
        str(path.relative_to(folder)): _digest(_timeless(path))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not set(path.relative_to(folder).parts) & set(UNTOLD)
    }
    for place in sorted(folder.rglob("checkpoints")):
        step, newest = checkpoint.checkpoints(place)[0]
        tensors, header = checkpoint._read(newest)
        content = [(name, array.tobytes()) for name, array in sorted(tensors.items())]
        found[f"{place.relative_to(folder)}/newest"] = _digest(repr((step, header["meta"]["notes"], content)).encode())
    return found


def fingerprint(folder: Path) -> str:
    """A digest of all files; names of unfinished ones are random, and TensorBoard's hold times."""
    rows = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "tensorboard" not in path.parts:
            name = re.sub(r"[0-9a-f]{8}\.tmp$", "tmp", str(path.relative_to(folder)))
            rows.append((name, _digest(path.read_bytes())))
    return _digest(repr(sorted(rows)).encode())


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Say nothing."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def _timeless(path: Path) -> bytes:
    """The content of a file without what differs between two runs."""
    if path.suffix == ".json":
        return json.dumps(_without_times(json.loads(path.read_bytes()))).encode()
    if path.suffix == ".jsonl":
        return "\n".join(json.dumps(_without_times(json.loads(line))) for line in path.open()).encode()
    return path.read_bytes()


def _without_times(record: Any) -> Any:
    return {name: value for name, value in record.items() if name not in TIMES}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
