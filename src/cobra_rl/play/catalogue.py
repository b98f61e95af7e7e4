"""What all sessions share: the world, and the agents that a page may choose, by name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import jax

from cobra_rl.agents.contract import Params, Policy
from cobra_rl.config import CobraConfig
from cobra_rl.models.reward import Reward
from cobra_rl.models.world import WorldModel
from cobra_rl.runs.agent import Agent
from cobra_rl.runs.load import is_world, load_agent
from cobra_rl.runs.settings import task_settings
from cobra_rl.runs.worlds import agents_in, find_world, world_sha256
from cobra_rl.spriteworld import Spriteworld


class GivenRun(NamedTuple):
    """A run that may be loaded, and whether its environment may be, if that is code."""

    folder: Path
    env: str | None = None  # the environment, given again
    trust: bool = False  # the code that the run names may be run


class RewardHead(NamedTuple):
    """What an agent wants, and how it plans."""

    predictor: Reward
    config: CobraConfig


class LoadedAgent(NamedTuple):
    """An agent that is looked into and acts: any policy will do; only one with a reward head says what it wants."""

    env: Spriteworld
    world: WorldModel
    policy: Policy
    params: Params
    reward_head: RewardHead | None = None


@dataclass(frozen=True)
class AgentCatalogue:
    """The world, and the folders in which agents are found."""

    world: WorldModel
    world_folder: Path | str | None = None  # or its name; None: the default world
    runs: Path = Path("runs", "play")  # where agents are saved, and found by name
    given: Mapping[str, GivenRun] = field(default_factory=dict)  # further runs, by name

    def runs_by_name(self) -> dict[str, GivenRun]:
        """List the runs that the page may load: those in `runs`, and those given at the start."""
        found = sorted(self.runs.iterdir()) if self.runs.is_dir() else []
        return {path.name: GivenRun(path) for path in found if (path / "run.json").is_file()} | dict(self.given)

    def agents(self) -> list[str]:
        """List the agents that the page may choose."""
        shipped = [f"shipped:{name}" for name in agents_in(self.world_folder)]
        return shipped + [f"run:{name}" for name in self.runs_by_name()]

    def load(self, name: str, mode: str) -> LoadedAgent:
        """Load an agent by its name, with the environment that it learnt in; no other name leads anywhere.

        An agent without a reward predictor has no `reward_head`.
        """
        if name not in self.agents():
            raise ValueError(f"There is no agent {name!r} here.")
        kind, _, run = name.partition(":")
        given = GivenRun(agents_in(self.world_folder)[run]) if kind == "shipped" else self.runs_by_name()[run]
        folder = find_world(self.world_folder)
        learnt_with = task_settings(*given).world
        if learnt_with is not None and learnt_with.sha256 != world_sha256(folder):
            raise ValueError(f"{run} learnt with another world; start `cobra play --world` with that one.")
        agent = load_agent(given.folder, world=folder, env=given.env, trust=given.trust)
        env = agent.problem.environments()[mode]
        if not isinstance(env, Spriteworld):
            raise ValueError(f"{run} learnt in an environment without sprites, which the page cannot show.")
        uses_policy = agent.world is None or agent.world.exploration is not None
        world = self.world if uses_policy else self.world.without_policy()
        # One world in memory and in compiled code
        params = jax.tree.map(lambda part: world if is_world(part) else part, agent.params, is_leaf=is_world)
        reward_head = RewardHead(agent.predictor, agent.config) if isinstance(agent, Agent) else None
        return LoadedAgent(env, world, agent.policy, params=params, reward_head=reward_head)
