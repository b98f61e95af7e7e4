"""What commands share: names of the suite as choices, presets whose every leaf is an option, checks of numbers."""

import dataclasses
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import tyro
from tyro.extras import literal_type_from_choices

from cobra_rl.spriteworld.names import MODES, REWARDED, TASKS, VARIANTS

if TYPE_CHECKING:
    Mode = Variant = Task = TaskOrAll = World = WorldOrAll = Preset = str
else:
    Mode = literal_type_from_choices(MODES)
    Variant = literal_type_from_choices(VARIANTS)
    Task = literal_type_from_choices(REWARDED)
    TaskOrAll = literal_type_from_choices((*REWARDED, "all"))
    World = literal_type_from_choices(TASKS)
    WorldOrAll = literal_type_from_choices((*TASKS, "all"))
    Preset = literal_type_from_choices(("debug", "laptop", "paper"))


class Configured:
    """A command with a configuration: `--preset` chooses it, and each leaf is an option of its own."""

    presets: ClassVar[str]  # names the table of presets in config.py


def parse_command(kind: type, name: str, words: list[str]) -> Any:
    """Parse a command's options.

    Args:
        kind: The command's dataclass.
        name: What is typed before the options.
        words: The options.

    Returns:
        An instance. A mistake ends the process with code 2, having said what is wrong.
    """
    default = None
    if issubclass(kind, Configured) and dataclasses.is_dataclass(kind):
        from cobra_rl import config

        required = {
            field.name: tyro.MISSING
            for field in dataclasses.fields(kind)
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        }
        table: Mapping[str, Any] = getattr(config, kind.presets)
        preset = _preset(words)
        preset = preset if preset in table else "laptop"  # what is no preset is refused below
        default = kind(**required | {"preset": preset, "config": table[preset]})
    return tyro.cli(kind, prog=name, args=words, default=default, config=(tyro.conf.OmitSubcommandPrefixes,))


def _preset(words: list[str]) -> str:
    """Find the preset among the options, before they are parsed: it decides what the others' defaults are."""
    for number, word in enumerate(words):
        if word == "--preset":
            return " ".join(words[number + 1 : number + 2])
        if word.startswith("--preset="):
            return word.partition("=")[2]
    return "laptop"


def check_range(name: str, value: int | float | None, low: int | float, high: int | float | None = None) -> None:
    """Refuse a number that is out of range, in one sentence; None is not given and passes."""
    if value is None:
        return
    if high is None and value < low:
        raise ValueError(f"--{name} is {value}; it must be at least {low:,}.")
    if high is not None and not low <= value <= high:
        raise ValueError(f"--{name} is {value}; it must lie between {low:,} and {high:,}.")


def check_folder(name: str, path: Path | None) -> None:
    """Refuse a folder to read from that is not there, before any work is done."""
    if path is not None and not path.is_dir():
        raise ValueError(f"--{name} is {path}, which is no folder.")


def check_file(name: str, path: Path | None, suffix: str = "") -> None:
    """Refuse an output file that cannot be written, before any work is done."""
    if path is None:
        return
    if path.is_dir():
        raise ValueError(f"--{name} is {path}, a folder; it must be the name of a file.")
    if suffix and path.suffix.lower() != suffix:
        raise ValueError(f"--{name} is {path}; its name must end in {suffix}.")


def absolute_env(name: str | None) -> str | None:
    """Return the name of an environment as it can be loaded from any folder: a file's path becomes absolute."""
    where, colon, attribute = (name or "").rpartition(":")
    return f"{Path(where).resolve()}:{attribute}" if colon and where.endswith(".py") else name


def command_line() -> str:
    """Return what was typed, for the records of results."""
    return shlex.join(["cobra", *sys.argv[1:]])
