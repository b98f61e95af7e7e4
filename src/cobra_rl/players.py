"""Whoever a run left, COBRA's `Agent` or a baseline: what evaluation, films and the page need of either."""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import equinox as eqx
import jax

from cobra_rl.agent import Agent, RunSettings, TaskSettings, WorldUsed, recorded, world_of
from cobra_rl.agents.base import Params, Policy
from cobra_rl.agents.mpo import MpoParams, mpo_policy
from cobra_rl.bounds import conform, from_json
from cobra_rl.config import BaselineConfig
from cobra_rl.environments import Problem
from cobra_rl.models.actor_critic import ActorCritic
from cobra_rl.models.transition import Sizes
from cobra_rl.models.world import WorldModel
from cobra_rl.runtime.weights import load_weights, read_config
from cobra_rl.worlds import load_world

KINDS = {"task": "reward", "baseline": "actor_critic"}  # the weights that a seed leaves, by the phase of its run


@runtime_checkable
class Player(Protocol):
    """What learnt a task, and plays it now."""

    @property
    def policy(self) -> Policy:
        """How it acts."""
        ...

    @property
    def params(self) -> Params:
        """What `policy` needs."""
        ...

    @property
    def problem(self) -> Problem | None:
        """What it learnt, if that is known."""
        ...

    @property
    def world(self) -> WorldModel | None:
        """What it sees with; None: it sees pictures as they are."""
        ...

    @property
    def name(self) -> str:
        """What it learnt, as folders and films are called."""
        ...


@dataclass(frozen=True, kw_only=True)
class BaselineSettings(RunSettings):
    """What a run of `cobra baseline` was asked for."""

    agent: str  # the name of its configuration
    config: BaselineConfig
    world: WorldUsed | None  # None: MPO raw
    phase: Literal["baseline"]

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.world is not None) != self.config.uses_world or self.agent != self.config.name:
            raise ValueError(f"agent and world must be those of config, which is {self.config.name}")


@dataclass(frozen=True)
class BaselinePlayer:
    """A baseline with what a task taught it; it acts by the mean of its policy."""

    params: MpoParams
    problem: Problem
    config: BaselineConfig

    @property
    def policy(self) -> Policy:
        """How it acts."""
        return mpo_policy(self.config)

    @property
    def world(self) -> WorldModel | None:
        """The world model that it uses, if it does."""
        return self.params.world

    @property
    def name(self) -> str:
        """What it learnt, and which of the four it is."""
        return self.problem.name(agent=self.config.name)


def load_player(run: str | Path, seed: int | None = None, world: str | Path | None = None) -> Player:
    """Load who learnt a seed (by default the first) of a run; `world` is where its world lies now, as in `Agent.load`.

    Args:
        run: The folder of a run of `cobra solve` or `cobra baseline`, or of a saved agent.
        seed: The random seed that is asked for.
        world: The folder of its world, if that was moved.

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
    return BaselinePlayer(MpoParams(known, networks), settings.problem, config)


def player_settings(run: str | Path) -> TaskSettings | BaselineSettings:
    """Return what a run was asked for; a run.json of any other form is refused."""
    phase, settings = recorded(run)
    if phase == "baseline":
        return from_json(BaselineSettings, settings, f"{Path(run) / 'run.json'}, settings,")
    return Agent.settings(run)


def learnt_seeds(run: Path) -> list[int]:
    """Return the seeds of a run that left weights."""
    kind = KINDS[player_settings(run).phase]
    names = (path.parent.name.removeprefix("seed") for path in run.glob(f"seed*/{kind}"))
    return sorted(int(name) for name in names if name.isdecimal())
