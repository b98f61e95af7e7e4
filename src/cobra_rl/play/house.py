"""What all sessions share: the world, and the agents that a page may choose, by name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import jax

from cobra_rl.agent import TASKS as SHIPPED_AGENTS
from cobra_rl.agent import Agent
from cobra_rl.agents.base import Params, Policy
from cobra_rl.config import TaskConfig
from cobra_rl.models.reward import Reward
from cobra_rl.models.world import WorldModel
from cobra_rl.players import is_world, load_player, player_settings
from cobra_rl.spriteworld.env import Spriteworld
from cobra_rl.worlds import find_world, world_sha256


class Wish(NamedTuple):
    """What an agent wants, and how it plans."""

    predictor: Reward
    config: TaskConfig


class Chosen(NamedTuple):
    """An agent that is looked into and acts: any policy will do; only one with a wish can be asked what it wants."""

    env: Spriteworld
    world: WorldModel
    policy: Policy
    params: Params
    wish: Wish | None = None


@dataclass(frozen=True)
class House:
    """The world, and the folders in which agents are found."""

    world: WorldModel
    world_folder: Path | None = None  # None: the shipped world
    runs: Path = Path("runs", "play")  # where agents are saved, and found by name
    given: Mapping[str, Path] = field(default_factory=dict)  # further runs, by name

    def runs_by_name(self) -> dict[str, Path]:
        """List the runs that the page may load: those in `runs`, and those given at the start."""
        found = sorted(self.runs.iterdir()) if self.runs.is_dir() else []
        return {path.name: path for path in found if (path / "run.json").is_file()} | dict(self.given)

    def agents(self) -> list[str]:
        """List the agents that the page may choose."""
        shipped = sorted(path.name for path in SHIPPED_AGENTS.iterdir() if path.is_dir())
        here = [f"shipped:{name}" for name in shipped if self.world_folder is None]
        return here + [f"run:{name}" for name in self.runs_by_name()]

    def load(self, name: str, mode: str) -> Chosen:
        """Load an agent by its name, with the environment that it learnt in; no other name leads anywhere.

        An agent without a reward predictor is a `Chosen` without wish.
        """
        if name not in self.agents():
            raise ValueError(f"There is no agent {name!r} here.")
        kind, _, run = name.partition(":")
        folder = SHIPPED_AGENTS / run if kind == "shipped" else self.runs_by_name()[run]
        place, learnt_in = find_world(self.world_folder), player_settings(folder).world
        if learnt_in is not None and learnt_in.sha256 != world_sha256(place):
            raise ValueError(f"{run} learnt in another world; start `cobra play --world` with that one.")
        agent = load_player(folder, world=place)
        env = agent.problem.environments()[mode] if agent.problem else None
        if not isinstance(env, Spriteworld):
            raise ValueError(f"{run} learnt in a world without sprites, which the page cannot show.")
        used, world = agent.world, self.world
        if used is not None and used.exploration is None:
            world = world.without_policy()
        # One world in memory and compiled code
        params = jax.tree.map(lambda part: world if is_world(part) else part, agent.params, is_leaf=is_world)
        wish = Wish(agent.predictor, agent.config) if isinstance(agent, Agent) else None
        return Chosen(env, world, agent.policy, params, wish)
