"""An `EnvSpec` as JSON data, so that a run that somebody sends can be opened without running any of its code."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from cobra_rl.bounds import from_json, shown
from cobra_rl.spriteworld import Clustering, EnvSpec, FarApart, FindGoal, NoReward, SpriteDistribution, Sum
from cobra_rl.spriteworld.tasks import Task

TASK_KINDS: dict[str, type[Task]] = {kind.__name__: kind for kind in (NoReward, FindGoal, FarApart, Clustering, Sum)}
_PARTS = (EnvSpec, SpriteDistribution, *TASK_KINDS.values())


def is_data(value: Any) -> bool:
    """Return whether a spec can be written as data: all its parts are Spriteworld's own, and none is a user's task."""
    if isinstance(value, tuple):
        return all(map(is_data, value))
    if type(value) in _PARTS:
        return all(is_data(getattr(value, field.name)) for field in dataclasses.fields(value))
    return isinstance(value, str | int | float | None)


def spec_to_json(value: Any) -> Any:
    """Write a spec, or a part of one, as JSON: a task names its class as `kind`, and tuples become lists.

    Args:
        value: An `EnvSpec` that `is_data`.

    Returns:
        What `spec_from_json` reads.
    """
    if isinstance(value, tuple):
        return [spec_to_json(item) for item in value]
    if not dataclasses.is_dataclass(value):
        return value
    fields = {field.name: spec_to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return {"kind": type(value).__name__, **fields} if isinstance(value, Task) else fields


def spec_from_json(data: Any, where: str) -> EnvSpec:
    """Read a spec that `spec_to_json` wrote; types and bounds are checked, and no code is run.

    Args:
        data: What a JSON file holds.
        where: How a person calls that file, or the place in it.

    Raises:
        ValueError: If it does not fit; the sentence says what was found and what is allowed.
    """
    where = where.removesuffix(",")
    if not isinstance(data, Mapping):
        raise ValueError(f"{where} must hold the entries of an EnvSpec, but it is {shown(data)}.")
    try:
        task = _task_from_json(data.get("task"), f"{where}, task,")
    except RecursionError as error:
        raise ValueError(f"{where}, task, is a sum of sums of sums without an end.") from error
    return from_json(EnvSpec, {**data, "task": task}, where)


def _task_from_json(data: Any, where: str) -> Task:
    entries = dict(data) if isinstance(data, Mapping) else {}
    kind = entries.pop("kind", None)
    if not isinstance(kind, str) or kind not in TASK_KINDS:
        raise ValueError(f"{where} is {shown(data)}; it must have a kind, one of {', '.join(TASK_KINDS)}.")
    parts = entries.get("tasks")
    if isinstance(parts, list):
        entries["tasks"] = [_task_from_json(part, f"{where} part {number},") for number, part in enumerate(parts)]
    return from_json(TASK_KINDS[kind], entries, where)
