"""Where reward is lost between a scene and an action: the search again, with true parts in place of its own.

Four searches, in scenes that the agent comes to; what each one's action truly brings, without motion noise:

    ideal      knows the scene, what actions do to it and what it is worth; clicks on sprites
    proposed   knows the same, but has the agent's proposals to choose from
    seen       has these proposals, sees the picture that each one leads to, and goes by the reward predictor
    chosen     the agent: goes by the reward predictor, and imagines what they lead to

From each to the next, reward is lost by one thing more: proposals; vision and reward predictor; imagination.

    .venv/bin/python -m benchmarks.experiments.causes RUN [--scenes 64] [--out FILE]

RUN is a run of `cobra solve` in a Spriteworld. It takes minutes per seed.
"""

import argparse
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.tools.record import write
from cobra_rl.agents.cobra import CobraParams, choose, cobra_policy
from cobra_rl.bounds import to_json
from cobra_rl.config import CobraConfig
from cobra_rl.evaluation.task import noise_free, true_state_search, visited_states
from cobra_rl.models.planner import Choice
from cobra_rl.runs.agent import Agent
from cobra_rl.spriteworld import MODES, EnvState, Spriteworld

SEED = 1919  # of the episodes whose scenes are looked at
CAUSES = ("proposals", "vision and reward", "imagination")
Find = Callable[[Any, EnvState, PRNGKeyArray], Choice]  # the agent's own search
Look = Callable[[Any, Array], Array]  # what it takes pictures [P, H, W, 3] to be worth


class Worth(NamedTuple):
    """True rewards of the present scene, and of the one that each search leads to."""

    now: Float[Array, " B"]
    ideal: Float[Array, " B"]
    proposed: Float[Array, " B"]
    seen: Float[Array, " B"]
    chosen: Float[Array, " B"]


def reward_lost(config: CobraConfig, params: CobraParams, env: Spriteworld, scenes: int, seed: int) -> dict[str, float]:
    """Measure what there was "to gain" in a step, in reward on average, and how much of it each of `CAUSES` lost."""
    states = visited_states(cobra_policy(config), params, env, scenes=scenes, seed=seed)
    keys = jax.random.split(jax.random.key(seed), scenes)
    worth: Worth = jax.device_get(_compiled(config, env)(params, states, keys))
    gain = float(np.mean(worth.ideal - worth.now))
    steps = zip(CAUSES, worth[1:], worth[2:], strict=False)
    return {"to gain": gain} | {cause: float(np.mean(more - less)) for cause, more, less in steps}


@functools.cache
def _compiled(config: CobraConfig, env: Spriteworld) -> Callable[..., Worth]:
    """Compile the four searches once for all seeds of a run: what they learnt is an argument."""

    def look(params: CobraParams, images: Array) -> Array:
        return params.predictor(params.world.encode(images))

    def find(params: CobraParams, state: EnvState, key: PRNGKeyArray) -> Choice:
        return choose(config, params, params.world.encode(env.draw(state)[None])[0], key)

    return eqx.filter_jit(four_searches(env, find, look, config.reward_cap))


def four_searches(env: Spriteworld, find: Find, look: Look, reward_cap: float | None = None) -> Callable[..., Worth]:
    """Build a pure function (params, states of B scenes, B keys) -> Worth that compares the four searches."""
    still, ideal = noise_free(env), true_state_search(env)

    def compare(params: Any, state: EnvState, key: PRNGKeyArray) -> Worth:
        choice = find(params, state, key)
        after = jax.vmap(lambda action: still.advance(key, state, action))(choice.actions)
        best = ideal.act(None, jax.tree.map(lambda leaf: leaf[None], state), key[None])[0]
        found = Worth(
            now=still.spec.task(state.sprites)[0],
            ideal=still.advance(key, state, best).reward,
            proposed=after.reward.max(),
            seen=after.reward[jnp.argmax(look(params, jax.vmap(env.draw)(after.state)))],
            chosen=still.advance(key, state, choice.action).reward,
        )
        return jax.tree.map(lambda reward: jnp.clip(reward, max=reward_cap), found)

    return lambda params, *rows: jax.lax.map(lambda row: compare(params, *row), rows)


def measure(run: Path, seed: int, scenes: int) -> dict[str, float]:
    """Measure the agent of one seed of a run in both modes: means named "CAUSE, MODE"."""
    agent, row = Agent.load(run, seed), {"seed": seed}
    assert agent.problem is not None
    for mode, env in agent.problem.environments().items():
        if not isinstance(env, Spriteworld):
            raise SystemExit("This needs an environment whose true state is known: a Spriteworld.")
        print(f"seed {seed}: where reward is lost, {mode} mode", flush=True)
        lost = reward_lost(agent.config, agent.params, env, scenes, SEED)
        row |= {f"{name}, {mode}": value for name, value in lost.items()}
    return row


def show(seeds: Sequence[Mapping[str, float]], scenes: int) -> None:
    """Print what reward a step could gain and by what it was lost, a row per seed and mode."""
    title = f"Reward to gain in a step, and lost by what: means over {scenes} scenes that the agent came to"
    names = ("to gain", *CAUSES)
    table = Table("", *names, title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for mode in MODES:
        for seed in seeds:
            values = (seed[f"{name}, {mode}"] for name in names)
            table.add_row(f"seed {seed['seed']}, {mode}", *(f"{round(value, 2) + 0.0:.2f}" for value in values))
    Console().print(table)


def main() -> None:
    """Measure all seeds of a run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run of `cobra solve`, such as runs/solve/sorting")
    parser.add_argument("--scenes", type=int, default=64, help="scenes per seed and mode")
    parser.add_argument("--out", type=Path, help="where to write the numbers as JSON; by default they are only printed")
    options = parser.parse_args()
    settings = Agent.settings(options.run)
    seeds = sorted(int(path.parent.name.removeprefix("seed")) for path in options.run.glob("seed*/reward"))
    rows = [measure(options.run, seed, options.scenes) for seed in seeds]
    show(rows, options.scenes)
    if options.out:
        write(options.out, figures=to_json(settings) | {"scenes": options.scenes, "seeds": rows})


if __name__ == "__main__":
    main()
