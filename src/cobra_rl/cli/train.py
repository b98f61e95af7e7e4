"""`cobra train vision` and `cobra train explore`."""

import dataclasses
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from cobra_rl.bounds import Bounds, Count, Seed
from cobra_rl.cli.options import OutFolder, Preset, command_line
from cobra_rl.config import EXPLORE, VISION, ExploreConfig, VisionConfig
from cobra_rl.environments import load_environment
from cobra_rl.phases import explore, vision
from cobra_rl.spriteworld import make
from cobra_rl.worlds import SHIPPED, load_vision


@dataclass(frozen=True, kw_only=True)
class Training:
    """What both commands are told."""

    config: Any
    preset: Preset = "laptop"
    """debug takes seconds, laptop is for two CPU cores, paper has the paper's numbers (for a GPU)."""
    steps: Count | None = None  # Train for so many steps instead of the preset's; schedules stretch along.
    seed: Seed = 0  # Random seed for weight initialisation and data.
    env: str | None = None
    """An environment of your own, module:name or file.py:name; by default the suite's exploration environment."""

    def environment(self) -> Any:
        """Return the environment to explore."""
        return make("exploration") if self.env is None else load_environment(self.env)

    def configuration(self) -> Any:
        """Return the configuration, for as many steps as are wanted."""
        return self.config if self.steps is None else dataclasses.replace(self.config, steps=self.steps)


@dataclass(frozen=True, kw_only=True)
class TrainVision(Training):
    """Look: train the vision module on frames of random play. The same command resumes."""

    presets: ClassVar = VISION

    config: VisionConfig  # Model and training; every leaf is an option.
    out: OutFolder | None = None  # Output folder. Default: runs/vision/PRESET-seedSEED.

    def run(self) -> None:
        """Train, and say where the weights lie."""
        folder, title = self.out or Path("runs", "vision", f"{self.preset}-seed{self.seed}"), f"vision ({self.preset})"
        vision.train(self.configuration(), self.environment(), folder, self.seed, title, self.env, command_line())
        print(f"Weights: {folder / 'weights'}\nLog: {folder / 'log.jsonl'}\nPictures: {folder / 'pictures'}")
        print(f"Next: cobra train explore --vision {folder}")


@dataclass(frozen=True, kw_only=True)
class TrainExplore(Training):
    """Imagine and be curious: train the transition model and the exploration policy. The same command resumes."""

    presets: ClassVar = EXPLORE

    config: ExploreConfig  # Both networks and their training; every leaf is an option.
    policy: Literal["slots", "whole", "random"] | None = None
    """What clicks: D_net slot by slot; the paper's, which reads all slots at once; or, for comparison, chance, and only
    the transition model is trained. By default the preset's."""
    vision: Path | None = None
    """Vision to build on: a run of `cobra train vision`, its weights, or a world. Default: the shipped one."""
    runtime: Literal["local", "ray"] = "local"  # Where actors play: in this process, or as Ray processes (extra [ray]).
    actors: Annotated[int, Bounds(1, 10_000)] = 2  # Number of Ray processes.
    address: str | None = None  # Address of a Ray cluster, such as auto; by default Ray is started on this machine.
    out: OutFolder | None = None
    """Output folder; the world is left in OUT/world. Default: runs/explore/PRESET-seedSEED."""

    def run(self) -> None:
        """Train, and say where the world lies."""
        config, env, seen = self.configuration(), self.environment(), self.vision or SHIPPED
        name = f"{self.preset}-{self.policy}" if self.policy else self.preset
        folder, title = self.out or Path("runs", "explore", f"{name}-seed{self.seed}"), f"explore ({name})"
        ray = self.runtime == "ray"
        with closing(self._ray_actors(config, env, seen)) if ray else nullcontext() as actors:
            explore.train(config, env, seen, folder, self.seed, title, actors, self.env, command_line())
        print(f"World: {folder / 'world'}\nLog: {folder / 'log.jsonl'}\nPictures: {folder / 'pictures'}")
        task = "sorting" if self.env is None else "--env YOUR_TASK"
        print(f"Next: cobra solve {task} --world {folder / 'world'}")

    def configuration(self) -> ExploreConfig:
        """Return the configuration, with the policy that is wanted."""
        config = super().configuration()
        if self.policy == "random":
            return dataclasses.replace(config, curious=False)
        if self.policy:
            policy = dataclasses.replace(config.exploration, net=self.policy)
            return dataclasses.replace(config, exploration=policy)
        return config

    def _ray_actors(self, config: ExploreConfig, env: Any, seen: Path) -> Any:
        try:
            from cobra_rl.runtime.ray_actors import RayActors
        except ImportError as error:
            raise ValueError("--runtime ray needs Ray; install it with pip install 'cobra-rl[ray]'.") from error
        functions = explore.actor_functions(config, env, 1)
        return RayActors(*functions, load_vision(seen), self.actors, self.seed + 2, self.address)
