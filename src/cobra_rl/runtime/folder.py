"""Run folders: locking, and recording and comparing settings."""

import dataclasses
import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cobra_rl.bounds import from_json
from cobra_rl.runtime import storage
from cobra_rl.runtime.typed import differences, to_json
from cobra_rl.runtime.words import warn

RECORD = "run.json"
LOCK = ".lock"


class OtherRun(ValueError):
    """The folder holds a run with other settings, or belongs to another process."""


@contextmanager
def open_run(
    folder: Path,
    settings: Mapping[str, Any],
    defaults: Mapping[str, Any] | None = None,
    free: Sequence[str] = (),
    command: str = "",
    check: Callable[[], None] = lambda: None,
) -> Iterator[None]:
    """Lock the folder of a run for this process, and record its settings; this is a context manager.

    Args:
        folder: The folder of the run; it is made if it does not exist.
        settings: The settings of the run: dataclasses, or what JSON can hold. An older run whose dataclass lacks a
            field is taken to have had its default.
        defaults: The same for entries of `settings` that are newer than some runs.
        free: The settings that may differ from those recorded before, such as `world.path`; `steps` may only grow.
        command: The command that was typed, for the record.
        check: Is called once the settings are found to fit, before they are recorded; it may refuse the run.

    Raises:
        OtherRun: If the folder holds a run with other settings, or another process has locked it.
        ValueError: If `steps` is free and less than before.
    """
    from cobra_rl import __version__

    with locked(folder):
        _remove_unfinished(folder)
        path, wanted = folder / RECORD, to_json(settings)
        begun = _completed(_recorded(path, wanted), settings)
        _refuse_other(folder, begun, wanted, to_json(defaults or {}), free)
        check()
        storage.write_json(path, {"version": __version__, "command": command, "settings": wanted})
        yield


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder for this process; this is a context manager, and the lock ends with the process at the latest.

    Args:
        folder: The folder; it is made if it does not exist.

    Raises:
        OtherRun: If another process has locked it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / LOCK, "ab", buffering=0) as file:
        for patience in (0.1, 0.1, 0.1, None):  # `holder` may have it for a moment
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if patience is None:
                    who = holder(folder) or "another process"
                    raise OtherRun(f"{folder} is in use by {who}; wait for it, or give another --out.") from error
                time.sleep(patience)
        with suppress(OSError):  # a full disk is said of what matters more
            file.truncate(0)
            file.write(f"process {os.getpid()} since {time.strftime('%Y-%m-%d %H:%M:%S')}".encode())
        yield


def holder(folder: Path) -> str | None:
    """Return which process has locked a folder ("process 7 since ..."), or None."""
    try:
        with open(folder / LOCK, encoding="utf-8", errors="replace") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return file.read().strip() or "another process"
    except OSError:
        pass
    return None


def _recorded(path: Path, otherwise: Any) -> Any:
    """Return the settings that a run was begun with; if there are none, or they cannot be read, `otherwise`."""
    if not path.exists():
        return otherwise
    try:
        settings = storage.read_json(path).get("settings")
        if not isinstance(settings, dict):
            raise ValueError(f"{path} holds no settings.")
    except ValueError as error:
        warn(f"{error} It is written anew; whether the run was asked for the same before cannot be checked.")
        return otherwise
    return settings


def _completed(begun: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Add the fields that are newer than the run to its dataclasses; nested ones take the defaults of their kind."""
    complete = dict(begun)
    for name in begun.keys() & settings.keys():
        if dataclasses.is_dataclass(settings[name]):
            with suppress(ValueError):  # of another version, or damaged: compared as it is
                complete[name] = to_json(from_json(type(settings[name]), begun[name], name))
    return complete


def _refuse_other(folder: Path, begun: Any, wanted: Any, defaults: Any, free: Sequence[str]) -> None:
    elsewhere = "give another folder with --out"
    for name, old, new in differences(begun, wanted, defaults):
        if name == "steps" and name in free and isinstance(old, int) and new < old:
            asked = f"cannot be made shorter ({new:,} asked)"
            raise ValueError(f"{folder} holds a run of {old:,} steps and {asked}; {elsewhere}.")
        if name not in free and name.partition(".")[0] not in free:
            different = f"other settings ({name}: {old}, now {new})"
            raise OtherRun(f"{folder} holds a run with {different}; {elsewhere}, or remove that one.")


def _remove_unfinished(folder: Path) -> None:
    """Remove temporary files of a process that died; no other process writes here while the folder is locked."""
    name = re.compile(rf".*\.[0-9a-f]{{8}}{re.escape(storage.UNFINISHED)}")
    for path in folder.rglob(f"*{storage.UNFINISHED}"):
        if name.fullmatch(path.name):
            path.unlink(missing_ok=True)
