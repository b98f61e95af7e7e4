"""A spec as a Python file, for people to read and to go on from; `data.py` is how a run keeps it."""

import re

from rich.pretty import pretty_repr

from cobra_rl.spriteworld import __all__ as EXPORTS
from cobra_rl.spriteworld.suite import EnvSpec


def python_source(train: EnvSpec, test: EnvSpec | None = None) -> str:
    """Write a spec as a Python file that defines it as `task`; fields with their defaults are left out.

    If `test` is another spec, `task` is a function of the mode. All must be `is_data`.
    """
    body = f"task = {_written(train)}\n"
    if test not in (None, train):
        modes = "".join(f'    "{mode}": {_written(spec)},\n' for mode, spec in (("train", train), ("test", test)))
        body = f"SPECS = {{\n{modes}}}\n\n\ndef task(mode):\n    return SPECS[mode]\n"
    names = sorted(set(re.findall(r"[A-Z]\w+(?=\()", body)) & set(EXPORTS))
    return f"from cobra_rl.spriteworld import {', '.join(names)}\n\n{body}"


def _written(spec: EnvSpec | None) -> str:
    return pretty_repr(spec, max_width=100)
