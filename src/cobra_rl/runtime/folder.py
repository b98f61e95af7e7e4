"""Run folders: locking, and recording and comparing settings."""

import fcntl
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cobra_rl.runtime import storage
from cobra_rl.runtime.typed import differences, to_json
from cobra_rl.runtime.words import warn

RECORD = "run.json"
LOCK = ".lock"


class OtherRun(ValueError):
    """The folder holds a run with other settings, or belongs to another process."""


@contextmanager
def open_run(
    folder: Path, settings: Mapping[str, Any], defaults: Mapping[str, Any], free: Sequence[str] = (), command: str = ""
) -> Iterator[None]:
    """Lock the folder; record the settings, or raise OtherRun if they differ from the recorded ones.

    Args:
        folder: the run's folder; it is created if it is missing.
        settings: the settings of the run: dataclasses, or values that JSON can hold.
        defaults: values of settings that the record of an older run lacks.
        free: settings that may change from one call to the next, such as `world.path`; `steps` may only grow.
        command: the command line, to be recorded.
    """
    from cobra_rl import __version__

    with locked(folder):
        _remove_unfinished(folder)
        path, wanted = folder / RECORD, to_json(settings)
        _refuse_other(folder, _recorded(path, wanted), wanted, to_json(defaults), free)
        storage.write_json(path, {"version": __version__, "command": command, "settings": wanted})
        yield


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder until the context or the process ends; raise `OtherRun` if another process has locked it."""
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
