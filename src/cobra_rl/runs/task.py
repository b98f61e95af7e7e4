"""Learn a task: runs of one or several seeds, their scores, and result.json, for any learner."""

import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cobra_rl.agents.contract import Learner, MakeActors
from cobra_rl.bounds import Seed, TrainingSeed, conform, to_json
from cobra_rl.config import MOST_SEEDS, AgentConfig
from cobra_rl.console import warn, working
from cobra_rl.environments import Problem, SparseReward
from cobra_rl.evaluation.task import greedy_scores, normalised_reward, reference_scores
from cobra_rl.models.world import WorldModel
from cobra_rl.parts import make_part
from cobra_rl.phases.contract import Diverged
from cobra_rl.phases.schedules import check_memory
from cobra_rl.phases.task import TaskPhase
from cobra_rl.runs.folder import open_run, seeds_in
from cobra_rl.runs.loop import CHECKPOINTS, run
from cobra_rl.runs.settings import TaskSettings, WorldUsed
from cobra_rl.runs.worlds import copy_world, find_world, load_world, world_record
from cobra_rl.spriteworld import Environment, Spriteworld
from cobra_rl.storage import files
from cobra_rl.storage.weights import WEIGHTS_FILE, is_whole

FINAL_SEED = 1905  # random seed of the greedy episodes at the end


def make_learner(config: AgentConfig) -> Learner:
    """Build the learner of a configuration; raise a ValueError if its class is none."""
    learner = make_part(config)
    if not isinstance(learner, Learner):
        raise ValueError(f"The agent is {config.name}; its class must be a subclass of agents.contract.Learner.")
    return learner


def check_fit(env: Environment, world: WorldModel) -> None:
    """Raise a ValueError if pictures, actions or sprites of an environment do not fit the world model."""
    knows = world.sizes
    if env.image_size != knows.image or env.action_size != knows.action:
        raise ValueError(
            f"The environment has pictures of {env.image_size} pixels and actions of {env.action_size} dimensions; "
            f"the world knows {knows.image} and {knows.action}. Take a world that was trained for it."
        )
    if isinstance(env, Spriteworld) and env.spec.capacity > knows.slots:
        raise ValueError(
            f"The environment {env.spec.name!r} has scenes of {env.spec.capacity} sprites, and the world sees only "
            f"{knows.slots} objects; take fewer sprites, or train a world with more --config.model.slots."
        )


