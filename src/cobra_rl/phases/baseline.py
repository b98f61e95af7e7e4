"""The model-free baselines: vectorised environments with reward -> replay -> MPO, one seed after the other.

A step of the phase is one step in each of E environments and the updates that the replay ratio asks for; all counts of
results are in environment steps. The replay holds slots, or states of the environment that are drawn when sampled.
"""

import functools
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from cobra_rl.agents import model_free
from cobra_rl.agents.base import Policy
from cobra_rl.agents.mpo import Mpo, MpoParams, MpoState, mpo_policy
from cobra_rl.config import BaselineConfig
from cobra_rl.environments import Problem
from cobra_rl.models.actor_critic import ActorCritic
from cobra_rl.models.transition import Sizes
from cobra_rl.models.world import WorldModel
from cobra_rl.phases.task import FREE, SeedPhase, describe_world, run_seeds
from cobra_rl.runtime.actors import Actors, LocalActors
from cobra_rl.runtime.replay import Replay, ReplayState
from cobra_rl.runtime.run import open_run
from cobra_rl.runtime.typed import from_json
from cobra_rl.runtime.weights import load_weights, read_config
from cobra_rl.spriteworld.base import Environment
from cobra_rl.worlds import SHIPPED, copy_world, find_world

MakeActors = Callable[[Any, Any, Any, int], Any]  # (begin, play, parts, seed) -> actors that can be closed


class BaselineState(NamedTuple):
    """All that a step changes."""

    agent: MpoState
    memory: ReplayState
    acting: Any  # local actors' environments; None if actors play elsewhere
    env_steps: Array


@dataclass
class BaselinePhase(SeedPhase[Mpo]):
    """One seed of a baseline; local actors' episodes go on exactly after a stop, others begin anew."""

    report_every = 20
    patience = 0.05

    actors: Actors | None = None  # by default, environments in this process

    def __post_init__(self):
        super().__post_init__()
        config = self.agent.config
        self.save_every = max(config.save_every // config.envs, 1)
        begin, play = actor_functions(config, self.env, config.envs)
        self._actors = self.actors or LocalActors(begin, play, self.world, self.seed + 2)
        self._add, self._update = _compiled(self.agent, self.env)

    def init(self) -> BaselineState:
        """Start with fresh networks and an empty replay."""
        config, agent = self.agent.config, self.agent.init(jax.random.key(self.seed))
        begin, play = actor_functions(config, self.env, 1)
        start = eqx.filter_eval_shape(begin, self.world, jax.random.key(0))
        step = eqx.filter_eval_shape(play, self.world, agent.networks, start)[1].transitions
        empty = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape[1:], leaf.dtype), step)
        memory = Replay(config.capacity, config.batch).init(empty)
        return BaselineState(agent, memory, self._acting, jnp.int32(0))

    def step(self, state: BaselineState, step: int) -> tuple[BaselineState, dict[str, Any]]:
        """Take a step in each environment, then learn as often as the replay ratio asks for."""
        if isinstance(self._actors, LocalActors):
            self._actors.state = state.acting
        config, agent, memory = self.agent.config, state.agent, state.memory
        env_steps, due, hits = int(state.env_steps), (step + 1) * config.envs, None
        while env_steps < due:
            for part in self._actors.collect(agent.networks, wait=True):
                steps = part.transitions
                memory = self._add(steps, memory)
                env_steps += steps.action.shape[0]
                hits = part.hits
                reward, success, truncated = jax.device_get((steps.reward, steps.terminated, steps.truncated))
                self.count(reward, success, success | truncated, env_steps, agent)
        metrics = {} if hits is None else {"hits": hits}
        for number in range(*(int(count * config.replay_ratio / config.batch) for count in (due - config.envs, due))):
            if due >= config.first:
                key = jax.random.fold_in(jax.random.key(self.seed + 1), number)
                agent, learnt = self._update((memory, key), agent)
                metrics |= learnt
        return BaselineState(agent, memory, self._acting, jnp.int32(env_steps)), metrics | self.recent()

    @property
    def _acting(self) -> Any:
        return self._actors.state if isinstance(self._actors, LocalActors) else None


