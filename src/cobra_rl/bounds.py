"""Declares limits in type annotations and checks them whenever a dataclass is created.

    batch: Annotated[int, Bounds(1, 4096)] = 16

A `Checked` dataclass checks its fields when it is created. The command line, JSON files and Python code therefore get
the same error message: what was found, and what is allowed. This module imports nothing of the package.

Own code: with pydantic it would be a fifth shorter, but then messages name the one limit that was missed instead of
all that is allowed, and every command starts 0.08 s later; msgspec checks nothing that Python code creates.
"""

import functools
import json
import math
import os
import re
import reprlib
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

T = TypeVar("T")


@dataclass(frozen=True)
class Bounds:
    """Limits of a number, or of the number of entries of a list; both ends belong to them, unless `above` is set."""

    low: int | float = -math.inf
    high: int | float = math.inf
    above: bool = False  # the low end itself is not allowed

    def allows(self, value: Any) -> bool:
        """Tell whether a value lies within."""
        number = len(value) if isinstance(value, list | tuple) else value
        return (self.low < number if self.above else self.low <= number) and number <= self.high

    def __str__(self) -> str:
        if self.above:
            return f"above {self.low:,}" + (f" and at most {self.high:,}" if self.high < math.inf else "")
        return f"from {self.low:,} to {self.high:,}" if self.high < math.inf else f"of at least {self.low:,}"


@dataclass(frozen=True)
class Output:
    """A path that can be written to: a file whose name has this suffix, or any name if it is empty; or a folder."""

    suffix: str = ""
    folder: bool = False

    def allows(self, path: Path) -> bool:
        """Tell whether it can be written, without writing anything."""
        parent = next(place for place in (path, *path.absolute().parents) if place.exists())
        writable = os.access(parent, os.W_OK) and parent.is_dir() if parent != path else os.access(path, os.W_OK)
        return (
            writable
            and (not path.exists() or path.is_dir() == self.folder)
            and path.suffix.lower().endswith(self.suffix)
        )

    def __str__(self) -> str:
        name = f", its name ending in {self.suffix}," if self.suffix else ""
        return f"for a {'folder' if self.folder else 'file'}{name} in a place that can be written to"


@dataclass(frozen=True)
class Pattern:
    """The form of a text: a regular expression for all of it, and what a person calls such a text."""

    expression: str
    name: str

    def allows(self, text: str) -> bool:
        """Tell whether a text has this form."""
        return re.fullmatch(self.expression, text) is not None

    def __str__(self) -> str:
        return f"that is {self.name}"


class LeftOut:
    """Marks a type with None that nobody gives, since it means that an option was left out: no sentence offers it."""


Limit = Bounds | Output | Pattern
Count = Annotated[int, Bounds(1, 10**8)]
Often = Annotated[int, Bounds(0, 10**8)]  # steps between two of something; 0: never
Width = Annotated[int, Bounds(1, 8192)]  # units of a layer
Share = Annotated[float, Bounds(0.0, 1.0)]
NonNegative = Annotated[float, Bounds(0.0, 1e12)]
Positive = Annotated[float, Bounds(0.0, 1e12, above=True)]
Seed = Annotated[int, Bounds(0, 2**32 - 1)]
TrainingSeed = Annotated[int, Bounds(0, 2**32 - 3)]  # of a phase that takes the two numbers after it as well
Layers = Annotated[tuple[Width, ...], Bounds(0, 16)]
NonEmptyLayers = Annotated[tuple[Width, ...], Bounds(1, 16)]


class Checked:
    """A dataclass whose fields are checked when it is made; NumPy's numbers become Python's, lists become tuples."""

    older_names: ClassVar[Mapping[str, str]] = {}  # names that fields had in files of older versions: old -> new

    def __post_init__(self) -> None:
        check(self, lambda field: f"{field} of {type(self).__name__}")

    def __rich_repr__(self) -> Iterator[tuple[str, Any, Any]]:
        for field in fields(self):  # type: ignore[arg-type]
            yield field.name, getattr(self, field.name), field.default  # `rich.pretty` leaves defaults out


def check(made: Any, name: Callable[[str], str]) -> None:
    """Check all fields of a dataclass against their types; `name` is what a person calls a field."""
    for field, hint in _hints(type(made)).items():
        object.__setattr__(made, field, conform(hint, getattr(made, field), name(field)))


def conform(hint: Any, value: Any, where: str) -> Any:
    """Return the value as the type asks; if it does not fit, a ValueError says what was found and what is allowed.

    Args:
        hint: A type, `Annotated` with limits or not; or, for an object with exactly some entries, their types by name.
        value: The value.
        where: How a person calls its place.

    Returns:
        The value: numbers as Python's, dataclasses for mappings, tuples for lists if the type says so.
    """
    try:
        return _conform(hint, value, where)
    except _Unfit:
        raise ValueError(f"{where} is {shown(value)}; it must be {describe(hint)}.") from None


