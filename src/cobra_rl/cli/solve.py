"""`cobra solve`."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from cobra_rl.cli.learning import Learning
from cobra_rl.cli.options import Maybe, OutFolder, Steps, absolute_env, command_line
from cobra_rl.config import TASK, TaskConfig
from cobra_rl.environments import Problem
from cobra_rl.phases.solving import Solving
from cobra_rl.phases.task import prepare
from cobra_rl.spriteworld.names import SUITE
from cobra_rl.worlds import load_world

OWN_STEPS = 1000  # default of rewarded steps for a task of the user's own


@dataclass(frozen=True, kw_only=True)
class Solve(Learning):
    """Learn a task: train the reward predictor in a frozen world model. Repeat it to resume or add steps or seeds."""

    presets: ClassVar = TASK

    config: TaskConfig  # The agent and its training; every field is an option.
    steps: Maybe[Steps] = None  # Rewarded environment steps per seed. Default: depends on the task, 600 to 2,000.
    sparse: bool = False  # Sparse rewards: 1 on success, 0 before.
    predictor: Maybe[Literal["reward", "value"]] = None
    """Learn to predict the reward of a scene, or its value. Default: value with --sparse, else reward."""
    exploration_policy: bool = True  # Propose actions by the exploration policy; else uniformly at random (ablation).
    out: Maybe[OutFolder] = None
    """Output folder; with `all`, the parent of one folder per task. Default: runs/solve/TASK[-OPTIONS]."""

    def run(self) -> None:
        """Learn the task and show the results."""
        self.learn(self.out)

    def prepare(self, task: str | None, out: Path | None) -> Solving:
        """Describe the training of one task in folder `out`."""
        name, env = self.task_name(task), absolute_env(self.env)
        problem = Problem(name, self.variant, self.sparse, self.exploration_policy, env)
        config = self._config()
        folder = out or Path("runs", "solve", self.placed(problem.name(config.value, config.agent)))
        steps = self.steps or (SUITE[task].steps if task else OWN_STEPS)
        where = {"world_folder": self.world, "command": command_line(), "check_every": self.check_every}
        return prepare(config, load_world(self.world), problem, folder, self.seed_range(), steps, self.final, **where)

    def _config(self) -> TaskConfig:
        """Return the configuration; with sparse rewards: values, no scaling, random choices until the first reward."""
        value = self.sparse if self.predictor is None else self.predictor == "value"
        if self.config.value and self.predictor == "reward":
            raise ValueError("--predictor reward and --config.value contradict each other; leave one of them out.")
        config = dataclasses.replace(self.config, value=self.config.value or value)
        if not self.sparse:
            return config
        is_set = config.reward_unit != TASK[self.preset].reward_unit
        return dataclasses.replace(config, reward_unit=config.reward_unit if is_set else 1.0, wait_for_reward=True)
