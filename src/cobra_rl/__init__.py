"""cobra-rl: COBRA in JAX. Importing it registers Spriteworld with Gymnasium; names are loaded at their first use."""

import importlib
from typing import TYPE_CHECKING

from cobra_rl.spriteworld.registration import register as _register
from cobra_rl.xla import compute_right_numbers as _compute_right_numbers

if TYPE_CHECKING:
    from cobra_rl import spriteworld
    from cobra_rl.reporting.figures.tasks import report_run
    from cobra_rl.runs.agent import Agent
    from cobra_rl.runs.worlds import load_world

__version__ = "0.2.0"
__all__ = ["Agent", "__version__", "load_world", "report_run", "spriteworld"]

_MODULES = {
    "Agent": "cobra_rl.runs.agent",
    "load_world": "cobra_rl.runs.worlds",
    "report_run": "cobra_rl.reporting.figures.tasks",
}


def __getattr__(name: str):
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


_compute_right_numbers()
_register()
