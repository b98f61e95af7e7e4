"""What checkpoints and weights share: named leaves of a tree, safetensors, and atomic writing of files.

A leaf is stored if it is an array or a Python number, under its path in the tree (`.layers[0].weight`).
Other leaves, such as activation functions, are skipped: they come from the tree one restores into.
"""

import errno
import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import safetensors
from jax.tree_util import keystr, tree_flatten_with_path, tree_unflatten

Tensors = dict[str, np.ndarray]

OLDER_NAMES = {  # parts of the names of leaves in files of version 0.2
    ".thing.": ".object_net.",
    ".pair.": ".pair_net.",
    ".whole.": ".global_net.",
    ".each.": ".slot_net.",
    ".eyes[": ".encoders[",
    ".net.net.": ".net.",
}

PIECE = 1 << 24  # bytes that are written, or compressed, at a time
UNFINISHED = ".tmp"  # suffix of temporary files
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # a full disk, a full quota, the largest file that is allowed

_DTYPES = {
    "BOOL": "bool",
    "BF16": "bfloat16",
    "F16": "float16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
    "I8": "int8",
    "I16": "int16",
    "I32": "int32",
    "I64": "int64",
    "U8": "uint8",
    "U16": "uint16",
    "U32": "uint32",
    "U64": "uint64",
}
_SAFETENSORS_DTYPES = {name: code for code, name in _DTYPES.items()}


class TreeMismatch(ValueError):
    """The tensors are not those of the tree; the message says what differs, without a full stop."""


class DamagedFile(ValueError):
    """The file is not a whole safetensors file; the message says why, without a full stop."""


def flatten(tree: Any) -> Tensors:
    """Return the stored leaves of a tree by name, on the host; PRNG keys become their key data."""
    # Safetensors takes the memory as it lies, hence the order; np.ascontiguousarray would add an axis to a scalar.
    return {
        keystr(path): np.asarray(_as_array(leaf), order="C")
        for path, leaf in tree_flatten_with_path(tree)[0]
        if _is_stored(leaf)
    }


def unflatten(like: Any, tensors: Tensors) -> Any:
    """Put tensors back into a tree like `like`: the inverse of `flatten`; `TreeMismatch` if they are not its tensors.

    Tensors in files of older versions may have other names: see `OLDER_NAMES`. The arrays of `like` may be the mere
    shapes that `eqx.filter_eval_shape` gives; PRNG keys may not. Where JAX cannot hold the exact dtype (64 bits without
    `jax_enable_x64`) an array stays a NumPy array.
    """
    leaves, treedef = tree_flatten_with_path(like)
    expected = {keystr(path): _dtype_and_shape(leaf) for path, leaf in leaves if _is_stored(leaf)}
    tensors = {name if name in expected else _renamed(name): tensor for name, tensor in tensors.items()}
    if missing := expected.keys() - tensors.keys():
        raise TreeMismatch(f"it lacks {_first_of(missing)}")
    if extra := tensors.keys() - expected.keys():
        raise TreeMismatch(f"it also has {_first_of(extra)}")
    for name, wanted in expected.items():
        if (here := _dtype_and_shape(tensors[name])) != wanted:
            raise TreeMismatch(f"its {name} is {here} and not {wanted}")
    return tree_unflatten(
        treedef, [_from_numpy(leaf, tensors[keystr(path)]) if _is_stored(leaf) else leaf for path, leaf in leaves]
    )


def outline(tree: Any) -> Any:
    """Return the tree with shapes in the place of its arrays, as `unflatten` takes it; PRNG keys stay."""
    return jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) if eqx.is_array(leaf) and not _is_key(leaf) else leaf,
        tree,
    )


def checksum(tensors: Tensors, header: Mapping[str, Any]) -> str:
    """Compute a SHA-256 of names, dtypes, shapes and values, and of a header that JSON can hold."""
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(json.dumps([name, tensor.dtype.name, tensor.shape]).encode())
        digest.update(_memory(tensor))
    return digest.hexdigest()