def from_json(kind: type[T], data: Any, where: str) -> T:
    """Load a dataclass from JSON data; missing entries take their defaults, and what does not fit is a ValueError.

    Args:
        kind: A dataclass. If it has a method `resolve`, that says which of its subclasses is loaded; if it has a method
            `upgrade`, that turns entries of older versions into those of now.
        data: What a JSON file holds.
        where: How a person calls that file, or the place in it.

    Returns:
        An instance of `kind`.
    """
    where = where.removesuffix(",")
    if not isinstance(data, Mapping):
        raise ValueError(f"{where} must hold the entries of a {kind.__name__}, but it is {shown(data)}.")
    if resolve := getattr(kind, "resolve", None):  # which of its subclasses is meant
        kind, data = resolve(data, where)
    data = renamed(kind, data)
    if upgrade := getattr(kind, "upgrade", None):  # entries of older versions
        data = upgrade(data)
    hints = _hints(kind)
    if unknown := sorted(map(str, data.keys() - set(hints))):
        raise ValueError(
            f"{where} is of another version: it has {', '.join(unknown)}, and a {kind.__name__} must have only "
            f"{', '.join(hints)}."
        )
    needed = {field.name for field in fields(kind) if field.default is field.default_factory is MISSING}  # type: ignore[arg-type]
    if missing := sorted(needed - data.keys()):
        raise ValueError(f"{where} lacks {', '.join(missing)}, which a {kind.__name__} must have.")
    entries = {name: conform(hints[name], data[name], f"{where}, {name},") for name in hints if name in data}
    try:
        return kind(**entries)
    except ValueError as error:  # entries that do not fit one another
        raise ValueError(f"{where}: {error}") from error


def renamed(kind: type, data: Mapping[str, Any]) -> dict[str, Any]:
    """Give entries of older versions the names that the fields of a dataclass have now: see `Checked.older_names`."""
    names = getattr(kind, "older_names", {})
    return {names.get(name, name): value for name, value in data.items()}


def to_json(value: Any) -> Any:
    """Return a dataclass, or anything that holds some, as plain JSON data: tuples become lists."""
    return json.loads(json.dumps(value, default=_entries))


def _entries(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass, and what else it wants to be known by, such as the name of its class."""
    if hasattr(value, "to_json"):
        return value.to_json()
    return {field.name: getattr(value, field.name) for field in fields(value)}


def describe(hint: Any) -> str:
    """Say in words what a type allows: "a whole number from 1 to 64"."""
    if isinstance(hint, Mapping):
        return f"an object with the entries {', '.join(hint) or '(none)'}"
    origin = get_origin(hint)
    arguments = get_args(hint)
    if origin is Annotated:
        limits = " ".join(str(limit) for limit in hint.__metadata__ if isinstance(limit, Limit))
        words = describe(arguments[0])
        if LeftOut in hint.__metadata__:
            words = " or ".join(describe(choice) for choice in get_args(arguments[0]) if choice is not type(None))
        if not limits:
            return words
        return words.replace("a list", f"a list of length {limits}", 1) if "a list" in words else f"{words} {limits}"
    if origin is Literal:
        return f"one of {', '.join(map(str, arguments))}"
    if origin in (Union, types.UnionType):
        return " or ".join(describe(choice) for choice in arguments)
    if origin in (list, tuple):
        if origin is list or arguments[1:] == (...,):
            return f"a list, each entry {describe(arguments[0])}"
        return f"a list ({', '.join(describe(kind) for kind in arguments)})"
    if origin is dict:
        return f"a mapping of names to {describe(arguments[1])}"
    names = {int: "a whole number", float: "a finite number", bool: "true or false", str: "text", Path: "a path"}
    return names.get(hint) or ("none" if hint is type(None) else f"of type {getattr(hint, '__name__', hint)}")


def shown(value: Any) -> str:
    """Write a value for a sentence: in one line, and not too long."""
    if isinstance(value, Path):
        return str(value)
    try:
        return " ".join(_REPR.repr(value).split())
    except Exception:  # whatever the `repr` of a stranger's object does
        return f"a {type(value).__name__}"


class _Unfit(Exception):
    """The value is not of the type."""


def _conform(hint: Any, value: Any, where: str) -> Any:
    origin = get_origin(hint)
    arguments = get_args(hint)
    if hint is Any:
        return value
    if isinstance(hint, Mapping):
        if isinstance(value, Mapping) and value.keys() == hint.keys():
            where = where.removesuffix(",")
            return {name: conform(kind, value[name], f"{where}, {name},") for name, kind in hint.items()}
    elif origin is Annotated:
        value = _conform(arguments[0], value, where)
        if value is None or all(m.allows(value) for m in hint.__metadata__ if isinstance(m, Limit)):
            return value
    elif origin is Literal:
        if isinstance(value, str | int | bool) and value in arguments:
            return value
    elif origin in (Union, types.UnionType):
        for choice in arguments:
            with suppress(_Unfit):
                return _conform(choice, value, where)
    elif origin in (list, tuple) and isinstance(value, list | tuple):
        kinds = arguments[:1] * len(value) if origin is list or arguments[1:] == (...,) else arguments
        if len(kinds) == len(value):
            return origin(_conform(kind, item, where) for kind, item in zip(kinds, value, strict=True))
    elif origin is dict and isinstance(value, Mapping):
        return {_conform(arguments[0], key, where): _conform(arguments[1], item, where) for key, item in value.items()}
    elif isinstance(hint, type) and is_dataclass(hint) and isinstance(value, Mapping):
        return from_json(hint, value, where)
    elif origin is None:
        return _plain(hint, value)
    raise _Unfit


def _plain(hint: type, value: Any) -> Any:
    if hint in (int, float, bool):
        value = _python_number(value)
    if isinstance(value, bool) and hint is not bool:
        raise _Unfit
    if hint is float and isinstance(value, int | float) and abs(value) <= 1e300:  # no NaN, nor too large for a float
        return float(value)
    if hint is float or not isinstance(value, hint):
        raise _Unfit
    return value


def _python_number(value: Any) -> Any:
    """Return a scalar of NumPy, or an array of NumPy or JAX without axes, as a Python number; all else as it is."""
    if isinstance(value, np.generic) or getattr(value, "shape", None) == ():
        with suppress(Exception):  # such as a value that JAX only traces
            return value.item()
    return value


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in fields(kind)}  # type: ignore[arg-type]


_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 80
