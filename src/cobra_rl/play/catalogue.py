"""What all sessions share: the world, and the agents that a page may choose, by name."""

import functools
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
from cobra_rl.spriteworld import Spriteworld, make


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

    @functools.cached_property
    def latent_ranges(self) -> list[tuple[float, float]]:
        """From where to where each latent goes in scenes of the kind that the world has learnt from."""
        from cobra_rl.play import inspection  # which imports this module

        env = make("exploration")
        keys = jax.random.split(jax.random.key(0), inspection.TYPICAL_SCENES)
        images = (inspection.draw_scene(env.reset(key)[0].sprites, self.world.sizes.image) for key in keys)
        return inspection.latent_ranges(self.world, images)

    def agents(self) -> dict[str, GivenRun]:
        """Return the agents that the page may choose, by name: of the world, in `runs`, and given at the start."""
        shipped = {f"shipped:{name}": GivenRun(path) for name, path in agents_in(self.world_folder).items()}
        saved = {f"run:{path.parent.name}": GivenRun(path.parent) for path in sorted(self.runs.glob("*/run.json"))}
        return shipped | saved | {f"run:{name}": run for name, run in self.given.items()}

    def load(self, name: str, mode: str) -> LoadedAgent:
        """Load an agent by its name, with the environment that it learnt in; no other name leads anywhere.

        An agent without a reward predictor has no `reward_head`.
        """
        given = self.agents().get(name)
        if given is None:
            raise ValueError(f"There is no agent {name!r} here.")
        run = name.partition(":")[2]
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
