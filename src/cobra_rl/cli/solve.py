"""`cobra solve`."""

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, Literal

from cobra_rl.cli.learning import Learning
from cobra_rl.cli.options import Maybe, OutFolder, Steps
from cobra_rl.config import AGENTS, COBRA, AgentConfig, CobraConfig
from cobra_rl.environments import Problem
from cobra_rl.spriteworld.names import SUITE

OWN_STEPS = 1000  # default of rewarded steps for a task of the user's own
MPO_STEPS = 20_000  # and for the model-free agent


@dataclass(frozen=True, kw_only=True)
class Solve(Learning):
    """Learn a task, by default with COBRA: train the reward predictor in a frozen world model. Repeat it to resume or
    add steps or seeds."""

    presets: ClassVar = COBRA
    place: ClassVar[str] = "solve"

    agent: str = "cobra"  # The agent that learns: cobra, mpo, or one of your own as FILE.py:CLASS.
    config: AgentConfig  # The agent and its training; every field is an option.
    steps: Maybe[Steps] = None
    """Rewarded environment steps per seed. Default: depends on the task, 600 to 2,000; 20,000 with --agent mpo."""
    sparse: bool = False  # Sparse rewards: 1 on success, 0 before.
    predictor: Maybe[Literal["reward", "value"]] = None
    """Learn to predict the reward of a scene, or its value. Default: value with --sparse, else reward."""
    exploration_policy: bool = True  # Propose actions by the exploration policy; else uniformly at random (ablation).
    out: Maybe[OutFolder] = None
    """Output folder; with `all`, the parent of one folder per task. Default: runs/solve/TASK[-OPTIONS]."""

    def run(self) -> None:
        """Learn the task and show the results."""
        self.learn(self.out)

    def problem(self, task: str | None) -> Problem:
        """Describe what is to be learnt."""
        problem = super().problem(task)
        return dataclasses.replace(problem, sparse=self.sparse, exploration_policy=self.exploration_policy)

    def rewarded_steps(self, task: str | None) -> int:
        """Return the number of environment steps per seed."""
        usual = MPO_STEPS if self.agent == "mpo" else SUITE[task].steps if task else OWN_STEPS
        return self.steps or usual

    def configuration(self) -> AgentConfig:
        """Return the configuration; with sparse rewards: values, no scaling, random choices until the first reward."""
        config = self.config
        if not isinstance(config, CobraConfig):
            if self.predictor is not None:
                raise ValueError(f"--predictor is for COBRA; leave it out with --agent {self.agent}.")
            return config
        value = self.sparse if self.predictor is None else self.predictor == "value"
        if config.value and self.predictor == "reward":
            raise ValueError("--predictor reward and --config.value contradict each other; leave one of them out.")
        config = dataclasses.replace(config, value=config.value or value)
        if not self.sparse:
            return config
        usual = AGENTS["cobra"][self.preset].reward_unit
        unit = config.reward_unit if config.reward_unit != usual else 1.0
        return dataclasses.replace(config, reward_unit=unit, wait_for_reward=True)
