"""Shipped weights: a folder with `weights.safetensors` and the `config.json` that says what they are of."""

import json
from pathlib import Path
from typing import Any

from cobra_rl.runtime import storage

WEIGHTS_VERSION = 1


class WeightsError(ValueError):
    """Weights that are not there, or not those asked for."""


def save_weights(folder: Path, tree: Any, config: dict[str, Any], kind: str) -> None:
    """Writes the arrays of a tree and its configuration, which is anything that JSON can hold."""
    if taken := {"kind", "version"} & config.keys():
        raise WeightsError(f"The configuration may not have {sorted(taken)}: these entries are written by us.")
    text = json.dumps({"kind": kind, "version": WEIGHTS_VERSION, **config}, indent=2) + "\n"
    storage.write_atomically(folder / "weights.safetensors", storage.to_bytes(storage.flatten(tree), {"kind": kind}))
    storage.write_atomically(folder / "config.json", text.encode())


def load_weights(folder: Path, like: Any, kind: str) -> Any:
    """The tree whose weights are in a folder; `like` gives its structure, shapes and dtypes."""
    read_config(folder, kind)  # refuses what is of another kind or version
    path = folder / "weights.safetensors"
    try:
        tensors, _ = storage.from_bytes(_read(path))
        return storage.unflatten(like, tensors)
    except storage.DamagedFile as error:
        raise WeightsError(f"The weights {path} are damaged: {error}.") from error
    except storage.TreeMismatch as error:
        raise WeightsError(f"The weights {path} do not fit this model: {error}.") from error


def read_config(folder: Path, kind: str) -> dict[str, Any]:
    """The configuration as it was given to `save_weights`."""
    path = folder / "config.json"
    try:
        config = json.loads(_read(path))
        found, version = config.pop("kind"), config.pop("version")
    except WeightsError:
        raise
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise WeightsError(f"{path} is not the configuration of weights: it must have a kind and a version.") from error
    if found != kind:
        raise WeightsError(f"The weights in {folder} are of kind {found!r} and not {kind!r}.")
    if version != WEIGHTS_VERSION:
        raise WeightsError(f"The weights in {folder} are of version {version}; this code reads {WEIGHTS_VERSION}.")
    return config


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise WeightsError(f"There are no weights in {path.parent}: {path.name} is missing.") from error
