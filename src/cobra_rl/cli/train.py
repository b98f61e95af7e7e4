"""`cobra train vision` and `cobra train explore`."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from cobra_rl.cli.options import Configured, Preset, check_range, command_line
from cobra_rl.cli.process import use_huge_pages
from cobra_rl.config import ExploreConfig, VisionConfig


@dataclass(frozen=True)
class TrainVision(Configured):
    """Look: train the vision module on frames of random play. The same command resumes."""

    presets: ClassVar[str] = "VISION"

    config: VisionConfig
    """Model and training; every leaf is an option."""
    preset: Preset = "laptop"
    """debug takes seconds, laptop is for two CPU cores, paper has the paper's numbers (for a GPU)."""
    steps: int | None = None
    """Train for so many steps instead of the preset's; schedules stretch along."""
    seed: int = 0
    """Random seed for weight initialisation and data."""
    env: str | None = None
    """An environment of your own, module:name or file.py:name; by default the suite's exploration environment."""
    out: Path | None = None
    """Output folder. Default: runs/vision/PRESET-seedSEED."""

    def run(self) -> None:
        """Train, and say where the weights lie."""
        from cobra_rl.phases.vision import train

        use_huge_pages()
        folder = self.out or Path("runs", "vision", f"{self.preset}-seed{self.seed}")
        config = with_steps(self.config, self.steps)
        title = f"vision ({self.preset})"
        train(config, exploration(self.env), folder, self.seed, title, self.env, command_line())
        print(f"Weights: {folder / 'weights'}\nLog: {folder / 'log.jsonl'}\nPictures: {folder / 'pictures'}")
        print(f"Next: cobra train explore --vision {folder}")


@dataclass(frozen=True)
class TrainExplore(Configured):
    """Imagine and be curious: train the transition model and the exploration policy. The same command resumes."""

    presets: ClassVar[str] = "EXPLORE"

    config: ExploreConfig
    """Both networks and their training; every leaf is an option."""
    preset: Preset = "laptop"
    """debug takes seconds, laptop is for two CPU cores, paper has the paper's numbers (for a GPU)."""
    steps: int | None = None
    """Train for so many updates instead of the preset's; schedules stretch along."""
    seed: int = 0
    """Random seed for weight initialisation and play."""
    policy: Literal["slots", "whole", "random"] | None = None
    """What clicks: D_net slot by slot; the paper's, which reads all slots at once; or, for comparison, chance, and only
    the transition model is trained. By default the preset's."""
    vision: Path | None = None
    """Vision to build on: a run of `cobra train vision`, its weights, or a world. Default: the shipped one."""
    env: str | None = None
    """An environment of your own, module:name or file.py:name; by default the suite's exploration environment."""
    runtime: Literal["local", "ray"] = "local"
    """Where actors play: in this process, or as Ray processes (extra [ray])."""
    actors: int = 2
    """Number of Ray processes."""
    address: str | None = None
    """Address of a Ray cluster, such as auto; by default Ray is started on this machine."""
    out: Path | None = None
    """Output folder; the world is left in OUT/world. Default: runs/explore/PRESET-seedSEED."""

    def run(self) -> None:
        """Train, and say where the world lies."""
        from cobra_rl.phases import explore
        from cobra_rl.worlds import SHIPPED

        use_huge_pages()
        config = self._config()
        env = exploration(self.env)
        vision = self.vision or SHIPPED
        suffix = f"-{self.policy}" if self.policy else ""
        folder = self.out or Path("runs", "explore", f"{self.preset}{suffix}-seed{self.seed}")
        title = f"explore ({self.preset}{suffix})"
        actors = self._ray_actors(config, env, vision) if self.runtime == "ray" else None
        explore.train(config, env, vision, folder, self.seed, title, actors, self.env, command_line())
        print(f"World: {folder / 'world'}\nLog: {folder / 'log.jsonl'}\nPictures: {folder / 'pictures'}")
        task = "sorting" if self.env is None else "--env YOUR_TASK"
        print(f"Next: cobra solve {task} --world {folder / 'world'}")

    def _config(self) -> ExploreConfig:
        config = with_steps(self.config, self.steps)
        if self.policy == "random":
            return dataclasses.replace(config, curious=False)
        if self.policy:
            policy = dataclasses.replace(config.exploration, net=self.policy)
            return dataclasses.replace(config, exploration=policy)
        return config

    def _ray_actors(self, config: ExploreConfig, env: Any, vision: Path) -> Any:
        from cobra_rl.phases.explore import actor_functions
        from cobra_rl.worlds import load_vision

        check_range("actors", self.actors, 1)
        try:
            from cobra_rl.runtime.ray_actors import RayActors
        except ImportError as error:
            raise ValueError("--runtime ray needs Ray; install it with pip install 'cobra-rl[ray]'.") from error
        begin, play = actor_functions(config, env, 1)
        return RayActors(begin, play, load_vision(vision), self.actors, self.seed + 2, self.address)


def with_steps(config: Any, steps: int | None) -> Any:
    """Return a configuration for so many steps; None leaves it as it is."""
    check_range("steps", steps, 1)
    return config if steps is None else dataclasses.replace(config, steps=steps)


def exploration(name: str | None) -> Any:
    """Return the environment to explore: one's own by name, or the suite's."""
    from cobra_rl.environments import load_environment
    from cobra_rl.spriteworld import make

    return make("exploration") if name is None else load_environment(name)
