"""`cobra baseline`: the paper's model-free baselines."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from cobra_rl.cli.learning import Learning
from cobra_rl.cli.options import (
    ActorCount,
    Maybe,
    OutFolder,
    Steps,
    check_ray_options,
    ray_actors,
    shortcut,
)
from cobra_rl.config import MPO, MpoConfig

if TYPE_CHECKING:
    from cobra_rl.runs.task import TaskRun

UNUSED = {  # fields of the networks' configuration that the other features use
    "pixels": ("actor_slot_layers", "actor_global_layers", "critic_slot_layers", "critic_global_layers"),
    "slots": ("channels", "patches", "shrink", "shared", "hidden"),
}


@dataclass(frozen=True, kw_only=True)
class Baseline(Learning):
    """Learn a task with one of the model-free MPO baselines. Repeat the command to resume or to add steps or seeds."""

    presets: ClassVar = MPO
    place: ClassVar[str] = "baseline"

    config: MpoConfig  # The agent and its training; every field is an option.
    features: Maybe[Literal["pixels", "slots"]] = None
    """What actor and critic see: pictures (the default), or the world model's slots."""
    policy: Maybe[Literal["raw", "deformed"]] = None
    """Raw actions (the default), or actions deformed by the exploration policy. MPO raw is pixels and raw, and uses no
    world model; MPO handheld is slots and deformed."""
    steps: Steps = 20_000  # Environment steps per seed, rounded up to a multiple of the number of environments.
    actors: Maybe[ActorCount] = None
    """Number of Ray actors that collect for the learner, which then trains the seeds one after the other in this
    process; each actor steps one environment. Without it, Ray trains seeds in parallel."""
    out: Maybe[OutFolder] = None
    """Output folder; with `all`, the parent of one folder per task. Default: runs/baseline/TASK-BASELINE[-OPTIONS],
    such as runs/baseline/sorting-mpo_handheld."""

    def run(self) -> None:
        """Learn the task and show the results."""
        check_ray_options(self.runtime, actors=self.actors)
        if self.actors and self.workers:
            raise ValueError("--actors and --workers are two ways to use Ray; give one of them.")
        self.learn(self.out)

    def folder_name(self, task: str) -> str:
        """Return the name of a task's folder below --out, for `all`; baselines may share --out."""
        return f"{task}-{self.configuration().name}"

    def learn_elsewhere(self, runs: "Sequence[TaskRun]") -> None:
        """Learn all seeds in Ray processes, unless only the actors are there."""
        if self.actors is None:
            super().learn_elsewhere(runs)

    def configuration(self) -> MpoConfig:
        """Return the configuration with the options --features and --policy applied."""
        usual = MPO[self.preset]
        config = shortcut(self.config, usual, "features", self.features, "--features")
        for name in UNUSED[config.features]:
            if getattr(config.networks, name) != getattr(usual.networks, name):
                option = f"--config.networks.{name.replace('_', '-')}"
                raise ValueError(f"{option} is of no use with --features {config.features}; leave one of them out.")
        return shortcut(config, usual, "policy", self.policy, "--policy")

    def rewarded_steps(self, task: str | None) -> int:
        """Return the number of environment steps per seed."""
        return self.steps

    def prepare(self, task: str | None, out: Path | None, **options: Any) -> "TaskRun":
        """Describe the training of one task in folder `out`."""
        actors = functools.partial(ray_actors, count=self.actors, address=self.address) if self.actors else None
        return super().prepare(task, out, make_actors=actors, **options)
