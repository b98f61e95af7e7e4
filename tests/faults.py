"""Crashes as files see them: what a process that dies at any rename or fsync leaves, and whether that is enough.

A run is copied before and after each rename and each fsync: these are the folders that a crash would leave. The same
call in each of them must end as the run that was not interrupted, to the bit. All runs share one process, so that
everything is compiled once.
"""

import contextlib
import dataclasses
import errno
import hashlib
import io
import json
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from cobra_rl.config import COBRA, EXPLORE, MPO, VISION, AgentConfig
from cobra_rl.environments import Problem
from cobra_rl.models.world import make_exploration, make_transition, make_vision, part_weights, vision_weights
from cobra_rl.runs import loop
from cobra_rl.runs import task as task_runs
from cobra_rl.runs.task import prepare
from cobra_rl.runs.train import train_explore, train_vision
from cobra_rl.runs.worlds import seal_world
from cobra_rl.spriteworld import make
from cobra_rl.storage import checkpoint
from cobra_rl.storage.files import explain, from_bytes
from cobra_rl.storage.weights import save_weights, sha256

TIMES = ("minutes", "seconds", "command")  # what may differ between two runs
UNTOLD = ("tensorboard", "checkpoints", ".lock", "run.json")  # compared otherwise, or for eyes only
VISION_CONFIG = dataclasses.replace(VISION["debug"], steps=6, evaluate_every=3)
EXPLORE_CONFIG = dataclasses.replace(EXPLORE["debug"], steps=6, evaluate_every=3)

Train = Callable[[Path], Any]  # trains in a folder; the same call resumes


def phases(folder: Path) -> dict[str, Train]:
    """The four phases on the smallest presets, each with two checkpoints; the world that they need is in `folder`."""
    env, problem = make("exploration"), Problem("goal_finding_new_shape")
    AgentConfig.save_every = AgentConfig.report_every = 4

    def solve(place: Path) -> Any:
        return task_runs.solve(COBRA["debug"], problem, place, steps=8, final=1, world_folder=folder)

    def learn_without_model(place: Path) -> Any:
        config = dataclasses.replace(MPO["debug"], features="slots", policy="deformed")
        return prepare(config, problem, place, steps=80, final=1, world_folder=folder).solve()

    return {
        "vision": lambda place: train_vision(VISION_CONFIG, env, place),
        "explore": lambda place: train_explore(EXPLORE_CONFIG, env, folder, place),
        "task": solve,
        "baseline": learn_without_model,
    }


def make_world(folder: Path) -> Path:
    """Write a tiny, untrained world, and return its folder."""
    model = eqx.filter_jit(lambda key: make_vision(VISION_CONFIG.model, key))(jax.random.key(0))
    save_weights(folder / "vision", vision_weights(model))
    vision_sha256 = sha256(folder / "vision")
    models = {
        "transition": make_transition(EXPLORE_CONFIG.transition, model, 4, jax.random.key(0)),
        "exploration": make_exploration(EXPLORE_CONFIG.exploration, model, 4, jax.random.key(1)),
    }
    for part, network in models.items():
        save_weights(folder / part, part_weights(part, network, 4, vision_sha256))
    seal_world(folder)
    return folder


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


def crash_everywhere(train: Train, folder: Path, every: int = 1, first: int = 0) -> dict[str, Any]:
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


def resumed(train: Train, folder: Path, expected: dict[str, str]) -> list[str]:
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
        if path.is_file() and not set(path.relative_to(folder).parts) & set(UNTOLD) and not _set_aside(path)
    }
    for place in sorted(folder.rglob("checkpoints")):
        step, newest = checkpoint.checkpoints(place)[0]
        tensors, header = checkpoint._read_checkpoint(newest)
        content = [(name, array.tobytes()) for name, array in sorted(tensors.items())]
        found[f"{place.relative_to(folder)}/newest"] = _digest(
            repr((step, header["meta"]["history"], content)).encode()
        )
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


def _set_aside(path: Path) -> bool:
    return path.name.startswith("log-before-")  # the log of a run whose checkpoints were all damaged


def _timeless(path: Path) -> bytes:
    """The content of a file without what differs between two runs."""
    if path.suffix == ".json":
        return json.dumps(_without_times(json.loads(path.read_bytes()))).encode()
    if path.suffix == ".jsonl":
        return "\n".join(
            json.dumps(_without_times(json.loads(line))) for line in path.read_text().splitlines()
        ).encode()
    return path.read_bytes()


def _without_times(record: Any) -> Any:
    return {name: value for name, value in record.items() if name not in TIMES}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes(data)


def _more(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b'{}\nnull\n12\n\xff\n{"step": 5, "lo')


