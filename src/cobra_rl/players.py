"""Loads the agent of any run, whichever kind of agent it is, for evaluation, films and the page of `cobra play`."""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from cobra_rl.agent import Agent
from cobra_rl.agents.base import Policy
from cobra_rl.agents.mpo import MpoParams, mpo_policy
from cobra_rl.agents.registry import make_agent
from cobra_rl.bounds import conform, from_json
from cobra_rl.config import BaselineConfig
from cobra_rl.environments import Problem
from cobra_rl.models.actor_critic import ActorCritic
from cobra_rl.models.transition import Sizes
from cobra_rl.models.world import WorldModel
from cobra_rl.records import RunSettings, TaskSettings, WorldUsed, recorded, world_of
from cobra_rl.runtime.run import Weights
from cobra_rl.runtime.typed import to_json
from cobra_rl.runtime.weights import CONFIG, WEIGHTS, load_weights, read_config
from cobra_rl.worlds import load_world


@dataclass(frozen=True, kw_only=True)
class BaselineSettings(RunSettings):
    """The settings of a run of `cobra baseline`."""

    agent: str  # the name of the baseline, such as mpo_raw
    config: BaselineConfig
    world: WorldUsed | None  # None for MPO raw
    phase: Literal["baseline"]
    actors: Literal["local", "ray"] = "local"  # what collected its experience

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.world is not None) != self.config.uses_world or self.agent != self.config.name:
            raise ValueError(f"agent and world must be those of config, which is {self.config.name}")


class OtherPlayer(NamedTuple):
    """An agent other than COBRA that has learnt a task."""

    policy: Policy  # the greedy policy; a baseline acts by the mean of its Gaussian
    params: Any
    problem: Problem
    world: WorldModel | None  # the world model that it uses, or None
    name: str  # of the task, with that of the agent


Player = Agent | OtherPlayer  # any agent that has learnt a task: its policy, params, problem, world and name


def load_player(run: str | Path, seed: int | None = None, world: str | Path | None = None) -> Player:
    """Load the agent of a seed of a run, whichever kind of agent it is.

    Args:
        run: The folder of a run of `cobra solve` or `cobra baseline`, or of a saved agent.
        seed: The random seed; by default the first of the run.
        world: The folder of its world, if that was moved (see `Agent.load`).

    Returns:
        An `Agent` if COBRA learnt, else an `OtherPlayer`.
    """
    folder, settings = Path(run), player_settings(run)
    if isinstance(settings, BaselineSettings):
        return _baseline(folder, settings, seed, world)
    if settings.config.agent == "cobra":
        return Agent.load(folder, seed, world)
    return _registered(folder, settings, seed, world)


def _baseline(folder: Path, settings: BaselineSettings, seed: int | None, world: str | Path | None) -> OtherPlayer:
    path = settings.weights_of(folder, seed, "actor_critic")
    entries, where = read_config(path, "actor_critic"), str(path / "config.json")
    sizes = Sizes(*conform(tuple[int, int, int, int], entries.pop("sizes", None), f"{where}, sizes,"))
    config = from_json(BaselineConfig, entries, where)
    known = None if settings.world is None else load_world(world_of(folder, settings.world, world))
    if config != settings.config or (known is not None and sizes != known.sizes):
        raise ValueError(f"{where} is not of the run {folder}: its configuration or its sizes are others.")
    make = functools.partial(ActorCritic, config.networks, sizes, config.features == "pixels")
    networks = load_weights(path, eqx.filter_eval_shape(make, jax.random.key(0)), "actor_critic")
    name = settings.problem.name(agent=config.name)
    return OtherPlayer(mpo_policy(config), MpoParams(known, networks), settings.problem, known, name)


def _registered(folder: Path, settings: TaskSettings, seed: int | None, world: str | Path | None) -> OtherPlayer:
    """Load an agent of `AGENTS`: its saved weights have the shape of those that it has before the first step."""
    known, config = load_world(world_of(folder, settings.world, world)), settings.config
    known = known if settings.problem.exploration_policy else known.without_policy()
    agent, image = make_agent(config), jnp.zeros((known.sizes.image, known.sizes.image, 3), jnp.uint8)

    def fresh(key: PRNGKeyArray) -> Weights:
        return agent.weights(known, agent.init(key, known, agent.observe(known, image)))

    like = eqx.filter_eval_shape(fresh, jax.random.key(0))
    path = settings.weights_of(folder, seed, like.kind)
    if read_config(path, like.kind) != to_json(like.config):
        raise ValueError(f"{path / 'config.json'} is not of the run {folder}: its configuration is another.")
    params = agent.restore(known, load_weights(path, like.tree, like.kind))
    used = next(filter(is_world, jax.tree.leaves(params, is_leaf=is_world)), None)
    return OtherPlayer(agent.policy, params, settings.problem, used, settings.problem.name(config.value, config.agent))


def is_world(part: Any) -> bool:
    """Return whether a part of an agent's parameters is the world model."""
    return isinstance(part, WorldModel)


def player_settings(run: str | Path) -> TaskSettings | BaselineSettings:
    """Return the settings of a run of `cobra solve` or `cobra baseline`; raise a ValueError for any other run."""
    phase, settings = recorded(run)
    if phase == "baseline":
        return from_json(BaselineSettings, settings, f"{Path(run) / 'run.json'}, settings,")
    return Agent.settings(run)


def learnt_seeds(run: Path) -> list[int]:
    """Return the random seeds of a run that have saved weights."""
    player_settings(run)  # refuses what is no such run
    files = (path for name in (WEIGHTS, CONFIG) for path in run.glob(f"seed*/*/{name}"))
    names = {path.parents[1].name.removeprefix("seed") for path in files}
    return sorted(int(name) for name in names if name.isdecimal())
