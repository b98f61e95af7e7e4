"""Training of the model-free baselines: vectorised environments -> replay -> MPO. Each seed is a run of its own.

A step of the phase is one step in each of E environments, or as many steps of Ray actors, followed by the updates that
the replay ratio requires; all results count environment steps. The replay stores slots, or states of the environment
that are rendered when sampled.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from cobra_rl.agents import model_free
from cobra_rl.agents.mpo import Mpo, MpoState, Transition
from cobra_rl.bounds import TrainingSeed
from cobra_rl.config import BaselineConfig
from cobra_rl.environments import Problem
from cobra_rl.evaluation.task import recent_success
from cobra_rl.models.transition import Sizes
from cobra_rl.phases.schedules import check_memory
from cobra_rl.phases.solving import SeedPhase, Solving
from cobra_rl.runtime.actors import Actors, Collected
from cobra_rl.runtime.replay import Replay, ReplayState
from cobra_rl.spriteworld.base import Environment
from cobra_rl.worlds import find_world, load_world

MakeActors = Callable[..., Actors]  # (begin, play, world, seed) -> actors
POINTS = 300  # most points of the learning curve in result.json: there may be 10^5 episodes


class BaselineState(NamedTuple):
    """The state of the run."""

    agent: MpoState
    memory: ReplayState
    acting: model_free.PlayState | None  # None: Ray actors play


@dataclass
class BaselinePhase(SeedPhase[Mpo]):
    """One seed of a baseline. After a resume, environments in this process continue; Ray actors start new episodes."""

    columns = ("success", "episodes", "hits")
    report_every = 20
    patience = 0.05

    actors: Actors | None = None  # None: environments are stepped in this process

    def __post_init__(self):
        if self.actors is not None:
            self.notes["sent"] = 0  # environment steps that the actors have sent
        self.save_every = max(self.agent.config.save_every // self.agent.config.envs, 1)

    def init(self) -> BaselineState:
        """Start with fresh networks, an empty replay and fresh episodes."""
        acting = None
        if self.actors is None:
            acting = model_free.begin(self.env, self.agent.config.envs, self.world, jax.random.key(self.seed + 2))
        return BaselineState(*_fresh(self.agent, self.env, jax.random.key(self.seed)), acting)

    def step(self, state: BaselineState, step: int) -> tuple[BaselineState, dict[str, Any]]:
        """Take a step in each environment, then do as many updates as the replay ratio requires."""
        config, (agent, memory, acting) = self.agent.config, state
        env_steps = (step + 1) * config.envs
        parts, acting, played = self._collect(agent, acting, env_steps)
        metrics = self.progress() | {"env_steps": played}
        counted = played - sum(part.transitions.reward.shape[0] for part in parts)
        for part in parts:
            items = part.transitions
            reward, success, truncated = jax.device_get((items.reward, items.terminated, items.truncated))
            counted += reward.size
            metrics |= self.count(reward, success, success | truncated, counted, agent) | {"hits": part.hits}
            memory = _add((config, items), memory)
        before, now = (
            int(count * config.replay_ratio / config.batch) for count in (env_steps - config.envs, env_steps)
        )
        for number in range(before, now) if env_steps >= config.first else ():
            sample_key, learn_key = jax.random.split(jax.random.fold_in(jax.random.key(self.seed + 1), number))
            batch = _sample(self.env, config, memory, sample_key)
            agent, learnt = _update((self.agent, batch, learn_key), agent)
            metrics |= learnt
        return BaselineState(agent, memory, acting), metrics

    def _collect(self, agent: MpoState, acting: Any, env_steps: int) -> tuple[list[Collected], Any, int]:
        """Play until there are `env_steps`; Ray actors send many at a time, so that there may be a few more.

        Returns what was played, the state of the environments in this process, and the number of steps so far.
        """
        if self.actors is None:
            acting, part = model_free.play(self.env, self.agent.config, self.world, agent.networks, acting)
            return [part], acting, env_steps
        parts, played = [], self.notes["sent"]
        while played < env_steps:
            parts += (new := self.actors.collect(agent.networks, wait=True))
            played += sum(part.transitions.reward.shape[0] for part in new)
        self.notes["sent"] = played
        return parts, None, played

    def close(self) -> None:
        """Stop the Ray actors."""
        if self.actors is not None:
            self.actors.close()

    def course(self) -> dict[str, Any]:
        """Return the thinned learning curve: the success of the last 30 episodes, by environment steps."""
        count = len(self.notes["ends"])
        places = np.unique(np.geomspace(1, count, POINTS).round().astype(int)) if count else np.zeros(0, int)
        ends, success = np.array([0, *self.notes["ends"]]), recent_success(self.notes["success"])
        return {"curve": {"steps": ends[places].tolist(), "success": success[places].round(4).tolist()}}


@eqx.filter_jit
def _fresh(agent: Mpo, env: Environment, key: PRNGKeyArray) -> tuple[MpoState, ReplayState]:
    return agent.init(key), _replay(agent.config).init(model_free.blank(env, agent.config, agent.sizes))


@eqx.filter_jit(donate="all-except-first")
def _add(given: tuple[BaselineConfig, Transition], memory: ReplayState) -> ReplayState:
    return _replay(given[0]).add(memory, given[1])


# Separate from `_update`, so that pictures are rendered once (see model_free.py).
@eqx.filter_jit
def _sample(env: Environment, config: BaselineConfig, memory: ReplayState, key: PRNGKeyArray) -> Transition:
    batch = _replay(config).sample_uniformly(memory, key)
    before, after = (model_free.see(env, config, kept) for kept in (batch.observation, batch.next_observation))
    return batch._replace(observation=before, next_observation=after)


@eqx.filter_jit(donate="all-except-first")
def _update(given: tuple[Mpo, Transition, PRNGKeyArray], state: MpoState) -> tuple[MpoState, dict[str, Array]]:
    agent, batch, key = given
    return agent.update(state, batch, key)


def _replay(config: BaselineConfig) -> Replay:
    return Replay(config.capacity, config.batch)


@dataclass(frozen=True)
class BaselineSolving(Solving):
    """The training of a task by one of the four baselines."""

    phase_name: ClassVar[str] = "baseline"
    seed_type: ClassVar[Any] = TrainingSeed

    config: BaselineConfig
    make_actors: MakeActors | None = None  # None: environments are stepped in the learner's process

    def __post_init__(self):
        super().__post_init__()
        check_memory(lambda: _fresh(self.agent, self.train_env, jax.random.key(0)), "--config.capacity")

    @property
    def agent(self) -> Mpo:
        """The MPO learner."""
        slots, latents = (0, 0) if self.world is None else self.world.sizes[:2]
        return Mpo(self.config, Sizes(slots, latents, self.train_env.action_size, self.train_env.image_size))

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that run.json records, with the name of the baseline and whether Ray actors play."""
        return super().settings | {"agent": self.config.name} | ({"actors": "ray"} if self.make_actors else {})

    def phase(self, seed: int, title: str) -> BaselinePhase:
        """Make the phase that trains one seed."""
        config, turns = self.config, self.steps // self.config.envs
        players = "Ray actors" if self.make_actors else f"{config.envs} environments"
        title = f"{config.name}, {title}, {players}"
        options: dict[str, Any] = {"reward_cap": config.reward_cap, "check_every": self.check_every}
        if self.make_actors:
            begin = functools.partial(model_free.begin, self.train_env, 1)
            play = functools.partial(model_free.play, self.train_env, config)
            options["actors"] = self.make_actors(begin, play, self.world, seed + 2)
        return BaselinePhase(self.agent, self.train_env, self.world, seed, turns, title, **options)


