"""The `cobra` command: a COBRA agent, from pixels to solved tasks.

COBRA learns to see objects, to imagine what its actions do and to be curious, all without reward,
and then solves new tasks from a few hundred rewarded steps.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

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


def main(args: list[str] | None = None) -> None:
    """Runs a command; a user's mistake is one sentence on stderr and exit code 2."""
    command = tyro.extras.subcommand_cli_from_dict(
        {"play-random": PlayRandom}, prog="cobra", description=__doc__, args=args
    )
    try:
        command.run()
    except (ValueError, OSError) as error:
        sys.exit(_complain(error))


def _complain(error: Exception) -> int:
    print(f"cobra: {error}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
