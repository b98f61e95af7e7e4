"""The seven COBRA environments x {train, test} x {paper, released}, as data.

`released` is the public package 1.0.2, config by config. `paper` (the default) follows the paper's
appendix where the two differ. `docs/reproduction.md` lists what the paper leaves open.
"""

import dataclasses
import difflib
import itertools
from dataclasses import dataclass

from cobra_rl.spriteworld.scenes import Box, Scene, SpriteDistribution
from cobra_rl.spriteworld.tasks import Clustering, FindGoal, NoReward, Range, Sum, Task

MODES = ("train", "test")
VARIANTS = ("paper", "released")

SUCCESS_BONUS = 5.0  # paper variant of sorting and clustering; the paper gives no figure
MOTION_NOISE = 0.05  # paper variant


@dataclass(frozen=True)
class EnvSpec:
    """All that defines an environment. Make your own and hand it to `Spriteworld(spec)`."""

    name: str
    scenes: tuple[Scene, ...]  # an episode begins with one of these, drawn uniformly
    task: Task
    max_steps: int
    motion_noise: float = 0.0  # standard deviation of the noise on the displacement of a pushed sprite
    shuffle: bool = True  # random z-order
    mode: str = "train"
    variant: str = "paper"

    @property
    def capacity(self) -> int:
        """The largest number of sprites of a scene."""
        return max(len(scene) for scene in self.scenes)

    @property
    def shapes(self) -> tuple[str, ...]:
        """The shapes that can occur."""
        return tuple(sorted({name for scene in self.scenes for sprite in scene for name in sprite.shapes}))


def hue_range(color: str, variant: str = "paper") -> Range:
    """The narrow hue range of a named colour."""
    hues = {
        "red": (0.9, 1.0),
        "blue": (0.55, 0.65),
        "green": (0.27, 0.37),
        "purple": (0.73, 0.83),
        "yellow": (0.12, 0.22) if variant == "paper" else (0.1, 0.2),
    }
    return hues[one_of("colour range", color, tuple(hues))]


SORTING_GOALS = {
    "red": (0.75, 0.75), "blue": (0.75, 0.25), "green": (0.25, 0.75), "purple": (0.25, 0.25), "yellow": (0.5, 0.5),
}  # fmt: skip
TARGET_HUE, DISTRACTOR_HUE = (0.0, 0.4), (0.5, 0.9)  # released, and new_position in both variants
SHAPE_TASK_HUE = (0.0, 0.5)  # paper: both kinds, where shape tells targets from distractors


def _sprite(variant: str) -> SpriteDistribution:
    """A sprite of any shape and hue, anywhere the variant puts sprites."""
    if variant == "paper":
        return SpriteDistribution()
    return SpriteDistribution(value=(0.9, 1.0), boxes=(((0.1, 0.9), (0.1, 0.9)),))


def _exploration(mode: str, variant: str) -> EnvSpec:
    sprite = dataclasses.replace(_sprite(variant), angle=(0.0, 360.0) if variant == "paper" else (0.0, 0.0))
    scenes = tuple((sprite,) * count for count in range(1, 7))
    return EnvSpec("exploration", scenes, NoReward(), max_steps=10, shuffle=False)


def _new_shape(mode: str, variant: str) -> EnvSpec:
    shapes = {"train": ("square",), "test": ("triangle", "circle")}[mode]
    sprite = dataclasses.replace(_sprite(variant), hue=TARGET_HUE, shapes=shapes)
    return EnvSpec("goal_finding_new_shape", ((sprite,),), FindGoal(), max_steps=20)


def _new_position(mode: str, variant: str) -> EnvSpec:
    sprite = _sprite(variant)
    (low, high), _ = sprite.boxes[0]
    left, right = (low, 0.5), (0.5, high)
    # the package holds out the upper right quadrant (and calls it the lower right one)
    held_out, beside = (left, right) if variant == "paper" else (right, left)  # y ranges
    boxes: dict[str, tuple[Box, ...]] = {
        "test": ((right, held_out),),
        "train": ((left, (low, high)), (right, beside)),
    }
    target = dataclasses.replace(sprite, hue=TARGET_HUE, boxes=boxes[mode])
    distractor = dataclasses.replace(sprite, hue=DISTRACTOR_HUE)
    return EnvSpec("goal_finding_new_position", ((target, distractor),), FindGoal(hue=TARGET_HUE), max_steps=20)