@dataclass(frozen=True, kw_only=True)
class TaskRun:
    """The description of a training on a task: agent, world, steps, folder. It can be sent to other processes.

    Each seed learns for `steps` rewarded steps and is then scored in `final` greedy episodes in each mode. With
    `check_every`, the current greedy policy plays 100 fresh episodes whenever that many steps are done.
    """

    config: AgentConfig
    world: WorldModel | None  # without its exploration policy if `problem` uses none; None: no world is used
    problem: Problem
    folder: Path
    seeds: range
    steps: int
    final: int
    envs: Mapping[str, Environment]  # by mode
    world_folder: Path | None  # where the world came from
    command: str  # for the records
    check_every: int = 0
    side_by_side: int = MOST_SEEDS
    make_actors: MakeActors | None = None  # None: environments are stepped in the learner's process

    def __post_init__(self) -> None:
        learner = make_learner(self.config)
        conform(
            Seed if learner.most_seeds is None else TrainingSeed,
            self.seeds[-1],
            "The last random seed (--first-seed + --seeds - 1)",
        )
        if self.world is not None:
            for env in self.envs.values():
                check_fit(env, self.world)
        check_memory(
            lambda: learner.begin(self.train_env, self.world, self.seeds[: self._most_seeds]),
            self.config.memory_option,
        )

    @property
    def train_env(self) -> Environment:
        """The environment to learn in."""
        return SparseReward(self.envs["train"]) if self.problem.sparse else self.envs["train"]

    @property
    def settings(self) -> TaskSettings:
        """The settings that run.json records."""
        return TaskSettings(
            agent=self.config.name,
            problem=self.problem,
            config=self.config,
            world=None if self.world_folder is None else WorldUsed(**world_record(self.world_folder)),
            steps=self.steps,
            first_seed=self.seeds.start,
            seed_count=len(self.seeds),
            final=self.final,
            check_every=self.check_every,
            actors="ray" if self.make_actors else "local",
        )

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder for this process; refuse a folder whose run has other settings, or more seeds."""
        with open_run(
            self.folder,
            self.settings,
            free=("steps", "first_seed", "seed_count", "final", "world.path"),
            command=self.command,
            check=self._refuse_fewer_seeds,
            newer=("problem.specs",),
        ):
            if self.world_folder is not None:
                copy_world(self.world_folder, self.folder / "world")
            yield

    def _refuse_fewer_seeds(self) -> None:
        """Raise a ValueError if result.json holds seeds that are not asked for: it is written anew without them."""
        known = _known(self.folder / "result.json", {"seeds": list})
        if lost := sorted({row["seed"] for row in known["seeds"]} - set(self.seeds) if known else ()):
            raise ValueError(
                f"{self.folder} holds results of seed{'s' * (len(lost) > 1)} {', '.join(map(str, lost))}, which "
                "--first-seed and --seeds leave out; ask for all of its seeds, or give another folder with --out."
            )

    def groups(self) -> list[range]:
        """Divide the seeds into groups that are learnt side by side; those that were begun stay as they are."""
        begun = (seeds_in(path.parent.name) for path in self.folder.glob(f"seed*/{CHECKPOINTS}"))
        groups = [group for group in begun if group and set(group) <= set(self.seeds)]
        fresh: list[range] = []
        for seed in sorted(set(self.seeds).difference(*groups)):
            if fresh and fresh[-1][-1] == seed - 1 and len(fresh[-1]) < self._most_seeds:
                fresh[-1] = range(fresh[-1][0], seed + 1)
            else:
                fresh.append(range(seed, seed + 1))
        return sorted([*groups, *fresh], key=lambda group: group[0])

    @property
    def _most_seeds(self) -> int:
        """The most seeds that are learnt side by side."""
        return min(self.side_by_side, make_learner(self.config).most_seeds or self.side_by_side)

    def place(self, group: range) -> Path:
        """Return the folder of log and checkpoints of a group of seeds; of a single one it is the seed's own."""
        return self.folder / (f"seed{group[0]}" if len(group) == 1 else f"seeds{group[0]}-{group[-1]}")

    def learn(self, group: range) -> list[dict[str, Any]]:
        """Learn a group of seeds and score them; if they were scored before and their weights exist, read the scores.

        Args:
            group: The random seeds, which are learnt side by side.

        Returns:
            The entries of these seeds in result.json.
        """
        rows: list[Any] = [self._scored(seed) for seed in group]
        if None not in rows:
            print(f"{self.title(group)}: finished, {self.steps:,} steps are done in {self.place(group)}", flush=True)
            return rows
        phase, state = self.train(group)
        learner = phase.learner
        for index, seed in enumerate(group):
            if rows[index] is None:
                with working(f"{self.problem.task}, seed {seed}: {self.final} greedy episodes in each mode"):
                    params = learner.params(self.world, learner.agent_of(state, index))
                    scores = greedy_scores(learner.policy, params, self.envs, episodes=self.final, seed=FINAL_SEED)
                rows[index] = phase.summary(index) | scores
                files.write_json(
                    self._scores_path(seed),
                    {"steps": self.steps, "final": self.final, "row": rows[index]},
                )
        return rows

    def train(self, group: range) -> tuple[TaskPhase, Any]:
        """Learn a group of seeds side by side, without scoring them; return the phase, and the state at its end."""
        title = self.title(group)
        learner = make_learner(self.config)
        if self.make_actors is not None:
            learner = learner.with_actors(self.make_actors, self.train_env, self.world, group[0])
        with closing(learner):
            phase = TaskPhase(
                learner=learner,
                env=self.train_env,
                world=self.world,
                seeds=group,
                steps=self.steps // self.config.envs,  # turns, each a step in every environment
                title=title,
                check_every=self.check_every,
            )
            state = run(phase, self.place(group), weights_in=self.folder)
        if capped := sum(record["capped"] for record in phase.history["seeds"]):
            print(
                f"{title}: {capped} rewards were above config.reward_cap ({self.config.reward_cap:g}) and were learnt "
                "as that.",
                flush=True,
            )
        return phase, state

    def title(self, group: range) -> str:
        """Return what a person calls the training of a group of seeds."""
        name = self.problem.task if self.config.name == "cobra" else f"{self.config.name}, {self.problem.task}"
        if len(group) > 1:
            return f"{name}, seeds {group[0]} to {group[-1]} side by side"
        number = f" ({group[0] - self.seeds.start + 1} of {len(self.seeds)})" if len(self.seeds) > 1 else ""
        return f"{name}, seed {group[0]}{number}"

    def _scores_path(self, seed: int) -> Path:
        return self.folder / f"seed{seed}" / "scores.json"

    def _scored(self, seed: int) -> dict[str, Any] | None:
        """Return the entry of a seed in result.json, if it has learnt and was scored as asked."""
        path = self._scores_path(seed)
        known = _known(path, {"steps": self.steps, "final": self.final, "row": dict})
        folders = (weights.parent for weights in path.parent.glob(f"*/{WEIGHTS_FILE}"))
        return known["row"] if known and any(is_whole(folder, folder.name) for folder in folders) else None

    def solve(self) -> dict[str, Any]:
        """Learn all seeds; return the contents of result.json, with the reference policies."""
        with self.lock():
            began = time.monotonic()
            context = _reference_scores(self.folder, self.envs, self.final)
            rows = [row | normalised_reward(row, context) for group in self.groups() for row in self.learn(group)]
            result = {
                "command": self.command,
                **to_json(self.settings),
                "minutes": (time.monotonic() - began) / 60,
                "context": context,
                "seeds": rows,
            }
            path = self.folder / "result.json"
            known = _known(path, {name: result[name] for name in result if name not in ("command", "minutes")})
            if known is None:  # otherwise nothing was left to do
                files.write_json(path, result)
        return known or result


