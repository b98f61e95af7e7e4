"""`cobra solve`."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import tyro

from cobra_rl.cli.learning import Learning
from cobra_rl.cli.options import OutFolder, Steps, TaskOrAll, absolute_env, command_line
from cobra_rl.config import TASK, TaskConfig
from cobra_rl.environments import Problem
from cobra_rl.phases.solving import Solving
from cobra_rl.phases.task import prepare
from cobra_rl.spriteworld.names import REWARDED, SUITE
from cobra_rl.worlds import load_world

OWN_STEPS = 1000  # rewarded steps for a task of one's own


@dataclass(frozen=True, kw_only=True)
class Solve(Learning):
    """Want and act: learn a task from reward, the world frozen. The same command resumes; more steps or seeds add."""

    presets: ClassVar = TASK

    config: TaskConfig  # The agent and its learning; every leaf is an option.
    task: Annotated[TaskOrAll | None, tyro.conf.Positional] = None
    """A task of the suite; all learns the six one after the other and ends with their table."""
    env: str | None = None  # A task of your own instead, module:name or file.py:name.
    steps: Steps | None = None  # Rewarded environment steps per seed. Default: 600 to 2,000, by task.
    sparse: bool = False  # A reward of 1 on success and nothing before.
    predictor: Literal["reward", "value"] | None = None
    """What is learnt of a scene: its reward, or its value. Default: the value if rewards are sparse."""
    exploration_policy: bool = True  # Without it, the planner proposes uniformly random actions: the paper's ablation.
    out: OutFolder | None = None
    """Output folder; with `all`, the parent of one folder per task. Default: runs/solve/TASK[-OPTIONS]."""

    def run(self) -> None:
        """Learn, and show what came of it."""
        if (self.task is None) == (self.env is None):
            raise ValueError(f"Name a task ({', '.join(REWARDED)}, all) or give one of your own with --env; not both.")
        self.learn(self.task, self.out)

    def prepare(self, task: str | None, out: Path | None) -> Solving:
        """Say what is to be learnt of one task, and where."""
        name = task or str(self.env).rpartition(":")[2]
        problem = Problem(name, self.variant, self.sparse, self.exploration_policy, absolute_env(self.env))
        config = self._config()
        folder = out or Path("runs", "solve", self.placed(problem.name(config.value)))
        steps = self.steps or (SUITE[task].steps if task else OWN_STEPS)
        where = {"world_folder": self.world, "command": command_line(), "check_every": self.check_every}
        return prepare(config, load_world(self.world), problem, folder, self.seed_range(), steps, self.final, **where)

    def _config(self) -> TaskConfig:
        """Return the configuration; sparse rewards are learnt as they are, as values, once there is one."""
        value = self.sparse if self.predictor is None else self.predictor == "value"
        config = dataclasses.replace(self.config, value=self.config.value or value)
        return dataclasses.replace(config, reward_unit=1.0, wait_for_reward=True) if self.sparse else config