@functools.cache
def _compiled(agent: Mpo, env: Environment) -> tuple[Callable, Callable]:
    """Compile, once for all seeds: add(items, memory) -> memory, update((memory, key), state) -> (state, metrics)."""
    replay = Replay(agent.config.capacity, agent.config.batch)

    def update(given: tuple[ReplayState, Array], state: MpoState):
        memory, key = given
        sample_key, learn_key = jax.random.split(key)
        batch = replay.sample_uniformly(memory, sample_key)
        before, after = (
            model_free.see(env, agent.config, kept) for kept in (batch.observation, batch.next_observation)
        )
        return agent.update(state, batch._replace(observation=before, next_observation=after), learn_key)

    add = eqx.filter_jit(lambda items, memory: replay.add(memory, items), donate="all-except-first")
    return add, eqx.filter_jit(update, donate="all-except-first")


@functools.cache
def actor_functions(
    config: BaselineConfig, env: Environment, count: int
) -> tuple[functools.partial, functools.partial]:
    """Return how actors begin and play, as functions that travel to other processes."""
    return functools.partial(model_free.begin, env, config, count), functools.partial(model_free.play, env, config)


def train_baseline(
    config: BaselineConfig,
    world: WorldModel | None,
    problem: Problem,
    folder: Path,
    seeds: range = range(1),
    steps: int = 20_000,
    final: int = 200,
    world_folder: Path | str | None = None,
    make_actors: MakeActors | None = None,
    command: str = "python",
) -> dict[str, Any]:
    """Learn a task without a model in `folder`; the same call goes on where the last one stopped, as of `solve`.

    Args:
        config: Which of the four baselines, and its learning.
        world: The world model, frozen; None for MPO raw, which uses none.
        problem: What is to be learnt.
        folder: The run's folder; what is returned is also written to `folder`/result.json.
        seeds: Random seeds, one after the other.
        steps: Environment steps for each seed, rounded up to whole steps of all environments.
        final: Greedy episodes at the end, in each mode.
        world_folder: Where the world came from; by default it is the shipped one.
        make_actors: Makes the actors of each seed, to play elsewhere; by default environments in this process play.
        command: What was typed, for result.json.
    """
    turns = -(-steps // config.envs)
    settings: dict[str, Any] = {"phase": "baseline", "agent": config.name, "problem": problem, "config": config}
    settings |= {"world": None} if world is None else describe_world(world_folder)
    settings |= {"steps": turns * config.envs, "first_seed": seeds.start, "seed_count": len(seeds), "final": final}
    settings |= {"actors": "ray" if make_actors else "local"}
    open_run(folder, settings, {"config": BaselineConfig()}, free=FREE, command=command)
    if world is not None and (place := find_world(world_folder)) != SHIPPED:
        copy_world(place, folder / "world")
    envs = problem.environments()
    train_env = envs["train"]
    slots, latents = (0, 0) if world is None else world.sizes[:2]
    agent = Mpo(config, Sizes(slots, latents, train_env.action_size, train_env.image_size))
    with ExitStack() as elsewhere:

        def make_phase(seed: int, title: str) -> SeedPhase:
            elsewhere.close()  # actors of the seed before
            actors = None
            if make_actors is not None:
                functions = actor_functions(config, train_env, 1)
                actors = elsewhere.enter_context(closing(make_actors(*functions, world, seed + 2)))
            title = f"{config.name}, {title}, {config.envs} environments"
            return BaselinePhase(agent, train_env, world, seed, turns, title, config.reward_cap, actors=actors)

        return run_seeds(make_phase, folder, settings, envs, seeds, final)


def load_baseline(folder: Path, seed: int, world: WorldModel | None) -> tuple[Policy, MpoParams]:
    """Load what a seed of a run learnt: how it acts, greedily, and its parameters."""
    path = folder / f"seed{seed}" / "actor_critic"
    entries = read_config(path, "actor_critic")
    sizes = Sizes(*entries.pop("sizes"))
    config = from_json(BaselineConfig, entries, str(path / "config.json"))
    make = functools.partial(ActorCritic, config.networks, sizes, config.features == "pixels")
    networks = load_weights(path, eqx.filter_eval_shape(make, jax.random.key(0)), "actor_critic")
    return mpo_policy(config), MpoParams(world, networks)
