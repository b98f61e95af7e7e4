"""`cobra baseline`: the paper's model-free baselines."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import tyro

from cobra_rl.cli.options import Preset, TaskOrAll, Variant, check_range, command_line
from cobra_rl.cli.process import use_huge_pages
from cobra_rl.cli.train import ray_actors
from cobra_rl.config import BASELINE, BaselineConfig
from cobra_rl.environments import Problem
from cobra_rl.phases.baseline import load_baseline, train_baseline
from cobra_rl.show.report_run import report_result
from cobra_rl.show.tables import print_result, print_suite
from cobra_rl.spriteworld.names import REWARDED
from cobra_rl.worlds import load_world


@dataclass(frozen=True)
class Baseline:
    """Learn a task without a model: the paper's MPO baselines. The same command resumes; more steps or seeds add."""

    presets: ClassVar = BASELINE

    config: BaselineConfig  # The agent and its learning; every leaf is an option.
    task: Annotated[TaskOrAll | None, tyro.conf.Positional] = None
    """A task of the suite; all learns the six one after the other and ends with their table."""
    features: Literal["pixels", "slots"] | None = None
    """What actor and critic see: pictures (the default), or the world model's slots."""
    policy: Literal["raw", "deformed"] | None = None
    """Actions as they are (the default), or deformed by the exploration policy. MPO raw is pixels and raw, MPO handheld
    slots and deformed."""
    world: Path | None = None  # World model to use: a folder that `cobra train explore` left. Default: the shipped one.
    variant: Variant = "paper"  # The paper's rules, or those of the released package 1.0.2.
    preset: Preset = "laptop"  # debug takes seconds, laptop is for two CPU cores, paper has the paper's numbers.
    seeds: int = 1  # Number of random seeds, one agent each.
    steps: int = 20_000  # Environment steps per seed; rounded up to whole steps of all environments.
    final: int = 200  # Greedy episodes at the end, in each mode.
    runtime: Literal["local", "ray"] = "local"  # Where actors play: in this process, or as Ray processes (extra [ray]).
    actors: int = 2  # Number of Ray processes.
    out: Path | None = None
    """Output folder; with `all`, the parent of one folder per task. Default: runs/BASELINE/TASK[-OPTIONS], such as
    runs/mpo_handheld/sorting."""

    def run(self) -> None:
        """Learn, and show what came of it."""
        use_huge_pages()
        for name in ("seeds", "steps", "final", "actors"):
            check_range(name, getattr(self, name), 1)
        if self.task is None:
            raise ValueError(f"Name a task ({', '.join(REWARDED)}, all).")
        if self.task == "all":
            print_suite([self.learn(task, self.out and self.out / task) for task in REWARDED])
        else:
            self.learn(self.task, self.out)

    def learn(self, task: str, out: Path | None) -> dict[str, Any]:
        """Learn one task; return what result.json holds."""
        problem, seeds = Problem(task, self.variant), range(self.seeds)
        chosen = {"features": self.features, "policy": self.policy}
        config = dataclasses.replace(self.config, **{name: value for name, value in chosen.items() if value})
        preset = "" if self.preset == "laptop" else f"-{self.preset}"
        folder = out or Path("runs", config.name, problem.name(value=False) + preset)
        world = load_world(self.world) if config.uses_world else None
        elsewhere = self._ray if self.runtime == "ray" else None
        where = {"world_folder": self.world, "make_actors": elsewhere, "command": command_line()}
        result = train_baseline(config, world, problem, folder, seeds, self.steps, self.final, **where)
        print_result(result)
        print("Drawing the learning curve and filming the agent", flush=True)
        player = load_baseline(folder, seeds[0], world)
        curve, film = report_result(result, folder, *player, problem.environments())
        print(f"Result: {folder / 'result.json'}\nLearning curve: {curve}\nFilm: {film}")
        return result

    def _ray(self, begin: Any, play: Any, world: Any, seed: int) -> Any:
        return ray_actors(begin, play, world, self.actors, seed)
