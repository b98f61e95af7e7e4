"""Phase 2, exploration: actors -> replay -> joint training of the transition model and the exploration policy."""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, UInt8

from cobra_rl.agents import explorer
from cobra_rl.collect.actors import Actors, LocalActors
from cobra_rl.collect.replay import Replay, ReplayState
from cobra_rl.collect.transition import Transition
from cobra_rl.config import ExploreConfig
from cobra_rl.evaluation.explore import explore_scores
from cobra_rl.evaluation.vision import in_batches
from cobra_rl.models.curiosity import Curiosity
from cobra_rl.models.exploration import Exploration
from cobra_rl.models.nets import Lattice, averaged
from cobra_rl.models.transition import TransitionModel
from cobra_rl.models.vision import VisionModel
from cobra_rl.models.world import WorldModel, make_exploration, make_transition, part_weights, sizes_of
from cobra_rl.parts import make_part
from cobra_rl.phases.contract import Report
from cobra_rl.phases.schedules import (
    LearningPhase,
    at,
    copied,
    gradient_step,
    muon,
    on_devices,
    optimiser_of,
    over_devices,
)
from cobra_rl.spriteworld.base import Environment
from cobra_rl.storage.weights import Weights

SCHEDULED = ("priority", "importance", "change_cost", "click_cost")  # hyperparameters that change during training


class Learner(NamedTuple):
    """The state of the learner, without the replay."""

    transition: TransitionModel
    exploration: Exploration
    curiosity: Curiosity
    average: tuple[TransitionModel, Exploration]  # of T and D, moving averages, which are evaluated and saved
    optimisers: tuple[optax.OptState, optax.OptState, optax.OptState]


class ExploreState(NamedTuple):
    """The state of the run."""

    learner: Learner
    memory: ReplayState
    acting: Any  # state of the local actors; None for Ray actors
    env_steps: Array


class ExplorePhase(LearningPhase):
    """The phase, for the run loop. After a resume, local actors continue their episodes; Ray actors start new ones."""

    columns = ("hit_rate", "position_error", "replaced", "transition", "curiosity", "hits")
    compressed = True

    def __init__(
        self,
        config: ExploreConfig,
        env: Environment,
        vision: VisionModel,
        vision_sha256: str,
        seed: int,
        *,
        title: str = "explore",
        actors: Actors | None = None,
    ):
        if config.lattice > 1 and not vision.patch:
            raise ValueError("This vision module's decoder draws only whole pictures; set --config.lattice 1.")
        super().__init__(config, env, seed, title)
        self.config = config
        self.vision = vision
        self._sha256 = vision_sha256
        self.history: dict[str, Any] = {"hits": []}  # hit rates of the actors since the last report
        self._actors = actors or LocalActors(*actor_functions(config, env, config.envs), vision, seed + 2)
        self._scorer = explore_scores(env, config.validation_scenes)
        self._add, self._update = _compiled(config)

    def init(self) -> ExploreState:
        """Start with fresh weights and an empty replay."""
        key = jax.random.key(self.seed)
        transition_key, exploration_key = jax.random.split(key)
        size = self.env.action_size
        models = (
            make_transition(self.config.transition, self.vision, size, transition_key),
            make_exploration(self.config.exploration, self.vision, size, exploration_key),
            make_part(self.config.curiosity, sizes_of(self.vision.config, size), jax.random.fold_in(key, 2)),
        )
        optimiser = make_optimiser(self.config)  # the same for all networks
        optimisers = jax.jit(lambda models: tuple(map(optimiser.init, models)))(eqx.filter(models, eqx.is_array))
        memory = empty_replay(self.config, self.vision, size)
        return ExploreState(Learner(*models, copied(models[:2]), optimisers), memory, self._acting, jnp.int32(0))

    def step(self, state: ExploreState, step: int) -> tuple[ExploreState, dict[str, Any]]:
        """Collect transitions from the actors if they are due, then update all networks once."""
        state = on_devices(state, self.config.batch)
        if isinstance(self._actors, LocalActors):
            self._actors.state = state.acting
        memory = state.memory
        env_steps = int(state.env_steps)
        due = step % self.config.updates == 0
        policy = state.learner.exploration if self.config.curious else None
        while due or env_steps < self.config.min_replay_size:
            for part in self._actors.collect(policy, wait=env_steps < self.config.min_replay_size):
                memory = self._add(part.transitions, memory)
                env_steps += part.transitions.action.shape[0]
                self.history["hits"].append(part.hits)
            due = False
        now = {name: jnp.float32(at(getattr(self.config, name), step / self.steps)) for name in SCHEDULED}
        given = (self.vision, jax.random.fold_in(self._keys, step), now)
        learner, memory, metrics = self._update(given, state.learner, memory)
        if not isinstance(self._actors, LocalActors):
            metrics = metrics | {"replaced": self._actors.replaced}
        return ExploreState(learner, memory, self._acting, jnp.int32(env_steps)), metrics

    @property
    def _acting(self) -> Any:
        return self._actors.state if isinstance(self._actors, LocalActors) else None

    def report(self, state: ExploreState, step: int) -> Report:
        """Score the averaged weights on validation scenes and draw where the policy clicks."""
        world = WorldModel(self.vision, *state.learner.average, self.env.action_size)
        since = [float(hits) for hits in self.history["hits"]]
        hits = {"hits": float(np.mean(since))} if since else {}
        self.history["hits"].clear()
        scores = hits | self._scorer.score(world) | {"env_steps": float(state.env_steps)}
        return Report(scores, {"clicks": picture(world, self._scorer.images[:6])})

    def weights(self, state: ExploreState) -> dict[str, Weights]:
        """Return the averaged weights of both networks, to be saved."""
        parts = zip(("transition", "exploration"), state.learner.average, strict=True)
        return {f"world/{part}": part_weights(part, model, self.env.action_size, self._sha256) for part, model in parts}