def to_pieces(tensors: Tensors, metadata: Mapping[str, str]) -> Iterator[bytes | memoryview]:
    """Yield a safetensors file piece by piece, without a copy of the arrays. The same input gives the same bytes."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    end = 0
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))  # so that all are aligned
    for name, tensor in ordered:
        header[name] = {
            "dtype": _SAFETENSORS_DTYPES[tensor.dtype.name],
            "shape": tensor.shape,
            "data_offsets": [end, end + tensor.nbytes],
        }
        end += tensor.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for _, tensor in ordered:
        memory = _memory(tensor)
        yield from (memory[start : start + PIECE] for start in range(0, len(memory), PIECE))


def from_bytes(data: bytes) -> tuple[Tensors, dict[str, str]]:
    """Read a safetensors file: tensors by name, and its metadata; `DamagedFile` if it is not whole."""
    try:
        tensors = {
            name: np.frombuffer(view["data"], jnp.dtype(_DTYPES[view["dtype"]])).reshape(view["shape"])
            for name, view in safetensors.deserialize(data)
        }
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        raise DamagedFile(f"it is not a whole safetensors file ({error})") from error
    return tensors, header.get("__metadata__", {})


def write_atomically(path: Path, data: bytes | Iterable[bytes | memoryview]) -> None:
    """Write a file so that, whenever the machine stops, the old or the new one is there in full; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own for each writer; `tempfile` would make a file that nobody else may read.
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}{UNFINISHED}")
    try:
        with open(temporary, "xb") as file:
            for piece in [data] if isinstance(data, bytes) else data:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # or the new name may not survive a power cut
        finally:
            os.close(folder)
    except OSError as error:
        details = (error.errno, error.strerror, str(path)) if error.errno else (f"{error}: {path}",)
        raise OSError(*details) from error
    finally:
        temporary.unlink(missing_ok=True)


def copy_if_other(source: Path, target: Path) -> None:
    """Copy a file, whole or not at all; one that is the same already is not written again."""
    data = source.read_bytes()
    if not target.exists() or target.read_bytes() != data:
        write_atomically(target, data)


def explain(error: OSError) -> str:
    """Say in one clause what went wrong with which file, and what to do if there is no room for it."""
    if not error.errno or not error.strerror or error.filename is None:
        return str(error).rstrip(".")
    advice = "; free some space and give the same command again" if error.errno in NO_ROOM else ""
    return f"{error.filename}: {error.strerror}{advice}"


def refuse_outside(path: Path, folder: Path) -> None:
    """Raise a ValueError if a file leads, by links, to a place outside of the folder that it is said to be in."""
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{path} is a link to a place outside of {folder}; put a copy of the file in its place.")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds a dict; anything else is a ValueError of one sentence that names the file."""
    try:
        record = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise ValueError(f"There is no file {path}.") from error
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a JSON file: {error}.") from error
    if not isinstance(record, dict):
        raise ValueError(f"{path} holds a JSON {type(record).__name__} where a dict is expected.")
    return record


def write_json(path: Path, record: Any) -> None:
    """Write a JSON file, whole or not at all; a NaN, or what JSON cannot hold, is a ValueError that names the file."""
    try:
        text = json.dumps(record, indent=2, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} cannot be written: {error}.") from error
    write_atomically(path, (text + "\n").encode())


def _memory(tensor: np.ndarray) -> memoryview:
    return np.ascontiguousarray(tensor).reshape(-1).view(np.uint8).data


def _is_number(leaf: Any) -> bool:
    return isinstance(leaf, bool | int | float) and not isinstance(leaf, np.generic)  # np.float64 is also a float


def _is_stored(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct) or _is_number(leaf)


def _is_key(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _as_array(leaf: Any) -> Any:
    """Return an array for any stored leaf: PRNG keys become their key data."""
    return jax.random.key_data(leaf) if _is_key(leaf) else np.asarray(leaf) if _is_number(leaf) else leaf


def _from_numpy(like: Any, tensor: np.ndarray) -> Any:
    if _is_key(like):
        return jax.random.wrap_key_data(jnp.array(tensor), impl=jax.random.key_impl(like))
    if _is_number(like):
        return tensor.item()
    exact = jax.dtypes.canonicalize_dtype(tensor.dtype) == tensor.dtype
    # `jnp.array` would compile something for each shape; the copy can be written to
    return jax.device_put(tensor, may_alias=False) if exact else tensor.copy()


def _renamed(name: str) -> str:
    """Return the name that a leaf of a file of an older version has now."""
    for old, new in OLDER_NAMES.items():
        name = name.replace(old, new)
    return name


def _first_of(names: set[str]) -> str:
    """Write the first name, and how many others there are."""
    first, *others = sorted(names)
    return f"{first} and {len(others)} more" if others else first


def _dtype_and_shape(leaf: Any) -> str:
    """Return the dtype and shape that a leaf has in a file."""
    return f"{_as_array(leaf).dtype.name}{list(_as_array(leaf).shape)}"
