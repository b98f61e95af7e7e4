"""`cobra solve`."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import tyro

from cobra_rl.agent import Agent
from cobra_rl.cli.options import Preset, TaskOrAll, Variant, absolute_env, check_range, command_line
from cobra_rl.cli.process import use_huge_pages
from cobra_rl.config import TASK, TaskConfig
from cobra_rl.environments import Problem
from cobra_rl.phases.task import solve
from cobra_rl.show.report_run import report_result
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
    seeds: int = 1  # Number of random seeds, one agent each.
    first_seed: int = 0  # The first of them.
    steps: int | None = None  # Rewarded environment steps per seed. Default: 1,000 to 3,000, by task.
    sparse: bool = False  # A reward of 1 on success and nothing before.
    predictor: Literal["reward", "value"] | None = None
    """What is learnt of a scene: its reward, or its value. Default: the value if rewards are sparse."""
    exploration_policy: bool = True  # Without it, the planner proposes uniformly random actions: the paper's ablation.
    final: int = 200  # Greedy episodes at the end, in each mode.
    out: Path | None = None
    """Output folder; with `all`, the parent of one folder per task. Default: runs/solve/TASK[-OPTIONS]."""

    def run(self) -> None:
        """Learn, and show what came of it."""
        use_huge_pages()
        for name in ("seeds", "steps", "final"):
            check_range(name, getattr(self, name), 1)
        check_range("first-seed", self.first_seed, 0)
        if (self.task is None) == (self.env is None):
            raise ValueError(f"Name a task ({', '.join(REWARDED)}, all) or give one of your own with --env; not both.")
        if self.task == "all":
            print_suite([self.solve(task, self.out and self.out / task) for task in REWARDED])
        else:
            self.solve(self.task, self.out)

    def solve(self, task: str | None, out: Path | None) -> dict[str, Any]:
        """Learn one task; return what result.json holds."""
        name = task or str(self.env).rpartition(":")[2]
        problem = Problem(name, self.variant, self.sparse, self.exploration_policy, absolute_env(self.env))
        config = self._config()
        preset = "" if self.preset == "laptop" else f"-{self.preset}"
        folder = out or Path("runs", "solve", problem.name(config.value) + preset)
        seeds = range(self.first_seed, self.first_seed + self.seeds)
        steps = self.steps or (SUITE[task].steps if task else OWN_STEPS)
        where = {"world_folder": self.world, "command": command_line()}
        result = solve(config, load_world(self.world), problem, folder, seeds, steps, self.final, **where)
        self._show(result, folder)
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
            print("Drawing the learning curve and filming the agent", flush=True)
            agent = Agent.load(folder)
            assert agent.problem is not None
            curve, film = report_result(result, folder, agent.policy, agent.params, agent.problem.environments())
            shown += f"\nLearning curve: {curve}\nFilm: {film}"
        print(shown)
