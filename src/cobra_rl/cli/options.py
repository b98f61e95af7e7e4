"""What commands share: names of the suite as choices, presets whose every leaf is an option, checks of numbers."""

import argparse
import math
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro
from tyro.extras import literal_type_from_choices

from cobra_rl.spriteworld.names import MODES, REWARDED, TASKS, VARIANTS

if TYPE_CHECKING:
    Mode = Variant = Task = TaskOrAll = WorldOrAll = str
else:
    Mode = literal_type_from_choices(MODES)
    Variant = literal_type_from_choices(VARIANTS)
    Task = literal_type_from_choices(REWARDED)
    TaskOrAll = literal_type_from_choices((*REWARDED, "all"))
    WorldOrAll = literal_type_from_choices((*TASKS, "all"))

Preset = Literal["debug", "laptop", "paper"]


def parse_command(kind: type, name: str, words: list[str]) -> Any:
    """Make a command, a dataclass, from its options; with `presets`, each leaf of their configuration is an option."""
    default = None
    if presets := getattr(kind, "presets", None):
        first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)  # other options' defaults depend on it
        first.add_argument("--preset", nargs="?")
        preset = first.parse_known_args(words)[0].preset
        preset = preset if preset in presets else "laptop"  # what is no preset is refused below
        default = kind(config=presets[preset], preset=preset)
    return tyro.cli(kind, prog=name, args=words, default=default, config=(tyro.conf.OmitSubcommandPrefixes,))


def check_range(name: str, value: int | float | None, low: int | float, high: int | float = math.inf) -> None:
    """Refuse a number that is out of range, in one sentence; None is not given and passes."""
    if value is not None and not low <= value <= high:
        allowed = f"be at least {low:,}" if high == math.inf else f"lie between {low:,} and {high:,}"
        raise ValueError(f"--{name} is {value}; it must {allowed}.")


def check_file(name: str, path: Path | None, suffix: str = "") -> None:
    """Refuse an output file that cannot be written, before any work is done."""
    if path is not None and path.is_dir():
        raise ValueError(f"--{name} is {path}, a folder; it must be the name of a file.")
    if path is not None and suffix and path.suffix.lower() != suffix:
        raise ValueError(f"--{name} is {path}; its name must end in {suffix}.")


def absolute_env(name: str | None) -> str | None:
    """Return the name of an environment as it can be loaded from any folder: a file's path becomes absolute."""
    where, colon, attribute = (name or "").rpartition(":")
    return f"{Path(where).resolve()}:{attribute}" if colon and where.endswith(".py") else name


def command_line() -> str:
    """Return what was typed, for the records of results."""
    return shlex.join(["cobra", *sys.argv[1:]])
