"""The settings of runs, as run.json records them and as they are read again.

A run may come from somebody else. Nothing here runs code that it names, nor reads files outside of its folder, but for
a world whose sha256 is the recorded one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from cobra_rl.bounds import Checked, Count, Often, Seed, TrainingSeed, conform, from_json
from cobra_rl.config import AgentConfig, CobraConfig, ExploreConfig, VisionConfig
from cobra_rl.environments import Problem, as_environments
from cobra_rl.parts import absolute_name, is_trusting, short_name, trusting
from cobra_rl.runs.folder import WORLD, refuse_links
from cobra_rl.runs.worlds import find_world, name_of_world, sealed, world_sha256
from cobra_rl.storage.files import read_json

TASK_FILE = "task.py"  # in the folder of a run: its task as Python, to be read; runs of version 0.2 loaded it
GIVE_WORLD = "give its folder, by --world FOLDER on the command line or world= in Python"


@dataclass(frozen=True)
class WorldUsed(Checked):
    """The world that a run used: its sha256, which decides, and its name or the path of its folder."""

    sha256: str
    path: str = ""


@dataclass(frozen=True, kw_only=True)
class VisionSettings(Checked):
    """The settings that run.json records for a run of `cobra train vision`."""

    phase: Literal["vision"] = "vision"
    config: VisionConfig
    seed: TrainingSeed
    env: str | None = None  # module:name or file.py:name of a user's environment; None: the suite's


@dataclass(frozen=True, kw_only=True)
class ExploreSettings(Checked):
    """The settings that run.json records for a run of `cobra train explore`."""

    phase: Literal["explore"] = "explore"
    config: ExploreConfig
    seed: TrainingSeed
    env: str | None = None
    vision: str  # sha256 of the vision module
    actors: Literal["local", "ray"] = "local"  # what plays in the environment


@dataclass(frozen=True, kw_only=True)
class TaskSettings(Checked):
    """The settings that run.json records for a run of `cobra solve` or `cobra baseline`, or for a saved agent."""

    phase: Literal["task"] = "task"
    agent: str = "cobra"  # the agent's name, for people and tables; `config` says which class it is
    problem: Problem
    config: AgentConfig = field(default_factory=CobraConfig)
    world: WorldUsed | None  # None: the agent uses none
    steps: Count | None = None  # None: an agent that `Agent.save` left
    first_seed: Seed = 0
    seed_count: Count = 1
    final: Count | None = None
    check_every: Often = 0  # steps between two checks of the greedy agent; 0: none
    actors: Literal["local", "ray"] = "local"  # what collects the agent's experience

    @staticmethod
    def upgrade(data: Mapping[str, Any]) -> dict[str, Any]:
        """Turn the entries of version 0.2, in which baselines were a phase of their own, into those of now."""
        entries = {**data, "phase": "task"} if data.get("phase") == "baseline" else dict(data)
        config = entries.get("config")
        if "agent" not in entries and isinstance(config, Mapping) and isinstance(config.get("agent"), str):
            entries["agent"] = short_name(config["agent"])
        return entries

    def weights_of(self, folder: Path, seed: int | None, kind: str) -> Path:
        """Return the folder of the weights of a seed (default: the first); raise FileNotFoundError if it is missing."""
        seed = self.first_seed if seed is None else conform(Seed, seed, "seed")
        path = folder / f"seed{seed}" / kind
        if not path.is_dir():
            raise FileNotFoundError(f"{folder} holds no agent of seed {seed} yet: {path} is missing.")
        return path


def task_settings(run: str | Path, env: Any = None, trust: bool = False) -> TaskSettings:
    """Read the settings of a run that learnt a task, or of a saved agent.

    Args:
        run: The folder of the run.
        env: The environment that it learnt in, given again (see `trusted`).
        trust: Whether code that the run names may be run.

    Raises:
        FileNotFoundError: If there is no run.
        ValueError: If the run is of another kind or damaged, or names code that the user does not trust.
    """
    folder = Path(run)
    path = folder / "run.json"
    if not path.exists():
        raise FileNotFoundError(f"{run} is no run of `cobra solve`: it has no run.json.")
    refuse_links(folder)
    entries = read_json(path).get("settings")
    if isinstance(entries, dict) and entries.get("phase") in ("vision", "explore"):
        raise ValueError(f"{run} is no run of `cobra solve`, but of `cobra train {entries['phase']}`.")
    with trusting(trust):
        settings = from_json(TaskSettings, entries, f"{path}, settings,")
        return replace(settings, problem=trusted(settings.problem, folder, env))


def trusted(problem: Problem, run: Path, env: Any) -> Problem:
    """Return the problem of a run, with an environment that may be loaded.

    A task of the suite, or one that is recorded as data, runs no code. Any other is a user's file or module, which is
    imported only if the user says so: a run may come from somebody else.

    Args:
        problem: The problem that the run recorded.
        run: The folder of the run.
        env: The environment, given again: module:name, file.py:name, or an object as `as_environment` takes it.

    Raises:
        ValueError: If it names code, and the user neither gives `env` nor trusts the run.
    """
    if isinstance(env, str):
        return replace(problem, env=absolute_name(env), specs=None)
    if env is not None:
        return replace(problem, env=None, specs=None).with_data(as_environments(env))
    if problem.specs is not None or problem.env is None:
        return replace(problem, env=None)
    # A run of version 0.2 kept its own in its folder.
    code = str(run.resolve() / problem.env) if problem.env == f"{TASK_FILE}:task" else problem.env
    if is_trusting():
        return replace(problem, env=code)
    raise ValueError(
        f"The environment of {run} is code, {code}, and is not run by opening the run; if you trust it, add --trust "
        "(trust=True in Python), or give the environment again by --env FILE:NAME (env=)."
    )


def world_of(folder: Path, recorded: WorldUsed, given: str | Path | None) -> Path:
    """Find the world that a run used.

    Args:
        folder: The folder of the run.
        recorded: What the run recorded of its world. Only its sha256 leads to a world that is known by name.
        given: The world, by name or folder, if the user names it; otherwise it is the one with that sha256 that is
            known by name, or the run's copy, or that at the recorded path.
    """
    asked = name_of_world(recorded.sha256) if given is None else given
    copies = [folder / WORLD, Path(recorded.path)] if "/" in recorded.path else [folder / WORLD]
    place = next(filter(None, map(sealed, copies)), None) if asked is None else find_world(asked)
    if place is None:
        raise FileNotFoundError(
            f"The world that {folder} learnt in is no longer there ({recorded.path}); {GIVE_WORLD}."
        )
    if world_sha256(place) != recorded.sha256:
        raise ValueError(
            f"The run {folder} learnt in another world than {place}: it needs the one with sha256 "
            f"{recorded.sha256[:12]}; {GIVE_WORLD}."
        )
    return place
