"""A task that was put together on the page: its parts -> an `EnvSpec`."""

from collections.abc import Mapping, Sequence
from typing import Any

from cobra_rl.spriteworld import Clustering, EnvSpec, FarApart, FindGoal, NoReward, SpriteDistribution, Sum, hue_range
from cobra_rl.spriteworld.scenes import Scene
from cobra_rl.spriteworld.tasks import Task

MAX_STEPS = 20  # of an episode with one part; each further part adds ten
HUE_SPREAD = 0.03  # practice sprites differ this much from the canvas's: less than the ranges that colours' names have
SEVERAL_MULTIPLIER = 20.0  # of each part of several, as in the suite's sorting
SEVERAL_BONUS = 5.0
Part = Mapping[str, Any]  # as protocol.SCHEMA has it


def task_spec(
    parts: Sequence[Part], practice: str, sprites: Sequence[Mapping[str, Any]], *, chosen: EnvSpec
) -> EnvSpec:
    """Build the environment to learn in.

    Args:
        parts: What is wanted; rewards add up. Without any, nothing is rewarded.
        practice: "canvas": scenes with the canvas's sprites in other places; "recoloured": of any colour too;
            "environment": the scenes of `chosen`.
        sprites: What stands on the canvas.
        chosen: The environment that is chosen on the page; its rules say how noisy motion is.
    """
    scenes = chosen.scenes if practice == "environment" else (_scene(sprites, recolour=practice == "recoloured"),)
    tasks = tuple(_task(part, several=len(parts) > 1) for part in parts)
    task = Sum(tasks, SEVERAL_BONUS) if len(tasks) > 1 else (tasks[0] if tasks else NoReward())
    steps = MAX_STEPS + 10 * max(len(parts) - 1, 0)
    return EnvSpec("my_task", scenes, task, max_steps=steps, motion_noise=chosen.motion_noise)


def _task(part: Part, several: bool) -> Task:
    """Build one part of a task."""
    hue = None if part["colour"] == "any" else hue_range(part["colour"])
    shapes = tuple(part["shapes"]) or None
    scale: dict[str, Any] = {"multiplier": SEVERAL_MULTIPLIER} if several else {}
    if part["kind"] == "goal":
        return FindGoal((round(part["x"], 3), round(part["y"], 3)), hue, shapes, **scale)
    if part["kind"] == "apart":
        return FarApart(hue, shapes, **scale)
    if "any" in (part["colour"], part["other"]) or part["colour"] == part["other"]:
        raise ValueError("Like to like needs two different colours: name both.")
    return Clustering((hue_range(part["colour"]), hue_range(part["other"])))


def _scene(sprites: Sequence[Mapping[str, Any]], recolour: bool) -> Scene:
    """Describe scenes with these sprites, each anywhere."""

    def distribution(sprite: Mapping[str, Any]) -> SpriteDistribution:
        hue = round(max(sprite["c0"] - HUE_SPREAD, 0.0), 3), round(min(sprite["c0"] + HUE_SPREAD, 1.0), 3)
        saturation, value, angle = (round(float(sprite[name]), 3) for name in ("c1", "c2", "angle"))
        return SpriteDistribution(
            hue=(0.0, 1.0) if recolour else hue,
            saturation=(0.3, 1.0) if recolour else (saturation, saturation),
            value=(value, value),
            shapes=(sprite["shape"],),
            angle=(angle, angle),
            scale=round(sprite["scale"], 3),
        )

    return tuple(distribution(sprite) for sprite in sprites)
