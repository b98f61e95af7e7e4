"""Which JAX is right and fast here: the canary of `tests/test_compiler.py`, then the speed of what we do most.

    PYTHONPATH=src VENV/bin/python -m benchmarks.speed.jax_versions [--presets laptop paper] [--all-chunks]
        [--out FILE]

It measures the JAX of the Python that runs it, with the XLA_FLAGS that are set, and adds a turn to what the file holds
of this version and these flags. Run it by turns with one environment per version, three times or more. All times are
those of the fastest call, in a turn and over the turns, since those depend least on what else runs. Code is compiled
anew each time.
"""

from cobra_rl.cli.process import use_huge_pages

use_huge_pages()  # as `cobra train vision` does

import os
import time

os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "0"  # the time of compiling is measured, too
BEGAN = time.perf_counter()

import jax

IMPORT_SECONDS = time.perf_counter() - BEGAN

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp

from benchmarks.speed.task import AGENT
from benchmarks.tools.record import show, write
from cobra_rl.config import VISION
from cobra_rl.models import nets
from cobra_rl.phases import vision
from cobra_rl.phases.vision import random_frames
from cobra_rl.runs.worlds import load_world
from cobra_rl.spriteworld import make

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from test_compiler import wrong_patterns

CHUNK = nets._CHUNK
CHUNKS = {f"chunks of {CHUNK}": CHUNK, "chunks of 1": 1, "no chunks": 10**6}


def fastest(call: Callable[[], Any], seconds: float) -> tuple[float, float]:
    """Return the milliseconds of the fastest call, of five at least, and the seconds of the first, which compiles."""
    times = []
    while len(times) < 6 or sum(times[1:]) < seconds:
        began = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - began)
    return 1e3 * min(times[1:]), times[0]


def vision_step(preset: str, chunk: int, seconds: float) -> tuple[float, float]:
    """Time the step of `cobra train vision` with so many images in one convolution of a weight gradient."""
    nets._CHUNK = chunk
    vision._compiled.cache_clear()
    config = dataclasses.replace(VISION[preset], validation_scenes=1)
    phase = vision.VisionPhase(config, make("exploration"), 0)
    holder = [phase.init()]

    def call():
        holder[0], metrics = phase.step(holder[0], config.steps - 1)  # the last stage: all sprites, all slots
        return metrics

    times = fastest(call, seconds)
    nets._CHUNK = CHUNK
    return times


def gradients(chunk: int, seconds: float) -> float:
    """Time the gradients of the convolution that is the paper's most expensive one in the attention network."""
    nets._CHUNK = chunk
    x = jax.random.normal(jax.random.key(0), (16, 64, 64, 64))
    kernel = jax.random.normal(jax.random.key(1), (3, 3, 64, 32))
    compiled = jax.jit(jax.grad(lambda x, kernel: (nets._chunked_convolve(x, kernel, "SAME") ** 2).sum(), (0, 1)))
    times = fastest(lambda: compiled(x, kernel), seconds)
    nets._CHUNK = CHUNK
    return times[0]


def task_step(seconds: float) -> float:
    """Time a step of the task phase, one seed."""
    env, world = make("goal_finding_more_targets"), load_world()
    holder = [AGENT.begin(env, world, [0])]

    def call():
        holder[0], outcome, _ = AGENT.step(env, world, holder[0])
        return outcome

    return fastest(call, seconds)[0]


def environments(count: int, seconds: float) -> float:
    """Time a step of many environments, drawing included."""
    env = make("exploration")
    keys = jax.random.split(jax.random.key(0), count)
    state, _ = jax.jit(jax.vmap(env.reset))(keys)
    actions = jax.random.uniform(jax.random.key(1), (count, env.action_size), jnp.float32)
    compiled = jax.jit(jax.vmap(env.step))
    return fastest(lambda: compiled(keys, state, actions), seconds)[0]


def measure(presets: list[str], all_chunks: bool, seconds: float) -> dict[str, float]:
    """Measure everything once; times are in milliseconds, if they do not say otherwise."""
    figures: dict[str, float] = {"wrong patterns": len(wrong_patterns()), "import jax, s": IMPORT_SECONDS}
    for preset in presets:
        for name, chunk in CHUNKS.items() if all_chunks else [(f"chunks of {CHUNK}", CHUNK)]:
            milliseconds, first = vision_step(preset, chunk, 2 * seconds)
            figures[f"vision step, {preset}, {name}"] = milliseconds
            figures[f"vision step, {preset}, {name}: first, s"] = first
    for name, chunk in CHUNKS.items():
        figures[f"gradients of a convolution, {name}"] = gradients(chunk, seconds)
    world = load_world()
    images = random_frames(jax.random.key(0), make("exploration"), 64)
    for count in (1, 64):
        figures[f"encode {count}"] = fastest(lambda count=count: world.encode(images[:count]), seconds)[0]
    figures["task step"] = task_step(2 * seconds)
    figures["step of 1024 environments"] = environments(1024, seconds)
    return figures


def best(turns: list[dict[str, float]]) -> dict[str, float]:
    """Return the least of each figure over the turns that have it."""
    return {name: min(turn[name] for turn in turns if name in turn) for turn in turns for name in turn}


def main() -> None:
    """Measure, merge with what other versions gave, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="for most numbers")
    parser.add_argument("--presets", nargs="*", default=["laptop"], choices=["laptop", "paper"], help="of vision")
    parser.add_argument("--all-chunks", action="store_true", help="time vision with all chunks of the weight gradient")
    parser.add_argument("--out", type=Path, default=Path("results", "jax_versions.json"))
    options = parser.parse_args()
    turns = json.loads(options.out.read_text())["turns"] if options.out.exists() else {}
    setting = f"{jax.__version__} {os.environ.get('XLA_FLAGS', '')}".strip()
    turns.setdefault(setting, []).append(measure(options.presets, options.all_chunks, options.seconds))
    figures = {setting: best(of_one) for setting, of_one in turns.items()}
    names = dict.fromkeys(name for column in figures.values() for name in column)
    show({setting: dict.fromkeys(names, float("nan")) | column for setting, column in figures.items()})
    write(options.out, figures=figures, turns=turns)


if __name__ == "__main__":
    main()
