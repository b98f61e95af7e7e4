"""Worlds as folders, by name or by path: vision, transition model and exploration policy, and which belong together.

A world that is known by name is a folder NAME/; all but the first entry may be missing:

    world/      the weights and world.json, as `cobra train explore --out NAME` writes them
    tasks/      agents that learnt in it: runs of `cobra solve`, by task, such as sorting or sorting-released
    results/    what was measured of it (reporting/results.py); shipped worlds have theirs in results/NAME
    README.md   the model card, whose front matter says what the world is and how it was trained

The shipped worlds lie in `SHIPPED`, the user's own in the folder that `own_worlds` returns.
"""

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import equinox as eqx
import jax

from cobra_rl.bounds import Width, conform, from_json
from cobra_rl.cache import keep_compilations
from cobra_rl.models.exploration import ExplorationConfig
from cobra_rl.models.reward import RewardConfig
from cobra_rl.models.transition import TransitionConfig
from cobra_rl.models.vision import VisionModel, VisionModelConfig
from cobra_rl.models.world import WorldModel, sizes_of
from cobra_rl.parts import make_part, trusting
from cobra_rl.storage import files
from cobra_rl.storage.weights import WeightsError, load_weights, read_config, sha256

keep_compilations()

DEFAULT_WORLD = "structured"
SHIPPED = Path(__file__).parents[1] / "weights"  # a folder for each shipped world
PARTS = ("vision", "transition", "exploration")
CONFIGS = {
    "vision": VisionModelConfig,
    "transition": TransitionConfig,
    "exploration": ExplorationConfig,
    "reward": RewardConfig,
}


def own_worlds() -> Path:
    """Return the folder of the user's own worlds: COBRA_WORLDS, or cobra-rl/worlds in the user's data folder."""
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(os.environ.get("COBRA_WORLDS") or Path(data, "cobra-rl", "worlds"))


def named_worlds() -> dict[str, Path]:
    """Return the folders of the worlds that are known by name: those shipped, then the user's own of other names."""
    found: dict[str, Path] = {}
    for folder in (*sorted(SHIPPED.glob("*")), *sorted(own_worlds().glob("*"))):
        if sealed(folder):
            found.setdefault(folder.name, folder)
    return found


def name_of_world(sha256: str) -> str | None:
    """Return the name under which the world with this sha256 is known, or None."""
    return next((name for name, home in named_worlds().items() if _claimed_sha256(home) == sha256), None)


def home_of(world: Path | str | None) -> Path:
    """Return the folder that holds a world with its agents, results and model card, if it has any.

    Args:
        world: A name, which wins over a folder of that name (./NAME is the folder); a folder; None: `DEFAULT_WORLD`.
    """
    world = DEFAULT_WORLD if world is None else world
    return named_worlds().get(world, Path(world)) if isinstance(world, str) else world


def sealed(folder: Path) -> Path | None:
    """Return the folder with world.json, which is `folder` or world/ in it; None if there is none."""
    return next((place for place in (folder, folder / "world") if (place / "world.json").is_file()), None)


def find_world(world: Path | str | None) -> Path:
    """Find the folder with the weights of a world: by its name, in a folder, or in a run of `cobra train explore`.

    Args:
        world: A name or a folder, as `home_of` takes it.

    Raises:
        WeightsError: If there is no such world; it lists the names.
    """
    place = sealed(home_of(world))
    if place is None:
        raise WeightsError(
            f"{world} is no world: it has no world.json, and is none of the names {', '.join(named_worlds())}; "
            "`cobra train explore` makes one in OUT/world."
        )
    return place


def agents_in(world: Path | str | None) -> dict[str, Path]:
    """Return the agents that are kept with a world: the folders of their runs by name, such as sorting-released."""
    return {run.parent.name: run.parent for run in sorted(home_of(world).glob("tasks/*/run.json"))}


def find_vision(folder: Path | str | None) -> Path:
    """Find the vision weights in a run of `cobra train vision`, in a folder of weights, or in a world."""
    home = home_of(folder)
    for candidate in (home, home / "weights", home / "vision", home / "world" / "vision"):
        if (candidate / "weights.safetensors").exists():
            return candidate
    raise WeightsError(
        f"There are no vision weights in {folder}: give a run of `cobra train vision`, or a world, by its folder or "
        f"its name ({', '.join(named_worlds())})."
    )


