"""Phase 2, exploration: actors -> replay -> joint training of the transition model and the exploration policy."""

import functools
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, UInt8

from cobra_rl.agents import explorer
from cobra_rl.bounds import TrainingSeed, conform
from cobra_rl.config import ExploreConfig
from cobra_rl.evaluation.explore import explore_scores
from cobra_rl.evaluation.vision import in_batches
from cobra_rl.models.exploration import Exploration
from cobra_rl.models.nets import Lattice, averaged
from cobra_rl.models.transition import TransitionModel, Transitions
from cobra_rl.models.vision import VisionModel
from cobra_rl.models.world import WorldModel, make_exploration, make_transition
from cobra_rl.phases.schedules import at, check_memory, copied, on_devices, optimiser_of, over_devices
from cobra_rl.runtime.actors import Actors, LocalActors
from cobra_rl.runtime.folder import open_run
from cobra_rl.runtime.replay import Replay, ReplayState
from cobra_rl.runtime.run import Diverged, Report, Weights, run
from cobra_rl.runtime.signals import Stopped
from cobra_rl.runtime.weights import sha256
from cobra_rl.spriteworld.base import Environment
from cobra_rl.worlds import PARTS, copy_vision, find_vision, load_vision, load_world, part_weights, seal_world

SCHEDULED = ("priority", "importance", "change_cost", "click_cost")  # hyperparameters that change during training


class Learner(NamedTuple):
    """The state of the learner, without the replay."""

    transition: TransitionModel
    exploration: Exploration
    average: tuple[TransitionModel, Exploration]  # moving averages of both, which are evaluated and saved
    optimisers: tuple[optax.OptState, optax.OptState]


class ExploreState(NamedTuple):
    """The state of the run."""

    learner: Learner
    memory: ReplayState
    acting: Any  # state of the local actors; None for Ray actors
    env_steps: Array


class ExplorePhase:
    """The phase, for the run loop. After a resume, local actors continue their episodes; Ray actors start new ones."""

    columns = ("hit_rate", "position_error", "replaced", "transition", "curiosity", "hits")
    read_every = 20
    evaluates = True
    compressed = True
    keep = True

    def __init__(
        self,
        config: ExploreConfig,
        env: Environment,
        vision: VisionModel,
        vision_sha256: str,
        seed: int,
        title: str = "explore",
        actors: Actors | None = None,
    ):
        if config.lattice > 1 and not vision.patch:
            raise ValueError("This vision module's decoder draws only whole pictures; set --config.lattice 1.")
        self.config, self.env, self.vision, self.seed, self.title = config, env, vision, seed, title
        self._sha256 = vision_sha256
        self.steps, self.report_every, self.save_every = config.steps, config.evaluate_every, config.evaluate_every
        self.notes: dict[str, Any] = {"hits": []}  # hit rates of the actors since the last report
        self._actors = actors or LocalActors(*actor_functions(config, env, config.envs), vision, seed + 2)
        self._replay = Replay(config.capacity, config.batch)
        self._score = explore_scores(env, config.validation_scenes)
        self._optimiser = optimiser_of(config, optax.adam)  # the same for both networks
        self._keys = jax.random.key(seed + 1)
        self._add, self._update = _compiled(config, env.action_size)

    def init(self) -> ExploreState:
        """Start with fresh weights and an empty replay."""
        transition_key, exploration_key = jax.random.split(jax.random.key(self.seed))
        size = self.env.action_size
        models = (
            make_transition(self.config.transition, self.vision, size, transition_key),
            make_exploration(self.config.exploration, self.vision, size, exploration_key),
        )
        optimisers = jax.jit(lambda models: tuple(map(self._optimiser.init, models)))(eqx.filter(models, eqx.is_array))
        memory = empty_replay(self.config, self.vision, size)
        return ExploreState(Learner(*models, copied(models), optimisers), memory, self._acting, jnp.int32(0))

    def step(self, state: ExploreState, step: int) -> tuple[ExploreState, dict[str, Array]]:
        """Collect transitions from the actors if they are due, then update both networks once."""
        state = on_devices(state, self.config.batch)
        if isinstance(self._actors, LocalActors):
            self._actors.state = state.acting
        memory, env_steps, due = state.memory, int(state.env_steps), step % self.config.updates == 0
        policy = state.learner.exploration if self.config.curious else None
        while due or env_steps < self.config.first:
            for part in self._actors.collect(policy, wait=env_steps < self.config.first):
                memory = self._add(part.transitions, memory)
                env_steps += part.transitions.action.shape[0]
                self.notes["hits"].append(part.hits)
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
        since = [float(hits) for hits in self.notes["hits"]]
        hits = {"hits": float(np.mean(since))} if since else {}
        self.notes["hits"].clear()
        scores = hits | self._score(world) | {"env_steps": float(state.env_steps)}
        return Report(scores, {"clicks": picture(world, self._score.images[:6])})

    def weights(self, state: ExploreState) -> dict[str, Weights]:
        """Return the averaged weights of both networks, to be saved."""
        parts = zip(PARTS[1:], state.learner.average, strict=True)
        return {f"world/{part}": part_weights(part, model, self.env.action_size, self._sha256) for part, model in parts}


