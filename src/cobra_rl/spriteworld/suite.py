"""The seven COBRA environments x {train, test} x {paper, released}, as data; see docs/reproduction.md."""

import difflib
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from cobra_rl.bounds import Bounds, Checked
from cobra_rl.spriteworld.names import MODES, TASKS, VARIANTS
from cobra_rl.spriteworld.scenes import Scene, SpriteDistribution
from cobra_rl.spriteworld.tasks import Clustering, FindGoal, NoReward, Range, Sum, Task

IMAGE_SIZE = 64
SUCCESS_BONUS = {"paper": 5.0, "released": 0.0}  # of sorting and clustering; the paper gives no number
MOTION_NOISE = {"paper": 0.05, "released": 0.0}


@dataclass(frozen=True)
class EnvSpec(Checked):
    """All that defines an environment: a hashable value of tuples and frozen dataclasses. See `Spriteworld(spec)`.

    Raises:
        ValueError: If a field is out of range, or cannot be hashed, such as a list.
    """

    name: str  # of the environment, for folders and messages
    scenes: Annotated[tuple[Scene, ...], Bounds(1, 10_000)]  # an episode begins with one of these, drawn uniformly
    task: Task  # what is rewarded, and when it is solved
    max_steps: Annotated[int, Bounds(1, 10**6)]  # after so many steps an episode is truncated
    motion_noise: Annotated[float, Bounds(0.0, 10.0)] = 0.0  # std of the noise on a push, in frame widths
    shuffle: bool = True  # random z-order; otherwise sprites lie back to front in the order of their scene
    mode: str = "train"  # a label: only `env_spec` chooses scenes by it
    variant: str = "paper"  # a label: only `env_spec` chooses rules by it
    image_size: Annotated[int, Bounds(8, 1024)] = IMAGE_SIZE  # height and width of the images that agents see

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            hash(self)
        except TypeError as error:
            raise ValueError(f"{self.name!r} cannot be hashed ({error}); write tuples instead of lists.") from error

    @property
    def capacity(self) -> int:
        """The largest number of sprites of a scene."""
        return max(len(scene) for scene in self.scenes)

    @property
    def shapes(self) -> tuple[str, ...]:
        """The shapes that can occur."""
        return tuple(sorted({name for scene in self.scenes for sprite in scene for name in sprite.shapes}))


def hue_range(color: str, variant: str = "paper") -> Range:
    """Return the narrow range of hues that the name of a colour stands for.

    Args:
        color: "red", "blue", "green", "purple" or "yellow".
        variant: "paper" or "released"; they differ in yellow alone.

    Returns:
        The lowest and the highest hue, in [0, 1].

    Raises:
        ValueError: If the colour is unknown.
    """
    hues = {
        "red": (0.9, 1.0),
        "blue": (0.55, 0.65),
        "green": (0.27, 0.37),
        "purple": (0.73, 0.83),
        "yellow": (0.12, 0.22) if variant == "paper" else (0.1, 0.2),
    }
    return hues[known_name("colour range", color, tuple(hues))]


SORTING_GOALS = {
    "red": (0.75, 0.75), "blue": (0.75, 0.25), "green": (0.25, 0.75), "purple": (0.25, 0.25), "yellow": (0.5, 0.5),
}  # fmt: skip
TARGET_HUE = (0.0, 0.4)  # released, and new_position in both variants
DISTRACTOR_HUE = (0.5, 0.9)
SHAPE_TASK_HUE = (0.0, 0.5)  # paper: both kinds, where shape tells targets from distractors
PLACES: dict[str, Range] = {"paper": (0.0, 1.0), "released": (0.1, 0.9)}  # of x and of y
VALUES: dict[str, Range] = {"paper": (1.0, 1.0), "released": (0.9, 1.0)}  # the V of HSV

Rules = tuple[tuple[Scene, ...], Task, int]  # scenes, task, steps of an episode


def _any_sprite(variant: str, **factors) -> SpriteDistribution:
    """Describe a sprite with the given factors, else of any shape and hue, anywhere the variant puts sprites."""
    usual = {"boxes": ((PLACES[variant], PLACES[variant]),), "value": VALUES[variant]}
    return SpriteDistribution(**(usual | factors))


def _exploration(mode: str, variant: str) -> Rules:
    sprite = _any_sprite(variant, angle=(0.0, 360.0) if variant == "paper" else (0.0, 0.0))
    return tuple((sprite,) * count for count in range(1, 7)), NoReward(), 10


