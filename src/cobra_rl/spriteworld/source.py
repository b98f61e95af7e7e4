"""A spec as a Python file, so that an environment that was made in Python is found again as `file.py:task`."""

import dataclasses
import re
from typing import Any

from rich.pretty import pretty_repr

from cobra_rl.spriteworld import __all__ as EXPORTS
from cobra_rl.spriteworld.suite import EnvSpec


def python_source(train: EnvSpec, test: EnvSpec | None = None) -> str:
    """Write a spec as a Python file that defines it as `task`; fields with their defaults are left out.

    If `test` is another spec, `task` is a function of the mode. All must be `is_writable`.
    """
    body = f"task = {_written(train)}\n"
    if test not in (None, train):
        modes = "".join(f'    "{mode}": {_written(spec)},\n' for mode, spec in (("train", train), ("test", test)))
        body = f"SPECS = {{\n{modes}}}\n\n\ndef task(mode):\n    return SPECS[mode]\n"
    names = sorted(set(re.findall(r"[A-Z]\w+(?=\()", body)) & set(EXPORTS))
    return f"from cobra_rl.spriteworld import {', '.join(names)}\n\n{body}"


def _written(spec: EnvSpec | None) -> str:
    return pretty_repr(spec, max_width=100)


def is_writable(value: Any) -> bool:
    """Return whether a spec can be written: all its parts are Spriteworld's own, and none is, say, a user's task."""
    if isinstance(value, tuple):
        return all(map(is_writable, value))
    if dataclasses.is_dataclass(value) and type(value).__module__.startswith(f"{__package__}."):
        return all(is_writable(getattr(value, field.name)) for field in dataclasses.fields(value))
    return isinstance(value, str | int | float | None)
