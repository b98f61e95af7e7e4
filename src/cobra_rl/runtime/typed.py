"""Frozen dataclasses from and to JSON: typed loading with sentences, and what differs between two settings."""

import dataclasses
import json
import types
import typing
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Literal, TypeVar, Union

T = TypeVar("T")


def to_json(value: Any) -> Any:
    """Return a dataclass, or anything that holds some, as plain JSON data: tuples become lists."""
    return json.loads(json.dumps(value, default=dataclasses.asdict))


def from_json(kind: type[T], data: Any, where: str) -> T:
    """Load a dataclass from JSON data; missing entries take their defaults, and what does not fit is a ValueError."""
    if not isinstance(data, dict):
        raise ValueError(f"{where} must hold the entries of a {kind.__name__}, but it is {data!r}.")
    hints = typing.get_type_hints(kind)
    fields = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    if unknown := sorted(data.keys() - set(fields)):
        raise ValueError(f"{where} is of another version: this code knows no {', '.join(unknown)} there.")
    return kind(**{name: _convert(hints[name], data[name], f"{where}, {name},") for name in fields if name in data})


def _convert(hint: Any, value: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        if value in arguments:
            return value
    elif origin in (Union, types.UnionType):
        for choice in arguments:
            with suppress(ValueError):
                return _convert(choice, value, where)
    elif origin is tuple and isinstance(value, list | tuple):
        kinds = arguments[:1] * len(value) if arguments[1:] == (...,) else arguments
        if len(kinds) == len(value):
            return tuple(_convert(kind, item, where) for kind, item in zip(kinds, value, strict=True))
    elif dataclasses.is_dataclass(hint):
        return from_json(typing.cast(type, hint), value, where)
    elif hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    elif isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        return value
    raise ValueError(f"{where} is {value!r}; it must be of type {getattr(hint, '__name__', hint)}.")


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
