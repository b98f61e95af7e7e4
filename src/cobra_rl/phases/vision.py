"""Phase 1, look: frames of the exploration environment -> MONet."""

import dataclasses
import time
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, PRNGKeyArray, UInt8

from cobra_rl.config import Stage, VisionConfig
from cobra_rl.evaluation.vision import fixed_scenes, quick_scores
from cobra_rl.models import monet
from cobra_rl.models.monet import LossWeights, Monet
from cobra_rl.phases.training import at, averaged, finite, learning_rate
from cobra_rl.pretrained import Vision
from cobra_rl.runtime import checkpoint
from cobra_rl.runtime.log import RunLog
from cobra_rl.runtime.signals import StopRequested
from cobra_rl.runtime.weights import save_weights
from cobra_rl.spriteworld import EnvState, Spriteworld, env_spec

REPORT_EVERY = 20  # steps between looks at the loss


class TrainState(NamedTuple):
    """All that a step changes."""

    model: Monet
    average: Monet  # exponential average of the weights: what is evaluated and kept
    optimiser: optax.OptState


def exploration(sprites: int) -> Spriteworld:
    """The exploration environment with at most so many sprites."""
    spec = env_spec("exploration")
    return Spriteworld(dataclasses.replace(spec, scenes=spec.scenes[:sprites]))


def random_frames(key: PRNGKeyArray, env: Spriteworld, batch: int) -> UInt8[Array, "B H W 3"]:
    """Frames of random play: each after a random number of uniform actions from a fresh start."""

    def frame(key: PRNGKeyArray) -> UInt8[Array, "H W 3"]:
        start_key, count_key, play_key = jax.random.split(key, 3)
        count = jax.random.randint(count_key, (), 0, env.spec.max_steps)

        def turn(i: Array, state: EnvState) -> EnvState:
            action_key, noise_key = jax.random.split(jax.random.fold_in(play_key, i))
            after = env.advance(noise_key, state, jax.random.uniform(action_key, (4,)))[0]
            return jax.tree.map(lambda new, old: jnp.where(i < count, new, old), after, state)

        return env.draw(jax.lax.fori_loop(0, env.spec.max_steps - 1, turn, env.initial(start_key)))

    return jax.vmap(frame)(jax.random.split(key, batch))


def make_optimiser(config: VisionConfig) -> optax.GradientTransformation:
    """The optimiser with its warm-up and its decay."""
    rate = learning_rate(config.learning_rate, config.steps, config.warmup, config.decay_from, config.final_rate)
    update = optax.adam(rate, b2=0.99) if config.optimiser == "adam" else optax.rmsprop(rate, decay=0.9)
    return optax.chain(optax.clip_by_global_norm(config.clip), update) if config.clip else update


def initial_state(config: VisionConfig, seed: int) -> TrainState:
    """Fresh weights."""
    model = eqx.filter_jit(Monet)(config.model, jax.random.key(seed))  # compiled at once: many small arrays
    average = jax.tree.map(lambda leaf: jnp.copy(leaf) if eqx.is_array(leaf) else leaf, model)
    return TrainState(model, average, make_optimiser(config).init(eqx.filter(model, eqx.is_array)))


def make_step(config: VisionConfig, stage: Stage):
    """A compiled training step: (state, key, weights) -> (state, metrics)."""
    optimiser, env = make_optimiser(config), exploration(stage.sprites)

    @eqx.filter_jit(donate="all-except-first")
    def step(key_and_weights, state: TrainState):
        key, weights = key_and_weights
        frame_key, loss_key = jax.random.split(key)
        images = random_frames(frame_key, env, config.batch)
        gradient = eqx.filter_grad(monet.loss, has_aux=True)
        gradients, metrics = gradient(state.model, images, loss_key, weights, stage.slots)
        updates, optimiser_state = optimiser.update(gradients, state.optimiser)
        model = eqx.apply_updates(state.model, updates)
        average = averaged(state.average, model, config.average)
        return TrainState(model, average, optimiser_state), metrics | {"gradient": optax.tree.norm(gradients)}

    return lambda state, key, weights: step((key, weights), state)


def train(config: VisionConfig, folder: Path, seed: int = 0, name: str = "vision") -> Monet:
    """Trains MONet in `folder`; the same call goes on where the last one stopped. Returns the last averaged weights.

    Of all validations, the weights with the best FG-ARI (mean of attention and decoder masks) stay in `weights`.
    SIGINT and SIGTERM save and stop. A loss that is not a number stops with `Diverged`; the last good checkpoint stays.
    """
    state, start, seconds, best = initial_state(config, seed), 0, 0.0, -1.0
    if restored := checkpoint.restore(folder / "checkpoints", state):
        start, state, meta = restored
        seconds, best = meta["seconds"], meta["best"]
    validation = fixed_scenes(scenes=config.validation_scenes)
    keys = jax.random.key(seed + 1)
    stages, compiled, began = config.stages, {}, time.monotonic()
    step, metrics = start, {}

    def save(scores: dict[str, float] | None = None) -> None:
        """A checkpoint; and weights, if none had better masks on the validation scenes."""
        nonlocal best
        score = -1.0 if scores is None else (scores["fg_ari_attention"] + scores["fg_ari_decoder"]) / 2
        if score >= best:
            best = score
            save_weights(folder / "weights", state.average, dataclasses.asdict(config.model), kind="vision")
        meta = {"seconds": seconds + time.monotonic() - began, "name": name, "seed": seed, "best": best}
        checkpoint.save(folder / "checkpoints", step, state, meta)

    columns = ("loss", "nll", "kl_latents", "kl_masks", "fg_ari_attention", "fg_ari_decoder")
    with StopRequested() as stop, RunLog(folder, config.steps, f"vision ({name})", start, columns) as log:
        while step < config.steps and not stop.requested:
            stage = next(s for s in stages if step < s.until * config.steps or s is stages[-1])
            if stage not in compiled:
                compiled[stage] = make_step(config, stage)
            share = step / config.steps
            weights = LossWeights(*(jnp.float32(at(schedule, share)) for schedule in (config.beta, config.gamma)))
            state, metrics = compiled[stage](state, jax.random.fold_in(keys, step), weights)
            step += 1
            due = step % config.evaluate_every == 0 or step == config.steps
            if not due and step % REPORT_EVERY:
                continue
            scalars = finite(metrics, step, folder)
            log.progress(step, scalars)
            if due:
                vision = Vision(state.average)
                minutes = (seconds + time.monotonic() - began) / 60
                scores = quick_scores(vision, validation)
                log.write(step, scalars | scores | {"minutes": minutes})
                log.picture(step, "decomposition", decomposition(vision, validation.images[:6]))
                save(scores)
        if stop.requested:
            finite(metrics, step, folder)
            save()
            log.say(f"Stopped at step {step} of {config.steps}; the same command goes on from here.")
    return state.average


def decomposition(vision: Vision, images: np.ndarray) -> np.ndarray:
    """One row a scene: the image, V_dec(V_enc(x)), each slot's own picture under its mask."""
    decoded = jax.device_get(vision.decode(vision.encode(images)))
    rows = []
    for scene, picture, components, masks in zip(images, *decoded, strict=True):
        parts = [scene / 255.0, picture, *(components * masks[..., None])]
        rows.append(
            np.concatenate([np.pad(part, ((1, 1), (1, 1), (0, 0)), constant_values=0.4) for part in parts], axis=1)
        )
    return (np.clip(np.concatenate(rows), 0.0, 1.0) * 255).astype(np.uint8)
