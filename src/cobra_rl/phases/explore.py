"""Phase 2, imagine and be curious: actors -> replay -> transition model and exploration policy, in tandem."""

import dataclasses
import math
import time
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from cobra_rl.config import ExploreConfig
from cobra_rl.evaluation.explore import ExploreScenes, explore_scenes, quick_explore_scores
from cobra_rl.models import exploration, transition
from cobra_rl.models.exploration import Exploration
from cobra_rl.models.monet import Monet
from cobra_rl.models.nets import Lattice
from cobra_rl.models.transition import Transition, Transitions
from cobra_rl.phases.training import at, averaged, finite, learning_rate
from cobra_rl.pretrained import Curious, Vision
from cobra_rl.runtime import checkpoint
from cobra_rl.runtime.actors import Actors, Collected, LocalActors
from cobra_rl.runtime.log import RunLog
from cobra_rl.runtime.replay import Replay, ReplayState
from cobra_rl.runtime.signals import StopRequested
from cobra_rl.runtime.weights import save_weights
from cobra_rl.spriteworld import make

REPORT_EVERY = 20  # updates between looks at the loss


class Scheduled(NamedTuple):
    """What changes over training."""

    priority: Array  # alpha of the replay
    importance: Array  # beta of the replay
    change_cost: Array  # of |Delta|, in T's loss
    click_cost: Array  # of |D| on the position click, in D's


class Learner(NamedTuple):
    """All that an update changes, but for the replay."""

    transition: Transition
    exploration: Exploration
    average: tuple[Transition, Exploration]  # of both over the last updates: what is evaluated and kept
    optimisers: tuple[optax.OptState, optax.OptState]


def make_optimiser(config: ExploreConfig) -> optax.GradientTransformation:
    """Adam, the same for both networks."""
    update = optax.adam(learning_rate(config.learning_rate, config.steps, 0, config.decay_from, config.final_rate))
    return optax.chain(optax.clip_by_global_norm(config.clip), update) if config.clip else update


def initial_learner(config: ExploreConfig, seed: int) -> Learner:
    """Fresh weights."""
    transition_key, exploration_key = jax.random.split(jax.random.key(seed))
    models = Transition(config.transition, transition_key), Exploration(config.exploration, exploration_key)
    optimiser = make_optimiser(config)
    first, second = (optimiser.init(eqx.filter(model, eqx.is_array)) for model in models)
    one, other = jax.tree.map(jnp.copy, models)  # an update gives its buffers away: none may be shared
    return Learner(*models, (one, other), (first, second))


def make_update(config: ExploreConfig, vision: Monet, replay: Replay, curious: bool):
    """A compiled update: (learner, replay, key, now) -> (learner, replay, metrics)."""
    optimiser = make_optimiser(config)

    @eqx.filter_jit(donate="all-except-first")
    def update(given, learner: Learner, memory: ReplayState):
        vision, key, now = given
        sample_key, phase_key, policy_key = jax.random.split(key, 3)
        batch = replay.sample(memory, sample_key, now.importance)
        lattice = None
        if config.lattice > 1:
            lattice = Lattice(config.lattice, jax.random.randint(phase_key, (2,), 0, config.lattice))
        gradient = eqx.filter_grad(transition.loss, has_aux=True)
        terms = (batch.items, batch.importance, now.change_cost, lattice)
        gradients, metrics = gradient(learner.transition, vision, *terms)
        memory = replay.update(memory, batch.indices, metrics.pop("errors") ** now.priority)
        updates, first = optimiser.update(gradients, learner.optimisers[0])
        imagine = eqx.apply_updates(learner.transition, updates)
        policy, second = learner.exploration, learner.optimisers[1]
        if curious:
            gradient = eqx.filter_grad(exploration.loss, has_aux=True)
            scenes = jnp.repeat(batch.items.slots, config.samples, axis=0)
            gradients, more = gradient(policy, imagine, scenes, policy_key, now.click_cost)
            updates, second = optimiser.update(gradients, second)
            policy, metrics = eqx.apply_updates(policy, updates), metrics | more
        average = averaged(learner.average, (imagine, policy), config.average)
        return Learner(imagine, policy, average, (first, second)), memory, metrics

    return lambda learner, memory, key, now: update((vision, key, now), learner, memory)