def _new_shape(mode: str, variant: str) -> Rules:
    shapes = {"train": ("square",), "test": ("triangle", "circle")}[mode]
    return ((_any_sprite(variant, hue=TARGET_HUE, shapes=shapes),),), FindGoal(), 20


def _new_position(mode: str, variant: str) -> Rules:
    low, high = PLACES[variant]
    lower = (low, 0.5)  # half of the range of a coordinate
    upper = (0.5, high)
    # the package holds out the upper right quadrant (and calls it the lower right one)
    held_out, beside = (lower, upper) if variant == "paper" else (upper, lower)  # y ranges
    boxes = {"test": ((upper, held_out),), "train": ((lower, (low, high)), (upper, beside))}[mode]
    scene = (_any_sprite(variant, hue=TARGET_HUE, boxes=boxes), _any_sprite(variant, hue=DISTRACTOR_HUE))
    return (scene,), FindGoal(hue=TARGET_HUE), 20


def _counts(targets: int, distractors: int, variant: str) -> Rules:
    """Put targets among distractors, told apart by shape (paper) or by hue (released)."""
    if variant == "paper":
        target = _any_sprite(variant, shapes=("square",), hue=SHAPE_TASK_HUE)
        distractor = _any_sprite(variant, shapes=("circle", "triangle"), hue=SHAPE_TASK_HUE)
        task = FindGoal(shapes=("square",))
    else:
        target = _any_sprite(variant, hue=TARGET_HUE)
        distractor = _any_sprite(variant, hue=DISTRACTOR_HUE)
        task = FindGoal(hue=TARGET_HUE)
    return ((target,) * targets + (distractor,) * distractors,), task, 20


def _sorting(mode: str, variant: str) -> Rules:
    held_out, *others = itertools.combinations(SORTING_GOALS, 2)  # held out: (red, blue)
    pairs = {"train": others, "test": [held_out]}[mode]
    scenes = tuple(tuple(_any_sprite(variant, hue=hue_range(color, variant)) for color in pair) for pair in pairs)
    goals = tuple(FindGoal(goal, hue_range(color, variant), multiplier=20.0) for color, goal in SORTING_GOALS.items())
    return scenes, Sum(goals, SUCCESS_BONUS[variant]), 50


def _clustering(mode: str, variant: str) -> Rules:
    test_colors = ("purple", "yellow") if variant == "paper" else ("red", "yellow")
    first, second = (hue_range(color, variant) for color in {"train": ("blue", "green"), "test": test_colors}[mode])
    scene = tuple(_any_sprite(variant, hue=hue) for hue in (first, first, second, second))
    return (scene,), Sum((Clustering((first, second)),), SUCCESS_BONUS[variant]), 50


_RULES: dict[str, Callable[[str, str], Rules]] = {
    "exploration": _exploration,
    "goal_finding_new_shape": _new_shape,
    "goal_finding_new_position": _new_position,
    "goal_finding_more_targets": lambda mode, variant: _counts({"train": 1, "test": 2}[mode], 2, variant),
    "goal_finding_more_distractors": lambda mode, variant: _counts(2, {"train": 1, "test": 2}[mode], variant),
    "sorting": _sorting,
    "clustering": _clustering,
}


def env_spec(task: str, mode: str = "train", variant: str = "paper") -> EnvSpec:
    """Define one of the suite's environments, for example to change it with `dataclasses.replace`.

    Args:
        task: A name in `TASKS`, such as "sorting".
        mode: "train" to learn in, or "test" for the robustness test.
        variant: "paper" or "released"; see `make`.

    Returns:
        The definition from which `Spriteworld` builds the environment.

    Raises:
        ValueError: If a name is unknown.
    """
    known_name("task", task, TASKS)
    known_name("mode", mode, MODES)
    known_name("variant", variant, VARIANTS)
    return EnvSpec(
        task,
        *_RULES[task](mode, variant),
        motion_noise=MOTION_NOISE[variant],
        shuffle=task != "exploration",
        mode=mode,
        variant=variant,
    )


def known_name(kind: str, name: str, allowed: tuple[str, ...]) -> str:
    """Return a name that somebody typed if it is allowed; otherwise a ValueError says what is, and the nearest."""
    if isinstance(name, str) and name in allowed:
        return name
    close = difflib.get_close_matches(str(name), allowed, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"Unknown {kind} {name!r}; choose one of {', '.join(allowed)}.{hint}")