def make_optimiser(config: ExploreConfig) -> optax.GradientTransformation:
    """Make the optimiser that a configuration names, with its decay."""
    return optimiser_of(config, {"adam": optax.adam, "muon": muon}[config.optimiser])


@functools.cache
def _compiled(config: ExploreConfig):
    """Compile the functions of a step, once for all runs of this process; both donate their arguments but the first.

    Returns:
        `add`: (transitions, memory) -> memory, and
        `update`: ((vision, key, now), learner, memory) -> (learner, memory, metrics).
    """
    optimiser = make_optimiser(config)
    replay = Replay(config.capacity, config.batch)

    @eqx.filter_jit(donate="all-except-first")
    def add(items: Transition, memory: ReplayState) -> ReplayState:
        return replay.add(memory, items)

    @eqx.filter_jit(donate="all-except-first")
    def update(given, learner: Learner, memory: ReplayState):
        vision, key, now = given
        sample_key, phase_key, policy_key = jax.random.split(key, 3)
        batch = over_devices(replay.sample(memory, sample_key, now["priority"], now["importance"]))
        lattice = None
        if config.lattice > 1:
            phase = jax.random.randint(phase_key, (2,), 0, config.lattice)
            lattice = Lattice(config.lattice, phase, vision.patch)
        imagine, policy, curiosity, _, (first, second, third) = learner
        imagine, first, _, metrics = gradient_step(
            optimiser,
            first,
            imagine,
            vision,
            batch.items,
            batch.importance,
            change_cost=now["change_cost"],
            lattice=lattice,
        )
        memory = replay.update(memory, batch.indices, metrics.pop("errors"))
        if config.curious:
            curiosity, third, _, more = gradient_step(optimiser, third, curiosity, vision, batch.items)
            metrics = metrics | more

            def interest(slots: Array, action: Array) -> Array:
                return curiosity(slots, action, imagine(slots, action))

            scenes = jnp.repeat(batch.items.observation, config.samples, axis=0)
            policy, second, _, more = gradient_step(
                optimiser, second, policy, interest, scenes, policy_key, click_cost=now["click_cost"]
            )
            metrics = metrics | more
        average = averaged(learner.average, (imagine, policy), config.ema_decay)
        return Learner(imagine, policy, curiosity, average, (first, second, third)), memory, metrics

    return add, update


def empty_replay(config: ExploreConfig, vision: VisionModel, action_size: int) -> ReplayState:
    """Make an empty replay for the slots of a vision module and actions of this size."""
    seen = vision.config
    slots = jnp.zeros((seen.slots, seen.latents))
    after = slots if config.transition.loss == "slots" else jnp.zeros((seen.size, seen.size, 3), jnp.uint8)
    item = Transition(slots, jnp.zeros(action_size), after)
    return Replay(config.capacity, config.batch).init(item)


@functools.cache
def actor_functions(config: ExploreConfig, env: Environment, count: int) -> tuple[functools.partial, functools.partial]:
    """Return the functions by which actors begin and play; they can be pickled and sent to other processes."""
    play = functools.partial(explorer.play, env, config.uniform, config.transition.loss)
    return functools.partial(explorer.begin, env, count), play


def picture(world: WorldModel, images: UInt8[np.ndarray, "B H W 3"]) -> UInt8[np.ndarray, "_ _ 3"]:
    """Draw a row of scenes, twice as large, with the position clicks of 64 proposals as white dots."""
    proposals = np.asarray(world.propose(in_batches(world.encode, images), jax.random.key(0), 64))
    pictures = np.repeat(np.repeat(images, 2, axis=1), 2, axis=2)
    size = pictures.shape[1]
    for scene, actions in zip(pictures, proposals, strict=True):
        column, row = np.clip((actions[:, :2] * size).astype(int), 0, size - 1).T
        scene[size - 1 - row, column] = 255
    return np.concatenate(list(np.pad(pictures, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=100)), axis=1)
