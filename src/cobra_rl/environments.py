"""Environments by name: those of the suite, or a user's own as `module:name` or `path/to/file.py:name`.

The name may refer to an `EnvSpec`, an `Environment`, or a function of the mode ("train", "test") that returns one.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from cobra_rl.bounds import Checked
from cobra_rl.parts import load_object, short_name
from cobra_rl.spriteworld import MODES, TASKS, Environment, EnvSpec, Spriteworld, TimeStep, make
from cobra_rl.spriteworld.data import is_data, spec_from_json, spec_to_json


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
    where, _, attribute = name.rpartition(":")
    if not where or not attribute:
        raise ValueError(f"--env is {name!r}; it must be module:name or path/to/file.py:name.")
    return as_environment(load_object(name, f"--env is {name!r}"), mode, name)


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


def as_environments(env: Any) -> dict[str, Environment]:
    """Convert what a user gives to environments by mode, "train" and "test".

    Args:
        env: As `as_environment` takes it, or a mapping of "train" and "test" to any of these; "test", by default the
            same as "train", is only scored.

    Raises:
        ValueError: If it is nothing of these.
    """
    if isinstance(env, Mapping) and "train" not in env:
        raise ValueError(f"env has the modes {list(env)}; it must have train, and may have test.")
    modes = env if isinstance(env, Mapping) else {mode: env for mode in MODES}
    return {mode: as_environment(modes.get(mode, modes["train"]), mode) for mode in MODES}


@dataclass(unsafe_hash=True)
class SparseReward:
    """An environment whose reward is 1 on success and 0 before."""

    env: Environment

    def __post_init__(self) -> None:
        self.initial = self.env.initial
        self.draw = self.env.draw
        self.action_size = self.env.action_size
        self.image_size = self.env.image_size
        self.max_steps = self.env.max_steps

    def advance(self, key, state, action) -> TimeStep:
        """Take a step; only success is rewarded."""
        step = self.env.advance(key, state, action)
        return step._replace(reward=step.terminated.astype("float32"))


@dataclass(frozen=True)
class Problem(Checked):
    """A learning problem: the task, its rules and rewards, and whether the exploration policy is used."""

    task: str  # a task of the suite, or the name of a user's environment
    variant: str = "paper"
    sparse: bool = False  # reward 1 on success, 0 before
    exploration_policy: bool = True  # otherwise the planner proposes uniformly random actions
    env: str | None = None  # module:name or file.py:name of a user's environment
    specs: dict[str, Any] | None = None  # the same as data, by mode, if it is made of Spriteworld's own parts

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.specs is not None and set(self.specs) != set(MODES):
            raise ValueError(f"specs of Problem is for {', '.join(self.specs)}; it must be for {' and '.join(MODES)}.")
        self._env_specs()  # refuses what is none

    def name(self, value: bool = False, agent: str = "cobra") -> str:
        """Return the name of its run folder; `value`: values are learnt; `agent`: left out if COBRA."""
        options = {
            short_name(agent): agent != "cobra",
            "released": self.variant == "released",
            "sparse": self.sparse,
            "value" if value else "reward": value != self.sparse,
            "uniform": not self.exploration_policy,
        }
        task = re.sub(r"[^\w .+-]|^\.+", "-", self.task)  # no path: somebody else may have written it
        return "-".join([task, *(name for name, chosen in options.items() if chosen)])

    def environments(self) -> dict[str, Environment]:
        """Return the environments by mode: "train" to learn in, "test" for the robustness test.

        Those of `env` are imported, which runs code: where a run names them, `runs.settings.trusted` asks first.
        """
        if self.specs is not None:
            return {mode: Spriteworld(spec) for mode, spec in self._env_specs().items()}
        if self.env is not None:
            envs = {mode: load_environment(self.env, mode) for mode in MODES}
            sizes = {mode: (env.image_size, env.action_size) for mode, env in envs.items()}
            if len(set(sizes.values())) > 1:
                raise ValueError(
                    "Both modes must have pictures and actions of the same size; they have: "
                    f"{', '.join(f'{mode} {image} and {action}' for mode, (image, action) in sizes.items())}."
                )
            return envs
        if self.task not in TASKS:
            raise ValueError(
                f"{self.task!r} is no task of the suite, and where its environment is defined is not known; "
                "give your own as module:name or file.py:name, by `--env` of `cobra solve` or `cobra baseline`."
            )
        return {mode: make(self.task, mode, self.variant) for mode in MODES}

    def with_data(self, envs: Mapping[str, Environment]) -> "Problem":
        """Record environments of a user as data, if they are made of Spriteworld's own parts."""
        specs = {mode: env.spec for mode, env in envs.items() if isinstance(env, Spriteworld) and is_data(env.spec)}
        if set(specs) != set(MODES):
            return self
        return replace(self, specs={mode: spec_to_json(specs[mode]) for mode in MODES})

    def _env_specs(self) -> dict[str, EnvSpec]:
        """Read `specs`, if there are any."""
        return {mode: spec_from_json(self.specs[mode], f"specs of Problem, {mode},") for mode in MODES if self.specs}


def fewer_sprites(env: Environment, most: int) -> Environment:
    """Limit the number of sprites of a Spriteworld, for a curriculum; return any other environment unchanged."""
    if not isinstance(env, Spriteworld):
        return env
    scenes = tuple(scene for scene in env.spec.scenes if len(scene) <= most)
    return Spriteworld(replace(env.spec, scenes=scenes)) if scenes else env