def learn_elsewhere(runs: Sequence[TaskRun], workers: int | None, address: str | None) -> None:
    """Learn all seeds of several tasks in Ray processes; `solve` of each task then finds them done.

    Args:
        runs: The trainings; they write into their folders, which all machines of a cluster must see.
        workers: The number of jobs at a time on this machine, by default 2; a cluster uses all its cores.
        address: The address of a Ray cluster; None starts Ray on this machine.
    """
    from cobra_rl.runs.ray_seeds import spread

    jobs = {}
    with ExitStack() as stack:
        for each in (replace(run, side_by_side=1) for run in runs):
            stack.enter_context(each.lock())
            for group in each.groups():
                jobs[each.title(group)] = (functools.partial(each.learn, group), each.place(group))
        spread(jobs, workers or 2, address)


def _reference_scores(folder: Path, envs: Mapping[str, Environment], final: int) -> dict[str, Any]:
    """Measure the random policy and the upper bound for comparison, once for all seeds."""
    path = folder / "context.json"
    if known := _known(path, {"final": final, "context": dict}):
        return known["context"]
    with working(f"Reference policies: {final} episodes of a random policy and of a search with the true state"):
        found = reference_scores(envs, final, FINAL_SEED)
    if not all(np.isfinite(value) for scores in found.values() for value in scores.values()):
        raise Diverged("The environment gives rewards that are not finite; correct its task first.")
    files.write_json(path, {"final": final, "context": found})
    return found


def _known(path: Path, asked: Mapping[str, Any]) -> dict[str, Any] | None:
    """Read earlier measurements, if they have the entries `asked`, given by their values or by their types."""
    try:
        known = files.read_json(path) if path.exists() else {}
    except ValueError as error:
        warn(f"{error} What it held is measured again.")
        return None
    fits = (
        isinstance(known.get(name), value) if isinstance(value, type) else known.get(name) == value
        for name, value in asked.items()
    )
    return known if all(fits) else None


def prepare(
    config: AgentConfig,
    problem: Problem,
    folder: Path,
    *,
    seeds: range = range(1),
    steps: int = 1000,
    final: int = 200,
    envs: Mapping[str, Environment] | None = None,
    world_folder: Path | str | None = None,
    command: str = "python",
    check_every: int = 0,
    side_by_side: int = MOST_SEEDS,
    make_actors: MakeActors | None = None,
) -> TaskRun:
    """Describe the training of a task, without starting it.

    Args:
        config: The agent and how it learns; presets are in `config.COBRA` and `config.MPO`.
        problem: The task, its rewards, and whether the exploration policy is used.
        folder: The run's folder; it is made when training starts.
        seeds: The random seeds.
        steps: The number of rewarded environment steps per seed, rounded up to a multiple of the environments.
        final: The number of greedy episodes in each mode that score a seed at the end.
        envs: The environments by mode, "train" and "test"; by default those of `problem`.
        world_folder: The folder or the name of the world model, which stays frozen; by default `DEFAULT_WORLD`.
        command: The command that was typed, for the records.
        check_every: The number of steps between two checks of the greedy policy in 100 episodes; 0 makes none.
        side_by_side: The number of seeds that are learnt in one compiled call, if the agent can.
        make_actors: What makes the actors that collect for MPO, called as (begin, play, world, seed); by default the
            environments are stepped in this process.

    Returns:
        The description; its method `solve` runs the training.

    Raises:
        ValueError: If the agent is unknown, an environment does not fit the world, the memory is too large, or a world
            is given that the agent would not use.
    """
    uses_world = make_learner(config).uses_world
    if world_folder is not None and not uses_world:
        raise ValueError(f"{config.name} uses no world model; leave --world out.")
    envs = problem.environments() if envs is None else envs
    if problem.env is not None:
        problem = problem.with_data(envs)
    place = find_world(world_folder) if uses_world else None
    return TaskRun(
        config=config,
        world=None if place is None else load_world(place, policy=problem.exploration_policy),
        problem=problem,
        folder=folder,
        seeds=seeds,
        steps=-(-steps // config.envs) * config.envs,
        final=final,
        envs=envs,
        world_folder=place,
        command=command,
        check_every=check_every,
        side_by_side=side_by_side,
        make_actors=make_actors,
    )


def solve(*args: Any, **options: Any) -> dict[str, Any]:
    """Learn a task; the same call resumes a run that was stopped, and may add steps or seeds.

    Args:
        *args: Arguments of `prepare`.
        **options: Keyword arguments of `prepare`.

    Returns:
        The contents of result.json: the settings, the scores and learning curve of each seed, and reference policies.

    Raises:
        ValueError: As by `prepare`, or if `folder` holds a run with other settings or more steps.
        Stopped: If a signal asked to stop; the run is saved.
        Diverged: If a loss, a weight or a reward is no longer finite.
    """
    return prepare(*args, **options).solve()