@functools.cache
def _compiled(config: ExploreConfig, action_size: int):
    """Compile the functions of a step, once for all runs of this process; both donate their arguments but the first.

    Returns:
        `add`: (transitions, memory) -> memory, and
        `update`: ((vision, key, now), learner, memory) -> (learner, memory, metrics).
    """
    optimiser, replay = optimiser_of(config, optax.adam), Replay(config.capacity, config.batch)

    @eqx.filter_jit(donate="all-except-first")
    def add(items: Transitions, memory: ReplayState) -> ReplayState:
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
        terms = (vision, batch.items, batch.importance, now["change_cost"], lattice)
        gradients, metrics = eqx.filter_grad(lambda model: model.loss(*terms), has_aux=True)(learner.transition)
        memory = replay.update(memory, batch.indices, metrics.pop("errors"))
        updates, first = optimiser.update(gradients, learner.optimisers[0])
        imagine = eqx.apply_updates(learner.transition, updates)
        policy, second = learner.exploration, learner.optimisers[1]
        if config.curious:
            scenes = jnp.repeat(batch.items.slots, config.samples, axis=0)
            terms = (imagine, scenes, action_size, policy_key, now["click_cost"])
            gradients, more = eqx.filter_grad(lambda policy: policy.loss(*terms), has_aux=True)(policy)
            updates, second = optimiser.update(gradients, second)
            policy, metrics = eqx.apply_updates(policy, updates), metrics | more
        average = averaged(learner.average, (imagine, policy), config.average)
        return Learner(imagine, policy, average, (first, second)), memory, metrics

    return add, update


def empty_replay(config: ExploreConfig, vision: VisionModel, action_size: int) -> ReplayState:
    """Make an empty replay for the slots of a vision module and actions of this size."""
    seen = vision.config
    image = jnp.zeros((seen.size, seen.size, 3), jnp.uint8)
    item = Transitions(jnp.zeros((seen.slots, seen.latents)), jnp.zeros(action_size), image)
    return Replay(config.capacity, config.batch).init(item)


@functools.cache
def actor_functions(config: ExploreConfig, env: Environment, count: int) -> tuple[functools.partial, functools.partial]:
    """Return the functions by which actors begin and play; they can be pickled and sent to other processes."""
    return functools.partial(explorer.begin, env, count), functools.partial(explorer.play, env, config.uniform)


def train(
    config: ExploreConfig,
    env: Environment,
    vision: Path,
    folder: Path,
    seed: int = 0,
    title: str = "explore",
    actors: Actors | None = None,
    env_name: str | None = None,
    command: str = "python",
) -> WorldModel:
    """Train T and D on a frozen vision module; the same call resumes a run that was stopped.

    Args:
        config: The models and their training; presets are in `config.EXPLORE`.
        env: The environment to explore.
        vision: A run of `cobra train vision`, a folder of its weights, or a world.
        folder: The run's folder; it is made if it does not exist.
        seed: The random seed of weight initialisation and data.
        title: The heading of the progress bar.
        actors: What plays in the environment, by default in this process; the caller closes those that are passed.
        env_name: The name of the environment, for run.json.
        command: The command that was typed, for run.json.

    Returns:
        The world model, which is also saved in `folder`/world. A run that stops early leaves a usable world there,
        too, if it had saved weights before.

    Raises:
        WeightsError: If there are no vision weights.
        ValueError: If `folder` holds a run with other settings, or the replay does not fit into memory.
        Stopped: If a signal asked to stop; the run is saved.
        Diverged: If a loss or a weight is no longer finite.
        ChildProcessError: If actors in other processes fail for good.
    """
    source = find_vision(vision)
    fingerprint, seen = sha256(source), load_vision(source)
    check_memory(lambda: empty_replay(config, seen, env.action_size), "--config.capacity")
    conform(TrainingSeed, seed, "seed")
    settings = {"phase": "explore", "config": config, "seed": seed, "env": env_name, "vision": fingerprint}
    settings |= {"actors": "local" if actors is None else "ray"}
    with open_run(folder, settings, command=command):
        copy_vision(source, folder / "world" / "vision")
        phase = ExplorePhase(config, env, seen, fingerprint, seed, title, actors)
        try:
            run(phase, folder)
        except (Stopped, Diverged, ChildProcessError):  # the saved world is complete and usable meanwhile
            if all((folder / "world" / part / "weights.safetensors").exists() for part in PARTS):
                seal_world(folder / "world")
            raise
        seal_world(folder / "world")
    return load_world(folder / "world")


def picture(world: WorldModel, images: UInt8[np.ndarray, "B H W 3"]) -> UInt8[np.ndarray, "_ _ 3"]:
    """Draw a row of scenes, twice as large, with the position clicks of 64 proposals as white dots."""
    proposals = np.asarray(world.propose(in_batches(world.encode, images), jax.random.key(0), 64))
    pictures = np.repeat(np.repeat(images, 2, axis=1), 2, axis=2)
    size = pictures.shape[1]
    for scene, actions in zip(pictures, proposals, strict=True):
        column, row = np.clip((actions[:, :2] * size).astype(int), 0, size - 1).T
        scene[size - 1 - row, column] = 255
    return np.concatenate(list(np.pad(pictures, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=100)), axis=1)
