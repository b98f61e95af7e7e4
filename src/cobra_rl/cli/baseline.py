"""`cobra baseline`: the paper's model-free baselines."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import tyro

from cobra_rl.cli.learning import Learning
from cobra_rl.cli.options import Maybe, OutFolder, Steps, TaskOrAll, command_line, shortcut
from cobra_rl.config import BASELINE, BaselineConfig
from cobra_rl.environments import Problem
from cobra_rl.phases.baseline import prepare_baseline
from cobra_rl.phases.solving import Solving
from cobra_rl.spriteworld.names import REWARDED


@dataclass(frozen=True, kw_only=True)
class Baseline(Learning):
    """Learn a task with one of the model-free MPO baselines. Repeat the command to resume or to add steps or seeds."""

    presets: ClassVar = BASELINE

    config: BaselineConfig  # The agent and its training; every field is an option.
    task: Annotated[Maybe[TaskOrAll], tyro.conf.Positional] = None
    """A task of the suite, or `all` to learn the six tasks one after the other and compare them in a table."""
    features: Maybe[Literal["pixels", "slots"]] = None
    """What actor and critic see: pictures (the default), or the world model's slots."""
    policy: Maybe[Literal["raw", "deformed"]] = None
    """Raw actions (the default), or actions deformed by the exploration policy. MPO raw is pixels and raw, and uses no
    world model; MPO handheld is slots and deformed."""
    steps: Steps = 20_000  # Environment steps per seed, rounded up to a multiple of the number of environments.
    out: Maybe[OutFolder] = None
    """Output folder; with `all`, the parent of one folder per task. Default: runs/baseline/TASK-BASELINE[-OPTIONS],
    such as runs/baseline/sorting-mpo_handheld."""

    def run(self) -> None:
        """Learn the task and show the results."""
        if self.task is None:
            raise ValueError(f"Name a task ({', '.join(REWARDED)}, all).")
        self.learn(self.task, self.out)

    def folder_name(self, task: str) -> str:
        """Return the name of a task's folder below --out, for `all`; baselines may share --out."""
        return f"{task}-{self.chosen().name}"

    def chosen(self) -> BaselineConfig:
        """Return the configuration with the options --features and --policy applied."""
        usual = BASELINE[self.preset]
        config = shortcut(self.config, usual, "features", self.features, "--features")
        return shortcut(config, usual, "policy", self.policy, "--policy")

    def prepare(self, task: str | None, out: Path | None) -> Solving:
        """Describe the training of one task in folder `out`."""
        config, problem = self.chosen(), Problem(str(task), self.variant)
        folder = out or Path("runs", "baseline", self.placed(problem.name(agent=config.name)))
        where = {"world_folder": self.world, "command": command_line(), "check_every": self.check_every}
        return prepare_baseline(config, problem, folder, self.seed_range(), self.steps, self.final, **where)
