"""Phase 3, want and act: an environment with reward -> a reward predictor, one seed after the other.

Each seed is a run of its own in a folder within that of the whole: so seeds and steps can be added, and each resumes.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import jax
import numpy as np

from cobra_rl.agents.base import Agent, Learner, Playing, begin
from cobra_rl.agents.base import step as take_step
from cobra_rl.agents.cobra import Cobra
from cobra_rl.config import TaskConfig
from cobra_rl.environments import Problem, SparseReward
from cobra_rl.evaluation.task import WINDOW, context, greedy_scores, normalised_reward, play_episodes, window_won
from cobra_rl.models.world import WorldModel
from cobra_rl.runtime import storage
from cobra_rl.runtime.run import Diverged, Phase, Report, Weights, open_run, run
from cobra_rl.runtime.typed import to_json
from cobra_rl.spriteworld.base import Environment
from cobra_rl.worlds import SHIPPED, copy_world, find_world, world_sha256

CONFIRM = 100  # greedy episodes that must confirm the 90 % of a window
FINAL_SEED = 1905  # random seed of the greedy episodes at the end
FREE = ("steps", "first_seed", "seed_count", "final", "world.path")  # may differ from one call to the next
AGENTS: Mapping[str, Callable[[Any], Agent]] = {"cobra": Cobra}  # a learner of its own is a line here
L = TypeVar("L", bound=Learner)


@dataclass
class SeedPhase(Generic[L]):
    """One seed of a task as the run loop takes it, whoever learns; `init` and `step` are those of a subclass."""

    columns = ("success", "episodes")
    read_every = 1
    report_every = 100
    save_every = 500
    evaluates = False
    compressed = False
    patience = 0.0  # after an attempt to confirm that failed, so many more episodes, as a share, before the next

    agent: L
    env: Environment
    world: WorldModel | None  # None: the agent uses none
    seed: int
    steps: int
    title: str
    reward_cap: float | None = None
    notes: dict[str, Any] = field(  # an entry an episode in both lists; how soon it got to 90 %, confirmed
        default_factory=lambda: {"ends": [], "success": [], "confirmed": None, "next_try": 0, "capped": 0}
    )

    def __post_init__(self):
        if self.world is None:
            return
        env, knows = self.env, self.world.sizes
        if env.image_size != knows.image or env.action_size != knows.action:
            raise ValueError(
                f"The environment has pictures of {env.image_size} pixels and actions of {env.action_size} dimensions; "
                f"the world knows {knows.image} and {knows.action}. Take a world that was trained for it."
            )

    def count(self, rewards: Any, success: Any, done: Any, env_steps: int, learnt: Any) -> None:
        """Note what environments came to in a step, arrays [E], and see whether the task is solved by now."""
        rewards, success, done = (np.atleast_1d(values) for values in (rewards, success, done))
        if not np.isfinite(rewards).all():
            wrong = rewards[~np.isfinite(rewards)][0]
            raise Diverged(f"The environment gave a reward of {wrong} at step {env_steps}; rewards must be finite.")
        if self.reward_cap is not None:
            self.notes["capped"] += int(np.sum((rewards > self.reward_cap) & ~success))
        self.notes["ends"] += [env_steps] * int(done.sum())
        self.notes["success"] += success[done].tolist()
        if done.any():
            self._confirm(learnt, env_steps)

    def recent(self) -> dict[str, float]:
        """Return the success of the last 30 episodes and how many there were."""
        recent = self.notes["success"][-WINDOW:] or [0.0]
        return {"success": float(np.mean(recent)), "episodes": len(self.notes["ends"])}

    def _confirm(self, learnt: Any, env_steps: int) -> None:
        """Count a window of 90 % if greedy episodes reach 90 % too; if not, the next attempt is 30 episodes later."""
        notes, count = self.notes, len(self.notes["success"])
        if notes["confirmed"] is None and count >= notes["next_try"] and window_won(notes["success"]):
            params = self.agent.params(self.world, learnt)
            played = play_episodes(self.agent.policy, params, self.env, CONFIRM, seed=10_000 + env_steps)
            notes["confirmed"] = count if played.success.mean() >= 0.9 else None
            notes["next_try"] = count + max(WINDOW, int(self.patience * count))

    def report(self, state: Any, step: int) -> Report:
        """There is nothing more to measure while learning."""
        return Report({})

    def weights(self, state: Any) -> dict[str, Weights]:
        """Keep what the agent says."""
        kept = self.agent.weights(self.world, state.agent)
        return {kept.kind: kept}

    def summary(self) -> dict[str, Any]:
        """Return what the seed went through, as result.json has it."""
        ends, confirmed = self.notes["ends"], self.notes["confirmed"]
        return {
            "seed": self.seed,
            "episodes": len(ends),
            "episodes_to_90": confirmed,
            "steps_to_90": None if confirmed is None else ends[confirmed - 1],
            "ends": ends,
            "success": self.notes["success"],
        }


@dataclass
class TaskPhase(SeedPhase[Agent]):
    """One seed of an `Agent`: each step is one of one environment."""

    def init(self) -> Playing:
        """Start with a fresh predictor in a fresh episode."""
        return begin(self.agent, self.env, self.world, jax.random.key(self.seed))

    def step(self, state: Playing, step: int) -> tuple[Playing, dict[str, Any]]:
        """Take one environment step and learn from it."""
        state, outcome, metrics = take_step(self.agent, self.env, self.world, state)
        reward, success, done = jax.device_get(outcome[1:])
        self.count(reward, success, done, step + 1, state.agent)
        return state, metrics | self.recent()


def solve(
    config: TaskConfig,
    world: WorldModel,
    problem: Problem,
    folder: Path,
    seeds: range = range(1),
    steps: int = 1000,
    final: int = 200,
    envs: Mapping[str, Environment] | None = None,
    world_folder: Path | str | None = None,
    command: str = "python",
) -> dict[str, Any]:
    """Learn a task in `folder`; the same call goes on where the last one stopped, and more steps or seeds add to it.

    Args:
        config: The agent and its learning.
        world: The world model, frozen.
        problem: What is to be learnt.
        folder: The run's folder; what is returned is also written to `folder`/result.json.
        seeds: Random seeds, one after the other.
        steps: Rewarded environment steps for each seed.
        final: Greedy episodes at the end, in each mode.
        envs: Environments by mode; by default those of the problem.
        world_folder: Where the world came from; by default it is the shipped one.
        command: What was typed, for result.json.
    """
    if config.agent not in AGENTS:
        raise ValueError(f"There is no agent {config.agent!r}; choose one of {', '.join(AGENTS)}.")
    settings = {"phase": "task", "problem": problem, "config": config} | describe_world(world_folder)
    settings |= {"steps": steps, "first_seed": seeds.start, "seed_count": len(seeds), "final": final}
    defaults = {"problem": Problem(problem.task), "config": TaskConfig()}
    open_run(folder, settings, defaults, free=FREE, command=command)
    if (place := find_world(world_folder)) != SHIPPED:
        copy_world(place, folder / "world")
    envs = problem.environments() if envs is None else envs
    train_env = SparseReward(envs["train"]) if problem.sparse else envs["train"]
    used, agent = world if problem.exploration_policy else world.without_policy(), AGENTS[config.agent](config)

    def make_phase(seed: int, title: str) -> SeedPhase:
        return TaskPhase(agent, train_env, used, seed, steps, title, config.reward_cap)

    return run_seeds(make_phase, folder, settings, envs, seeds, final)


def describe_world(folder: Path | str | None) -> dict[str, Any]:
    """Return the entry of a run's settings that names the world it uses."""
    place = find_world(folder)
    path = "shipped" if place == SHIPPED else str(place.resolve())
    return {"world": {"sha256": world_sha256(place), "path": path}}


