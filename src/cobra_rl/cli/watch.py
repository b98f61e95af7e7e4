"""`cobra watch` and `cobra play-random`: films."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from cobra_rl.bounds import Bounds, Seed
from cobra_rl.cli.options import Film, Frames, Maybe, Mode, Task, Variant, WorldOption, WorldOrAll
from cobra_rl.console import working
from cobra_rl.environments import load_environment
from cobra_rl.reporting.films import film_random, film_suite, save_gif, watch
from cobra_rl.runs.agent import Agent
from cobra_rl.runs.load import TrainedAgent, load_agent
from cobra_rl.runs.settings import task_settings
from cobra_rl.runs.worlds import DEFAULT_WORLD, find_world, name_of_world, world_sha256
from cobra_rl.spriteworld import make

MOST_PIXELS = 300_000_000  # most pixels of a film: about a gigabyte of memory


@dataclass(frozen=True)
class Watch:
    """Film an agent at a task: a GIF of the scene, the slots that it sees and the scenes that it imagines."""

    task: Annotated[Maybe[Task], tyro.conf.Positional] = None
    """The task whose agent is filmed: the one that is kept with the world; not needed with --run."""
    mode: Mode = "train"  # train, or test (the robustness test of the task).
    variant: Variant = "paper"  # Rules that this agent learnt by: the paper's, or those of Spriteworld 1.0.2.
    run_folder: Annotated[Maybe[Path], tyro.conf.arg(name="run", help_behavior_hint="")] = None
    """Film the agent of this run of `cobra solve` or `cobra baseline` at the task that it learnt."""
    seed_of_run: Annotated[Maybe[Seed], tyro.conf.arg(name="run-seed", help_behavior_hint="")] = None
    """Random seed of the run whose agent is filmed. Default: the first."""
    world: Annotated[
        WorldOption,
        tyro.conf.arg(
            help="The world whose agent is filmed, by name or folder. With --run: the run's world, if it was moved; by "
            "default the one that it recorded, or its copy."
        ),
    ] = None
    env: Maybe[str] = None  # The environment of the run, given again, as module:name or file.py:name.
    frames: Frames = 60  # Number of frames; when an episode ends, the next begins.
    seed: Seed = 0  # Random seed; the same seed writes the same film.
    out: Maybe[Film] = None  # Output file. Default: runs/watch/TASK[-WORLD]-MODE.gif.

    def run(self) -> None:
        """Film, and print the path of the film."""
        agent = self._agent()
        path = self.out or self._film_of(agent)
        env = agent.problem.environments()[self.mode]
        with working("filming", self.frames) as tell:
            frames = watch(agent, env, self.frames, seed=self.seed, size=192, progress=lambda done, _: tell(done))
        save_gif(frames, path, fps=3.0)
        print(f"Film: {path}")

    def _film_of(self, agent: TrainedAgent) -> Path:
        """Return the file of the film; its name has that of the world, or of its sha256, unless it is the default."""
        if self.run_folder is None:
            sha256 = world_sha256(find_world(self.world))
        else:
            used = task_settings(self.run_folder, self.env).world
            sha256 = "" if used is None else used.sha256  # an agent may use no world
        world = name_of_world(sha256) or sha256[:8]
        parts = (agent.name, *([world] if world not in ("", DEFAULT_WORLD) else []), self.mode)
        return Path("runs", "watch", f"{'-'.join(parts)}.gif")

    def _agent(self) -> TrainedAgent:
        """Load the agent."""
        if self.run_folder is None:
            if self.task is None:
                raise ValueError("Name a task, or give a run of `cobra solve` with --run.")
            if self.seed_of_run is not None:
                raise ValueError("--run-seed goes with --run: a world has one agent for each task.")
            if self.env is not None:
                raise ValueError("--env goes with --run: the agent of a world plays the task that it learnt.")
            return Agent.pretrained(self.task, self.variant, self.world)
        agent = load_agent(self.run_folder, self.seed_of_run, self.world, env=self.env)
        learnt = agent.problem
        if self.variant not in ("paper", learnt.variant):
            raise ValueError(f"{self.run_folder} learnt by the {learnt.variant} rules; leave --variant out.")
        if self.task not in (None, learnt.task):
            raise ValueError(f"{self.run_folder} learnt {learnt.task} and not {self.task}; leave the task out.")
        return agent


@dataclass(frozen=True)
class PlayRandom:
    """Film an environment under random actions: a GIF with arrows for actions and crossed circles for hidden goals."""

    task: Annotated[Maybe[WorldOrAll], tyro.conf.Positional] = None
    """The environment to film; `all` (the default) shows the seven side by side, in both modes."""
    env: Maybe[str] = None  # An environment of your own instead, as module:name or file.py:name.
    mode: Mode = "train"  # train, or test (the robustness test of the task). `all` shows both.
    variant: Variant = "paper"  # Rules of the task: the paper's, or those of the released Spriteworld 1.0.2.
    steps: Frames = 40  # Number of actions; when an episode ends, the next begins.
    uniform: bool = False  # Uniformly random clicks. By default clicks land on sprites, so that they move.
    size: Annotated[int, Bounds(16, 1024)] = 256
    """Width and height of the picture in pixels; with `all`, each environment has half of it."""
    fps: Annotated[float, Bounds(0.1, 100.0)] = 5.0  # Frames per second.
    seed: Seed = 0  # Random seed; the same seed writes the same film.
    out: Maybe[Film] = None  # Output file. Default: a file under runs/play-random/.

    def run(self) -> None:
        """Film, and print the path of the film."""
        if (pixels := self.steps * self.size**2) > MOST_PIXELS:
            raise ValueError(
                f"--steps {self.steps} of --size {self.size} are {pixels:,} pixels; a film holds at most "
                f"{MOST_PIXELS:,}: take fewer steps or a smaller size."
            )
        if self.task is not None and self.env is not None:
            raise ValueError("Name an environment of the suite or give one of your own with --env, not both.")
        options: dict[str, Any] = {"steps": self.steps, "seed": self.seed, "click_on_sprites": not self.uniform}
        if self.env is not None:
            name = self.env.rpartition(":")[2]
            frames = film_random(load_environment(self.env, self.mode), size=self.size, **options)
            what = f"{name}, {self.mode} mode"
        elif self.task in (None, "all"):
            frames = film_suite(variant=self.variant, size=self.size // 2, **options)
            what = f"all seven environments, {self.variant} rules"
            name = f"all-{self.variant}"
        else:
            frames = film_random(make(self.task, self.mode, self.variant), size=self.size, **options)
            name = f"{self.task}-{self.mode}-{self.variant}"
            what = f"{self.task}, {self.mode} mode, {self.variant} rules"
        path = self.out or Path("runs", "play-random", f"{name}.gif")
        save_gif(frames, path, self.fps)
        print(f"{self.steps} steps of random play ({what}): {path}")
