"""What the commands share: types of options, such as the tasks of the suite, and the parser with presets."""

import argparse
import dataclasses
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args, get_origin

import tyro
from tyro.extras import literal_type_from_choices

from cobra_rl.bounds import Bounds, LeftOut, Output, T, check
from cobra_rl.parts import REGISTRY, PartConfig, config_of, load_part
from cobra_rl.spriteworld.names import MODES, REWARDED, TASKS, VARIANTS

if TYPE_CHECKING:
    from cobra_rl.collect.ray_actors import RayActors

    Mode = Variant = Task = TaskOrAll = WorldOrAll = str
else:
    Mode = literal_type_from_choices(MODES)
    Variant = literal_type_from_choices(VARIANTS)
    Task = literal_type_from_choices(REWARDED)
    TaskOrAll = literal_type_from_choices((*REWARDED, "all"))
    WorldOrAll = literal_type_from_choices((*TASKS, "all"))


# An option that may be left out: help says what that means, and shows neither None nor a default.
Maybe = Annotated[T | None, LeftOut, tyro.conf.DisallowNone, tyro.conf.arg(help_behavior_hint="")]
# A world by name or by folder. A folder is text, too: of a path, "./structured" and "structured" are the same.
WorldOption = Annotated[
    str | None,
    tyro.conf.DisallowNone,
    tyro.conf.arg(
        metavar="NAME|FOLDER",
        help_behavior_hint="",
        help="World model: a name that `cobra worlds` lists, or a folder that `cobra train explore` wrote. A name wins "
        "over a folder of that name; ./NAME is the folder. Default: the world that `cobra worlds` marks.",
    ),
]
Preset = Literal["debug", "laptop", "learnt", "paper"]
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
        first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)  # other options' defaults depend on these
        first.add_argument("--preset", nargs="?")
        first.add_argument("--agent", nargs="?")
        given = first.parse_known_args(words)[0]
        chosen = {}
        if "agent" in {field.name for field in dataclasses.fields(kind)}:
            chosen = {"agent": given.agent or "cobra"}
            presets = _presets_of(chosen["agent"])
        preset = given.preset if given.preset in presets else "laptop"  # what is no preset is refused below
        config, words = choose_parts(presets[preset], words)
        default = kind(config=config, preset=preset, **chosen)
    command = tyro.cli(
        kind,
        prog=name,
        description=None if default is None else _described(kind, default.config),
        args=words,
        default=default,
        config=(tyro.conf.OmitSubcommandPrefixes,),
        registry=_TYPES,
    )
    check(command, lambda field: f"--{field.replace('_', '-')}")  # before any work is done
    return command


_TYPES = tyro.constructors.ConstructorRegistry()


@_TYPES.primitive_rule
def _one_of(kind: tyro.constructors.PrimitiveTypeInfo) -> tyro.constructors.PrimitiveConstructorSpec | None:
    """Read a `Maybe` of some words; tyro's own rule for it offers them in a random order, and None among them."""
    options = [option for option in get_args(kind.type) if option is not type(None)]
    if tyro.conf.DisallowNone not in kind.markers or [get_origin(option) for option in options] != [Literal]:
        return None
    words = get_args(options[0])
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar=f"{{{','.join(words)}}}",
        instance_from_str=lambda given: given[0],
        is_instance=lambda value: value is None or value in words,
        str_from_instance=lambda value: [str(value)],
        choices=words,
    )


def choose_parts(config: T, words: list[str]) -> tuple[T, list[str]]:
    """Apply the options that choose a class, such as `--config.reward relation`, and take them out of a command line.

    They come first, since the other options are the fields of the classes that are chosen.
    """
    rest = list(words)
    for name, part in _parts_of(config).items():
        option = f"--config.{name.replace('_', '-')}"
        while (at := next((i for i, word in enumerate(rest) if word.partition("=")[0] == option), None)) is not None:
            _, equals, chosen = rest.pop(at).partition("=")
            if not equals:
                if at == len(rest) or rest[at].startswith("--"):
                    raise ValueError(
                        f"{option} needs a name: one of {', '.join(REGISTRY[part.kind])}, or your own as FILE.py:CLASS."
                    )
                chosen = rest.pop(at)
            part = carried_over(part, config_of(load_part(part.kind, chosen)))
        config = dataclasses.replace(cast(Any, config), **{name: part})
    return config, rest


def _parts_of(config: Any) -> dict[str, PartConfig]:
    """Return the configurations of parts that a configuration has, by field."""
    entries = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    return {name: part for name, part in entries.items() if isinstance(part, PartConfig)}


def _presets_of(agent: str) -> Mapping[str, PartConfig]:
    """Return the presets of an agent; one of the user's own has those of the agent whose configuration it extends."""
    from cobra_rl.config import AGENTS  # here, for it imports JAX

    if agent in AGENTS:
        return AGENTS[agent]
    chosen = config_of(load_part("agent", agent))
    known = next((presets for presets in AGENTS.values() if issubclass(chosen, type(presets["laptop"]))), None)
    if known is None:
        return dict.fromkeys(get_args(Preset), chosen())
    return {name: carried_over(config, chosen) for name, config in known.items()}


def carried_over(config: PartConfig, chosen: type) -> Any:
    """Return a configuration of the chosen class: with all values of `config` if it extends that, else its defaults."""
    if not issubclass(chosen, type(config)):
        return chosen()
    return chosen(**{field.name: getattr(config, field.name) for field in dataclasses.fields(config)})


def _described(kind: type, config: Any) -> str:
    """Describe a command, and say which parts of its configuration can be chosen by name."""
    options = [
        f"--config.{name.replace('_', '-')} {'|'.join(REGISTRY[part.kind])}|FILE.py:CLASS"
        for name, part in _parts_of(config).items()
    ]
    words = f" Parts are chosen by name, and have options of their own: {'; '.join(options)}." if options else ""
    return f"{(kind.__doc__ or '').strip()}{words}"


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
        raise ValueError(
            f"{option} and {path}.{name.replace('_', '-')} ({given}) contradict each other; leave one of them out."
        )
    return dataclasses.replace(cast(Any, config), **{name: value})


def check_ray_options(runtime: str, **options: int | str | None) -> None:
    """Raise a ValueError if an option that only Ray uses is given without --runtime ray."""
    for name, value in options.items():
        if value is not None and runtime != "ray":
            raise ValueError(f"--{name} is {value}, but only Ray uses it; add --runtime ray, or leave --{name} out.")


def ray_actors(begin: Callable, play: Callable, parts: Any, seed: int, count: int, address: str | None) -> "RayActors":
    """Start actors as Ray processes; an ImportError says so if Ray is not installed."""
    from cobra_rl.collect.ray_actors import RayActors

    return RayActors(begin, play, parts, count, seed, address)
