"""What COBRA and the baselines share when they learn a task: one run per seed, its 90 % criterion, its scores."""

import functools
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, cast

import numpy as np

from cobra_rl.agents.base import Learner
from cobra_rl.bounds import Seed, conform
from cobra_rl.environments import Problem, SparseReward
from cobra_rl.evaluation.task import WINDOW, context, greedy_scores, normalised_reward, play_episodes, window_won
from cobra_rl.models.world import WorldModel
from cobra_rl.runtime import storage
from cobra_rl.runtime.folder import open_run
from cobra_rl.runtime.run import Diverged, Phase, Report, Weights, run
from cobra_rl.runtime.typed import to_json
from cobra_rl.runtime.weights import WEIGHTS, is_whole
from cobra_rl.runtime.words import warn, working
from cobra_rl.spriteworld.base import Environment
from cobra_rl.spriteworld.env import Spriteworld
from cobra_rl.worlds import SHIPPED, copy_world, world_record

CONFIRM, LOST = 100, 10  # greedy episodes in a confirmation of 90 % success, or in a check; how many may be lost
FINAL_SEED = 1905  # random seed of the greedy episodes at the end
FREE = ("steps", "first_seed", "seed_count", "final", "world.path")  # settings that may differ when a run is resumed
L = TypeVar("L", bound=Learner)


@dataclass
class SeedPhase(Generic[L]):
    """The phase that trains one seed of a task, for the run loop; subclasses define `init` and `step`."""

    columns = ("success", "episodes")
    read_every = 1
    report_every = 100
    save_every = 500
    evaluates = False
    compressed = False
    keep = True
    patience = 0.0  # share by which the number of episodes must grow after a failed confirmation

    agent: L
    env: Environment
    world: WorldModel | None  # None: the agent uses none
    seed: int
    steps: int
    title: str
    reward_cap: float | None = None
    check_every: int = 0  # environment steps between two checks of the greedy policy; 0: no checks
    notes: dict[str, Any] = field(  # `ends`, `success`: one entry per episode; `confirmed`: episodes to 90 %
        default_factory=lambda: {"ends": [], "success": [], "confirmed": None, "next_try": 0, "capped": 0, "checks": []}
    )

    def count(self, rewards: Any, success: Any, done: Any, env_steps: int, learnt: Any) -> dict[str, float]:
        """Record the outcomes of steps, check whether 90 % success is reached, and return the progress."""
        notes, (rewards, success, done) = self.notes, (np.atleast_1d(values) for values in (rewards, success, done))
        if not np.isfinite(rewards).all():
            wrong = rewards[~np.isfinite(rewards)][0]
            raise Diverged(f"The environment gave a reward of {wrong} at step {env_steps}; rewards must be finite.")
        if self.reward_cap is not None:
            notes["capped"] += int(np.sum((rewards > self.reward_cap) & ~success))
        notes["ends"] += [env_steps] * int(done.sum())
        notes["success"] += success[done].tolist()
        if done.any():
            self._confirm(learnt, env_steps)
        if self.check_every and env_steps // self.check_every > (env_steps - done.size) // self.check_every:
            notes["checks"].append([env_steps, self._greedy_success(learnt, 20_000 + env_steps - 1)])
        return self.progress()

    def progress(self) -> dict[str, float]:
        """Return the success of the last 30 episodes and the number of all episodes."""
        recent = self.notes["success"][-WINDOW:] or [0.0]
        return {"success": float(np.mean(recent)), "episodes": len(self.notes["ends"])}

    def _confirm(self, learnt: Any, env_steps: int) -> None:
        """Accept 90 % success of a window if greedy episodes confirm it; if not, try again at least 30 later."""
        notes, count = self.notes, len(self.notes["success"])
        if notes["confirmed"] is None and count >= notes["next_try"] and window_won(notes["success"]):
            notes["confirmed"] = count if self._greedy_success(learnt, 10_000 + env_steps) >= 0.9 else None
            notes["next_try"] = count + max(WINDOW, int(self.patience * count))

    def _greedy_success(self, learnt: Any, seed: int) -> float:
        """Measure the success of the current greedy policy in fresh episodes, without learning; stop below 90 %."""
        params = self.agent.params(self.world, learnt)
        return float(play_episodes(self.agent.policy, params, self.env, CONFIRM, seed, LOST).success.mean())

    def report(self, state: Any, step: int) -> Report:
        """Report nothing: `count` returns all metrics."""
        return Report({})

    def weights(self, state: Any) -> dict[str, Weights]:
        """Return the weights of the agent, to be saved."""
        kept = self.agent.weights(self.world, state.agent)
        return {kept.kind: kept}

    def close(self) -> None:
        """Release what the phase holds beside its state, such as actors in other processes."""

    def summary(self) -> dict[str, Any]:
        """Return the entry of this seed in result.json."""
        ends, confirmed = self.notes["ends"], self.notes["confirmed"]
        row = {
            "seed": self.seed,
            "episodes": len(ends),
            "episodes_to_90": confirmed,
            "steps_to_90": None if confirmed is None else ends[confirmed - 1],
        }
        checks = self.notes["checks"]
        return row | self.course() | ({"checks": checks, "steps_to_90_kept": _kept(checks)} if checks else {})

    def course(self) -> dict[str, Any]:
        """Return the learning curve: at which step each episode ended, and whether it succeeded."""
        return {"ends": self.notes["ends"], "success": self.notes["success"]}


