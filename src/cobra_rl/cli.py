"""The `cobra` command: a COBRA agent, from pixels to solved tasks.

COBRA learns to see objects, to imagine what its actions do and to be curious, all without reward,
and then solves new tasks from a few hundred rewarded steps.
"""

import dataclasses
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import jax
import tyro

# The names of the suite, for type checkers and help texts; tests/test_cli.py holds them to the suite's own.
Task = Literal[
    "exploration",
    "goal_finding_new_shape",
    "goal_finding_new_position",
    "goal_finding_more_targets",
    "goal_finding_more_distractors",
    "sorting",
    "clustering",
]
Mode = Literal["train", "test"]
Variant = Literal["paper", "released"]
Preset = Literal["debug", "laptop", "paper"]
FigureName = Literal["decomposition", "traversals"]


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
        play_random.save_gif(frames, path, self.fps)
        print(f"{self.steps} steps of random play ({what}, {self.variant} rules): {path}")


@dataclass(frozen=True)
class TrainVision:
    """Learn to see: train MONet on frames of the exploration environment. The same command resumes."""

    preset: Preset = "laptop"
    """debug takes seconds, laptop is for two CPU cores, paper has the paper's numbers (for a GPU)."""
    steps: int | None = None
    """Train for so many steps instead of the preset's; schedules stretch along."""
    seed: int = 0
    """Of weights and data."""
    out: Path | None = None
    """The run's folder; by default runs/vision/PRESET-seedSEED."""

    def run(self) -> None:
        from cobra_rl.config import VISION
        from cobra_rl.phases import vision

        _use_huge_pages()
        config = _with_steps(VISION[self.preset], self.steps)
        folder = self.out or Path("runs", "vision", f"{self.preset}-seed{self.seed}")
        vision.train(config, folder, self.seed, self.preset)
        print(f"Weights: {folder / 'weights'}\nLog: {folder / 'log.jsonl'}\nPictures: {folder / 'pictures'}")


@dataclass(frozen=True)
class TrainExplore:
    """Imagine and be curious: train the transition model and the exploration policy. The same command resumes."""

    preset: Preset = "laptop"
    """debug takes seconds, laptop is for two CPU cores, paper has the paper's numbers (for a GPU)."""
    steps: int | None = None
    """Train for so many steps instead of the preset's; schedules stretch along."""
    seed: int = 0
    """Of weights and data."""
    random_policy: bool = False
    """Actors click at random, for comparison; only the transition model is trained."""
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

        _use_huge_pages()
        config = _with_steps(EXPLORE[self.preset], self.steps)
        vision = load_vision(self.vision or SHIPPED / "vision")
        actors = None
        if self.runtime == "ray":
            try:
                from cobra_rl.runtime.ray_actors import RayActors
            except ModuleNotFoundError as error:
                raise ValueError("--runtime ray needs Ray: pip install 'cobra-rl[ray]'.") from error
            actors = RayActors(vision.model, self.actors, self.seed + 2, self.address)
        kind = "-random" if self.random_policy else ""
        folder = self.out or Path("runs", "explore", f"{self.preset}{kind}-seed{self.seed}")
        explore.train(config, vision, folder, self.seed, self.preset + kind, not self.random_policy, actors)
        print(f"Weights: {folder / 'weights'}\nLog: {folder / 'log.jsonl'}\nPictures: {folder / 'pictures'}")


@dataclass(frozen=True)
class EvaluateVision:
    """Measure vision on held-out scenes: FG-ARI, slots to themselves, reconstruction, probes; a table and JSON."""

    weights: Path | None = None
    """Folder of the weights, such as runs/vision/laptop-seed0/weights; by default the shipped ones."""
    scenes: int = 1000
    """Held-out exploration scenes with 2-6 sprites."""
    suite: bool = False
    """Also the initial scenes of all six tasks in both modes, and the released variant."""
    out: Path | None = None
    """Where to write the figures as JSON; by default only printed."""

    def run(self) -> None:
        from cobra_rl.evaluation.report import report_vision

        report_vision(self.weights, self.scenes, self.suite, self.out)


@dataclass(frozen=True)
class EvaluateExplore:
    """Measure imagination and curiosity on held-out scenes: hits, pushes, roll-outs, e_pred; a table and JSON."""

    weights: Path | None = None
    """Folder of the weights, such as runs/explore/laptop-seed0/weights; by default the shipped ones."""
    vision: Path | None = None
    """Folder of the vision weights; by default the shipped ones."""
    scenes: int = 1000
    """Held-out exploration scenes with 1-6 sprites."""
    out: Path | None = None
    """Where to write the figures as JSON; by default only printed."""

    def run(self) -> None:
        from cobra_rl.evaluation.report import report_explore

        report_explore(self.weights, self.vision, self.scenes, self.out)


@dataclass(frozen=True)
class Figures:
    """Draw the paper's figures from the shipped weights: a PNG each, with its caption beside it."""

    names: Annotated[tuple[FigureName, ...], tyro.conf.Positional] = ()
    """Which; by default all."""
    weights: Path | None = None
    """Folder of the vision weights; by default the shipped ones."""
    out: Path = Path("runs", "figures")
    """The folder to write to."""

    def run(self) -> None:
        from cobra_rl.figures import FIGURES, write
        from cobra_rl.pretrained import SHIPPED, load_vision

        vision = load_vision(self.weights or SHIPPED / "vision")
        for name in self.names or FIGURES:
            print(f"{name}: {write(FIGURES[name](vision), name, self.out)}", flush=True)


COMMANDS = {
    "play-random": PlayRandom,
    "train vision": TrainVision,
    "train explore": TrainExplore,
    "evaluate vision": EvaluateVision,
    "evaluate explore": EvaluateExplore,
    "figures": Figures,
}


def main(args: list[str] | None = None) -> None:
    """Runs a command; a user's mistake is one sentence on stderr and exit code 2."""
    _keep_compilations()
    words = sys.argv[1:] if args is None else args
    if " ".join(words[:2]) in COMMANDS:  # two words name one command
        words = [" ".join(words[:2]), *words[2:]]
    command = tyro.extras.subcommand_cli_from_dict(COMMANDS, prog="cobra", description=__doc__, args=words)
    try:
        command.run()
    except (ValueError, OSError, ArithmeticError) as error:
        sys.exit(_complain(error))


def _keep_compilations() -> None:
    """Compiled code is kept for the next run of a command, in the user's cache folder unless JAX is told otherwise."""
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "cobra-rl", "jax")
        jax.config.update("jax_compilation_cache_dir", str(cache))


def _use_huge_pages() -> None:
    """Starts this process again with glibc's allocator using huge pages: on a CPU, a training step is a quarter faster.

    The allocator reads its settings only at the start of a process. Nothing is done elsewhere than on Linux, or where
    the user has set them.
    """
    if sys.platform == "linux" and "GLIBC_TUNABLES" not in os.environ and "pytest" not in sys.modules:
        os.environ["GLIBC_TUNABLES"] = huge_pages()
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, "-m", "cobra_rl.cli", *sys.argv[1:]])


def huge_pages() -> str:
    """The allocator's settings, as GLIBC_TUNABLES has them."""
    return f"glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold={2**32}:glibc.malloc.trim_threshold={2**33}"


def _with_steps(config, steps: int | None):
    if steps is None:
        return config
    if steps < 1:
        raise ValueError(f"--steps is {steps}; it must be at least 1.")
    return dataclasses.replace(config, steps=steps)


def _complain(error: Exception) -> int:
    print(f"cobra: {error}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
