"""Train the exploration phase's models: vision on frames of random play, then T and D on the frozen vision."""

from pathlib import Path

from cobra_rl.bounds import TrainingSeed, conform
from cobra_rl.collect.actors import Actors
from cobra_rl.config import ExploreConfig, VisionConfig
from cobra_rl.models.vision import VisionModel
from cobra_rl.models.world import WorldModel
from cobra_rl.phases.contract import Diverged
from cobra_rl.phases.explore import ExplorePhase, empty_replay
from cobra_rl.phases.schedules import check_memory
from cobra_rl.phases.vision import VisionPhase
from cobra_rl.runs.folder import open_run
from cobra_rl.runs.loop import run
from cobra_rl.runs.settings import ExploreSettings, VisionSettings
from cobra_rl.runs.signals import Stopped
from cobra_rl.runs.worlds import PARTS, copy_vision, find_vision, load_vision, load_world, seal_world
from cobra_rl.spriteworld.base import Environment
from cobra_rl.storage.weights import sha256


def train_vision(
    config: VisionConfig,
    env: Environment,
    folder: Path,
    *,
    seed: int = 0,
    title: str = "vision",
    env_name: str | None = None,
    command: str = "python",
) -> VisionModel:
    """Train a vision module on frames of random play; the same call resumes a run that was stopped.

    Args:
        config: The model and its training; presets are in `config.VISION`.
        env: The environment that the frames are of.
        folder: The run's folder, for checkpoints, log and weights; it is made if it does not exist.
        seed: The random seed of weight initialisation and data.
        title: The heading of the progress bar.
        env_name: The name of the environment, for run.json.
        command: The command that was typed, for run.json.

    Returns:
        The vision module with the least loss on held-out scenes, which is also saved in `folder`/weights.

    Raises:
        ValueError: If the pictures of `env` do not fit the model, or `folder` holds a run with other settings.
        Stopped: If a signal asked to stop; the run is saved.
        Diverged: If a loss or a weight is no longer finite.
    """
    conform(TrainingSeed, seed, "seed")
    with open_run(folder, VisionSettings(config=config, seed=seed, env=env_name), command=command):
        run(VisionPhase(config, env, seed, title=title), folder)
    return load_vision(folder / "weights")


def train_explore(
    config: ExploreConfig,
    env: Environment,
    vision: Path,
    folder: Path,
    *,
    seed: int = 0,
    title: str = "explore",
    actors: Actors | None = None,
    env_name: str | None = None,
    command: str = "python",
) -> WorldModel:
    """Train T and D on a frozen vision module; the same call resumes a run that was stopped.

    Args:
        config: The models and their training; presets are in `config.EXPLORE`.
        env: The environment to explore.
        vision: A run of `cobra train vision`, a folder of its weights, or a world.
        folder: The run's folder; it is made if it does not exist.
        seed: The random seed of weight initialisation and data.
        title: The heading of the progress bar.
        actors: What plays in the environment, by default in this process; the caller closes those that are passed.
        env_name: The name of the environment, for run.json.
        command: The command that was typed, for run.json.

    Returns:
        The world model, which is also saved in `folder`/world. A run that stops early leaves a usable world there,
        too, if it had saved weights before.

    Raises:
        WeightsError: If there are no vision weights.
        ValueError: If `folder` holds a run with other settings, or the replay does not fit into memory.
        Stopped: If a signal asked to stop; the run is saved.
        Diverged: If a loss or a weight is no longer finite.
        ChildProcessError: If actors in other processes fail for good.
    """
    source = find_vision(vision)
    fingerprint = sha256(source)
    seen = load_vision(source)
    check_memory(lambda: empty_replay(config, seen, env.action_size), "--config.capacity")
    conform(TrainingSeed, seed, "seed")
    settings = ExploreSettings(
        config=config,
        seed=seed,
        env=env_name,
        vision=fingerprint,
        actors="local" if actors is None else "ray",
    )
    with open_run(folder, settings, command=command):
        copy_vision(source, folder / "world" / "vision")
        phase = ExplorePhase(config, env, seen, fingerprint, seed, title=title, actors=actors)
        try:
            run(phase, folder)
        except (Stopped, Diverged, ChildProcessError):  # the saved world is complete and usable meanwhile
            if all((folder / "world" / part / "weights.safetensors").exists() for part in PARTS):
                seal_world(folder / "world")
            raise
        seal_world(folder / "world")
    return load_world(folder / "world")
