"""`cobra solve`."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import tyro

from cobra_rl.agent import Agent
from cobra_rl.bounds import Often, Seed
from cobra_rl.cli.options import (
    Episodes,
    OutFolder,
    Preset,
    Runtime,
    Seeds,
    Steps,
    TaskOrAll,
    Variant,
    Workers,
    absolute_env,
    command_line,
    learn_with_ray,
)
from cobra_rl.config import TASK, TaskConfig
from cobra_rl.environments import Problem
from cobra_rl.phases.task import Solving, prepare
from cobra_rl.runtime.words import working
from cobra_rl.show.figures.tasks import report_run
from cobra_rl.show.tables import print_result, print_suite
from cobra_rl.spriteworld.names import REWARDED, SUITE
from cobra_rl.worlds import load_world

OWN_STEPS = 1000  # rewarded steps for a task of one's own


@dataclass(frozen=True)
class Solve:
    """Want and act: learn a task from reward, the world frozen. The same command resumes; more steps or seeds add."""

    presets: ClassVar = TASK

    config: TaskConfig  # The agent and its learning; every leaf is an option.
    task: Annotated[TaskOrAll | None, tyro.conf.Positional] = None
    """A task of the suite; all learns the six one after the other and ends with their table."""
    env: str | None = None  # A task of your own instead, module:name or file.py:name.
    world: Path | None = None  # World to learn in: a folder that `cobra train explore` left. Default: the shipped one.
    variant: Variant = "paper"  # The paper's rules, or those of the released package 1.0.2.
    preset: Preset = "laptop"  # debug takes seconds, laptop is ours, paper has the paper's numbers.
    seeds: Seeds = 1  # Number of random seeds, one agent each.
    first_seed: Seed = 0  # The first of them.
    steps: Steps | None = None  # Rewarded environment steps per seed. Default: 1,000 to 3,000, by task.
    sparse: bool = False  # A reward of 1 on success and nothing before.
    predictor: Literal["reward", "value"] | None = None
    """What is learnt of a scene: its reward, or its value. Default: the value if rewards are sparse."""
    exploration_policy: bool = True  # Without it, the planner proposes uniformly random actions: the paper's ablation.
    runtime: Runtime = (
        "local"  # Where seeds are learnt: one after the other here, or side by side with Ray (extra [ray]).
    )
    workers: Workers = 2  # Number of seeds side by side, with Ray on this machine.
    address: str | None = None  # Address of a Ray cluster, such as auto; --out must be on a disk that all machines see.
    final: Episodes = 200  # Greedy episodes at the end, in each mode.
    check_every: Often = 0
    """Steps between two checks of the greedy agent of the moment, 100 fresh episodes each. Default: none."""
    out: OutFolder | None = None
    """Output folder; with `all`, the parent of one folder per task. Default: runs/solve/TASK[-OPTIONS]."""

    def run(self) -> None:
        """Learn, and show what came of it."""
        if (self.task is None) == (self.env is None):
            raise ValueError(f"Name a task ({', '.join(REWARDED)}, all) or give one of your own with --env; not both.")
        tasks = REWARDED if self.task == "all" else [self.task]
        outs = [self.out and self.out / task for task in REWARDED] if self.task == "all" else [self.out]
        solvings = [self.prepare(task, out) for task, out in zip(tasks, outs, strict=True)]
        if self.runtime == "ray":
            learn_with_ray(solvings, self.workers, self.address)
        results = [self.solve(solving) for solving in solvings]
        if self.task == "all":
            print_suite(results)

    def prepare(self, task: str | None, out: Path | None) -> Solving:
        """Say what is to be learnt of one task, and where."""
        name = task or str(self.env).rpartition(":")[2]
        problem = Problem(name, self.variant, self.sparse, self.exploration_policy, absolute_env(self.env))
        config = self._config()
        preset = "" if self.preset == "laptop" else f"-{self.preset}"
        folder = out or Path("runs", "solve", problem.name(config.value) + preset)
        seeds = range(self.first_seed, self.first_seed + self.seeds)
        steps = self.steps or (SUITE[task].steps if task else OWN_STEPS)
        where = {"world_folder": self.world, "command": command_line(), "check_every": self.check_every}
        return prepare(config, load_world(self.world), problem, folder, seeds, steps, self.final, **where)

    def solve(self, solving: Solving) -> dict[str, Any]:
        """Learn one task and show what came of it; return what result.json holds."""
        result = solving.solve()
        self._show(result, solving.folder)
        return result

    def _config(self) -> TaskConfig:
        """Return the configuration; sparse rewards are learnt as they are, as values, once there is one."""
        value = self.sparse if self.predictor is None else self.predictor == "value"
        config = dataclasses.replace(self.config, value=self.config.value or value)
        return dataclasses.replace(config, reward_unit=1.0, wait_for_reward=True) if self.sparse else config

    def _show(self, result: dict[str, Any], folder: Path) -> None:
        """Print the table of a run, draw its curve and its film, and say where all lies."""
        print_result(result)
        shown = f"Result: {folder / 'result.json'}"
        if self.config.agent == "cobra":  # `Agent.load` knows only COBRA
            agent = Agent.load(folder)
            assert agent.problem is not None
            with working("Drawing the learning curve and filming the agent"):
                curve, film = report_run(result, folder, agent, agent.problem.environments())
            shown += f"\nLearning curve: {curve}\nFilm: {film}"
        print(shown)
