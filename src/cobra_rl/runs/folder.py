"""Run folders: locking, and recording and comparing settings."""

import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cobra_rl.bounds import from_json, to_json
from cobra_rl.console import warn
from cobra_rl.storage import files

RECORD = "run.json"
LOCK = ".lock"
WORLD = "world"  # a run's copy of the world that it used


class OtherRun(ValueError):
    """The folder holds a run with other settings, or belongs to another process."""


@contextmanager
def open_run(
    folder: Path,
    settings: Any,
    *,
    free: Sequence[str] = (),
    command: str = "",
    check: Callable[[], None] = lambda: None,
    newer: Sequence[str] = (),
) -> Iterator[None]:
    """Lock the folder of a run for this process, and record its settings; this is a context manager.

    Args:
        folder: The folder of the run; it is made if it does not exist.
        settings: The settings of the run, a dataclass. A field that an older run lacks had its default.
        free: The settings that may differ from those recorded before, such as `world.path`; `steps` may only grow.
        command: The command that was typed, for the record.
        newer: The settings that older runs did not record: if they have none, it may be anything.
        check: Is called once the settings are found to fit, before they are recorded; it may refuse the run.

    Raises:
        OtherRun: If the folder holds a run with other settings, or another process has locked it.
        ValueError: If `steps` is free and less than before.
    """
    from cobra_rl import __version__

    with locked(folder):
        _remove_unfinished(folder)
        path = folder / RECORD
        wanted = to_json(settings)
        _refuse_other(folder, _recorded(path, settings), wanted, free, newer)
        check()
        files.write_json(path, {"version": __version__, "command": command, "settings": wanted})
        yield


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder for this process; this is a context manager, and the lock ends with the process at the latest.

    Args:
        folder: The folder; it is made if it does not exist.

    Raises:
        OtherRun: If another process has locked it.
        ValueError: If a file in it is a link to a place outside.
    """
    folder.mkdir(parents=True, exist_ok=True)
    refuse_links(folder)  # before anything is written through one
    with open(folder / LOCK, "ab", buffering=0) as file:
        for patience in (0.1, 0.1, 0.1, None):  # `holder` may have it for a moment
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if patience is None:
                    raise OtherRun(
                        f"{folder} is in use by {holder(folder) or 'another process'}; wait for it, or give another "
                        "--out."
                    ) from error
                time.sleep(patience)
        with suppress(OSError):  # a full disk is said of what matters more
            file.truncate(0)
            file.write(f"process {os.getpid()} since {time.strftime('%Y-%m-%d %H:%M:%S')}".encode())
        yield


def holder(folder: Path) -> str | None:
    """Return which process has locked a folder ("process 7 since ..."), or None."""
    with suppress(OSError), open(folder / LOCK, encoding="utf-8", errors="replace") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return file.read().strip() or "another process"
    return None


def refuse_links(folder: Path) -> None:
    """Raise a ValueError if a file of a run is a link to a place outside of it: the run may come from somebody else.

    Only its world may be one: that has a recorded sha256.
    """
    for path in folder.rglob("*"):
        if path.is_symlink() and path != folder / WORLD:
            files.refuse_outside(path, folder)


def seeds_in(name: str) -> range:
    """Return the seeds that are learnt in a folder of this name, "seed3" or "seeds0-9"; none if it is another."""
    match = re.fullmatch(r"seed(\d+)|seeds(\d+)-(\d+)", name)
    if match is None:
        return range(0)
    one, first, last = match.groups()
    return range(int(one or first), int(one or last) + 1)


def _recorded(path: Path, settings: Any) -> Any:
    """Return the settings that a run was begun with, in full; if there are none, or they cannot be read, `settings`."""
    begun = to_json(settings)
    try:
        if path.exists():
            begun = files.read_json(path).get("settings")
        if not isinstance(begun, dict):
            raise ValueError(f"{path} holds no settings.")
    except ValueError as error:
        warn(f"{error} It is written anew; whether the run was asked for the same before cannot be checked.")
        return to_json(settings)
    with suppress(ValueError):  # fields that are newer take their defaults; what is damaged is compared as it is
        return to_json(from_json(type(settings), begun, RECORD))
    return begun


def _refuse_other(folder: Path, begun: Any, wanted: Any, free: Sequence[str], newer: Sequence[str]) -> None:
    for name, old, new in differences(begun, wanted):
        if name == "steps" and name in free and isinstance(old, int) and new < old:
            raise ValueError(
                f"{folder} holds a run of {old:,} steps and cannot be made shorter ({new:,} asked); give another "
                "folder with --out."
            )
        if not (name in free or name.partition(".")[0] in free or (old is None and name in newer)):
            raise OtherRun(
                f"{folder} holds a run with other settings ({name}: {old}, now {new}); give another folder with "
                "--out, or remove that one."
            )


def differences(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (name, old, new) of all settings that differ; an entry that one side lacks is None."""
    if isinstance(new, dict) and isinstance(old, dict):
        for name in dict.fromkeys((*new, *old)):
            yield from differences(old.get(name), new.get(name), f"{path}.{name}" if path else name)
    elif old != new:
        yield path, old, new


def _remove_unfinished(folder: Path) -> None:
    """Remove temporary files of a process that died; no other process writes here while the folder is locked."""
    for path in folder.rglob(f"*.{'[0-9a-f]' * 8}{files.UNFINISHED}"):
        path.unlink(missing_ok=True)
