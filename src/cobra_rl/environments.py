"""Finds environments by name: those of the suite, or a user's own by `module:name` or `path/to/file.py:name`.

The name may refer to an `EnvSpec`, an `Environment`, or a function of the mode ("train", "test") that returns one.
"""

import dataclasses
import importlib
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp

from cobra_rl.bounds import Checked
from cobra_rl.spriteworld.base import Environment, TimeStep
from cobra_rl.spriteworld.env import Spriteworld, make
from cobra_rl.spriteworld.names import MODES, TASKS
from cobra_rl.spriteworld.suite import EnvSpec


def load_environment(name: str, mode: str = "train") -> Environment:
    """Load a user's environment.

    Args:
        name: Where it is defined: `module:name` or `path/to/file.py:name`.
        mode: The mode, "train" or "test", for environments that are given as a function of it.

    Returns:
        The environment.

    Raises:
        ValueError: If nothing is found there, its code fails, or it is no environment.
    """
    where, colon, attribute = name.rpartition(":")
    if not colon or not where or not attribute:
        raise ValueError(f"--env is {name!r}; it must be module:name or path/to/file.py:name.")
    try:
        found = getattr(_module(where), attribute)
    except (ImportError, OSError, AttributeError, SyntaxError) as error:
        raise ValueError(f"--env is {name!r}, but nothing is found there: {error}.") from error
    except Exception as error:  # whatever a user's file does; --debug shows where
        raise ValueError(f"--env is {name!r}, but its code fails: {type(error).__name__}: {error}.") from error
    return as_environment(found, mode, name)


def as_environment(found: Any, mode: str = "train", name: str = "the environment") -> Environment:
    """Convert what a user gives to an environment.

    Args:
        found: An EnvSpec, an Environment, or a function of the mode that returns one of these.
        mode: The mode, "train" or "test".
        name: What to call it in an error.

    Returns:
        The environment.

    Raises:
        ValueError: If it is nothing of these.
    """
    if isinstance(found, EnvSpec):
        return Spriteworld(found)
    if isinstance(found, Environment):
        return found
    if callable(found) and not isinstance(found, type):
        return as_environment(found(mode), mode, name)
    raise ValueError(
        f"{name} is a {type(found).__name__}; it must be an EnvSpec, an object with initial, advance, draw, "
        "action_size, image_size and max_steps, or a function of the mode that returns one of these."
    )


def _module(where: str) -> Any:
    if not where.endswith(".py"):
        return importlib.import_module(where)
    path = Path(where).resolve()
    spec = importlib.util.spec_from_file_location(f"cobra_rl_env_{path.stem}", path)
    if spec is None or spec.loader is None or not path.exists():
        raise ImportError(f"there is no file {where}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class SparseReward:
    """An environment whose reward is 1 on success and 0 before."""

    def __init__(self, env: Environment):
        self.env, self.initial, self.draw = env, env.initial, env.draw
        self.action_size, self.image_size, self.max_steps = env.action_size, env.image_size, env.max_steps

    def advance(self, key, state, action) -> TimeStep:
        """Take a step; only success is rewarded."""
        step = self.env.advance(key, state, action)
        return step._replace(reward=step.terminated.astype(jnp.float32))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SparseReward) and self.env == other.env

    def __hash__(self) -> int:
        return hash((SparseReward, self.env))


@dataclass(frozen=True)
class Problem(Checked):
    """A learning problem: the task, its rules and rewards, and whether the exploration policy is used."""

    task: str  # a task of the suite, or the name of a user's environment
    variant: str = "paper"
    sparse: bool = False  # reward 1 on success, 0 before
    exploration_policy: bool = True  # otherwise the planner proposes uniformly random actions
    env: str | None = None  # module:name or file.py:name of a user's environment

    def name(self, value: bool = False, agent: str = "cobra") -> str:
        """Return the name of its run folder; `value`: values are learnt; `agent`: left out if COBRA."""
        options = {"released": self.variant == "released", "sparse": self.sparse}
        options |= {("reward", "value")[value]: value != self.sparse, "uniform": not self.exploration_policy}
        by = [] if agent == "cobra" else [agent]
        return "-".join([self.task, *by, *(name for name, chosen in options.items() if chosen)])

    def environments(self) -> dict[str, Environment]:
        """Return the environments by mode: "train" to learn in, "test" for the robustness test."""
        if self.env is not None:
            envs = {mode: load_environment(self.env, mode) for mode in MODES}
            sizes = {mode: (env.image_size, env.action_size) for mode, env in envs.items()}
            if len(set(sizes.values())) > 1:
                listed = ", ".join(f"{mode} {image} and {action}" for mode, (image, action) in sizes.items())
                raise ValueError(f"Both modes must have pictures and actions of the same size; they have: {listed}.")
            return envs
        if self.task not in TASKS:
            raise ValueError(
                f"{self.task!r} is no task of the suite, and where its environment is defined is not known; "
                "give your own as module:name or file.py:name, by `--env` of `cobra solve` or `cobra baseline`."
            )
        return {mode: make(self.task, mode, self.variant) for mode in MODES}


def fewer_sprites(env: Environment, most: int) -> Environment:
    """Limit the number of sprites of a Spriteworld, for a curriculum; return any other environment unchanged."""
    if not isinstance(env, Spriteworld):
        return env
    scenes = tuple(scene for scene in env.spec.scenes if len(scene) <= most)
    return Spriteworld(dataclasses.replace(env.spec, scenes=scenes)) if scenes else env
