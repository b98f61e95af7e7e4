"""What `cobra` can do: a dataclass a command, its fields the options, their sentences the help."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import tyro

from cobra_rl.process import use_huge_pages

# The names of the suite, for type checkers and help texts; tests/test_cli.py holds them to the suite's own.
Goal = Literal[
    "goal_finding_new_shape",
    "goal_finding_new_position",
    "goal_finding_more_targets",
    "goal_finding_more_distractors",
    "sorting",
    "clustering",
]
Task = Literal["exploration", Goal]
Mode = Literal["train", "test"]
Variant = Literal["paper", "released"]
Preset = Literal["debug", "laptop", "paper"]
FigureName = Literal[
    "decomposition",
    "traversals",
    "rollouts",
    "rollout_sheet",
    "clicks",
    "deformation",
    "behaviour",
    "emergence",
    "performance",
    "solving",
    "sparse",
    "ablation",
]


@dataclass(frozen=True)
class PlayRandom:
    """Watch a world: write a GIF of random play, with arrows for actions and crossed circles for hidden goals."""

    task: Annotated[Task | Literal["all"], tyro.conf.Positional] = "all"
    """The environment to play in; all shows the seven side by side, in both modes."""
    mode: Mode = "train"
    """train, or test: the task's robustness test. Of no effect with all."""
    variant: Variant = "paper"
    """The paper's rules, or those of the released package 1.0.2."""
    steps: int = 40
    """How many actions to take; episodes follow one another."""
    uniform: bool = False
    """Click anywhere. Otherwise clicks land on sprites, so that there is something to see."""
    size: int = 256
    """Width and height of the picture in pixels; with all, of two pictures."""
    fps: float = 5.0
    """Frames a second."""
    seed: int = 0
    """The same seed writes the same film."""
    out: Path | None = None
    """Where to write; by default a file under runs/play-random/."""

    def run(self) -> None:
        from cobra_rl import play_random, spriteworld
        from cobra_rl.films import save_gif

        for name, low, high in (("steps", 1, 10_000), ("size", 16, 2048), ("fps", 0.1, 100.0)):
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"--{name} is {getattr(self, name)}; it must lie between {low} and {high}.")
        options = {"steps": self.steps, "seed": self.seed, "click_on_sprites": not self.uniform}
        if self.task == "all":
            frames = play_random.play_all(variant=self.variant, size=self.size // 2, **options)
            what, name = "all seven environments", f"all-{self.variant}"
        else:
            env = spriteworld.make(self.task, self.mode, self.variant)
            frames = play_random.play(env, size=self.size, **options)
            what, name = f"{self.task}, {self.mode} mode", f"{self.task}-{self.mode}-{self.variant}"
        path = self.out or Path("runs", "play-random", f"{name}.gif")
        save_gif(frames, path, self.fps)
        print(f"{self.steps} steps of random play ({what}, {self.variant} rules): {path}")


@dataclass(frozen=True)
class _Train:
    """What the training commands share."""

    preset: Preset = "laptop"
    """debug takes seconds, laptop is for two CPU cores, paper has the paper's numbers (for a GPU)."""
    steps: int | None = None
    """Train for so many steps instead of the preset's; schedules stretch along."""
    seed: int = 0
    """Of weights and data."""

    def settings(self, presets: Mapping[str, Any]) -> Any:
        """The preset, for so many steps."""
        if self.steps is not None and self.steps < 1:
            raise ValueError(f"--steps is {self.steps}; it must be at least 1.")
        preset = presets[self.preset]
        return preset if self.steps is None else dataclasses.replace(preset, steps=self.steps)

    @staticmethod
    def say_where(folder: Path) -> None:
        """Where the results lie."""
        print(f"Weights: {folder / 'weights'}\nLog: {folder / 'log.jsonl'}\nPictures: {folder / 'pictures'}")


@dataclass(frozen=True)
class TrainVision(_Train):
    """Learn to see: train MONet on frames of the exploration environment. The same command resumes."""

    out: Path | None = None
    """The run's folder; by default runs/vision/PRESET-seedSEED."""

    def run(self) -> None:
        from cobra_rl.config import VISION
        from cobra_rl.phases import vision

        use_huge_pages()
        config = self.settings(VISION)
        folder = self.out or Path("runs", "vision", f"{self.preset}-seed{self.seed}")
        vision.train(config, folder, self.seed, self.preset)
        self.say_where(folder)


@dataclass(frozen=True)
class TrainExplore(_Train):
    """Imagine and be curious: train the transition model and the exploration policy. The same command resumes."""

    policy: Literal["slots", "whole", "random"] | None = None
    """What clicks: D_net slot by slot, the paper's that reads all slots at once, or, for comparison, chance (then only
    the transition model is trained). By default the preset's."""
    runtime: Literal["local", "ray"] = "local"
    """Where actors play: in this process, or as Ray processes (extra [ray])."""
    actors: int = 2
    """How many Ray processes."""
    address: str | None = None
    """Of a Ray cluster, such as auto; by default Ray is started on this machine."""
    vision: Path | None = None
    """Folder of the vision weights; by default the shipped ones."""
    out: Path | None = None
    """The run's folder; by default runs/explore/PRESET-seedSEED."""

    def run(self) -> None:
        from cobra_rl.config import EXPLORE
        from cobra_rl.phases import explore
        from cobra_rl.pretrained import SHIPPED, load_vision

        use_huge_pages()
        config = self.settings(EXPLORE)
        curious = self.policy != "random"
        if self.policy and curious:
            config = dataclasses.replace(config, exploration=dataclasses.replace(config.exploration, net=self.policy))
        vision = load_vision(self.vision or SHIPPED / "vision")
        actors = None
        if self.runtime == "ray":
            try:
                from cobra_rl.runtime.ray_actors import RayActors
            except ModuleNotFoundError as error:
                raise ValueError("--runtime ray needs Ray: pip install 'cobra-rl[ray]'.") from error
            actors = RayActors(vision.model, self.actors, self.seed + 2, self.address, uniform=config.uniform)
        kind = f"-{self.policy}" if self.policy else ""
        folder = self.out or Path("runs", "explore", f"{self.preset}{kind}-seed{self.seed}")
        explore.train(config, vision, folder, self.seed, self.preset + kind, curious, actors)
        self.say_where(folder)


@dataclass(frozen=True)
class Solve:
    """Want and act: learn a task from reward, with everything else frozen. The same command resumes."""

    task: Annotated[Goal | Literal["all"], tyro.conf.Positional]
    """The task; all learns the six one after the other and ends with their table."""
    variant: Variant = "paper"
    """The paper's rules, or those of the released package 1.0.2."""
    preset: Preset = "laptop"
    """debug takes seconds, laptop is ours, paper has the paper's numbers."""
    seeds: int = 1
    """How many agents learn side by side, with seeds 0, 1, ..."""
    steps: int | None = None
    """Rewarded environment steps for each; by default 1,000 to 3,000, by task."""
    sparse: bool = False
    """A reward of 1 on success and nothing before."""
    predictor: Literal["reward", "value"] | None = None
    """What is learnt of a scene: its reward, or its value; by default the value if rewards are sparse."""
    exploration_policy: bool = True
    """Without it, the search proposes uniformly random actions: the paper's ablation."""
    final: int = 200
    """Greedy episodes at the end, in each mode."""
    out: Path | None = None
    """The run's folder, with all that of the runs' folders; by default runs/solve/ and what was asked for."""

    def run(self) -> None:
        from cobra_rl.evaluation.task_report import print_suite

        use_huge_pages()
        for name in ("seeds", "steps", "final"):
            if (number := getattr(self, name)) is not None and number < 1:
                raise ValueError(f"--{name} is {number}; it must be at least 1.")
        if self.task != "all":
            self._solve(self.task, self.out)
            return
        results = []
        for task in get_args(Goal):
            result = self._solve(task, self.out and self.out / task)
            if result is None:
                return  # stopped
            results.append(result)
        print_suite(results)

    def _solve(self, task: str, out: Path | None) -> dict[str, Any] | None:
        from cobra_rl.config import REWARDED_STEPS, TASK
        from cobra_rl.evaluation.task_report import report_task
        from cobra_rl.phases.task import Problem, solve
        from cobra_rl.pretrained import load_pretrained

        value = self.sparse if self.predictor is None else self.predictor == "value"
        steps = self.steps or REWARDED_STEPS[task]
        problem = Problem(task, self.variant, self.sparse, self.exploration_policy)
        name = problem.name(value) + ("" if self.preset == "laptop" else f"-{self.preset}")
        folder = out or Path("runs", "solve", name)
        config = dataclasses.replace(TASK[self.preset], value=value)
        result = solve(config, load_pretrained(), problem, folder, self.seeds, steps, self.final)
        if result is not None:
            report_task(result, folder)
        return result


@dataclass(frozen=True)
class Watch:
    """Watch an agent: write a GIF of it at a task, beside the slots that it sees and the scenes that it imagines."""

    task: Annotated[Goal, tyro.conf.Positional]
    """The task; by default its shipped agent plays."""
    mode: Mode = "train"
    """train, or test: the task's robustness test."""
    run_folder: Annotated[Path | None, tyro.conf.arg(name="run")] = None
    """A run of `cobra solve` whose agent is to play; by default the shipped one."""
    frames: int = 60
    """How many; episodes follow one another."""
    seed: int = 0
    """The same seed writes the same film."""
    out: Path | None = None
    """Where to write; by default a file under runs/watch/."""

    def run(self) -> None:
        from cobra_rl import spriteworld
        from cobra_rl.agents.agent import Agent
        from cobra_rl.films import save_gif
        from cobra_rl.watch import watch

        if not 1 <= self.frames <= 10_000:
            raise ValueError(f"--frames is {self.frames}; it must lie between 1 and 10,000.")
        agent = Agent.load(self.run_folder) if self.run_folder else Agent.pretrained(self.task)
        path = self.out or Path("runs", "watch", f"{self.task}-{self.mode}.gif")
        save_gif(watch(agent, spriteworld.make(self.task, self.mode), self.frames, self.seed, size=192), path, fps=3.0)
        print(f"Film: {path}")


@dataclass(frozen=True)
class Figures:
    """Draw the paper's figures from the shipped weights and published results: a PNG each, its caption beside it."""

    names: Annotated[tuple[FigureName, ...], tyro.conf.Positional] = ()
    """Which; by default all."""
    weights: Path | None = None
    """Folder with vision, transition and exploration weights; by default the shipped ones."""
    out: Path = Path("runs", "figures")
    """The folder to write to."""

    def run(self) -> None:
        from cobra_rl.figures import FIGURES, write
        from cobra_rl.pretrained import SHIPPED, load_curious, load_vision

        weights = self.weights or SHIPPED
        agent = load_curious(load_vision(weights / "vision"), weights)
        for name in self.names or FIGURES:
            try:
                drawn = FIGURES[name](agent)
            except FileNotFoundError as missing:  # of all, those are drawn whose results exist
                if self.names:
                    raise
                print(f"{name}: left out. {missing}", flush=True)
                continue
            print(f"{name}: {write(drawn, name, self.out)}", flush=True)


@dataclass(frozen=True)
class Report:
    """Tell the whole story on one page: figures, films and tables in a single HTML file that opens anywhere."""

    out: Path = Path("runs", "report.html")
    """The page to write."""
    figures: Path = Path("runs", "figures")
    """The folder of the figures; those that are missing there are drawn first, which takes minutes."""

    def run(self) -> None:
        from cobra_rl.report import write_report

        write_report(self.out, self.figures)