def _counts(name: str, targets: int, distractors: int, variant: str) -> EnvSpec:
    """Targets among distractors: told apart by shape (paper) or by hue (released)."""
    sprite = _sprite(variant)
    if variant == "paper":
        target = dataclasses.replace(sprite, shapes=("square",), hue=SHAPE_TASK_HUE)
        distractor = dataclasses.replace(sprite, shapes=("circle", "triangle"), hue=SHAPE_TASK_HUE)
        task = FindGoal(shapes=("square",))
    else:
        target = dataclasses.replace(sprite, hue=TARGET_HUE)
        distractor = dataclasses.replace(sprite, hue=DISTRACTOR_HUE)
        task = FindGoal(hue=TARGET_HUE)
    return EnvSpec(name, ((target,) * targets + (distractor,) * distractors,), task, max_steps=20)


def _more_targets(mode: str, variant: str) -> EnvSpec:
    return _counts("goal_finding_more_targets", {"train": 1, "test": 2}[mode], 2, variant)


def _more_distractors(mode: str, variant: str) -> EnvSpec:
    return _counts("goal_finding_more_distractors", 2, {"train": 1, "test": 2}[mode], variant)


def _sorting(mode: str, variant: str) -> EnvSpec:
    held_out, *others = itertools.combinations(SORTING_GOALS, 2)  # held out: (red, blue)
    pairs = {"train": others, "test": [held_out]}[mode]
    sprite = _sprite(variant)
    scenes = tuple(
        tuple(dataclasses.replace(sprite, hue=hue_range(color, variant)) for color in pair) for pair in pairs
    )
    goals = tuple(FindGoal(goal, hue_range(color, variant), multiplier=20.0) for color, goal in SORTING_GOALS.items())
    return EnvSpec("sorting", scenes, Sum(goals, _bonus(variant)), max_steps=50)


def _clustering(mode: str, variant: str) -> EnvSpec:
    test_colors = ("purple", "yellow") if variant == "paper" else ("red", "yellow")
    first, second = (hue_range(color, variant) for color in {"train": ("blue", "green"), "test": test_colors}[mode])
    sprite = _sprite(variant)
    scene = tuple(dataclasses.replace(sprite, hue=hue) for hue in (first, first, second, second))
    return EnvSpec("clustering", (scene,), Sum((Clustering((first, second)),), _bonus(variant)), max_steps=50)


def _bonus(variant: str) -> float:
    return SUCCESS_BONUS if variant == "paper" else 0.0


_SPECS = {
    "exploration": _exploration,
    "goal_finding_new_shape": _new_shape,
    "goal_finding_new_position": _new_position,
    "goal_finding_more_targets": _more_targets,
    "goal_finding_more_distractors": _more_distractors,
    "sorting": _sorting,
    "clustering": _clustering,
}
TASKS = tuple(_SPECS)


def env_spec(task: str, mode: str = "train", variant: str = "paper") -> EnvSpec:
    """The definition of one of the suite's environments."""
    one_of("task", task, TASKS)
    one_of("mode", mode, MODES)
    one_of("variant", variant, VARIANTS)
    spec = _SPECS[task](mode, variant)
    noise = MOTION_NOISE if variant == "paper" else 0.0
    return dataclasses.replace(spec, mode=mode, variant=variant, motion_noise=noise)


def one_of(kind: str, name: str, allowed: tuple[str, ...]) -> str:
    """`name` if it is allowed; otherwise a ValueError that says what is."""
    if name in allowed:
        return name
    close = difflib.get_close_matches(str(name), allowed, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"Unknown {kind} {name!r}; choose one of {', '.join(allowed)}.{hint}")
