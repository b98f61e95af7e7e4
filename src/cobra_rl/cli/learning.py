"""What `cobra solve` and `cobra baseline` share: their options, and how they show results."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from cobra_rl.bounds import Often, Seed
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
    check_ray_options,
    learn_with_ray,
)
from cobra_rl.phases.solving import Solving
from cobra_rl.players import load_player
from cobra_rl.runtime.words import working
from cobra_rl.show.figures.tasks import report_run
from cobra_rl.show.tables import print_result, print_suite
from cobra_rl.spriteworld.names import REWARDED


@dataclass(frozen=True, kw_only=True)
class Learning(ABC):
    """The options of both commands."""

    task: Annotated[Maybe[TaskOrAll], tyro.conf.Positional] = None
    """A task of the suite, or `all` to learn the six tasks one after the other and compare them in a table."""
    env: Maybe[str] = None  # A task of your own, as module:name or file.py:name, instead of one of the suite.
    world: Maybe[Path] = None  # World model: a folder that `cobra train explore` wrote. Default: the shipped one.
    variant: Variant = "paper"  # Rules of the task: the paper's, or those of the released Spriteworld 1.0.2.
    preset: Preset = "laptop"  # debug: for tests; laptop: ours, for two CPU cores; paper: the paper's numbers.
    seeds: Seeds = 1  # Number of random seeds; each trains one agent.
    first_seed: Seed = 0  # First random seed; the others follow it.
    runtime: Runtime = "local"
    """Train the seeds one after the other in this process, or in parallel with Ray (needs the extra [ray])."""
    workers: Maybe[Workers] = None  # Number of seeds that Ray trains in parallel on this machine. Default: 2.
    address: Maybe[str] = None  # Address of a Ray cluster, such as auto; all machines must see the disk of --out.
    final: Episodes = 200  # Greedy evaluation episodes at the end, in each mode (train and test).
    check_every: Often = 0
    """Environment steps between evaluations of the current greedy policy, 100 episodes each, fewer if more than 10 are
    lost before. 0: no evaluations."""

    @abstractmethod
    def prepare(self, task: str | None, out: Path | None) -> Solving:
        """Describe the training of one task in folder `out`."""

    def folder_name(self, task: str) -> str:
        """Return the name of a task's folder below --out, for `all`."""
        return task

    def task_name(self, task: str | None) -> str:
        """Return the name of a task of the suite, or of the user's own."""
        return task or str(self.env).rpartition(":")[2]

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
        solvings = [self.prepare(each, place) for each, place in zip(tasks, outs, strict=True)]
        if self.runtime == "ray":
            self.learn_elsewhere(solvings)
        results = []
        for solving in solvings:
            results.append(solving.solve())
            self.show(results[-1], solving)
        if task == "all":
            print_suite(results)

    def learn_elsewhere(self, solvings: Sequence[Solving]) -> None:
        """Learn all seeds in Ray processes; `solve` then finds them done."""
        learn_with_ray(solvings, self.workers, self.address)

    def show(self, result: dict[str, Any], solving: Solving) -> None:
        """Print the results of a run, draw its learning curve, film its agent, and print the paths of the files."""
        print_result(result)
        folder = solving.folder
        with working("Drawing the learning curve and filming the agent"):
            curve, film = report_run(result, folder, load_player(folder), solving.problem.environments())
        print(f"Result: {folder / 'result.json'}\nLearning curve: {curve}\nFilm: {film}")

    def placed(self, name: str) -> str:
        """Append the preset to the name of a run, unless it is the default."""
        return name if self.preset == "laptop" else f"{name}-{self.preset}"

    def seed_range(self) -> range:
        """Return the random seeds."""
        return range(self.first_seed, self.first_seed + self.seeds)
