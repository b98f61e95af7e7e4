"""Weights of a model: a folder with `weights.safetensors` and a `config.json` that describes the model."""

import hashlib
import json
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from cobra_rl.runtime import storage

WEIGHTS_VERSION = 1
WEIGHTS = "weights.safetensors"
CONFIG = "config.json"


class WeightsError(ValueError):
    """Weights are missing, damaged or of another model; one sentence that names the file."""


def save_weights(folder: Path, tree: Any, config: dict[str, Any], kind: str) -> None:
    """Write the weights of a model, and the configuration that it can be built from again.

    Args:
        folder: The folder for both files; it is made if it does not exist.
        tree: The model, a pytree.
        config: The configuration, as JSON; it must not have the entries `kind` and `version`.
        kind: What the weights are of, such as "vision".

    Raises:
        WeightsError: If a weight is not finite, or `config` has an entry that it must not have.
    """
    if taken := {"kind", "version"} & config.keys():
        raise WeightsError(f"The configuration of {folder} may not have {sorted(taken)}: we write these entries.")
    tensors = storage.flatten(tree)
    _refuse_non_finite(folder / WEIGHTS, tensors)
    metadata = {"kind": kind, "sha256": storage.checksum(tensors, {"kind": kind})}
    storage.write_atomically(folder / WEIGHTS, storage.to_pieces(tensors, metadata))
    storage.write_json(folder / CONFIG, {"kind": kind, "version": WEIGHTS_VERSION, **config})


def load_weights(folder: Path, like: Any, kind: str) -> Any:
    """Read the weights of a model.

    Args:
        folder: The folder that `save_weights` wrote.
        like: A model of the same structure, shapes and types, or its outline by `eqx.filter_eval_shape`.
        kind: What the weights must be of, such as "vision".

    Returns:
        A model like `like` with the weights of the folder.

    Raises:
        WeightsError: If the weights are missing, damaged, not finite, of another kind or version, or do not fit `like`.
    """
    read_config(folder, kind)  # refuses what is of another kind or version
    path = folder / WEIGHTS
    try:
        tensors, _ = _read_tensors(path, kind)
        tree = storage.unflatten(like, tensors)
    except storage.DamagedFile as error:
        raise WeightsError(f"The weights {path} are damaged: {error}.") from error
    except storage.TreeMismatch as error:
        raise WeightsError(f"The weights {path} do not fit this model: {error}.") from error
    _refuse_non_finite(path, tensors)
    return tree


def is_saved(folder: Path, tree: Any, config: dict[str, Any], kind: str, exactly: bool = True) -> bool:
    """Tell whether a folder holds undamaged weights of a kind.

    Args:
        folder: The folder.
        tree: The model whose weights are expected.
        config: The configuration that is expected.
        kind: What the weights must be of.
        exactly: Whether weights and configuration must be these; otherwise any of this kind will do.

    Returns:
        Whether they are there.
    """
    try:
        known, (_, found) = read_config(folder, kind), _read_tensors(folder / WEIGHTS, kind)
    except ValueError:
        return False
    return not exactly or (known == config and found == storage.checksum(storage.flatten(tree), {"kind": kind}))


def is_whole(folder: Path) -> bool:
    """Return whether the weights in a folder are undamaged, whatever they are of."""
    try:
        _read_tensors(folder / WEIGHTS, storage.read_json(folder / CONFIG)["kind"])
    except (ValueError, KeyError):
        return False
    return True


def read_config(folder: Path, kind: str) -> dict[str, Any]:
    """Read the configuration that was given to `save_weights`.

    Args:
        folder: The folder of the weights.
        kind: What the weights must be of, such as "vision".

    Returns:
        The configuration, without the kind and the version.

    Raises:
        WeightsError: If it is missing, damaged, or of another kind or version.
    """
    path = folder / CONFIG
    text = _read(path)
    try:
        config = json.loads(text)
        found, version = config.pop("kind"), config.pop("version")
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise WeightsError(f"{path} is not the configuration of weights: it must have a kind and a version.") from error
    if found != kind:
        raise WeightsError(f"The weights in {folder} are of kind {found!r} and not {kind!r}.")
    if version != WEIGHTS_VERSION:
        raise WeightsError(f"The weights in {folder} are of version {version}; this code reads {WEIGHTS_VERSION}.")
    return config


def sha256(folder: Path) -> str:
    """Return the sha256 that identifies weights by the bytes of both files; raise `WeightsError` if one is missing."""
    digests = (hashlib.sha256(_read(folder / name)).digest() for name in (WEIGHTS, CONFIG))
    return hashlib.sha256(b"".join(digests)).hexdigest()


def _read_tensors(path: Path, kind: str) -> tuple[storage.Tensors, str | None]:
    """Read tensors and their checksum, which older files lack; raise `DamagedFile` if it is wrong."""
    tensors, metadata = storage.from_bytes(_read(path))
    checksum = metadata.get("sha256")
    if checksum not in (None, storage.checksum(tensors, {"kind": kind})):
        raise storage.DamagedFile("its checksum is wrong")
    return tensors, checksum


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise WeightsError(f"There are no weights in {path.parent}: {path.name} is missing.") from error


def _refuse_non_finite(path: Path, tensors: storage.Tensors) -> None:
    for name, tensor in tensors.items():
        if jnp.issubdtype(tensor.dtype, jnp.inexact) and not np.isfinite(tensor).all():
            raise WeightsError(f"The weights {path} are refused: {name} has values that are not finite.")