def _kept(checks: Sequence[Sequence[int | float]]) -> int | None:
    """Return the step of the first check from which on success stayed at 90 % or more; None if the last failed."""
    falls = [number for number, (_, success) in enumerate(checks) if success < 0.9]
    first = falls[-1] + 1 if falls else 0
    return int(checks[first][0]) if first < len(checks) else None


def check_fit(env: Environment, world: WorldModel | None) -> None:
    """Raise a ValueError if pictures, actions or sprites of an environment do not fit the world model, if any."""
    if world is None:
        return
    knows = world.sizes
    if env.image_size != knows.image or env.action_size != knows.action:
        raise ValueError(
            f"The environment has pictures of {env.image_size} pixels and actions of {env.action_size} dimensions; "
            f"the world knows {knows.image} and {knows.action}. Take a world that was trained for it."
        )
    if isinstance(env, Spriteworld) and env.spec.capacity > knows.slots:
        raise ValueError(
            f"The environment {env.spec.name!r} has scenes of {env.spec.capacity} sprites, and the world sees only "
            f"{knows.slots} things; take fewer sprites, or train a world with more --config.model.slots."
        )


@dataclass(frozen=True)
class Solving(ABC):
    """The description of a training on a task: world, agent, steps, folder. It can be sent to other processes.

    Each seed learns for `steps` rewarded steps and is then scored in `final` greedy episodes in each mode. With
    `check_every`, the current greedy policy plays 100 fresh episodes whenever that many steps are done.
    """

    phase_name: ClassVar[str]  # phase in run.json
    seed_type: ClassVar[Any] = Seed

    config: Any
    world: WorldModel | None  # None: no world is used
    problem: Problem
    folder: Path
    seeds: range
    steps: int
    final: int
    envs: Mapping[str, Environment]  # by mode
    place: Path | None  # where the world came from
    command: str  # for the records
    check_every: int = 0

    def __post_init__(self):
        conform(self.seed_type, self.seeds[-1], "The last random seed (--first-seed + --seeds - 1)")
        for env in self.envs.values():
            check_fit(env, self.world)

    @abstractmethod
    def phase(self, seed: int, title: str) -> SeedPhase:
        """Make the phase that trains one seed."""

    @property
    def train_env(self) -> Environment:
        """The environment to learn in."""
        return SparseReward(self.envs["train"]) if self.problem.sparse else self.envs["train"]

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that run.json records."""
        world = None if self.place is None else world_record(self.place)
        asked = {"phase": self.phase_name, "problem": self.problem, "config": self.config, "world": world}
        more = {"first_seed": self.seeds.start, "seed_count": len(self.seeds), "final": self.final}
        return asked | {"steps": self.steps} | more | {"check_every": self.check_every}

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the folder for this process; refuse a folder whose run has other settings, or more seeds."""
        options = {"free": FREE, "command": self.command, "check": self._refuse_fewer_seeds}
        with open_run(self.folder, self.settings, {"check_every": 0, "actors": "local"}, **options):
            if self.place not in (None, SHIPPED):
                copy_world(self.place, self.folder / "world")
            yield

    def _refuse_fewer_seeds(self) -> None:
        """Raise a ValueError if result.json holds seeds that are not asked for: it is written anew without them."""
        known = _known(self.folder / "result.json", {"seeds": list})
        if lost := sorted({row["seed"] for row in known["seeds"]} - set(self.seeds) if known else ()):
            missing = f"seed{'s' * (len(lost) > 1)} {', '.join(map(str, lost))}"
            raise ValueError(
                f"{self.folder} holds results of {missing}, which --first-seed and --seeds leave out; ask for all of "
                "its seeds, or give another folder with --out."
            )

    def learn(self, seed: int) -> dict[str, Any]:
        """Learn one seed and score it; if it was scored before and its weights exist, read the scores.

        Args:
            seed: The random seed, one of `seeds`.

        Returns:
            The entry of this seed in result.json.
        """
        folder = self.folder / f"seed{seed}"
        number = f" ({seed - self.seeds.start + 1} of {len(self.seeds)})" if len(self.seeds) > 1 else ""
        title = f"{self.problem.task}, seed {seed}{number}"
        path, asked = folder / "scores.json", {"steps": self.steps, "final": self.final}
        known = _known(path, asked | {"row": dict})
        if known and any(is_whole(weights.parent) for weights in folder.glob(f"*/{WEIGHTS}")):
            print(f"{title}: finished, {self.steps:,} steps are done in {folder}", flush=True)
            return known["row"]
        with closing(self.phase(seed, title)) as phase:
            state = run(cast(Phase, phase), folder)
        if capped := phase.notes["capped"]:
            above = f"above config.reward_cap ({phase.reward_cap:g}) and were learnt as that"
            print(f"{title}: {capped} rewards were {above}.", flush=True)
        with working(f"{title}: {self.final} greedy episodes in each mode"):
            params = phase.agent.params(phase.world, state.agent)
            scores = greedy_scores(phase.agent.policy, params, self.envs, self.final, FINAL_SEED)
        row = phase.summary() | scores
        storage.write_json(path, asked | {"row": row})
        return row

    def solve(self) -> dict[str, Any]:
        """Learn all seeds one after the other; return the contents of result.json, with the reference policies."""
        with self.held():
            began, compared = time.monotonic(), _compared(self.folder, self.envs, self.final)
            rows = [self.learn(seed) for seed in self.seeds]
            rows = [row | normalised_reward(row, compared) for row in rows]
            minutes = (time.monotonic() - began) / 60
            asked = {"command": self.command} | to_json(self.settings)
            result = asked | {"minutes": minutes, "context": compared, "seeds": rows}
            path = self.folder / "result.json"
            known = _known(path, {name: result[name] for name in result if name not in ("command", "minutes")})
            if known is None:  # otherwise nothing was left to do
                storage.write_json(path, result)
        return known or result


