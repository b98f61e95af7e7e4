"""What `cobra solve` and `cobra baseline` share: their options, and how they show results."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import tyro

from cobra_rl.bounds import Bounds, Often, Seed
from cobra_rl.cli.options import (
    Episodes,
    Maybe,
    OutFolder,
    Preset,
    Runtime,
    Seeds,
    TaskOrAll,
    Variant,
    Workers,
    World,
    check_ray_options,
    command_line,
    learn_with_ray,
)
from cobra_rl.config import MOST_SEEDS, AgentConfig
from cobra_rl.console import working
from cobra_rl.environments import Problem
from cobra_rl.parts import absolute_name
from cobra_rl.spriteworld.names import REWARDED

if TYPE_CHECKING:
    from cobra_rl.runs.task import TaskRun


@dataclass(frozen=True, kw_only=True)
class Learning(ABC):
    """The options of both commands."""

    task: Annotated[Maybe[TaskOrAll], tyro.conf.Positional] = None
    """A task of the suite, or `all` to learn the six tasks one after the other and compare them in a table."""
    env: Maybe[str] = None  # A task of your own, as module:name or file.py:name, instead of one of the suite.
    world: World = None
    variant: Variant = "paper"  # Rules of the task: the paper's, or those of the released Spriteworld 1.0.2.
    preset: Preset = "laptop"
    """debug: for tests; laptop, and here also learnt: ours, for two CPU cores; paper: the paper's numbers."""
    seeds: Seeds = 1  # Number of random seeds; each trains one agent.
    first_seed: Seed = 0  # First random seed; the others follow it.
    runtime: Runtime = "local"
    """Train the seeds in this process, or in parallel with Ray (needs the extra [ray])."""
    side_by_side: Annotated[int, Bounds(1, 1000)] = MOST_SEEDS
    """The most seeds that are learnt side by side in this process, in one compiled call."""
    workers: Maybe[Workers] = None  # Number of seeds that Ray trains in parallel on this machine. Default: 2.
    address: Maybe[str] = None  # Address of a Ray cluster, such as auto; all machines must see the disk of --out.
    final: Episodes = 200  # Greedy evaluation episodes at the end, in each mode (train and test).
    check_every: Often = 0
    """Environment steps between evaluations of the current greedy policy, 100 episodes each, fewer if more than 10 are
    lost before. 0: no evaluations."""

    place: ClassVar[str]  # the folder in runs/ for runs of this command

    @abstractmethod
    def configuration(self) -> AgentConfig:
        """Return the agent's configuration, with the options applied that stand for some of its fields."""

    def problem(self, task: str | None) -> Problem:
        """Describe what is to be learnt."""
        return Problem(task or str(self.env).rpartition(":")[2], self.variant, env=self.env and absolute_name(self.env))

    @abstractmethod
    def rewarded_steps(self, task: str | None) -> int:
        """Return the number of environment steps per seed."""

    def prepare(self, task: str | None, out: Path | None, **options: Any) -> "TaskRun":
        """Describe the training of one task in folder `out`."""
        from cobra_rl.runs.task import prepare  # here and below: not for --help

        config = self.configuration()
        problem = self.problem(task)
        name = problem.name(config.value, config.name)
        return prepare(
            config,
            problem,
            out or Path("runs", self.place, name if self.preset == "laptop" else f"{name}-{self.preset}"),
            seeds=range(self.first_seed, self.first_seed + self.seeds),
            steps=self.rewarded_steps(task),
            final=self.final,
            world_folder=self.world,
            command=command_line(),
            check_every=self.check_every,
            side_by_side=self.side_by_side,
            **options,
        )

    def folder_name(self, task: str) -> str:
        """Return the name of a task's folder below --out, for `all`."""
        return task

    def learn(self, out: OutFolder | None) -> None:
        """Learn the task, or all of them, and show the results."""
        task = self.task
        if (task is None) == (self.env is None):
            raise ValueError(f"Name a task ({', '.join(REWARDED)}, all) or give one of your own with --env; not both.")
        if self.env is not None and self.variant != "paper":
            raise ValueError(f"--variant {self.variant} is for tasks of the suite; leave it out with --env.")
        check_ray_options(self.runtime, workers=self.workers, address=self.address)
        tasks = REWARDED if task == "all" else [task]
        outs = [out and out / self.folder_name(each) for each in REWARDED] if task == "all" else [out]
        runs = [self.prepare(each, place) for each, place in zip(tasks, outs, strict=True)]
        if self.runtime == "ray":
            self.learn_elsewhere(runs)
        results = []
        for run in runs:
            results.append(run.solve())
            self.show(results[-1], run)
        if task == "all":
            from cobra_rl.reporting.tables import print_suite

            print_suite(results)

    def learn_elsewhere(self, runs: "Sequence[TaskRun]") -> None:
        """Learn all seeds in Ray processes; `solve` then finds them done."""
        learn_with_ray(runs, self.workers, self.address)

    def show(self, result: dict[str, Any], run: "TaskRun") -> None:
        """Print the results of a run, draw its learning curve, film its agent, and print the paths of the files."""
        from cobra_rl.reporting.figures.tasks import report_run
        from cobra_rl.reporting.tables import print_result
        from cobra_rl.runs.load import load_agent

        print_result(result)
        folder = run.folder
        with working("Drawing the learning curve and filming the agent"):
            curve, film = report_run(result, folder, load_agent(folder, env=self.env), run.envs)
        print(f"Result: {folder / 'result.json'}\nLearning curve: {curve}\nFilm: {film}")
