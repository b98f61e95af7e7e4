"""Weights of a model: a folder with `weights.safetensors` and a `config.json` that describes the model."""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from cobra_rl.storage import files

WEIGHTS_VERSION = 1
WEIGHTS_FILE = "weights.safetensors"
CONFIG_FILE = "config.json"


class WeightsError(ValueError):
    """Weights are missing, damaged or of another model; one sentence that names the file."""


class Weights(NamedTuple):
    """Weights to be saved, with the configuration and the kind of their model."""

    tree: Any  # the model, a pytree
    config: dict[str, Any]  # as JSON; without the entries `kind` and `version`
    kind: str  # what the weights are of, such as "vision"


def save_weights(folder: Path, weights: Weights) -> None:
    """Write the weights of a model, and the configuration that it can be built from again.

    Args:
        folder: The folder for both files; it is made if it does not exist.
        weights: The model, its configuration and its kind.

    Raises:
        WeightsError: If a weight is not finite, or the configuration has an entry that it must not have.
    """
    tree, config, kind = weights
    if taken := {"kind", "version"} & config.keys():
        raise WeightsError(f"The configuration of {folder} may not have {sorted(taken)}: we write these entries.")
    tensors = files.flatten(tree)
    _refuse_non_finite(folder / WEIGHTS_FILE, tensors)
    files.write_atomically(
        folder / WEIGHTS_FILE,
        files.to_pieces(tensors, {"kind": kind, "sha256": files.checksum(tensors, {"kind": kind})}),
    )
    files.write_json(folder / CONFIG_FILE, {"kind": kind, "version": WEIGHTS_VERSION, **config})


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
    path = folder / WEIGHTS_FILE
    try:
        tensors, _ = _read_tensors(path, kind)
        tree = files.unflatten(like, tensors)
    except files.DamagedFile as error:
        raise WeightsError(f"The weights {path} are damaged: {error}.") from error
    except files.TreeMismatch as error:
        raise WeightsError(f"The weights {path} do not fit this model: {error}.") from error
    _refuse_non_finite(path, tensors)
    return tree


def is_saved(folder: Path, weights: Weights) -> bool:
    """Return whether a folder holds exactly these weights and their configuration, undamaged."""
    return _saved(folder, weights.kind) == (
        weights.config,
        files.checksum(files.flatten(weights.tree), {"kind": weights.kind}),
    )


def is_whole(folder: Path, kind: str) -> bool:
    """Return whether a folder holds any undamaged weights of a kind."""
    return _saved(folder, kind) is not None


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
    path = folder / CONFIG_FILE
    text = _read_bytes(path)
    try:
        config = json.loads(text)
        found = config.pop("kind")
        version = config.pop("version")
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise WeightsError(f"{path} is not the configuration of weights: it must have a kind and a version.") from error
    if found != kind:
        raise WeightsError(f"The weights in {folder} are of kind {found!r} and not {kind!r}.")
    if version != WEIGHTS_VERSION:
        raise WeightsError(f"The weights in {folder} are of version {version}; this code reads {WEIGHTS_VERSION}.")
    return config


def sha256(folder: Path) -> str:
    """Return the sha256 that identifies weights by the bytes of both files; raise `WeightsError` if one is missing."""
    digests = (hashlib.sha256(_read_bytes(folder / name)).digest() for name in (WEIGHTS_FILE, CONFIG_FILE))
    return hashlib.sha256(b"".join(digests)).hexdigest()


def _saved(folder: Path, kind: str) -> tuple[dict[str, Any], str | None] | None:
    """Return the configuration and the checksum of undamaged weights of a kind; None if there are none."""
    try:
        return read_config(folder, kind), _read_tensors(folder / WEIGHTS_FILE, kind)[1]
    except ValueError:
        return None


def _read_tensors(path: Path, kind: str) -> tuple[files.Tensors, str | None]:
    """Read tensors and their checksum, which older files lack; raise `DamagedFile` if it is wrong."""
    tensors, metadata = files.from_bytes(_read_bytes(path))
    checksum = metadata.get("sha256")
    if checksum not in (None, files.checksum(tensors, {"kind": kind})):
        raise files.DamagedFile("its checksum is wrong")
    return tensors, checksum


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise WeightsError(f"There are no weights in {path.parent}: {path.name} is missing.") from error


def _refuse_non_finite(path: Path, tensors: files.Tensors) -> None:
    for name, tensor in tensors.items():
        if jnp.issubdtype(tensor.dtype, jnp.inexact) and not np.isfinite(tensor).all():
            raise WeightsError(f"The weights {path} are refused: {name} has values that are not finite.")