# What is damaged -> the files, and how.
DAMAGES: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "log with lines that are none": ("log.jsonl", _more),
    "empty loop.json": ("run.json", lambda path: path.write_bytes(b"")),
    "run.json of another form": ("run.json", lambda path: path.write_bytes(b'{"settings": 12}')),
    "empty result.json": ("result.json", lambda path: path.write_bytes(b"")),
    "empty scores.json": ("scores.json", lambda path: path.write_bytes(b"")),
    "empty context.json": ("context.json", lambda path: path.write_bytes(b"")),
    "empty world.json": ("world.json", lambda path: path.write_bytes(b"")),
    "newest checkpoint cut short": ("newest", _cut),
    "a bit of the newest checkpoint flipped": ("newest", _flip),
    "all checkpoints damaged": ("step_*", _cut),
    "weights cut short": ("weights.safetensors", _cut),
    "a bit of the weights flipped": ("weights.safetensors", _flip),
    "weights removed": ("weights.safetensors", Path.unlink),
    "their configuration emptied": ("config.json", lambda path: path.write_bytes(b"")),
    "leftovers of a dead process": (".lock", lambda path: path.with_name("run.json.0123abcd.tmp").touch()),
}


def damaged(train: Train, folder: Path, damage: tuple[str, Callable[[Path], Any]]) -> Iterator[Path]:
    """Yield a run that died on its way and has these damages; nothing if it has no such file."""
    pattern, harm = damage
    half = folder / "half"
    if not half.exists():
        _die_half_way(train, half)
    place = Path(shutil.copytree(half, folder / "now"))
    if pattern == "newest":
        found = [checkpoint.checkpoints(saved)[0][1] for saved in place.rglob("checkpoints")]
    else:
        found = sorted(place.rglob(pattern))
    for path in found:
        harm(path)
    if found:
        yield place
    shutil.rmtree(place)


class Died(BaseException):
    """Nothing catches it."""


def _die_half_way(train: Train, folder: Path) -> None:
    """Run until the first checkpoint is written."""
    real = checkpoint.save

    def save(*arguments: Any, **options: Any) -> None:
        real(*arguments, **options)
        raise Died

    checkpoint.save = save
    try:
        with quiet():
            train(folder)
    except Died:
        return
    finally:
        checkpoint.save = real
    raise AssertionError("the run saved nothing")


class Poisoned:
    """A phase in which one metric of each step is no number; or one weight, just before it would be saved."""

    def __init__(self, phase: Any, what: str):
        self._phase, self._what = phase, what

    def __getattr__(self, name: str) -> Any:
        return getattr(self._phase, name)

    def advance(self, state: Any, step: int, most: int) -> tuple[Any, dict[str, Any], int]:
        state, metrics, taken = self._phase.advance(state, step, most)
        if self._what == "metric":
            return state, {**metrics, next(iter(metrics)): np.float32("nan")}, taken
        return (state if (step + taken) % self._phase.save_every else self._with_nan(state)), metrics, taken

    def _with_nan(self, state: Any) -> Any:
        """Replace one number of the last array that is saved as a weight."""
        kept = [weights.tree for weights in self._phase.weights(state).values()]
        saved = {id(leaf) for leaf in jax.tree.leaves(kept) if eqx.is_inexact_array(leaf)}
        leaves, form = jax.tree.flatten(state)
        place = max(number for number, leaf in enumerate(leaves) if id(leaf) in saved)
        values = np.array(leaves[place])
        values.flat[0] = np.nan
        leaves[place] = jax.device_put(values)
        return jax.tree.unflatten(form, leaves)


def poisoned(train: Train, folder: Path, expected: dict[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Poison a run after its first checkpoint, then resume it; yields what was poisoned, and what was lost."""
    _die_half_way(train, folder / "half")
    for what in ("metric", "weight"):
        place, real = Path(shutil.copytree(folder / "half", folder / what)), loop._Loop
        before = _saved(place)
        lost = [f"{path.name} is not finite" for path in before if not _is_finite(path)]
        loop._Loop = lambda phase, *rest, what=what, real=real: real(Poisoned(phase, what), *rest)
        try:
            with quiet():
                train(place)
            lost.append("it did not stop")
        except loop.Diverged as error:
            lost += [] if "the checkpoint of step" in str(error) else [f"the sentence says too little: {error}"]
        except Exception as error:
            lost.append(f"{type(error).__name__}: {error}")
        finally:
            loop._Loop = real
        lost += [] if _saved(place) == before else ["something was saved"]
        yield what, lost + resumed(train, place, expected)
        shutil.rmtree(place)


def _saved(folder: Path) -> dict[Path, bytes]:
    """All checkpoints and weights."""
    return {path: path.read_bytes() for path in sorted(folder.rglob("*.safetensors*"))}


def _is_finite(path: Path) -> bool:
    data = path.read_bytes()
    tensors, _ = from_bytes(data if path.suffix == ".safetensors" else zlib.decompress(data))
    return all(np.isfinite(tensor).all() for tensor in tensors.values() if np.issubdtype(tensor.dtype, np.inexact))


def full_disks(train: Train, folder: Path, every: int = 1) -> Iterator[tuple[Path, str]]:
    """Let the disk be full from the n-th fsync on, for each n-th n; yields the run and what was said."""
    real, number = os.fsync, 0
    while True:
        place, left = folder / f"full{number}", number

        def full(descriptor: int) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            real(descriptor)

        os.fsync = full
        try:
            with quiet():
                train(place)
            return
        except OSError as error:
            sentence = explain(error)
        finally:
            os.fsync = real
        yield place, sentence
        shutil.rmtree(place)
        number += every
