"""The messages that a page may send: a schema, and the check of a message against it.

A message is a JSON object with a `type`, an optional `id` that the answer repeats as `re`, and exactly the fields that
`SCHEMA` lists for its type. Whatever else arrives is refused in one sentence. Nothing is loaded here but the names of
the suite, so that a message is checked in microseconds.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from cobra_rl.spriteworld.names import MODES, TASKS, VARIANTS

MAX_BYTES = 32_768  # of a message
MOST_SPRITES = 6  # of a scene: as many as the agent has seen at once
MOST_PARTS = 8  # of a task
COLOURS = ("any", "red", "yellow", "green", "blue", "purple")  # as `spriteworld.hue_range` has them
SHAPES = (
    "triangle", "square", "pentagon", "hexagon", "octagon", "circle",
    "star_4", "star_5", "star_6", "spoke_4", "spoke_5", "spoke_6",
)  # fmt: skip
WAYS = ("goal", "hand", "showing")  # of teaching
PRACTICE = ("canvas", "recoloured", "world")  # where practice scenes come from

Check = Callable[[Any], Any]  # returns the value, or raises `Refused`


class Refused(ValueError):
    """A message that the schema does not allow."""


def number(low: float | int, high: float | int) -> Check:
    """Allow a finite number in a range."""

    def check(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise Refused("must be a finite number")
        if not low <= value <= high:
            raise Refused(f"must lie between {low:g} and {high:g}")
        return float(value)

    return check


def integer(low: int, high: int) -> Check:
    """Allow a whole number in a range."""

    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise Refused(f"must be a whole number between {low} and {high}")
        return value

    return check


def one_of(*names: str) -> Check:
    """Allow one of some words."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            raise Refused(f"must be one of {', '.join(names)}")
        return value

    return check


def text(pattern: str, what: str) -> Check:
    """Allow a string that matches a pattern as a whole."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise Refused(f"must be {what}")
        return value

    return check


def list_of(item: Check, low: int, high: int) -> Check:
    """Allow a list of some length."""

    def check(value: Any) -> list[Any]:
        if not isinstance(value, list) or not low <= len(value) <= high:
            raise Refused(f"must be a list of {low} to {high} items")
        return [item(entry) for entry in value]

    return check


def fields(schema: Mapping[str, Check]) -> Check:
    """Allow an object with exactly these fields."""

    def check(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict) or set(value) != set(schema):
            raise Refused(f"must be an object with exactly the fields {', '.join(schema) or '(none)'}")
        return {name: _named(name, rule, value[name]) for name, rule in schema.items()}

    return check


def boolean(value: Any) -> bool:
    """Allow true and false."""
    if not isinstance(value, bool):
        raise Refused("must be true or false")
    return value


def _named(name: str, rule: Check, value: Any) -> Any:
    try:
        return rule(value)
    except Refused as refused:
        raise Refused(f"{name}: {refused}") from None


_unit = number(0.0, 1.0)
_name = text(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}", "a name of at most 40 letters, digits, - and _")
_agent = text(r"none|taught|shipped:[a-z_]{1,40}|run:[A-Za-z0-9][A-Za-z0-9._-]{0,39}", "an agent's name")
_sprite = fields(
    {"x": _unit, "y": _unit, "shape": one_of(*SHAPES), "angle": number(-360, 360), "scale": number(0.05, 0.3),
     "c0": _unit, "c1": _unit, "c2": _unit}
)  # fmt: skip
_part = fields(
    {"kind": one_of("goal", "alike", "apart"), "x": _unit, "y": _unit, "shapes": list_of(one_of(*SHAPES), 0, 12),
     "colour": one_of(*COLOURS), "other": one_of(*COLOURS)}
)  # fmt: skip
_seed = integer(0, 2**31 - 1)
_action = list_of(_unit, 4, 4)

SCHEMA: dict[str, Mapping[str, Check]] = {
    "scene": {"task": one_of(*TASKS), "mode": one_of(*MODES), "variant": one_of(*VARIANTS), "seed": _seed},
    "fresh": {"seed": _seed},
    "reset": {},
    "undo": {},
    "arrange": {"sprites": list_of(_sprite, 1, MOST_SPRITES)},
    "imagine": {"action": _action},
    "push": {"action": _action},
    "look": {},
    "redraw": {"slot": integer(0, 63), "latents": list_of(number(-10, 10), 1, 64)},
    "curiosity": {},
    "proposals": {},
    "wanted": {"sprite": integer(0, MOST_SPRITES - 1)},
    "agents": {},
    "agent": {"name": _agent, "mode": one_of(*MODES)},
    "act": {},
    "teach": {
        "way": one_of(*WAYS), "practice": one_of(*PRACTICE), "parts": list_of(_part, 0, MOST_PARTS), "resume": boolean,
    },
    "learn": {"on": boolean},
    "try": {},
    "judge": {"value": number(1, 5)},
    "forget": {},
    "keep": {},
    "compare": {},
    "save": {"name": _name},
    "source": {},
}  # fmt: skip
_CHECKS = {kind: fields(schema) for kind, schema in SCHEMA.items()}


def read(raw: str | bytes) -> dict[str, Any]:
    """Read a message: its `type`, its `id` (or None) and its fields, all checked; else raise `Refused`."""
    if len(raw) > MAX_BYTES:
        raise Refused(f"A message has {len(raw):,} bytes; at most {MAX_BYTES:,} are allowed.")
    try:
        message = json.loads(raw)
    except (ValueError, RecursionError):
        raise Refused("A message must be JSON.") from None
    if not isinstance(message, dict):
        raise Refused("A message must be a JSON object.")
    kind, number_ = message.pop("type", None), message.pop("id", None)
    if not isinstance(kind, str) or kind not in _CHECKS:
        raise Refused("A message must have a known type.")
    if number_ is not None and (isinstance(number_, bool) or not isinstance(number_, int) or abs(number_) > 2**53):
        raise Refused("The id of a message must be a whole number.")
    try:
        checked = _CHECKS[kind](message)
    except Refused as refused:
        raise Refused(f"The message {kind!r}: {refused}.") from None
    return {"type": kind, "id": number_} | checked