def prepare_baseline(
    config: BaselineConfig,
    problem: Problem,
    folder: Path,
    seeds: range = range(1),
    steps: int = 20_000,
    final: int = 200,
    world_folder: Path | str | None = None,
    command: str = "python",
    check_every: int = 0,
    make_actors: MakeActors | None = None,
) -> Solving:
    """Describe the training of a task by one of the four baselines, without starting it.

    Args:
        config: The baseline and how it learns; presets are in `config.BASELINE`.
        problem: The task and its rewards.
        folder: The run's folder; it is made when training starts.
        seeds: The random seeds; each is a run of its own, in `folder`/seedN.
        steps: The number of environment steps per seed, rounded up to a multiple of `config.envs`.
        final: The number of greedy episodes in each mode that score a seed at the end.
        world_folder: The folder of the world model, by default the shipped one; MPO raw uses none.
        command: The command that was typed, for the records.
        check_every: The number of steps between two checks of the greedy policy in 100 episodes; 0 makes none.
        make_actors: What makes the actors that collect, called as (begin, play, world, seed); by default the
            environments are stepped in this process.

    Returns:
        The description; its method `solve` runs the training.

    Raises:
        ValueError: If an environment does not fit the world, the replay does not fit into memory, or a world is given
            that MPO raw would not use.
    """
    if world_folder is not None and not config.uses_world:
        raise ValueError("MPO raw uses no world model; leave --world out, or ask for --features slots.")
    place = find_world(world_folder) if config.uses_world else None
    world = None if place is None else load_world(place)
    steps, envs = -(-steps // config.envs) * config.envs, problem.environments()
    rest = (folder, seeds, steps, final, envs, place, command, check_every, make_actors)
    return BaselineSolving(config, world, problem, *rest)
