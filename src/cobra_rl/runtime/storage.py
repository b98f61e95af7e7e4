"""What checkpoints and weights share: the named leaves of a tree, safetensors, files that are never half written.

A leaf is stored if it is an array or a Python number, under its path in the tree (`.layers[0].weight`).
Other leaves, such as activation functions, are skipped: they come from the tree one restores into.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy
from jax.tree_util import keystr, tree_flatten_with_path, tree_unflatten

Tensors = dict[str, np.ndarray]

_DTYPES = {"BOOL": "bool", "BF16": "bfloat16", "F16": "float16", "F32": "float32", "F64": "float64", "C64": "complex64"}
_DTYPES |= {f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)}
_DTYPES |= {f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)}


class TreeMismatch(ValueError):
    """The tensors are not those of the tree; the message says what differs, without a full stop."""


class DamagedFile(ValueError):
    """The file is not a whole safetensors file; the message says why, without a full stop."""


def flatten(tree: Any) -> Tensors:
    """The stored leaves of a tree by name, on the host. PRNG keys become their key data."""
    return {keystr(path): _to_numpy(leaf) for path, leaf in tree_flatten_with_path(tree)[0] if _is_stored(leaf)}


def unflatten(like: Any, tensors: Tensors) -> Any:
    """The inverse of `flatten`, into the structure of `like`. Arrays come back as jax arrays, numbers as numbers.

    In `like`, arrays may also be the mere shapes and dtypes that `eqx.filter_eval_shape` gives; PRNG keys may not.
    Where JAX cannot hold the exact dtype (64 bits without `jax_enable_x64`) the array stays a NumPy array.
    """
    leaves, treedef = tree_flatten_with_path(like)
    _check_same({keystr(path): _spec(leaf) for path, leaf in leaves if _is_stored(leaf)}, tensors)
    restored = [_from_numpy(leaf, tensors[keystr(path)]) if _is_stored(leaf) else leaf for path, leaf in leaves]
    return tree_unflatten(treedef, restored)


def to_bytes(tensors: Tensors, metadata: Mapping[str, str]) -> bytes:
    """A safetensors file."""
    return safetensors.numpy.save(tensors, dict(metadata))


def from_bytes(data: bytes) -> tuple[Tensors, dict[str, str]]:
    """(tensors, metadata) of a safetensors file; DamagedFile if it is not one."""
    try:
        views = safetensors.deserialize(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        tensors = {
            name: np.frombuffer(view["data"], jnp.dtype(_DTYPES[view["dtype"]])).reshape(view["shape"])
            for name, view in views
        }
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        raise DamagedFile(f"it is not a whole safetensors file ({error})") from error
    return tensors, header.get("__metadata__", {})


def write_atomically(path: Path, data: bytes) -> None:
    """Writes a file so that, whenever the machine stops, the old or the new one is there in full."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # or the new name may not survive a power cut
    finally:
        os.close(folder)


def _is_number(leaf: Any) -> bool:
    return isinstance(leaf, bool | int | float) and not isinstance(leaf, np.generic)  # np.float64 is also a float


def _is_stored(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct) or _is_number(leaf)


def _is_key(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _spec(leaf: Any) -> Any:
    """Something with the shape and dtype that a leaf has in a file."""
    if _is_key(leaf):
        return jax.eval_shape(jax.random.key_data, leaf)
    return np.asarray(leaf) if _is_number(leaf) else leaf


def _to_numpy(leaf: Any) -> np.ndarray:
    if _is_key(leaf):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf, order="C")  # safetensors takes the memory as it lies; ascontiguousarray adds an axis to ()


def _from_numpy(like: Any, tensor: np.ndarray) -> Any:
    if _is_key(like):
        return jax.random.wrap_key_data(jnp.array(tensor), impl=jax.random.key_impl(like))
    if _is_number(like):
        return tensor.item()
    exact = jax.dtypes.canonicalize_dtype(tensor.dtype) == tensor.dtype
    return jnp.array(tensor) if exact else tensor.copy()  # the copy can be written to


def _check_same(expected: dict[str, Any], found: Tensors) -> None:
    if missing := expected.keys() - found.keys():
        raise TreeMismatch(f"it lacks {_some(missing)}")
    if extra := found.keys() - expected.keys():
        raise TreeMismatch(f"it also has {_some(extra)}")
    for name, tensor in expected.items():
        if (here := _describe(found[name])) != (wanted := _describe(tensor)):
            raise TreeMismatch(f"its {name} is {here} and not {wanted}")


def _some(names: set[str]) -> str:
    first, *others = sorted(names)
    return f"{first} and {len(others)} more" if others else first


def _describe(tensor: Any) -> str:
    return f"{tensor.dtype.name}{list(tensor.shape)}"
