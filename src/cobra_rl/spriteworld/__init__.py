"""Spriteworld in pure JAX, COBRA's environment suite. Names are loaded at their first use: importing it is quick."""

# ruff: noqa: F401
import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cobra_rl.spriteworld.base import Environment, Image, TimeStep, auto_reset
    from cobra_rl.spriteworld.env import EnvState, Spriteworld, coverage, make, render, segment, state_from_sprites
    from cobra_rl.spriteworld.names import MODES, REWARDED, SUITE, TASKS, VARIANTS, TaskInfo
    from cobra_rl.spriteworld.registration import gym_id
    from cobra_rl.spriteworld.scenes import SpriteDistribution
    from cobra_rl.spriteworld.sprites import FACTORS, SHAPES, Sprites
    from cobra_rl.spriteworld.suite import EnvSpec, env_spec, hue_range
    from cobra_rl.spriteworld.tasks import Clustering, FarApart, FindGoal, NoReward, Sum

# No submodule may share its name with an export: importing it would put the module in the export's place.
_NAMES_OF_MODULE = {
    "base": "Environment Image TimeStep auto_reset",
    "env": "EnvState Spriteworld coverage make render segment state_from_sprites",
    "names": "MODES REWARDED SUITE TASKS VARIANTS TaskInfo",
    "registration": "gym_id",
    "scenes": "SpriteDistribution",
    "sprites": "FACTORS SHAPES Sprites",
    "suite": "EnvSpec env_spec hue_range",
    "tasks": "Clustering FarApart FindGoal NoReward Sum",
}
_INTERFACES = ("dm", "gym")  # modules that are reached as attributes
_MODULE_OF_NAME = {name: module for module, names in _NAMES_OF_MODULE.items() for name in names.split()}
__all__ = sorted(_MODULE_OF_NAME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str):
    if name in _INTERFACES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF_NAME[name]}"), name)
    globals()[name] = value  # the next use finds it here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
