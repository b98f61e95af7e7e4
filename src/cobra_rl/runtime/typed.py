"""Frozen dataclasses to JSON (`bounds.from_json` is the way back), and what differs between two settings."""

import dataclasses
import json
from collections.abc import Iterator
from typing import Any


def to_json(value: Any) -> Any:
    """Return a dataclass, or anything that holds some, as plain JSON data: tuples become lists."""
    return json.loads(json.dumps(value, default=dataclasses.asdict))


def differences(old: Any, new: Any, defaults: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (name, old, new) of all settings that differ; an entry that one side lacks counts as its default."""
    if isinstance(new, dict) and isinstance(old, dict):
        known = defaults if isinstance(defaults, dict) else {}
        for name in dict.fromkeys((*new, *old)):
            fallback = known.get(name)
            sides = (old.get(name, fallback), new.get(name, fallback), fallback)
            yield from differences(*sides, f"{path}.{name}" if path else name)
    elif old != new:
        yield path, old, new
