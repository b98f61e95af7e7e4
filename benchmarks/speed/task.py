"""The task phase's speed: environment steps a second of Algorithm 1 (B = 128, N = 10), and where the time goes.

    .venv/bin/python -m benchmarks.speed.task [--seconds 10] [--tasks NAME ...] [--out results/benchmark_task.json]

Steps are taken 20 in a call, as a run takes them; a package that cannot takes one. `seeds_8` is the rate of eight seeds
side by side, all together. The parts (encoding, search, learning, environment with its drawing) are compiled and timed
one by one, with waiting after each, so that the time of a step is not their sum. `encode_64_ms` is the time of encoding
64 first scenes of the task. Nothing else should run meanwhile. `benchmarks/speed/before_after.py` runs this for two
states of the code by turns.
"""

from cobra_rl.cli.process import use_huge_pages

use_huge_pages()  # as `cobra solve` does

import argparse
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax

from benchmarks.tools.record import show, write
from cobra_rl.agents.cobra import Cobra
from cobra_rl.config import COBRA
from cobra_rl.models.world import WorldModel
from cobra_rl.runs.worlds import load_world
from cobra_rl.spriteworld import REWARDED, Spriteworld, make

AGENT = Cobra(COBRA["laptop"])
NEVER = 2**31 - 1
CALL = 20 if hasattr(AGENT, "steps") else 1  # steps in a call


def rate(call, seconds: float) -> float:
    """Return calls a second; the first two compile."""
    for _ in range(2):
        jax.block_until_ready(call())
    began, calls = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - began) < seconds:
        jax.block_until_ready(call())
        calls += 1
    return calls / elapsed


def step_rate(world: WorldModel, env: Spriteworld, seeds: int, seconds: float) -> tuple[float, Any]:
    """Measure the steps a second of all seeds together, learnt side by side; return them and the state at the end."""
    holder = [AGENT.begin(env, world, range(seeds))]

    def turn():
        if CALL > 1:
            holder[0], outcome = AGENT.steps(env, world, holder[0], CALL, [NEVER] * seeds)
        else:
            holder[0], outcome, _ = AGENT.step(env, world, holder[0])
        return outcome

    return CALL * seeds * rate(turn, seconds), holder[0]


def measure(world: WorldModel, task: str, seconds: float) -> dict[str, float]:
    """Measure the rates of the whole step of one seed, of its parts, and of several seeds side by side."""
    env = make(task)
    whole, playing = step_rate(world, env, 1, seconds)
    state = jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, playing)
    side_by_side = {f"seeds_{seeds}": step_rate(world, env, seeds, seconds)[0] for seeds in (2, 8)}
    image = env.draw(state.env)
    observe, explore = eqx.filter_jit(AGENT.observe), eqx.filter_jit(AGENT.explore)
    action = explore(world, state.agent, state.observation, state.key)

    @eqx.filter_jit
    def learn(world, state, key):
        return AGENT.learn(world, state, key)[0].predictor  # not the memory, which a step need not copy

    @jax.jit
    def advance(key, state, action):
        after = env.advance(key, state, action)
        return after._replace(image=env.draw(after.state))

    parts = {
        "encode": rate(lambda: observe(world, image), seconds / 2),
        "search": rate(lambda: explore(world, state.agent, state.observation, state.key), seconds / 2),
        "learn": rate(lambda: learn(world, state.agent, state.key), seconds / 2),
        "environment": rate(lambda: advance(state.key, state.env, action), seconds / 2),
    }
    total = sum(1.0 / value for value in parts.values())
    shares = {f"share_{name}": 1.0 / value / total for name, value in parts.items()}
    images = jax.vmap(lambda key: env.draw(env.initial(key)))(jax.random.split(state.key, 64))
    times = {
        "encode_1_ms": 1e3 / parts["encode"],
        "encode_64_ms": 1e3 / rate(lambda: world.encode(images), seconds / 2),
    }
    return {"steps_per_second": whole} | side_by_side | times | shares


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--tasks", nargs="+", default=["goal_finding_more_targets"], choices=REWARDED)
    parser.add_argument("--out", type=Path, default=Path("results", "benchmark_task.json"))
    options = parser.parse_args()
    world = load_world()
    figures = {task: measure(world, task, options.seconds) for task in options.tasks}
    show(figures)
    write(options.out, figures=figures)


if __name__ == "__main__":
    main()