def run_seeds(
    make_phase: Callable[[int, str], SeedPhase],
    folder: Path,
    settings: Mapping[str, Any],
    envs: Mapping[str, Environment],
    seeds: range,
    final: int,
) -> dict[str, Any]:
    """Run seeds one after the other, score them, and write and return result.json; `make_phase` gets seed and title."""
    began, rows = time.monotonic(), []
    compared, name = _compared(folder, envs, final), settings["problem"].task
    for number, seed in enumerate(seeds):
        title = f"{name}, seed {seed}" + (f" ({number + 1} of {len(seeds)})" if len(seeds) > 1 else "")
        rows.append(_finish(make_phase(seed, title), folder / f"seed{seed}", envs, final, compared))
    minutes = (time.monotonic() - began) / 60
    command = storage.read_json(folder / "run.json")["command"]
    result = {"command": command} | to_json(settings) | {"minutes": minutes, "context": compared, "seeds": rows}
    storage.write_json(folder / "result.json", result)
    return result


def _finish(
    phase: SeedPhase, folder: Path, envs: Mapping[str, Environment], final: int, compared: Mapping[str, Any]
) -> dict[str, Any]:
    """Run one seed to its end and score it; scores that were measured before are read."""
    path, asked = folder / "scores.json", {"steps": phase.steps, "final": final}
    if known := _known(path, asked):
        print(f"{phase.title}: finished, {phase.steps:,} steps are done in {folder}", flush=True)
        return known["row"]
    state = run(cast(Phase, phase), folder)
    if capped := phase.notes["capped"]:
        above = f"above config.reward_cap ({phase.reward_cap:g}) and were learnt as that"
        print(f"{phase.title}: {capped} rewards were {above}.", flush=True)
    print(f"{phase.title}: {final} greedy episodes in each mode", flush=True)
    params = phase.agent.params(phase.world, state.agent)
    scores = greedy_scores(phase.agent.policy, params, envs, final, FINAL_SEED)
    row = phase.summary() | scores | normalised_reward(scores, compared)
    storage.write_json(path, asked | {"row": row})
    return row


def _compared(folder: Path, envs: Mapping[str, Environment], final: int) -> dict[str, Any]:
    """Measure what to compare with, once for all seeds."""
    path, asked = folder / "context.json", {"final": final}
    if known := _known(path, asked):
        return known["context"]
    print(f"What to compare with: {final} episodes of a random policy and of one that knows all", flush=True)
    found = context(envs, final, FINAL_SEED)
    if not all(np.isfinite(value) for scores in found.values() for value in scores.values()):
        raise Diverged("The environment gives rewards that are not finite; correct its task first.")
    storage.write_json(path, asked | {"context": found})
    return found


def _known(path: Path, asked: Mapping[str, int]) -> dict[str, Any] | None:
    """Read what was measured before, if the same was asked for then."""
    known = storage.read_json(path) if path.exists() else {}
    return known if asked.items() <= known.items() else None
