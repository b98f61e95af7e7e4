"""The messages that a page may send: a schema, and the check of a message against it.

A message is a JSON object with a `type`, an optional `id` that the answer repeats as `re`, and exactly the fields that
`SCHEMA` lists for its type. Whatever else arrives is refused in one sentence, which repeats a valid `id` as well.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from cobra_rl.bounds import Bounds, Pattern, Share, conform
from cobra_rl.spriteworld import MODES, SHAPES, TASKS, VARIANTS

MAX_BYTES = 32_768  # of a message
MOST_SPRITES = 6  # of a scene: as many as the agent has seen at once
MOST_PARTS = 8  # of a task
COLOURS = ("any", "red", "yellow", "green", "blue", "purple")  # as `spriteworld.hue_range` has them


class Refused(ValueError):
    """A message that is not allowed; `identity` is its id, where it has one, so that its sender learns of the end."""

    def __init__(self, sentence: str, identity: int | None = None):
        super().__init__(sentence)
        self.identity = identity


def one_of(*names: str) -> Any:
    """Allow one of some words."""
    return Literal[names]  # pyright: ignore[reportInvalidTypeForm]


def list_of(item: Any, low: int, high: int) -> Any:
    """Allow a list of some length."""
    return Annotated[list[item], Bounds(low, high)]


_id = Annotated[int, Bounds(0, 2**53)]
_seed = Annotated[int, Bounds(0, 2**31 - 1)]
_action = list_of(Share, 4, 4)
_name = Annotated[str, Pattern(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}", "a name of at most 40 letters, digits, - and _")]
_agent = Annotated[str, Pattern(r"none|taught|(shipped|run):[A-Za-z0-9][A-Za-z0-9._-]{0,39}", "an agent's name")]
_sprite = {
    "x": Share, "y": Share, "shape": one_of(*SHAPES), "angle": Annotated[float, Bounds(-360, 360)],
    "scale": Annotated[float, Bounds(0.05, 0.3)], "c0": Share, "c1": Share, "c2": Share,
}  # fmt: skip
_part = {
    "kind": one_of("goal", "alike", "apart"), "x": Share, "y": Share, "shapes": list_of(one_of(*SHAPES), 0, 12),
    "colour": one_of(*COLOURS), "other": one_of(*COLOURS),
}  # fmt: skip

SCHEMA: dict[str, Mapping[str, Any]] = {  # the fields of each type of message, and what they allow
    "scene": {"task": one_of(*TASKS), "mode": one_of(*MODES), "variant": one_of(*VARIANTS), "seed": _seed},
    "fresh": {"seed": _seed},
    "reset": {},
    "undo": {},
    "arrange": {"sprites": list_of(_sprite, 1, MOST_SPRITES)},
    "imagine": {"action": _action},
    "push": {"action": _action},
    "noise": {"on": bool},
    "look": {},
    "redraw": {"slot": Annotated[int, Bounds(0, 63)], "latents": list_of(Annotated[float, Bounds(-10, 10)], 1, 64)},
    "curiosity": {},
    "proposals": {},
    "reward_map": {"sprite": Annotated[int, Bounds(0, MOST_SPRITES - 1)]},
    "agent": {"name": _agent, "mode": one_of(*MODES)},
    "act": {},
    "teach": {
        "way": one_of("goal", "hand", "showing"), "practice": one_of("canvas", "recoloured", "environment"),
        "parts": list_of(_part, 0, MOST_PARTS), "resume": bool,
    },
    "learn": {"on": bool},
    "try": {},
    "judge": {"value": Annotated[float, Bounds(1, 5)]},
    "forget": {},
    "keep": {},
    "compare": {},
    "save": {"name": _name},
    "source": {},
}  # fmt: skip


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
    kind = message.pop("type", None)
    identity = None
    try:
        identity = conform(_id | None, message.pop("id", None), "The id of a message")
        if not isinstance(kind, str) or kind not in SCHEMA:
            raise Refused("A message must have a known type.", identity)
        return conform(SCHEMA[kind], message, f"The message {kind!r}") | {"type": kind, "id": identity}
    except Refused:
        raise
    except ValueError as error:
        raise Refused(str(error), identity) from None
