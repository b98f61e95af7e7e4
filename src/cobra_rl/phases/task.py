"""Phase 3, task: an environment with reward -> an agent, for COBRA, the baselines and any other learner.

One or several seeds are learnt side by side. For each, the phase counts episodes and checks the 90 % criterion.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float

from cobra_rl.agents.contract import Learner
from cobra_rl.evaluation.task import WINDOW, play_episodes, reaches_criterion, recent_success
from cobra_rl.models.world import WorldModel
from cobra_rl.phases.contract import Diverged, Phase
from cobra_rl.spriteworld.base import Environment
from cobra_rl.storage.weights import Weights

CONFIRM = 100  # greedy episodes in a confirmation of 90 % success, or in a check
MOST_LOST = 10  # how many of them may be lost
MOST_ENTRIES = 10_000  # most episodes that result.json lists one by one; of more it has a thinned curve
POINTS = 300  # points of that curve
NEVER = 2**31 - 1


@dataclass
class TaskPhase(Phase):
    """The training of several seeds of a task, for the run loop; one step of it is one step of the learner."""

    columns = ("success", "episodes", "hits")

    learner: Learner
    env: Environment
    world: WorldModel | None  # None: the agent uses none
    seeds: Sequence[int]
    steps: int
    title: str
    check_every: int = 0  # environment steps between two checks of the greedy policy; 0: no checks
    history: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        config = self.learner.config
        self.report_every = max(config.report_every // config.envs, 1)
        self.save_every = max(config.save_every // config.envs, 1)
        self.history = {"env_steps": 0, "seeds": [_nothing_yet() for _ in self.seeds]}

    def init(self) -> Any:
        """Start fresh agents in fresh episodes."""
        return self.learner.begin(self.env, self.world, self.seeds)

    def step(self, state: Any, step: int) -> tuple[Any, dict[str, Any]]:
        """Take one step of the learner, and count what it led to."""
        state, metrics, _ = self.advance(state, step, 1)
        return state, metrics

    def advance(self, state: Any, step: int, most: int) -> tuple[Any, dict[str, Any], int]:
        """Take up to `most` steps, until a greedy policy may be asked for, and count what they led to."""
        most = min(most, self._steps_until_check())
        ends = [self._ends_until_asked(record) for record in self.history["seeds"]]
        state, taken = self.learner.steps(self.env, self.world, state, most, ends)
        outcome = jax.device_get(taken.outcome)
        for each in zip(outcome.reward, outcome.success, outcome.done, strict=True):
            self.count(state, *each)
        count = len(outcome.done)
        means = {
            name: np.reshape(values, (count, -1)).mean(1) for name, values in jax.device_get(taken.metrics).items()
        }
        wrong = [np.flatnonzero(~np.isfinite(values)) for values in means.values()]
        shown = min((steps[0] for steps in wrong if steps.size), default=count - 1)
        return state, {name: values[shown] for name, values in means.items()} | self.progress(), int(shown) + 1

    def _steps_until_check(self) -> int:
        """Return after how many steps the greedy policy is checked next."""
        if not self.check_every:
            return self.steps
        return -(-(self.check_every - self.history["env_steps"] % self.check_every) // self.learner.config.envs)

    def _ends_until_asked(self, record: dict[str, Any]) -> int:
        """Return with how many more episodes of a seed, if all succeed, its greedy policy is asked to confirm 90 %."""
        if record["confirmed"] is not None:
            return NEVER
        latest = record["success"][-WINDOW:]
        count = max(record["next_try"] - len(record["success"]), 1)
        while not reaches_criterion(latest + [True] * count):
            count += 1
        return count

    def count(
        self,
        state: Any,
        rewards: Float[np.ndarray, "S E"],
        success: Bool[np.ndarray, "S E"],
        done: Bool[np.ndarray, "S E"],
    ) -> None:
        """Record what a step led to, and check which seeds have reached 90 % success."""
        self.history["env_steps"] += rewards.shape[1]
        for index in range(len(self.seeds)):
            self._count_seed(index, state, rewards[index], success[index], done[index])

    def progress(self) -> dict[str, float]:
        """Return the success of the last 30 episodes, the number of all episodes, and of the steps of each seed."""
        recent = [float(np.mean(each["success"][-WINDOW:] or [0.0])) for each in self.history["seeds"]]
        each = {f"success_seed{seed}": value for seed, value in zip(self.seeds, recent, strict=True)}
        return {
            "success": float(np.mean(recent)),
            "episodes": sum(len(record["ends"]) for record in self.history["seeds"]),
            "env_steps": self.history["env_steps"],
            **(each if len(self.seeds) > 1 else {}),
        }

    def _count_seed(
        self,
        index: int,
        state: Any,
        rewards: Float[np.ndarray, " E"],
        success: Bool[np.ndarray, " E"],
        done: Bool[np.ndarray, " E"],
    ) -> None:
        """Record what a step led to in the environments of one seed, and check whether 90 % success is reached."""
        record = self.history["seeds"][index]
        env_steps = self.history["env_steps"]
        if not np.isfinite(rewards).all():
            wrong = rewards[~np.isfinite(rewards)][0]
            raise Diverged(f"The environment gave a reward of {wrong} at step {env_steps}; rewards must be finite.")
        cap = self.learner.config.reward_cap
        if cap is not None:
            record["capped"] += int(np.sum((rewards > cap) & ~success))
        record["ends"] += [env_steps] * int(done.sum())
        record["success"] += success[done].tolist()
        if done.any():
            self._confirm(index, state)
        if self.check_every and env_steps // self.check_every > (env_steps - done.size) // self.check_every:
            record["checks"].append([env_steps, self._greedy_success(index, state, 20_000 + env_steps - 1)])

    def _confirm(self, index: int, state: Any) -> None:
        """Accept 90 % success of a window if greedy episodes confirm it; if not, try again at least 30 later."""
        record = self.history["seeds"][index]
        count = len(record["success"])
        if record["confirmed"] is None and count >= record["next_try"] and reaches_criterion(record["success"]):
            confirmed = self._greedy_success(index, state, 10_000 + self.history["env_steps"]) >= 0.9
            record["confirmed"] = count if confirmed else None
            record["next_try"] = count + max(WINDOW, int(self.learner.config.patience * count))

    def _greedy_success(self, index: int, state: Any, seed: int) -> float:
        """Measure the success of the current greedy policy in fresh episodes, without learning; stop below 90 %."""
        params = self.learner.params(self.world, self.learner.agent_of(state, index))
        played = play_episodes(self.learner.policy, params, self.env, episodes=CONFIRM, seed=seed, most_lost=MOST_LOST)
        return float(played.success.mean())

    def weights(self, state: Any) -> dict[str, Weights]:
        """Return the weights of all agents, to be saved."""
        saved = {}
        for index, seed in enumerate(self.seeds):
            weights = self.learner.weights(self.world, self.learner.agent_of(state, index))
            saved[f"seed{seed}/{weights.kind}"] = weights
        return saved

    def summary(self, index: int) -> dict[str, Any]:
        """Return the entry of a seed in result.json."""
        record = self.history["seeds"][index]
        confirmed = record["confirmed"]
        row = {
            "seed": self.seeds[index],
            "episodes": len(record["ends"]),
            "episodes_to_90": confirmed,
            "steps_to_90": None if confirmed is None else record["ends"][confirmed - 1],
        }
        checks = record["checks"]
        return row | _course(record) | ({"checks": checks, "steps_to_90_kept": _kept(checks)} if checks else {})


def _nothing_yet() -> dict[str, Any]:
    """Return the record of a seed that has not begun: an entry per episode, and the episodes to 90 %."""
    return {"ends": [], "success": [], "confirmed": None, "next_try": 0, "capped": 0, "checks": []}


def _course(record: dict[str, Any]) -> dict[str, Any]:
    """Return the learning curve: at which step each episode ended and whether it succeeded, or thinned if too many."""
    count = len(record["ends"])
    if count <= MOST_ENTRIES:
        return {"ends": record["ends"], "success": record["success"]}
    places = np.unique(np.geomspace(1, count, POINTS).round().astype(int))
    ends = np.array([0, *record["ends"]])
    success = recent_success(record["success"])
    return {"curve": {"steps": ends[places].tolist(), "success": success[places].round(4).tolist()}}


def _kept(checks: Sequence[Sequence[int | float]]) -> int | None:
    """Return the step of the first check from which on success stayed at 90 % or more; None if the last failed."""
    falls = [number for number, (_, success) in enumerate(checks) if success < 0.9]
    first = falls[-1] + 1 if falls else 0
    return int(checks[first][0]) if first < len(checks) else None
