"""Loads the agent of any run, COBRA's `Agent` or a baseline, for evaluation, films and the page of `cobra play`."""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import equinox as eqx
import jax

from cobra_rl.agent import Agent, RunSettings, TaskSettings, WorldUsed, recorded, world_of
from cobra_rl.agents.base import Policy
from cobra_rl.agents.mpo import MpoParams, mpo_policy
from cobra_rl.bounds import conform, from_json
from cobra_rl.config import BaselineConfig
from cobra_rl.environments import Problem
from cobra_rl.models.actor_critic import ActorCritic
from cobra_rl.models.transition import Sizes
from cobra_rl.models.world import WorldModel
from cobra_rl.runtime.weights import load_weights, read_config
from cobra_rl.worlds import load_world

KINDS = {"task": "reward", "baseline": "actor_critic"}  # the kind of weights that a seed saves, by the phase of its run


@dataclass(frozen=True, kw_only=True)
class BaselineSettings(RunSettings):
    """The settings of a run of `cobra baseline`."""

    agent: str  # the name of the baseline, such as mpo_raw
    config: BaselineConfig
    world: WorldUsed | None  # None for MPO raw
    phase: Literal["baseline"]

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.world is not None) != self.config.uses_world or self.agent != self.config.name:
            raise ValueError(f"agent and world must be those of config, which is {self.config.name}")


class BaselinePlayer(NamedTuple):
    """A baseline that has learnt a task; it acts by the mean of its policy."""

    policy: Policy  # the greedy policy
    params: MpoParams
    problem: Problem
    world: WorldModel | None  # the world model that it uses, or None
    name: str  # of the task, with that of the baseline


Player = Agent | BaselinePlayer  # any agent that has learnt a task: its policy, params, problem, world and name


def load_player(run: str | Path, seed: int | None = None, world: str | Path | None = None) -> Player:
    """Load the agent of a seed of a run, whichever kind of agent it is.

    Args:
        run: The folder of a run of `cobra solve` or `cobra baseline`, or of a saved agent.
        seed: The random seed; by default the first of the run.
        world: The folder of its world, if that was moved (see `Agent.load`).

    Returns:
        An `Agent`, or a `BaselinePlayer`.
    """
    folder, settings = Path(run), player_settings(run)
    if isinstance(settings, TaskSettings):
        return Agent.load(folder, seed, world)
    path = settings.weights_of(folder, seed, KINDS["baseline"])
    entries, where = read_config(path, KINDS["baseline"]), str(path / "config.json")
    sizes = Sizes(*conform(tuple[int, int, int, int], entries.pop("sizes", None), f"{where}, sizes,"))
    config = from_json(BaselineConfig, entries, where)
    known = None if settings.world is None else load_world(world_of(folder, settings.world, world))
    if config != settings.config or (known is not None and sizes != known.sizes):
        raise ValueError(f"{where} is not of the run {folder}: its configuration or its sizes are others.")
    make = functools.partial(ActorCritic, config.networks, sizes, config.features == "pixels")
    networks = load_weights(path, eqx.filter_eval_shape(make, jax.random.key(0)), KINDS["baseline"])
    name = settings.problem.name(agent=config.name)
    return BaselinePlayer(mpo_policy(config), MpoParams(known, networks), settings.problem, known, name)


def player_settings(run: str | Path) -> TaskSettings | BaselineSettings:
    """Return the settings of a run of `cobra solve` or `cobra baseline`; raise a ValueError for any other run."""
    phase, settings = recorded(run)
    if phase == "baseline":
        return from_json(BaselineSettings, settings, f"{Path(run) / 'run.json'}, settings,")
    return Agent.settings(run)


def learnt_seeds(run: Path) -> list[int]:
    """Return the random seeds of a run that have saved weights."""
    kind = KINDS[player_settings(run).phase]
    names = (path.parent.name.removeprefix("seed") for path in run.glob(f"seed*/{kind}"))
    return sorted(int(name) for name in names if name.isdecimal())
