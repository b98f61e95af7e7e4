"""Training checkpoints that survive a crash: one safetensors file a step, written whole or not at all.

The header holds one JSON string: format version, step, `meta`, and a SHA-256 of all of it. The rule of the
checksum is the same in every format version, so that a damaged file is never taken for one of another version.
"""

import hashlib
import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from cobra_rl.runtime import storage

FORMAT_VERSION = 1
_COMPRESSED = ".zz"  # zlib, as `pigz -dc` reads it
_HEADER = "checkpoint"  # the name of the JSON string in the safetensors metadata


class CheckpointMismatch(ValueError):
    """An intact checkpoint of something else."""


class Restored(NamedTuple):
    """What a checkpoint holds."""

    step: int
    tree: Any
    meta: dict[str, Any]


def _print_warning(text: str) -> None:
    Console(stderr=True).print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)


def save(folder: Path, step: int, tree: Any, meta: dict[str, Any], keep: int = 2, compressed: bool = False) -> Path:
    """Writes the checkpoint of a step and then removes all but the newest `keep` up to that step.

    `meta` is anything that JSON can hold. A process that dies meanwhile leaves the older checkpoints as they were.
    Compression pays for a replay of pictures that are mostly black.
    """
    if keep < 1:
        raise ValueError(f"keep is {keep}; at least 1 checkpoint must be kept.")
    tensors = storage.flatten(tree)
    # Through JSON and back, for it changes some things (keys become text) and the checksum is of what will be read.
    header = json.loads(json.dumps({"version": FORMAT_VERSION, "step": step, "meta": meta}))
    header["sha256"] = _checksum(tensors, header)
    path = folder / f"step_{step:08d}.safetensors{_COMPRESSED if compressed else ''}"
    data = storage.to_bytes(tensors, {_HEADER: json.dumps(header)})
    storage.write_atomically(path, zlib.compress(data, 1) if compressed else data)
    # Files of later steps are no older ones: damaged perhaps, but not ours to remove.
    for old in [file for number, file in _checkpoints(folder) if number <= step][keep:]:
        old.unlink()
    for unfinished in folder.glob("step_*.tmp"):
        unfinished.unlink()
    return path


def restore(folder: Path, like: Any, report: Callable[[str], None] = _print_warning) -> Restored | None:
    """The newest intact checkpoint in the structure of `like`, or None if there is none.

    Each damaged file on the way is refused with a sentence to `report`. An intact file that does not fit `like`
    raises CheckpointMismatch.
    """
    for _, path in _checkpoints(folder):
        try:
            tensors, header = _read(path)
        except (storage.DamagedFile, OSError) as error:
            report(f"The checkpoint {path} is damaged: {error}; the one before it is used, if there is one.")
            continue
        if header["version"] != FORMAT_VERSION:
            wrong = f"its format version is {header['version']} and not {FORMAT_VERSION}"
            raise CheckpointMismatch(_mismatch(path, wrong))
        try:
            return Restored(header["step"], storage.unflatten(like, tensors), header["meta"])
        except storage.TreeMismatch as error:
            raise CheckpointMismatch(_mismatch(path, error)) from error
    return None


def _checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """(step, file) of all checkpoints of a folder, newest first."""
    found = [
        (re.fullmatch(rf"step_(\d+)\.safetensors({_COMPRESSED})?", path.name), path) for path in folder.glob("step_*")
    ]
    return sorted(((int(match[1]), path) for match, path in found if match), reverse=True)


def _read(path: Path) -> tuple[storage.Tensors, dict[str, Any]]:
    data = path.read_bytes()
    if path.name.endswith(_COMPRESSED):
        try:
            data = zlib.decompress(data)
        except zlib.error as error:
            raise storage.DamagedFile(f"it cannot be decompressed ({error})") from error
    tensors, metadata = storage.from_bytes(data)
    try:
        header = json.loads(metadata[_HEADER])
        checksum = header.pop("sha256")
    except (KeyError, ValueError, AttributeError, TypeError) as error:
        raise storage.DamagedFile("its header is not that of a checkpoint") from error
    if checksum != _checksum(tensors, header):
        raise storage.DamagedFile("its checksum is wrong")
    return tensors, header


def _checksum(tensors: storage.Tensors, header: dict[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(json.dumps([name, tensor.dtype.name, tensor.shape]).encode())
        digest.update(tensor.tobytes())
    return digest.hexdigest()


def _mismatch(path: Path, wrong: object) -> str:
    return f"{path} is not a checkpoint of this model: {wrong}; use another folder, or the preset it was made with."