def train(
    config: ExploreConfig,
    vision: Vision,
    folder: Path,
    seed: int = 0,
    name: str = "explore",
    curious: bool = True,
    actors: Actors | None = None,
) -> Curious:
    """Trains T and D in `folder`, vision frozen; the same call goes on where the last one stopped.

    With local actors it goes on exactly, replay and episodes included; other actors start new episodes. Without
    `curious` the actors click at random, for comparison. SIGINT and SIGTERM save and stop; a loss that is not a number
    stops with `Diverged`, and the last good checkpoint stays.
    """
    local = None
    if actors is None:
        local = LocalActors(make("exploration"), vision.model, config.envs, seed + 2, config.uniform)
    team: Actors = local or actors  # type: ignore[assignment]
    learner, replay = initial_learner(config, seed), Replay(config.capacity, config.batch)
    memory = replay.init(example(vision.model))
    step, seconds, env_steps = 0, 0.0, 0
    like = (learner, memory, None if local is None else local.state)
    if restored := checkpoint.restore(folder / "checkpoints", like):
        step, (learner, memory, acting), meta = restored
        seconds, env_steps = meta["seconds"], meta["env_steps"]
        if local is not None:
            local.state = acting
    add = eqx.filter_jit(lambda items, memory: replay.add(memory, items), donate="all-except-first")
    update, keys = make_update(config, vision.model, replay, curious), jax.random.key(seed + 1)
    scenes, began, metrics, hits = explore_scenes(config.validation_scenes), time.monotonic(), {}, []

    def minutes() -> float:
        return (seconds + time.monotonic() - began) / 60

    def save() -> None:
        meta = {"seconds": 60 * minutes(), "env_steps": env_steps, "name": name, "seed": seed}
        acting = None if local is None else local.state
        checkpoint.save(folder / "checkpoints", step, (learner, memory, acting), meta, compressed=True)
        for part, model in zip(("transition", "exploration"), learner.average, strict=True):
            save_weights(folder / "weights" / part, model, _settings(config, part), kind=part)

    def receive(parts: list[Collected]) -> None:
        nonlocal memory, env_steps
        for part in parts:
            memory = add(part.transitions, memory)
            env_steps += part.transitions.action.shape[0]
            hits.append(float(part.hits))

    columns = ("transition", "curiosity", "hits", "hit_rate", "position_error")
    with StopRequested() as stop, RunLog(folder, config.steps, f"explore ({name})", step, columns) as log:
        while step < config.steps and not stop.requested:
            if step % config.updates == 0:
                receive(team.collect(learner.exploration if curious else None, wait=env_steps < config.first))
            if env_steps < config.first:
                continue
            schedules = (getattr(config, name) for name in Scheduled._fields)
            now = Scheduled(*(jnp.float32(at(schedule, step / config.steps)) for schedule in schedules))
            learner, memory, metrics = update(learner, memory, jax.random.fold_in(keys, step), now)
            step += 1
            due = step % config.evaluate_every == 0 or step == config.steps
            if not due and step % REPORT_EVERY:
                continue
            scalars = finite(metrics, step, folder) | {"hits": float(np.mean(hits)) if hits else math.nan}
            log.progress(step, scalars)
            if due:
                agent = Curious(vision, learner.average[0], learner.average[1])
                counts = {"env_steps": env_steps, "minutes": minutes()}
                log.write(step, scalars | quick_explore_scores(agent, scenes) | counts)
                log.picture(step, "clicks", clicks(agent, scenes))
                save()
                hits.clear()
        if stop.requested:
            finite(metrics, step, folder)
            save()
            log.say(f"Stopped at step {step} of {config.steps}; the same command goes on from here.")
    team.close()
    return Curious(vision, learner.average[0], learner.average[1])


def clicks(agent: Curious, scenes: ExploreScenes, count: int = 6) -> np.ndarray:
    """A row of scenes, twice as large, with the position clicks of 64 proposals as white dots."""
    images = scenes.images[:count]
    proposals = np.asarray(agent.propose(agent.encode(images), jax.random.key(0), 64))
    pictures = np.repeat(np.repeat(images, 2, axis=1), 2, axis=2)
    size = pictures.shape[1]
    for picture, actions in zip(pictures, proposals, strict=True):
        column, row = np.clip((actions[:, :2] * size).astype(int), 0, size - 1).T
        picture[size - 1 - row, column] = 255
    return np.concatenate(list(np.pad(pictures, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=100)), axis=1)


def _settings(config: ExploreConfig, part: str) -> dict:
    return dataclasses.asdict(getattr(config, part))


def example(vision: Monet) -> Transitions:
    """Zeros of the shapes that the replay holds."""
    c = vision.config
    image = jnp.zeros((c.size, c.size, 3), jnp.uint8)
    return Transitions(jnp.zeros((c.slots, c.latents)), jnp.zeros(4), image)