def load_vision(folder: Path | str | None = None, trust: bool = False) -> VisionModel:
    """Load a vision module.

    Args:
        folder: A run of `cobra train vision`, a folder of its weights, or a world, as `load_world` takes it.
        trust: Whether code that the folder names as its class may be run.

    Returns:
        The vision module.

    Raises:
        WeightsError: If there are no vision weights, or they are damaged or of another version.
    """
    place = find_vision(folder)
    return load_model(place, "vision", read_config(place, "vision"), trust=trust)


def load_world(world: Path | str | None = None, trust: bool = False, *, policy: bool = True) -> WorldModel:
    """Load a world model: vision, transition model and exploration policy.

    Args:
        world: A name, such as "structured" (`cobra worlds` lists them), or a folder: a world, or a run of
            `cobra train explore`. A name wins over a folder of that name; "./NAME" is the folder. By default the world
            `DEFAULT_WORLD`, which is shipped with the package.
        trust: Whether code that the world names as the class of a part may be run.
        policy: Whether to use its exploration policy; else proposals are uniform.

    Returns:
        The world model.

    Raises:
        WeightsError: If there is no world, a part of it was changed, or its parts were not trained together.
    """
    place = find_world(world)
    world_sha256(place)  # refuses parts that were changed
    vision = load_vision(place / "vision", trust)
    models = {}
    for part in ("transition", "exploration"):
        config = read_config(place / part, part)
        if config.pop("vision", None) != sha256(place / "vision"):
            raise WeightsError(f"The {part} model in {place} was trained on another vision than the one beside it.")
        action_size = conform(
            Width,
            config.pop("action_size", None),
            f"{place / part / 'config.json'}, action_size,",
        )
        sizes = sizes_of(vision.config, action_size)
        arguments = (sizes, vision.place) if part == "transition" else (sizes,)
        models[part] = load_model(place / part, part, config, *arguments, trust=trust)
    loaded = WorldModel(vision, **models, action_size=action_size)
    return loaded if policy else loaded.without_policy()


def world_sha256(world: Path | str | None = None) -> str:
    """Return the sha256 that identifies a world, after checking that none of its parts was changed.

    Args:
        world: A name or a folder, as `load_world` takes it.

    Returns:
        The sha256, in hexadecimal digits.

    Raises:
        WeightsError: If there is no world, or a part of it was changed.
    """
    place = find_world(world)
    record = files.read_json(place / "world.json")
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
    """Return what a run records about its world: the sha256, and the name or else the path."""
    sha256 = world_sha256(place)
    return {"sha256": sha256, "path": name_of_world(sha256) or str(place.resolve())}


def seal_world(folder: Path) -> str:
    """Write world.json beside the three parts and return the world's sha256."""
    record = _fingerprint(folder)
    files.write_json(folder / "world.json", record)
    return record["sha256"]


def copy_vision(source: Path, target: Path) -> None:
    """Copy the weights of vision, or of another part, into a world; identical files are not written again."""
    for name in ("config.json", "weights.safetensors"):
        files.copy_if_other(source / name, target / name)


def copy_world(source: Path, target: Path) -> None:
    """Copy a world into a run, so that the run can be moved and loaded on its own; those that are shipped need not be.

    world.json comes last.
    """
    if source.is_relative_to(SHIPPED):
        return
    for part in PARTS:
        copy_vision(source / part, target / part)
    files.copy_if_other(source / "world.json", target / "world.json")


def _fingerprint(folder: Path) -> dict[str, Any]:
    parts = {part: sha256(folder / part) for part in PARTS}
    return {
        "kind": "world",
        "sha256": hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest(),
        "parts": parts,
    }


def _claimed_sha256(home: Path) -> Any:
    """Return the sha256 that a world says it has, unchecked; None if its world.json cannot be read."""
    with suppress(ValueError, OSError):
        return files.read_json((sealed(home) or home) / "world.json").get("sha256")


def load_model(folder: Path, kind: str, config: dict[str, Any], *arguments: Any, trust: bool) -> Any:
    """Load a model from its weights.

    Args:
        folder: The folder of the weights.
        kind: The kind of the model, one of `CONFIGS`.
        config: The configuration that was saved beside the weights.
        *arguments: What models of this kind are built from beside that.
        trust: Whether code that the configuration names as the class may be run.

    Raises:
        WeightsError: If configuration and weights do not fit.
    """
    try:
        with trusting(trust):
            settings = from_json(CONFIGS[kind], config, str(folder / "config.json"))
        like = eqx.filter_eval_shape(lambda key: make_part(settings, *arguments, key), jax.random.key(0))
    except (ValueError, TypeError) as error:
        raise WeightsError(str(error)) from error
    return load_weights(folder, like, kind)
