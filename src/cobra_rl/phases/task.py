"""Phase 3, want and act: an environment with reward -> a reward predictor, several seeds at once."""

import dataclasses
import functools
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from cobra_rl.agents import learner
from cobra_rl.agents.learner import TaskState, frozen_parts
from cobra_rl.config import TaskConfig
from cobra_rl.evaluation.task import (
    WINDOW,
    context,
    greedy_scores,
    normalised_reward,
    play_episodes,
    searching,
    window_won,
)
from cobra_rl.models.reward import Reward
from cobra_rl.pretrained import Curious
from cobra_rl.process import command_line
from cobra_rl.runtime import checkpoint
from cobra_rl.runtime.log import RunLog
from cobra_rl.runtime.signals import StopRequested
from cobra_rl.runtime.storage import write_atomically
from cobra_rl.runtime.weights import save_weights
from cobra_rl.spriteworld import Spriteworld, make

SAVE_EVERY = 500  # environment steps
CONFIRM = 100  # greedy episodes that must confirm the 90 % of a window
FINAL_SEED = 1905  # of the greedy episodes at the end


@dataclass(frozen=True)
class Problem:
    """What is to be learnt, and with what at hand."""

    task: str
    variant: str = "paper"
    sparse: bool = False  # a reward of 1 on success and nothing before
    exploration_policy: bool = True  # else the search proposes uniformly random actions

    def name(self, value: bool) -> str:
        """Of a run's folder."""
        parts = [self.task] + ["released"] * (self.variant == "released") + ["sparse"] * self.sparse
        parts += [("reward", "value")[value]] * (value != self.sparse) + ["uniform"] * (not self.exploration_policy)
        return "-".join(parts)


class Episodes(NamedTuple):
    """What a seed went through; parallel lists."""

    ends: list[int]  # the environment step at which each episode ended
    success: list[bool]
    reward: list[float]  # of its last step


def solve(
    config: TaskConfig,
    agent: Curious,
    problem: Problem,
    folder: Path,
    seeds: int = 1,
    steps: int = 1000,
    final: int = 200,
) -> dict[str, Any] | None:
    """Learns a task in `folder`, seeds 0 to `seeds` - 1 side by side; the same call goes on where the last one stopped.

    At the end, `final` greedy episodes in both modes. Returns what it writes to `result.json`, or None if it was
    stopped by a signal.
    """
    settings = {"problem": dataclasses.asdict(problem), "config": dataclasses.asdict(config)}
    settings |= {"steps": steps, "seed_count": seeds, "final": final}
    if (finished := _finished(folder, settings)) is not None:
        return finished
    _refuse_another_run(folder, settings)
    _write_json(folder / "run.json", settings)
    env, frozen = make(problem.task, "train", problem.variant), frozen_parts(agent, problem.exploration_policy)
    keys = jax.vmap(jax.random.key)(np.arange(seeds))
    begin, turn = _compiled(config, env, problem.sparse)
    state: TaskState = begin(frozen, keys, steps)
    episodes, step, seconds = [Episodes([], [], []) for _ in range(seeds)], 0, 0.0
    confirmed: list[int | None] = [None] * seeds  # episodes until 90 %, confirmed
    next_try = [0] * seeds  # episodes before the next attempt to confirm
    if restored := checkpoint.restore(folder / "checkpoints", state):
        step, state, meta = restored
        seconds, confirmed, next_try = meta["seconds"], meta["confirmed"], meta["next_try"]
        episodes = [Episodes(*lists) for lists in meta["episodes"]]
    began = time.monotonic()

    def predictor(seed: int) -> Reward:
        return jax.tree.map(lambda leaf: leaf[seed], state.predictor)

    def save() -> None:
        meta = {"seconds": seconds + time.monotonic() - began, "episodes": episodes}
        meta |= {"confirmed": confirmed, "next_try": next_try}
        checkpoint.save(folder / "checkpoints", step, state, meta)
        for seed in range(seeds):
            config_dict = dataclasses.asdict(config.reward)
            save_weights(folder / f"seed{seed}" / "reward", predictor(seed), config_dict, kind="reward")

    def confirm(seed: int) -> None:
        """A window of 90 % counts if greedy episodes reach 90 % too; if not, the next attempt is 30 episodes later."""
        count = len(episodes[seed].success)
        if confirmed[seed] is not None or count < next_try[seed] or not window_won(episodes[seed].success):
            return
        played = play_episodes(searching(config, env), (frozen, predictor(seed)), env, CONFIRM, seed=10_000 + step)
        if played.success.mean() >= 0.9:
            confirmed[seed] = count
        next_try[seed] = count + WINDOW

    columns = tuple(f"seed {seed}" for seed in range(seeds))
    with StopRequested() as stop, RunLog(folder, steps, problem.task, step, columns) as log:
        while step < steps and not stop.requested:
            state, outcome = turn(frozen, state)
            step += 1
            rewards, success, done = (np.asarray(part) for part in outcome[1:])
            for seed in np.nonzero(done)[0]:
                episodes[seed].ends.append(step)
                episodes[seed].success.append(bool(success[seed]))
                episodes[seed].reward.append(float(rewards[seed]))
                confirm(int(seed))
            recent = {f"seed {i}": np.mean(e.success[-WINDOW:]) if e.success else 0.0 for i, e in enumerate(episodes)}
            log.progress(step, recent)
            if step % 100 == 0:
                log.write(step, recent | {f"episodes {i}": len(e.ends) for i, e in enumerate(episodes)})
            if step % SAVE_EVERY == 0 or step == steps:
                save()
        if stop.requested and step < steps:
            save()
            log.say(f"Stopped at step {step} of {steps}; the same command goes on from here.")
            return None
    compared = context(problem.task, problem.variant, final, FINAL_SEED)
    rows = []
    for seed in range(seeds):
        where = (problem.task, problem.variant, final, FINAL_SEED)
        scores = greedy_scores(config, frozen, predictor(seed), *where)
        rows.append(_summary(seed, episodes[seed], confirmed[seed]) | scores | normalised_reward(scores, compared))
    minutes = (seconds + time.monotonic() - began) / 60
    result = {"command": command_line()} | settings | {"minutes": minutes, "context": compared, "seeds": rows}
    _write_json(folder / "result.json", result)
    return result


