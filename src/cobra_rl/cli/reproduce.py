"""`cobra reproduce`: vision, exploration, the six tasks, figures and the page, in one command that resumes."""

import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cobra_rl.bounds import NonNegative, TrainingSeed, conform
from cobra_rl.cli import options, report
from cobra_rl.cli.evaluate import EvaluateExplore, EvaluateVision
from cobra_rl.config import COBRA, EXPLORE, VISION
from cobra_rl.console import warn
from cobra_rl.environments import Problem
from cobra_rl.reporting.results import read_task
from cobra_rl.reporting.tables import print_suite
from cobra_rl.runs.task import TaskRun, learn_elsewhere, prepare
from cobra_rl.runs.train import train_explore, train_vision
from cobra_rl.spriteworld import REWARDED, SUITE, make
from cobra_rl.storage.files import copy_if_other, read_json, write_json


@dataclass(frozen=True)
class Reproduce:
    """Reproduce the paper: train all phases, learn the six tasks, draw figures, write a report. Repeat it to resume."""

    out: options.OutFolder = Path("runs", "reproduce")
    """Output folder: vision/, explore/ (with the world), solve/TASK/, results/, figures/, report.html."""
    preset: options.Preset = "laptop"
    """debug: minutes; laptop: hours on two CPU cores; learnt: laptop without what it builds in, under way; paper: the
    paper's numbers, for a GPU."""
    seeds: options.Seeds = 5  # Number of random seeds per task.
    seed: TrainingSeed = 0  # Random seed of the vision and exploration phases.
    steps: options.Maybe[options.Steps] = None
    """Rewarded steps per seed. Default: depends on the task, 600 to 2,000; 40 in debug."""
    final: options.Maybe[options.Episodes] = None  # Greedy evaluation episodes in each mode. Default: 200; 4 in debug.

    runtime: options.Runtime = "local"
    """Train each task's seeds side by side in this process, or in parallel with Ray (needs the extra [ray])."""
    workers: options.Maybe[options.Workers] = None
    """Number of seeds that Ray trains in parallel on this machine. Default: 2."""
    address: options.Maybe[str] = None
    """Address of a Ray cluster, such as auto; all machines must see the disk of --out."""

    def run(self) -> None:
        """Do one part after the other; skip what is done already."""
        options.check_ray_options(self.runtime, workers=self.workers, address=self.address)
        parts = {
            "vision": self._vision,
            "explore": self._explore,
            "evaluation": self._evaluate,
            **({"learning": self._learn} if self.runtime == "ray" else {}),
            **{task: lambda task=task: self._solve(task) for task in REWARDED},
            "figures": self._figures,
            "report": self._report,
        }
        for name, part in parts.items():
            print(f"\n=== {name} ===", flush=True)
            began = time.monotonic()
            try:
                part()
            finally:  # what was stopped took its time too
                self._record(name, (time.monotonic() - began) / 60)
        self._tell()

    _debug = property(lambda self: self.preset == "debug")
    _world = property(lambda self: str(self.out / "explore" / "world"))
    _results = property(lambda self: self.out / "results")
    _agents = property(lambda self: report.agents_of(self.out, self._world))

    def _vision(self) -> None:
        train_vision(
            VISION[self.preset],
            make("exploration"),
            self.out / "vision",
            seed=self.seed,
            title=f"vision ({self.preset})",
            command=options.command_line(),
        )
        self._publish("vision/log.jsonl", "vision_log.jsonl")

    def _explore(self) -> None:
        train_explore(
            EXPLORE[self.preset],
            make("exploration"),
            self.out / "vision",
            self.out / "explore",
            seed=self.seed,
            title=f"explore ({self.preset})",
            command=options.command_line(),
        )
        self._publish("explore/log.jsonl", "explore_log.jsonl")

    def _evaluate(self) -> None:
        for name, command in (("vision", EvaluateVision), ("explore", EvaluateExplore)):
            out = self._results / f"{name}.json"
            if not out.exists():
                command(world=self._world, scenes=60 if self._debug else 1000, out=out).run()

    def _learn(self) -> None:
        learn_elsewhere([self._task_run(task) for task in REWARDED], self.workers, self.address)

    def _solve(self, task: str) -> None:
        self._task_run(task).solve()
        self._publish(f"solve/{task}/result.json", f"solve/{task}.json")

    def _task_run(self, task: str) -> TaskRun:
        return prepare(
            COBRA[self.preset],
            Problem(task),
            self.out / "solve" / task,
            seeds=range(self.seeds),
            steps=self.steps or (40 if self._debug else SUITE[task].steps),
            final=self.final or (4 if self._debug else 200),
            world_folder=self._world,
            command=options.command_line(),
        )

    def _publish(self, source: str, target: str) -> None:
        """Copy a file of a run to the results; one that is there keeps its age, which figures depend on."""
        copy_if_other(self.out / source, self._results / target)

    def _figures(self) -> None:
        report.Figures(world=self._world, results=self._results, out=self.out / "figures").run(
            self._agents, redraw=False
        )

    def _report(self) -> None:
        report.Report(
            world=self._world,
            results=self._results,
            figures=self.out / "figures",
            out=self.out / "report.html",
        ).run(self._agents)

    def _minutes(self) -> dict[str, float]:
        """Return the wall time of each part, of all calls together."""
        path = self.out / "reproduce.json"
        try:
            return conform(
                dict[str, NonNegative],
                read_json(path).get("minutes", {}) if path.exists() else {},
                f"{path}, minutes,",
            )
        except ValueError as error:
            warn(f"{error} The wall times of earlier calls are lost.")
            return {}

    def _record(self, part: str, minutes: float) -> None:
        """Add what a part took in this call to reproduce.json."""
        total = self._minutes()
        total[part] = total.get(part, 0.0) + minutes
        write_json(self.out / "reproduce.json", {"command": options.command_line(), "minutes": total})

    def _tell(self) -> None:
        """Print the results, the paper's statement about its own, and the wall time of each part."""
        found = [read_task(self._results, f"solve/{task}") for task in REWARDED]
        print_suite([result for result in found if result is not None])
        print(
            'The paper: "COBRA learns to solve most of our tasks using only 100-1000 rewarded environment steps", in '
            "about 15 (new shape) to 600 (sorting) episodes; its numbers per task are only in its figures."
        )
        table = Table("part", "minutes", title="Wall time, of all calls together")
        for name, value in self._minutes().items():
            table.add_row(name.replace("_", " "), f"{value:.1f}")
        Console().print(table)
        print(f"World: {self._world}\nResults: {self._results}\nReport: {self.out / 'report.html'}")
