"""`cobra reproduce`: vision, exploration, the six tasks, figures and the page, in one command that resumes."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cobra_rl.cli.options import Preset, check_range, command_line
from cobra_rl.cli.process import use_huge_pages
from cobra_rl.spriteworld.names import REWARDED, SUITE


@dataclass(frozen=True)
class Reproduce:
    """Reproduce the paper from nothing: see, imagine, be curious, solve the six tasks, draw and tell. It resumes."""

    out: Path = Path("runs", "reproduce")
    """Output folder: vision/, explore/ (with the world), solve/TASK/, results/, figures/, report.html."""
    preset: Preset = "laptop"
    """debug takes minutes, laptop hours on two CPU cores, paper has the paper's numbers (for a GPU)."""
    seeds: int = 5
    """Number of random seeds per task."""
    seed: int = 0
    """Random seed of vision and exploration."""
    steps: int | None = None
    """Rewarded environment steps per seed. Default: 1,000 to 3,000, by task; 40 in debug."""
    final: int | None = None
    """Greedy episodes at the end, in each mode. Default: 200; 4 in debug."""

    def run(self) -> None:
        """Do one part after the other; a part that is done is not done again."""
        use_huge_pages()
        for name in ("seeds", "steps", "final"):
            check_range(name, getattr(self, name), 1)
        parts: dict[str, Callable[[], Any]] = {
            "vision": self._vision,
            "explore": self._explore,
            "evaluation": self._evaluate,
            **{task: lambda task=task: self._solve(task) for task in REWARDED},
            "figures": self._figures,
            "report": self._report,
        }
        minutes = {}
        for name, part in parts.items():
            print(f"\n=== {name} ===", flush=True)
            began = time.monotonic()
            part()
            minutes[name] = (time.monotonic() - began) / 60
        self._tell(minutes)

    @property
    def _debug(self) -> bool:
        return self.preset == "debug"

    @property
    def _world(self) -> Path:
        return self.out / "explore" / "world"

    @property
    def _results(self) -> Path:
        return self.out / "results"

    def _vision(self) -> None:
        from cobra_rl.config import VISION
        from cobra_rl.phases.vision import train
        from cobra_rl.spriteworld import make

        folder, title = self.out / "vision", f"vision ({self.preset})"
        train(VISION[self.preset], make("exploration"), folder, self.seed, title, command=command_line())
        copy(folder / "log.jsonl", self._results / "vision_log.jsonl")

    def _explore(self) -> None:
        from cobra_rl.config import EXPLORE
        from cobra_rl.phases.explore import train
        from cobra_rl.spriteworld import make

        folder, title = self.out / "explore", f"explore ({self.preset})"
        config, env = EXPLORE[self.preset], make("exploration")
        train(config, env, self.out / "vision", folder, self.seed, title, command=command_line())
        copy(folder / "log.jsonl", self._results / "explore_log.jsonl")

    def _evaluate(self) -> None:
        from cobra_rl.cli.evaluate import EvaluateExplore, EvaluateVision

        scenes = 60 if self._debug else 1000
        commands = {
            "vision.json": EvaluateVision(self._world, scenes=scenes, out=self._results / "vision.json"),
            "explore.json": EvaluateExplore(self._world, scenes=scenes, out=self._results / "explore.json"),
        }
        for name, command in commands.items():
            if not (self._results / name).exists():
                command.run()

    def _solve(self, task: str) -> None:
        from cobra_rl.config import TASK
        from cobra_rl.environments import Problem
        from cobra_rl.phases.task import solve
        from cobra_rl.worlds import load_world

        config, folder = TASK[self.preset], self.out / "solve" / task
        steps = self.steps or (40 if self._debug else SUITE[task].steps)
        final = self.final or (4 if self._debug else 200)
        where = {"world_folder": self._world, "command": command_line()}
        solve(config, load_world(self._world), Problem(task), folder, range(self.seeds), steps, final, **where)
        copy(folder / "result.json", self._results / "solve" / f"{task}.json")

    def _figures(self) -> None:
        from cobra_rl.cli.report import draw_figures
        from cobra_rl.show.figures import FIGURES

        names = tuple(name for name in FIGURES if not (self.out / "figures" / f"{name}.png").exists())
        if names:
            draw_figures((), self._world, self._results, self.out / "figures", self._agent)

    def _report(self) -> None:
        from cobra_rl.cli.report import write_page

        write_page(self.out / "report.html", self.out / "figures", self._world, self._results, self._agent)

    def _agent(self, task: str) -> Any:
        from cobra_rl.agent import Agent

        return Agent.load(self.out / "solve" / task)

    def _tell(self, minutes: dict[str, float]) -> None:
        """Print the table beside the paper's statements, and the wall time of each part."""
        from rich.console import Console
        from rich.table import Table

        from cobra_rl.runtime.storage import write_json
        from cobra_rl.show.results import read_task
        from cobra_rl.show.tables import print_suite

        found = (read_task(self._results, f"solve/{task}") for task in REWARDED)
        print_suite([result for result in found if result is not None])
        print(
            'The paper: "COBRA learns to solve most of our tasks using only 100-1000 rewarded environment steps", in '
            "about 15 (new shape) to 600 (sorting) episodes; its numbers per task are only in its figures."
        )
        table = Table("part", "minutes", title="Wall time of this call; parts that were done before take none")
        for name, value in minutes.items():
            table.add_row(name.replace("_", " "), f"{value:.1f}")
        Console().print(table)
        write_json(self.out / "reproduce.json", {"command": command_line(), "minutes": minutes})
        print(f"World: {self._world}\nResults: {self._results}\nReport: {self.out / 'report.html'}")


def copy(source: Path, target: Path) -> None:
    """Copy a file of a run to the results, whole or not at all."""
    from cobra_rl.runtime.storage import write_atomically

    write_atomically(target, source.read_bytes())
