"""The messages that a page may send: a schema, and the check of a message against it.

A message is a JSON object with a `type`, an optional `id` that the answer repeats as `re`, and exactly the fields that
`SCHEMA` lists for its type. Whatever else arrives is refused in one sentence.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from cobra_rl.spriteworld.names import MODES, TASKS, VARIANTS
from cobra_rl.spriteworld.sprites import SHAPES

MAX_BYTES = 32_768  # of a message
MOST_SPRITES = 6  # of a scene: as many as the agent has seen at once
MOST_PARTS = 8  # of a task
COLOURS = ("any", "red", "yellow", "green", "blue", "purple")  # as `spriteworld.hue_range` has them
WAYS = ("goal", "hand", "showing")  # of teaching
PRACTICE = ("canvas", "recoloured", "world")  # where practice scenes come from

Check = Callable[[Any], Any]  # returns the value, or raises `Refused`


class Refused(ValueError):
    """A message that the schema does not allow."""


def rule(allows: Callable[[Any], bool], what: str) -> Check:
    """Allow the values of which `allows` is true; `what` describes them."""

    def check(value: Any) -> Any:
        if not allows(value):
            raise Refused(f"must be {what}")
        return value

    return check


def number(low: float | int, high: float | int, kind: type = float) -> Check:
    """Allow a finite number in a range; with kind `int`, a whole one."""
    what = f"a {'whole ' if kind is int else ''}number between {low:g} and {high:g}"
    check = rule(lambda value: type(value) in (int, kind) and low <= value <= high, what)
    return lambda value: kind(check(value))


def one_of(*names: str) -> Check:
    """Allow one of some words."""
    return rule(lambda value: isinstance(value, str) and value in names, f"one of {', '.join(names)}")


def text(pattern: str, what: str) -> Check:
    """Allow a string that matches a pattern as a whole."""
    return rule(lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None, what)


def list_of(item: Check, low: int, high: int) -> Check:
    """Allow a list of some length."""
    is_list = rule(lambda value: isinstance(value, list) and low <= len(value) <= high, f"a list of {low} to {high}")
    return lambda value: [item(entry) for entry in is_list(value)]


def fields(schema: Mapping[str, Check]) -> Check:
    """Allow an object with exactly these fields."""
    what = f"an object with exactly the fields {', '.join(schema) or '(none)'}"
    is_object = rule(lambda value: isinstance(value, dict) and set(value) == set(schema), what)

    def check(value: Any) -> dict[str, Any]:
        checked = {}
        for name, entry in is_object(value).items():
            try:
                checked[name] = schema[name](entry)
            except Refused as refused:
                raise Refused(f"{name}: {refused}") from None
        return checked

    return check


_boolean = rule(lambda value: isinstance(value, bool), "true or false")
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
_id = number(0, 2**53, int)
_seed = number(0, 2**31 - 1, int)
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
    "redraw": {"slot": number(0, 63, int), "latents": list_of(number(-10, 10), 1, 64)},
    "curiosity": {},
    "proposals": {},
    "wanted": {"sprite": number(0, MOST_SPRITES - 1, int)},
    "agent": {"name": _agent, "mode": one_of(*MODES)},
    "act": {},
    "teach": {
        "way": one_of(*WAYS), "practice": one_of(*PRACTICE), "parts": list_of(_part, 0, MOST_PARTS), "resume": _boolean,
    },
    "learn": {"on": _boolean},
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
    kind, name = message.pop("type", None), message.pop("id", None)
    if not isinstance(kind, str) or kind not in _CHECKS:
        raise Refused("A message must have a known type.")
    try:
        checked = _CHECKS[kind](message) | {"type": kind, "id": name if name is None else _id(name)}
    except Refused as refused:
        raise Refused(f"The message {kind!r}: {refused}.") from None
    return checked
