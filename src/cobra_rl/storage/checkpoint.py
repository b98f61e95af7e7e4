"""Training checkpoints that survive a crash: one safetensors file a step, written whole or not at all.

The header holds one JSON string: format version, step, `meta`, and a SHA-256 of all of it. The rule of the
checksum is the same in every format version, so that a damaged file is never taken for one of another version.
"""

import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from cobra_rl.console import warn
from cobra_rl.storage import files

FORMAT_VERSION = 1
KEPT_CHECKPOINTS = 2  # of a run
_COMPRESSED = ".zz"  # zlib, as `pigz -dc` reads it
_HEADER = "checkpoint"  # the name of the JSON string in the safetensors metadata


class CheckpointMismatch(ValueError):
    """An intact checkpoint of something else."""


class Restored(NamedTuple):
    """What a checkpoint holds."""

    step: int
    tree: Any
    meta: dict[str, Any]


def save(folder: Path, step: int, tree: Any, *, meta: dict[str, Any], compressed: bool = False) -> Path:
    """Write the checkpoint of a step, whole or not at all, then remove all but the newest two up to that step.

    Args:
        folder: The folder of the checkpoints.
        step: The number of steps taken so far.
        tree: The state to save, a pytree.
        meta: What else to save: anything that JSON can hold, and scalar arrays.
        compressed: Whether to compress; this pays for a replay of pictures that are mostly black.

    Returns:
        The path of the new file.
    """
    tensors = files.flatten(tree)
    # Through JSON and back, for it changes some things (keys become text) and the checksum is of what will be read.
    header = json.loads(json.dumps({"version": FORMAT_VERSION, "step": step, "meta": meta}, default=float))
    header["sha256"] = files.checksum(tensors, header)
    path = folder / f"step_{step:08d}.safetensors{_COMPRESSED if compressed else ''}"
    pieces = files.to_pieces(tensors, {_HEADER: json.dumps(header)})
    files.write_atomically(path, _compress(pieces) if compressed else pieces)
    # Files of later steps are no older ones: damaged perhaps, but not ours to remove.
    for old in [file for number, file in checkpoints(folder) if number <= step][KEPT_CHECKPOINTS:]:
        old.unlink(missing_ok=True)
    return path


def restore(folder: Path, like: Any, report: Callable[[str], None] = warn) -> Restored | None:
    """Read the newest intact checkpoint.

    Args:
        folder: The folder of the checkpoints.
        like: A pytree of the structure, shapes and types that are expected.
        report: Called with a sentence for each damaged checkpoint, which is then skipped.

    Returns:
        The step, the state and `meta`; None if there is no intact checkpoint.

    Raises:
        CheckpointMismatch: If the newest intact checkpoint does not fit `like` or has another format version.
    """
    for _, path in checkpoints(folder):
        try:
            tensors, header = _read_checkpoint(path)
            if header["version"] != FORMAT_VERSION:
                raise files.TreeMismatch(f"its format version is {header['version']} and not {FORMAT_VERSION}")
            return Restored(header["step"], files.unflatten(like, tensors), header["meta"])
        except (files.DamagedFile, OSError) as error:
            report(f"The checkpoint {path} is damaged: {error}; the one before it is used, if there is one.")
        except files.TreeMismatch as error:
            raise CheckpointMismatch(
                f"{path} is not a checkpoint of this model: {error}; use another folder, or the preset it was made "
                "with."
            ) from error
    return None


def checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """Return (step, file) of all checkpoints of a folder, newest first."""
    pattern = re.compile(rf"step_(\d+)\.safetensors({_COMPRESSED})?")
    found = [(pattern.fullmatch(path.name), path) for path in folder.glob("step_*")]
    return sorted(((int(match[1]), path) for match, path in found if match), reverse=True)


def _read_checkpoint(path: Path) -> tuple[files.Tensors, dict[str, Any]]:
    data = path.read_bytes()
    if path.name.endswith(_COMPRESSED):
        try:
            data = zlib.decompress(data)
        except zlib.error as error:
            raise files.DamagedFile(f"it cannot be decompressed ({error})") from error
    tensors, metadata = files.from_bytes(data)
    try:
        header = json.loads(metadata[_HEADER])
        checksum = header.pop("sha256")
    except (KeyError, ValueError, AttributeError, TypeError) as error:
        raise files.DamagedFile("its header is not that of a checkpoint") from error
    if checksum != files.checksum(tensors, header):
        raise files.DamagedFile("its checksum is wrong")
    return tensors, header


def _compress(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    compressor = zlib.compressobj(1)
    for piece in pieces:
        yield compressor.compress(piece)
    yield compressor.flush()
