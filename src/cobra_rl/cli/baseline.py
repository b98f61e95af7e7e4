"""`cobra baseline`: the paper's model-free baselines."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import tyro

from cobra_rl.cli.learning import Learning
from cobra_rl.cli.options import OutFolder, Steps, TaskOrAll, command_line
from cobra_rl.config import BASELINE, BaselineConfig
from cobra_rl.environments import Problem
from cobra_rl.phases.baseline import prepare_baseline
from cobra_rl.phases.solving import Solving
from cobra_rl.spriteworld.names import REWARDED


@dataclass(frozen=True, kw_only=True)
class Baseline(Learning):
    """Learn a task without a model: the paper's MPO baselines. The same command resumes; more steps or seeds add."""

    presets: ClassVar = BASELINE

    config: BaselineConfig  # The agent and its learning; every leaf is an option.
    task: Annotated[TaskOrAll | None, tyro.conf.Positional] = None
    """A task of the suite; all learns the six one after the other and ends with their table."""
    features: Literal["pixels", "slots"] | None = None
    """What actor and critic see: pictures (the default), or the world model's slots."""
    policy: Literal["raw", "deformed"] | None = None
    """Actions as they are (the default), or deformed by the exploration policy. MPO raw is pixels and raw, and uses no
    world; MPO handheld is slots and deformed."""
    steps: Steps = 20_000  # Environment steps per seed; rounded up to whole steps of all environments.
    out: OutFolder | None = None
    """Output folder; with `all`, the parent of one folder per task. Default: runs/baseline/TASK-BASELINE[-OPTIONS],
    such as runs/baseline/sorting-mpo_handheld."""

    def run(self) -> None:
        """Learn, and show what came of it."""
        if self.task is None:
            raise ValueError(f"Name a task ({', '.join(REWARDED)}, all).")
        self.learn(self.task, self.out)

    def folder_name(self, task: str) -> str:
        """Return the folder of a task below --out, if all tasks are learnt: all four baselines may share --out."""
        return f"{task}-{self.chosen().name}"

    def chosen(self) -> BaselineConfig:
        """Return the configuration of the baseline that is asked for."""
        given = {"features": self.features, "policy": self.policy}
        return dataclasses.replace(self.config, **{name: value for name, value in given.items() if value})

    def prepare(self, task: str | None, out: Path | None) -> Solving:
        """Say what is to be learnt of one task, by which of the four, and where."""
        config, problem = self.chosen(), Problem(str(task), self.variant)
        folder = out or Path("runs", "baseline", self.placed(problem.name(agent=config.name)))
        where = {"world_folder": self.world, "command": command_line(), "check_every": self.check_every}
        return prepare_baseline(config, problem, folder, self.seed_range(), self.steps, self.final, **where)
