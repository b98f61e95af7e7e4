"""`cobra train vision` and `cobra train explore`."""

from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from cobra_rl.bounds import Count, TrainingSeed
from cobra_rl.cli.options import (
    ActorCount,
    Maybe,
    OutFolder,
    Preset,
    check_ray_options,
    command_line,
    ray_actors,
    shortcut,
)
from cobra_rl.config import EXPLORE, VISION, ExploreConfig, VisionConfig
from cobra_rl.environments import load_environment
from cobra_rl.phases.explore import actor_functions
from cobra_rl.runs.train import train_explore, train_vision
from cobra_rl.runs.worlds import find_vision, load_vision
from cobra_rl.spriteworld import make


@dataclass(frozen=True, kw_only=True)
class Training:
    """The options of both commands."""

    presets: ClassVar[dict[str, Any]]

    config: Any
    preset: Preset = "laptop"
    """debug: for tests, in seconds; laptop: for two CPU cores, with knowledge of sprites and clicks; learnt: without
    it; paper: the paper's numbers, for a GPU."""
    steps: Maybe[Count] = None  # Number of updates, instead of the preset's; schedules are stretched accordingly.
    seed: TrainingSeed = 0  # Random seed for weight initialisation and data.
    env: Maybe[str] = None
    """An environment of your own, as module:name or file.py:name. Default: the suite's exploration environment."""

    def environment(self) -> Any:
        """Return the environment to explore."""
        return make("exploration") if self.env is None else load_environment(self.env)

    def configuration(self) -> Any:
        """Return the configuration, with --steps applied."""
        return shortcut(self.config, self.presets[self.preset], "steps", self.steps, "--steps")


@dataclass(frozen=True, kw_only=True)
class TrainVision(Training):
    """Train the vision module (phase 1) on frames of random play. Repeat the command to resume."""

    presets: ClassVar = VISION

    config: VisionConfig  # The model and its training; every field is an option.
    out: Maybe[OutFolder] = None  # Output folder. Default: runs/vision/PRESET-seedSEED.

    def run(self) -> None:
        """Train the module and print where its weights are."""
        folder = self.out or Path("runs", "vision", f"{self.preset}-seed{self.seed}")
        train_vision(
            self.configuration(),
            self.environment(),
            folder,
            seed=self.seed,
            title=f"vision ({self.preset})",
            env_name=self.env,
            command=command_line(),
        )
        print(f"Weights: {folder / 'weights'}\nLog: {folder / 'log.jsonl'}\nPictures: {folder / 'pictures'}")
        print(f"Next: cobra train explore --vision {folder}")


@dataclass(frozen=True, kw_only=True)
class TrainExplore(Training):
    """Train transition model and exploration policy (phase 2), with a frozen vision module. Repeat it to resume."""

    presets: ClassVar = EXPLORE

    config: ExploreConfig  # Both networks and their training; every field is an option.
    policy: Maybe[Literal["per_slot", "joint", "random"]] = None
    """Exploration policy of the actors. per_slot: D_net reads one slot at a time; joint: it reads all at once (the
    paper); random: uniform actions, and only the transition model is trained. Default: the preset's."""
    vision: Maybe[str] = None
    """Vision module: a run of `cobra train vision`, a folder of its weights, or a world by name or folder. Default:
    that of the world that `cobra worlds` marks."""
    runtime: Literal["local", "ray"] = "local"  # Run actors in this process or as Ray processes (extra [ray]).
    actors: Maybe[ActorCount] = None  # Number of actors, with --runtime ray. Default: 2.
    address: Maybe[str] = None  # Address of a Ray cluster, such as auto. Default: Ray starts on this machine.
    out: Maybe[OutFolder] = None
    """Output folder; the world model is written to OUT/world. Default: runs/explore/PRESET[-POLICY]-seedSEED."""

    def run(self) -> None:
        """Train both networks and print where the world model is."""
        check_ray_options(self.runtime, actors=self.actors, address=self.address)
        config = self.configuration()
        if self.policy == "random":
            config = replace(config, curious=False)
        else:
            policy = shortcut(
                config.exploration,
                EXPLORE[self.preset].exploration,
                "net",
                self.policy,
                "--policy",
                "--config.exploration",
            )
            config = replace(config, exploration=policy)
        env = self.environment()
        seen = find_vision(self.vision)
        name = f"{self.preset}-{self.policy}" if self.policy else self.preset
        folder = self.out or Path("runs", "explore", f"{name}-seed{self.seed}")
        with closing(self._ray_actors(config, env, seen)) if self.runtime == "ray" else nullcontext() as actors:
            train_explore(
                config,
                env,
                seen,
                folder,
                seed=self.seed,
                title=f"explore ({name})",
                actors=actors,
                env_name=self.env,
                command=command_line(),
            )
        print(f"World: {folder / 'world'}\nLog: {folder / 'log.jsonl'}\nPictures: {folder / 'pictures'}")
        print(f"Next: cobra solve {'--env YOUR_TASK' if self.env else 'sorting'} --world {folder / 'world'}")

    def _ray_actors(self, config: ExploreConfig, env: Any, seen: Path) -> Any:
        return ray_actors(
            *actor_functions(config, env, 1), load_vision(seen), self.seed + 2, self.actors or 2, self.address
        )