def learn_elsewhere(solvings: Sequence[Solving], workers: int, address: str | None = None) -> None:
    """Learn all seeds of several tasks in Ray processes; `solve` of each task then finds them done.

    Args:
        solvings: The trainings; they write into their folders, which all machines of a cluster must see.
        workers: The number of seeds that learn at a time on this machine; a cluster uses all its cores.
        address: The address of a Ray cluster; None starts Ray on this machine.
    """
    from cobra_rl.runtime.ray_tasks import spread

    jobs = {f"{each.problem.task}, seed {seed}": (each, seed) for each in solvings for seed in each.seeds}
    with ExitStack() as stack:
        for each in solvings:
            stack.enter_context(each.held())
        calls = {name: functools.partial(each.learn, seed) for name, (each, seed) in jobs.items()}
        logs = {name: each.folder / f"seed{seed}" for name, (each, seed) in jobs.items()}
        spread(calls, logs, workers, address)


def _compared(folder: Path, envs: Mapping[str, Environment], final: int) -> dict[str, Any]:
    """Measure the random policy and the upper bound for comparison, once for all seeds."""
    path, asked = folder / "context.json", {"final": final}
    if known := _known(path, asked | {"context": dict}):
        return known["context"]
    with working(f"Reference policies: {final} episodes of a random policy and of a search with the true state"):
        found = context(envs, final, FINAL_SEED)
    if not all(np.isfinite(value) for scores in found.values() for value in scores.values()):
        raise Diverged("The environment gives rewards that are not finite; correct its task first.")
    storage.write_json(path, asked | {"context": found})
    return found


def _known(path: Path, asked: Mapping[str, Any]) -> dict[str, Any] | None:
    """Read earlier measurements, if they have the entries `asked`, given by their values or by their types."""
    try:
        known = storage.read_json(path) if path.exists() else {}
    except ValueError as error:
        warn(f"{error} What it held is measured again.")
        return None
    fits = (
        isinstance(known.get(name), value) if isinstance(value, type) else known.get(name) == value
        for name, value in asked.items()
    )
    return known if all(fits) else None
