"""What the commands share: types of options, such as the tasks of the suite, and the parser with presets."""

import argparse
import dataclasses
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

import tyro
from tyro.extras import literal_type_from_choices

from cobra_rl.bounds import Bounds, Output, check
from cobra_rl.spriteworld.names import MODES, REWARDED, TASKS, VARIANTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cobra_rl.phases.solving import Solving
    from cobra_rl.runtime.actors import Begin, Play
    from cobra_rl.runtime.ray_actors import RayActors

    Mode = Variant = Task = TaskOrAll = WorldOrAll = str
else:
    Mode = literal_type_from_choices(MODES)
    Variant = literal_type_from_choices(VARIANTS)
    Task = literal_type_from_choices(REWARDED)
    TaskOrAll = literal_type_from_choices((*REWARDED, "all"))
    WorldOrAll = literal_type_from_choices((*TASKS, "all"))

T = TypeVar("T")
NEEDS_RAY = "--runtime ray needs Ray; install it with pip install 'cobra-rl[ray]'."
# An option that may be left out: help says what that means, and shows neither None nor a default.
Maybe = Annotated[T | None, tyro.conf.DisallowNone, tyro.conf.arg(help_behavior_hint="")]
Preset = Literal["debug", "laptop", "paper"]
OutFolder = Annotated[Path, Output(folder=True)]
OutJson = Annotated[Path, Output(".json")]
Film = Annotated[Path, Output(".gif")]
Steps = Annotated[int, Bounds(1, 10**9)]  # rewarded steps
Seeds = Annotated[int, Bounds(1, 10_000)]  # number of random seeds
Episodes = Annotated[int, Bounds(1, 10**6)]
Runtime = Literal["local", "ray"]
Workers = Annotated[int, Bounds(1, 1000)]  # Ray processes on this machine
ActorCount = Annotated[int, Bounds(1, 10_000)]  # Ray actors, anywhere
Frames = Annotated[int, Bounds(1, 2000)]  # frames of a film


def parse_command(kind: type, name: str, words: list[str]) -> Any:
    """Parse options into a command, a dataclass; if it has `presets`, every field of its configuration is an option."""
    default = None
    if presets := getattr(kind, "presets", None):
        first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)  # other options' defaults depend on it
        first.add_argument("--preset", nargs="?")
        preset = first.parse_known_args(words)[0].preset
        preset = preset if preset in presets else "laptop"  # what is no preset is refused below
        default = kind(config=presets[preset], preset=preset)
    command = tyro.cli(kind, prog=name, args=words, default=default, config=(tyro.conf.OmitSubcommandPrefixes,))
    check(command, lambda field: f"--{field.replace('_', '-')}")  # before any work is done
    return command


def absolute_env(name: str | None) -> str | None:
    """Make the path of an environment's file absolute, so that it can be loaded from any working directory."""
    where, colon, attribute = (name or "").rpartition(":")
    return f"{Path(where).resolve()}:{attribute}" if colon and where.endswith(".py") else name


def command_line() -> str:
    """Return the command line as it was typed, to be recorded with results."""
    return shlex.join(["cobra", *sys.argv[1:]])


def shortcut(config: T, preset: T, name: str, value: Any, option: str, path: str = "--config") -> T:
    """Apply an option that stands for a field of a configuration.

    Args:
        config: The configuration, with the fields that were set on the command line.
        preset: The same configuration as the preset has it.
        name: The field.
        value: What the option gives it; None: the option was left out.
        option: The option, such as "--steps", for an error.
        path: The option of the configuration itself, such as "--config.exploration", for an error.

    Returns:
        The configuration with that field.

    Raises:
        ValueError: If the field itself was set to something else.
    """
    if value is None:
        return config
    if (given := getattr(config, name)) not in (value, getattr(preset, name)):
        field = f"{path}.{name.replace('_', '-')}"
        raise ValueError(f"{option} and {field} ({given}) contradict each other; leave one of them out.")
    return dataclasses.replace(cast(Any, config), **{name: value})


def check_ray_options(runtime: str, **options: int | str | None) -> None:
    """Raise a ValueError if an option that only Ray uses is given without --runtime ray."""
    for name, value in options.items():
        if value is not None and runtime != "ray":
            raise ValueError(f"--{name} is {value}, but only Ray uses it; add --runtime ray, or leave --{name} out.")


def ray_actors(begin: "Begin", play: "Play", parts: Any, seed: int, count: int, address: str | None) -> "RayActors":
    """Start actors as Ray processes; a ValueError says so if Ray is not installed."""
    try:
        from cobra_rl.runtime.ray_actors import RayActors
    except ImportError as error:
        raise ValueError(NEEDS_RAY) from error
    return RayActors(begin, play, parts, count, seed, address)


def learn_with_ray(solvings: "Sequence[Solving]", workers: int | None, address: str | None) -> None:
    """Learn all seeds of tasks in Ray processes, by default two; a ValueError says so if Ray is not installed."""
    from cobra_rl.phases.solving import learn_elsewhere

    try:
        learn_elsewhere(solvings, workers or 2, address)
    except ImportError as error:
        raise ValueError(NEEDS_RAY) from error