@functools.cache
def _compiled(config: TaskConfig, env: Spriteworld, sparse: bool) -> tuple[Callable, Callable]:
    """The start and the step of Algorithm 1, compiled once for all runs alike."""
    begin = eqx.filter_jit(lambda frozen, keys, steps: learner.begin(config, env, frozen, keys, steps))
    turn = eqx.filter_jit(
        lambda frozen, state: learner.step(config, env, frozen, sparse, state), donate="all-except-first"
    )
    return begin, turn


def _summary(seed: int, episodes: Episodes, confirmed: int | None) -> dict[str, Any]:
    return {
        "seed": seed,
        "episodes": len(episodes.ends),
        "episodes_to_90": confirmed,
        "steps_to_90": None if confirmed is None else episodes.ends[confirmed - 1],
        "ends": episodes.ends,
        "success": episodes.success,
    }


def _finished(folder: Path, settings: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a run that was the same and came to its end."""
    path = folder / "result.json"
    if not path.exists():
        return None
    result, wanted = json.loads(path.read_text()), json.loads(json.dumps(settings))
    return result if all(result.get(name) == value for name, value in wanted.items()) else None


def _refuse_another_run(folder: Path, settings: dict[str, Any]) -> None:
    """A run goes on as it began; only the episodes at its end may be more or fewer."""
    path = folder / "run.json"
    begun = json.loads(path.read_text()) if path.exists() else {}
    for name, value in json.loads(json.dumps(settings)).items():
        if name != "final" and name in begun and begun[name] != value:
            was, now = (_differing(begun[name], value), _differing(value, begun[name]))
            raise ValueError(
                f"{folder} holds a run with other settings ({name}: {was}, now {now}); "
                "give another folder with --out, or remove that one."
            )


def _differing(one: Any, other: Any) -> Any:
    """Of two settings, what the first has otherwise than the second."""
    if not isinstance(one, dict):
        return one
    return {name: value for name, value in one.items() if name not in other or other[name] != value}


def _write_json(path: Path, record: dict[str, Any]) -> None:
    write_atomically(path, (json.dumps(record, indent=2) + "\n").encode())
