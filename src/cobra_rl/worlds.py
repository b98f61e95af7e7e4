"""World models as folders: weights of vision, transition model and exploration policy, and which belong together."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax

from cobra_rl.bounds import Width, conform, from_json
from cobra_rl.cache import keep_compilations
from cobra_rl.models.vision import VisionModel
from cobra_rl.models.world import EXPLORATIONS, TRANSITIONS, VISIONS, Kind, WorldModel, name_of, sizes_of
from cobra_rl.runtime import storage
from cobra_rl.runtime.run import Weights
from cobra_rl.runtime.typed import to_json
from cobra_rl.runtime.weights import WeightsError, load_weights, read_config, sha256

keep_compilations()

WEIGHTS = Path(__file__).parent / "weights"
SHIPPED = WEIGHTS / "world"
KINDS: dict[str, Mapping[str, Kind]] = {"vision": VISIONS, "transition": TRANSITIONS, "exploration": EXPLORATIONS}
PARTS = tuple(KINDS)


def vision_weights(vision: VisionModel) -> Weights:
    """Return the weights of a vision module with their description, to be saved."""
    return Weights(vision, {"model": name_of(VISIONS, vision.config)} | to_json(vision.config), "vision")


def part_weights(part: str, model: Any, action_size: int, vision_sha256: str) -> Weights:
    """Return the weights of a transition model or an exploration policy with their description, to be saved.

    Args:
        part: "transition" or "exploration".
        model: The model.
        action_size: A, the dimension of an action.
        vision_sha256: The sha256 of the vision module that it was trained on.
    """
    trained = {"model": name_of(KINDS[part], model.config), "action_size": action_size, "vision": vision_sha256}
    return Weights(model, trained | to_json(model.config), part)


def load_vision(folder: Path | str) -> VisionModel:
    """Load a vision module.

    Args:
        folder: A run of `cobra train vision`, a folder of its weights, or a world.

    Returns:
        The vision module.

    Raises:
        WeightsError: If there are no vision weights, or they are damaged or of another version.
    """
    place = find_vision(Path(folder))
    return _load_model(place, "vision", read_config(place, "vision"))


def find_vision(folder: Path) -> Path:
    """Find the vision weights in a run of `cobra train vision`, in a folder of weights, or in a world."""
    for candidate in (folder, folder / "weights", folder / "vision", folder / "world" / "vision"):
        if (candidate / "weights.safetensors").exists():
            return candidate
    raise WeightsError(f"There are no vision weights in {folder}: give a run of `cobra train vision`, or a world.")


def find_world(folder: Path | str | None) -> Path:
    """Find a world: None is the shipped one; `folder` is a world, or a run of `cobra train explore`."""
    if folder is None:
        return SHIPPED
    for candidate in (Path(folder), Path(folder) / "world"):
        if (candidate / "world.json").exists():
            return candidate
    raise WeightsError(f"{folder} is no world: it has no world.json; `cobra train explore` makes one in OUT/world.")


def load_world(folder: Path | str | None = None) -> WorldModel:
    """Load a world model: vision, transition model and exploration policy.

    Args:
        folder: A world, or a run of `cobra train explore`; by default the world that is shipped with the package.

    Returns:
        The world model.

    Raises:
        WeightsError: If there is no world, a part of it was changed, or its parts were not trained together.
    """
    place = find_world(folder)
    world_sha256(place)  # refuses parts that were changed
    vision = load_vision(place / "vision")
    models = {}
    for part in ("transition", "exploration"):
        config = read_config(place / part, part)
        if config.pop("vision", None) != sha256(place / "vision"):
            raise WeightsError(f"The {part} model in {place} was trained on another vision than the one beside it.")
        where = f"{place / part / 'config.json'}, action_size,"
        action_size = conform(Width, config.pop("action_size", None), where)
        sizes = sizes_of(vision.config, action_size)
        arguments = (sizes, vision.place) if part == "transition" else (sizes,)
        models[part] = _load_model(place / part, part, config, *arguments)
    return WorldModel(vision, **models, action_size=action_size)


def world_sha256(folder: Path | str | None = None) -> str:
    """Return the sha256 that identifies a world, after checking that none of its parts was changed.

    Args:
        folder: A world, or a run of `cobra train explore`; by default the shipped world.

    Returns:
        The sha256, in hexadecimal digits.

    Raises:
        WeightsError: If there is no world, or a part of it was changed.
    """
    place = find_world(folder)
    record = storage.read_json(place / "world.json")
    found = _fingerprint(place)
    if record != found:
        sealed = conform(dict[str, str], record.get("parts", {}), f"{place / 'world.json'}, parts,")
        changed = [part for part in PARTS if sealed.get(part) != found["parts"][part]]
        raise WeightsError(
            f"The world in {place} is not whole: its {', '.join(changed) or 'world.json'} changed after it was made; "
            "run the command that made it again, or take another world."
        )
    return found["sha256"]


def world_record(place: Path) -> dict[str, str]:
    """Return what a run records about its world: the sha256 and the path."""
    return {"sha256": world_sha256(place), "path": "shipped" if place == SHIPPED else str(place.resolve())}


def seal_world(folder: Path) -> str:
    """Write world.json beside the three parts and return the world's sha256."""
    record = _fingerprint(folder)
    storage.write_json(folder / "world.json", record)
    return record["sha256"]


def copy_vision(source: Path, target: Path) -> None:
    """Copy the weights of vision, or of another part, into a world; identical files are not written again."""
    for name in ("config.json", "weights.safetensors"):
        _copy(source / name, target / name)


def copy_world(source: Path, target: Path) -> None:
    """Copy a world into a run that uses it, so that the run can be moved and loaded on its own; world.json last."""
    for part in PARTS:
        copy_vision(source / part, target / part)
    _copy(source / "world.json", target / "world.json")


def _copy(source: Path, target: Path) -> None:
    data = source.read_bytes()
    if not target.exists() or target.read_bytes() != data:
        storage.write_atomically(target, data)


def _fingerprint(folder: Path) -> dict[str, Any]:
    parts = {part: sha256(folder / part) for part in PARTS}
    whole = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    return {"kind": "world", "sha256": whole, "parts": parts}


def _load_model(folder: Path, part: str, config: dict, *arguments: Any) -> Any:
    """Load a model from its weights and the configuration beside them; raise WeightsError if they do not fit."""
    name, kinds = config.pop("model", None), KINDS[part]
    if not isinstance(name, str) or name not in kinds:
        raise WeightsError(f"The {part} in {folder} is a {name!r}; this code knows {', '.join(kinds)}.")
    kind, where = kinds[name], str(folder / "config.json")
    try:
        settings = from_json(kind.config, config, where)
        like = eqx.filter_eval_shape(lambda key: kind.model(settings, *arguments, key), jax.random.key(0))
    except (ValueError, TypeError) as error:
        raise WeightsError(str(error)) from error
    return load_weights(folder, like, part)
