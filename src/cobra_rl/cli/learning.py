"""What `cobra solve` and `cobra baseline` share: what they are told, and what they leave."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cobra_rl.bounds import Often, Seed
from cobra_rl.cli.options import Episodes, OutFolder, Preset, Runtime, Seeds, Variant, Workers, learn_with_ray
from cobra_rl.phases.solving import Solving
from cobra_rl.players import load_player
from cobra_rl.runtime.words import working
from cobra_rl.show.figures.tasks import report_run
from cobra_rl.show.tables import print_result, print_suite
from cobra_rl.spriteworld.names import REWARDED


@dataclass(frozen=True, kw_only=True)
class Learning(ABC):
    """What both commands are told."""

    world: Path | None = None  # World to learn in: a folder that `cobra train explore` left. Default: the shipped one.
    variant: Variant = "paper"  # The paper's rules, or those of the released package 1.0.2.
    preset: Preset = "laptop"  # debug takes seconds, laptop is ours, paper has the paper's numbers.
    seeds: Seeds = 1  # Number of random seeds, one agent each.
    first_seed: Seed = 0  # The first of them.
    runtime: Runtime = "local"
    """Where seeds are learnt: one after the other here, or side by side with Ray (extra [ray])."""
    workers: Workers = 2  # Number of seeds side by side, with Ray on this machine.
    address: str | None = None  # Address of a Ray cluster, such as auto; --out must be on a disk that all machines see.
    final: Episodes = 200  # Greedy episodes at the end, in each mode.
    check_every: Often = 0
    """Steps between two checks of the greedy agent of the moment, 100 fresh episodes each. Default: none."""

    @abstractmethod
    def prepare(self, task: str | None, out: Path | None) -> Solving:
        """Say what is to be learnt of one task, and where."""

    def folder_name(self, task: str) -> str:
        """Return the folder of a task below --out, if all tasks are learnt."""
        return task

    def learn(self, task: str | None, out: OutFolder | None) -> None:
        """Learn a task, or all of them, and show what came of it."""
        tasks = REWARDED if task == "all" else [task]
        outs = [out and out / self.folder_name(each) for each in REWARDED] if task == "all" else [out]
        solvings = [self.prepare(each, place) for each, place in zip(tasks, outs, strict=True)]
        if self.runtime == "ray":
            learn_with_ray(solvings, self.workers, self.address)
        results = []
        for solving in solvings:
            results.append(solving.solve())
            self.show(results[-1], solving)
        if task == "all":
            print_suite(results)

    def show(self, result: dict[str, Any], solving: Solving) -> None:
        """Print the table of a run, draw its curve and its film, and say where all lies."""
        print_result(result)
        shown, folder = f"Result: {solving.folder / 'result.json'}", solving.folder
        if getattr(solving.config, "agent", "cobra") == "cobra":  # `load_player` knows no others
            with working("Drawing the learning curve and filming the agent"):
                curve, film = report_run(result, folder, load_player(folder), solving.problem.environments())
            shown += f"\nLearning curve: {curve}\nFilm: {film}"
        print(shown)

    def placed(self, name: str) -> str:
        """Add the preset to the name of a run, if it is not the usual one."""
        return name if self.preset == "laptop" else f"{name}-{self.preset}"

    def seed_range(self) -> range:
        """Return the random seeds that are asked for."""
        return range(self.first_seed, self.first_seed + self.seeds)
