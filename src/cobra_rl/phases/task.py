"""Phase 3, task: an environment with reward -> a reward predictor. Each seed is a run of its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from cobra_rl.agents.base import Agent, Playing, begin
from cobra_rl.agents.base import step as take_step
from cobra_rl.agents.registry import make_agent
from cobra_rl.config import TaskConfig
from cobra_rl.environments import Problem
from cobra_rl.models.world import WorldModel
from cobra_rl.phases.schedules import check_memory
from cobra_rl.phases.solving import SeedPhase, Solving
from cobra_rl.spriteworld.base import Environment
from cobra_rl.worlds import find_world


@dataclass
class TaskPhase(SeedPhase[Agent]):
    """The training of one seed of an `Agent`; one step of the phase is one environment step."""

    def init(self) -> Playing:
        """Start a fresh agent in a fresh episode."""
        return begin(self.agent, self.env, self.world, jax.random.key(self.seed))

    def step(self, state: Playing, step: int) -> tuple[Playing, dict[str, Any]]:
        """Take one environment step and learn from it."""
        state, outcome, metrics = take_step(self.agent, self.env, self.world, state)
        reward, success, done = jax.device_get(outcome[1:])
        return state, metrics | self.count(reward, success, done, step + 1, state.agent)


@dataclass(frozen=True)
class AgentSolving(Solving):
    """The training of a task by an `Agent`, such as COBRA."""

    phase_name: ClassVar[str] = "task"

    config: TaskConfig
    world: WorldModel

    def __post_init__(self):
        agent = make_agent(self.config)  # refuses an unknown one before any work is done
        super().__post_init__()
        world, side = self.world, self.world.sizes.image
        image = jnp.zeros((side, side, 3), jnp.uint8)
        check_memory(lambda: agent.init(jax.random.key(0), world, agent.observe(world, image)), "--config.memory")

    def phase(self, seed: int, title: str) -> TaskPhase:
        """Make the phase that trains one seed."""
        world = self.world if self.problem.exploration_policy else self.world.without_policy()
        agent, cap = make_agent(self.config), self.config.reward_cap
        return TaskPhase(agent, self.train_env, world, seed, self.steps, title, cap, self.check_every)


def prepare(
    config: TaskConfig,
    world: WorldModel,
    problem: Problem,
    folder: Path,
    seeds: range = range(1),
    steps: int = 1000,
    final: int = 200,
    envs: Mapping[str, Environment] | None = None,
    world_folder: Path | str | None = None,
    command: str = "python",
    check_every: int = 0,
) -> Solving:
    """Describe the training of a task, without starting it.

    Args:
        config: The agent and how it learns; presets are in `config.TASK`.
        world: The world model, which stays frozen.
        problem: The task, its rewards, and whether the exploration policy is used.
        folder: The run's folder; it is made when training starts.
        seeds: The random seeds; each is a run of its own, in `folder`/seedN.
        steps: The number of rewarded environment steps per seed.
        final: The number of greedy episodes in each mode that score a seed at the end.
        envs: The environments by mode, "train" and "test"; by default those of `problem`.
        world_folder: The folder that `world` was loaded from, by default the shipped one; any other is copied.
        command: The command that was typed, for the records.
        check_every: The number of steps between two checks of the greedy policy in 100 episodes; 0 makes none.

    Returns:
        The description; its method `solve` runs the training.

    Raises:
        ValueError: If the agent is unknown, an environment does not fit the world, or the memory is too large.
    """
    envs = problem.environments() if envs is None else envs
    place = find_world(world_folder)
    return AgentSolving(config, world, problem, folder, seeds, steps, final, envs, place, command, check_every)


def solve(*args: Any, **options: Any) -> dict[str, Any]:
    """Learn a task; the same call resumes a run that was stopped, and may add steps or seeds.

    Args:
        *args: Arguments of `prepare`.
        **options: Keyword arguments of `prepare`.

    Returns:
        The contents of result.json: the settings, the scores and learning curve of each seed, and reference policies.

    Raises:
        ValueError: As by `prepare`, or if `folder` holds a run with other settings or more steps.
        Stopped: If a signal asked to stop; the run is saved.
        Diverged: If a loss, a weight or a reward is no longer finite.
    """
    return prepare(*args, **options).solve()
