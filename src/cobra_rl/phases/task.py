"""Phase 3, want and act: an environment with reward -> a reward predictor; each seed is a run of its own."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np

from cobra_rl.agents.base import Agent, Playing, begin
from cobra_rl.agents.base import step as take_step
from cobra_rl.agents.cobra import Cobra
from cobra_rl.config import TaskConfig
from cobra_rl.environments import Problem, SparseReward
from cobra_rl.evaluation.task import WINDOW, context, greedy_scores, normalised_reward, play_episodes, window_won
from cobra_rl.models.world import WorldModel
from cobra_rl.runtime import storage
from cobra_rl.runtime.run import Diverged, Report, Weights, open_run, run
from cobra_rl.runtime.typed import to_json
from cobra_rl.spriteworld.base import Environment
from cobra_rl.worlds import SHIPPED, copy_world, find_world, world_record

CONFIRM = 100  # greedy episodes that must confirm the 90 % of a window; also those of a check
FINAL_SEED = 1905  # random seed of the greedy episodes at the end
FREE = (
    "steps",
    "first_seed",
    "seed_count",
    "final",
    "check_every",
    "world.path",
)  # may differ from one call to the next
AGENTS: Mapping[str, Callable[[Any], Agent]] = {"cobra": Cobra}  # a learner of its own is a line here


@dataclass
class TaskPhase:
    """One seed of a task as the run loop takes it."""

    columns = ("success", "episodes")
    read_every = 1
    report_every = 100
    save_every = 500
    evaluates = False
    compressed = False

    agent: Agent
    env: Environment
    world: WorldModel
    seed: int
    steps: int
    title: str
    reward_cap: float | None = None
    check_every: int = 0  # steps between two checks of the greedy agent; 0: it is not checked
    notes: dict[str, Any] = field(  # an entry an episode in both lists; how soon it got to 90 %, confirmed
        default_factory=lambda: {"ends": [], "success": [], "confirmed": None, "next_try": 0, "capped": 0, "checks": []}
    )

    def __post_init__(self):
        env, knows = self.env, self.world.sizes
        if env.image_size != knows.image or env.action_size != knows.action:
            raise ValueError(
                f"The environment has pictures of {env.image_size} pixels and actions of {env.action_size} dimensions; "
                f"the world knows {knows.image} and {knows.action}. Take a world that was trained for it."
            )

    def init(self) -> Playing:
        """Start with a fresh predictor in a fresh episode."""
        return begin(self.agent, self.env, self.world, jax.random.key(self.seed))

    def step(self, state: Playing, step: int) -> tuple[Playing, dict[str, Any]]:
        """Take one environment step and learn from it."""
        state, outcome, metrics = take_step(self.agent, self.env, self.world, state)
        reward, success, done = jax.device_get(outcome[1:])
        if not np.isfinite(reward):
            raise Diverged(f"The environment gave a reward of {reward} at step {step + 1}; rewards must be finite.")
        self.notes["capped"] += int(self.reward_cap is not None and reward > self.reward_cap and not success)
        if done:
            self.notes["ends"].append(step + 1)
            self.notes["success"].append(bool(success))
            self._confirm(state, step + 1)
        if self.check_every and (step + 1) % self.check_every == 0:
            self.notes["checks"].append([step + 1, self._greedy_success(state, 20_000 + step)])
        recent = self.notes["success"][-WINDOW:] or [0.0]
        return state, metrics | {"success": float(np.mean(recent)), "episodes": len(self.notes["ends"])}

    def _confirm(self, state: Playing, step: int) -> None:
        """Count a window of 90 % if greedy episodes reach 90 % too; if not, the next attempt is 30 episodes later."""
        notes, count = self.notes, len(self.notes["success"])
        if notes["confirmed"] is None and count >= notes["next_try"] and window_won(notes["success"]):
            notes["confirmed"] = count if self._greedy_success(state, 10_000 + step) >= 0.9 else None
            notes["next_try"] = count + WINDOW

    def _greedy_success(self, state: Playing, seed: int) -> float:
        """Measure the success of the agent of now in fresh episodes, without learning."""
        params = self.agent.params(self.world, state.agent)
        return float(play_episodes(self.agent.policy, params, self.env, CONFIRM, seed=seed).success.mean())

    def report(self, state: Playing, step: int) -> Report:
        """There is nothing more to measure while learning."""
        return Report({})

    def weights(self, state: Playing) -> dict[str, Weights]:
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
        } | ({"checks": checks, "steps_to_90_kept": _kept(checks)} if (checks := self.notes["checks"]) else {})


def _kept(checks: Sequence[tuple[int, float]]) -> int | None:
    """Return the first check from which on the greedy agent never solved less than 90 %; None if the last did."""
    falls = [number for number, (_, success) in enumerate(checks) if success < 0.9]
    first = falls[-1] + 1 if falls else 0
    return checks[first][0] if first < len(checks) else None


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
    check_every: int = 0,
) -> dict[str, Any]:
    """Learn a task in `folder`; the same call goes on where the last one stopped, and more steps or seeds add to it.

    Each seed has so many rewarded `steps`, and `final` greedy episodes at the end in each mode. `envs` are by
    default the problem's, and `world_folder`, where the world came from, the shipped one. With `check_every`, the
    greedy agent of the moment plays 100 fresh episodes each time so many steps are done. Returns result.json.
    """
    if config.agent not in AGENTS:
        raise ValueError(f"There is no agent {config.agent!r}; choose one of {', '.join(AGENTS)}.")
    place = find_world(world_folder)
    settings = {"phase": "task", "problem": problem, "config": config, "world": world_record(place), "steps": steps}
    settings |= {"first_seed": seeds.start, "seed_count": len(seeds), "final": final, "check_every": check_every}
    defaults = {"problem": Problem(problem.task), "config": TaskConfig()}
    open_run(folder, settings, defaults, free=FREE, command=command)
    if place != SHIPPED:
        copy_world(place, folder / "world")
    envs = problem.environments() if envs is None else envs
    train_env = SparseReward(envs["train"]) if problem.sparse else envs["train"]
    used = world if problem.exploration_policy else world.without_policy()
    agent, began = AGENTS[config.agent](config), time.monotonic()
    compared = _compared(folder, envs, final)
    rows = []
    for number, seed in enumerate(seeds):
        title = f"{problem.task}, seed {seed}" + (f" ({number + 1} of {len(seeds)})" if len(seeds) > 1 else "")
        phase = TaskPhase(agent, train_env, used, seed, steps, title, config.reward_cap, check_every)
        rows.append(_finish(phase, folder / f"seed{seed}", envs, final, compared))
    minutes = (time.monotonic() - began) / 60
    result = {"command": command} | to_json(settings) | {"minutes": minutes, "context": compared, "seeds": rows}
    storage.write_json(folder / "result.json", result)
    return result


def _finish(
    phase: TaskPhase, folder: Path, envs: Mapping[str, Environment], final: int, compared: Mapping[str, Any]
) -> dict[str, Any]:
    """Run one seed to its end and score it; scores that were measured before are read."""
    path, asked = folder / "scores.json", {"steps": phase.steps, "final": final, "check_every": phase.check_every}
    if known := _known(path, asked):
        print(f"{phase.title}: finished, {phase.steps:,} steps are done in {folder}", flush=True)
        return known["row"]
    state = run(phase, folder)
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
