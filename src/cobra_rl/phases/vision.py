"""Phase 1, vision: frames of random play -> a vision module."""

import dataclasses
import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib
from jaxtyping import Array, PRNGKeyArray, UInt8

from cobra_rl.config import Stage, VisionConfig
from cobra_rl.environments import fewer_sprites
from cobra_rl.evaluation.vision import in_batches, vision_scores
from cobra_rl.models.nets import averaged
from cobra_rl.models.vision import LossWeights, VisionModel
from cobra_rl.models.world import make_vision, vision_weights
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

_fresh_vision = eqx.filter_jit(make_vision)  # compiled, because it has many small arrays


class VisionState(NamedTuple):
    """The state of the run."""

    model: VisionModel
    average: VisionModel  # moving average of the weights, which is evaluated and saved
    optimiser: optax.OptState


def random_frames(key: PRNGKeyArray, env: Environment, batch: int) -> UInt8[Array, "B H W 3"]:
    """Draw frames of random play, each after a random number of uniform actions from an initial state.

    Args:
        key: A random key.
        env: The environment to play in.
        batch: B, the number of frames; each is of an episode of its own.

    Returns:
        Images uint8 [B, H, W, 3].
    """

    def frame(key: PRNGKeyArray) -> UInt8[Array, "H W 3"]:
        start_key, count_key, play_key = jax.random.split(key, 3)
        count = jax.random.randint(count_key, (), 0, env.max_steps)

        def turn(i: Array, state: Any) -> Any:
            action_key, noise_key = jax.random.split(jax.random.fold_in(play_key, i))
            after = env.advance(noise_key, state, jax.random.uniform(action_key, (env.action_size,))).state
            return jax.tree.map(lambda new, old: jnp.where(i < count, new, old), after, state)

        return env.draw(jax.lax.fori_loop(0, env.max_steps - 1, turn, env.initial(start_key)))

    return jax.vmap(frame)(over_devices(jax.random.split(key, batch)))


def make_optimiser(config: VisionConfig) -> optax.GradientTransformation:
    """Make the optimiser that a configuration names, with its warm-up and its decay."""
    known = {
        "adam": functools.partial(optax.adam, b2=0.99),
        "rmsprop": functools.partial(optax.rmsprop, decay=0.9),
        "muon": muon,
    }
    return optimiser_of(config, known[config.optimiser], config.warmup)


class VisionPhase(LearningPhase):
    """The phase, for the run loop; it saves the weights of the report with the least loss on held-out frames."""

    columns = ("fg_ari_attention", "fg_ari_decoder", "held_out_loss", "loss", "nll", "kl_latents", "kl_masks")

    def __init__(self, config: VisionConfig, env: Environment, seed: int, *, title: str = "vision"):
        if env.image_size != config.model.size:
            raise ValueError(
                f"The environment's pictures have {env.image_size} pixels a side and the vision module expects "
                f"{config.model.size}; set --config.model.size {env.image_size}."
            )
        super().__init__(config, env, seed, title)
        self.config = config
        self.history: dict[str, Any] = {"least_loss": np.inf}
        self._scorer = vision_scores(env, config.validation_scenes)
        self._best = False  # whether the current weights are those of the best report so far

    def init(self) -> VisionState:
        """Start with fresh weights."""
        model = _fresh_vision(self.config.model, jax.random.key(self.seed))
        optimiser = jax.jit(make_optimiser(self.config).init)(eqx.filter(model, eqx.is_array))
        return VisionState(model, copied(model), optimiser)

    def step(self, state: VisionState, step: int) -> tuple[VisionState, dict[str, Array]]:
        """Take one gradient step on fresh frames."""
        share = step / self.steps
        weights = LossWeights(*(jnp.float32(at(plan, share)) for plan in (self.config.beta, self.config.gamma)))
        stage = next((stage for stage in self.config.stages if share < stage.until), self.config.stages[-1])
        self._best = False
        given = (jax.random.fold_in(self._keys, step), weights)
        return _compiled(self.config, self.env, stage)(given, on_devices(state, self.config.batch))

    def report(self, state: VisionState, step: int) -> Report:
        """Score the averaged weights on validation scenes and draw their decomposition."""
        scores = self._scorer.score(state.average)
        loss = held_out_loss(state.average, self._scorer.images, self.config)
        scores["held_out_loss"] = loss
        self._best = loss <= self.history["least_loss"]
        self.history["least_loss"] = min(loss, self.history["least_loss"])
        return Report(scores, {"decomposition": picture(state.average, self._scorer.images[:6])})

    @property
    def keep(self) -> bool:
        """Whether to save the current weights: if they have the best report so far, or there was no report yet."""
        return self._best or self.history["least_loss"] == np.inf

    def weights(self, state: VisionState) -> dict[str, Weights]:
        """Return the averaged weights."""
        return {"weights": vision_weights(state.average)}


def held_out_loss(model: VisionModel, images: UInt8[np.ndarray, "B H W 3"], config: VisionConfig) -> float:
    """Return the mean loss of pictures that a model was not trained on: by it, without labels, weights are chosen.

    It takes the last weights of the schedules, the same random numbers each time, and all patches, since a sample of
    them is too noisy to tell checkpoints apart.
    """
    if getattr(config.model, "loss_patches", 0):
        exact = dataclasses.replace(config.model, **{"loss_patches": 0})
        like = eqx.filter_eval_shape(make_vision, exact, jax.random.key(0))
        model = jax.tree.unflatten(jax.tree.structure(like), jax.tree.leaves(model))
    weights = LossWeights(*(plan[-1][1] for plan in (config.beta, config.gamma)))
    batches = np.array_split(images, max(len(images) // config.batch, 1))
    losses = [_loss(model, jnp.asarray(batch), jax.random.key(i), weights) for i, batch in enumerate(batches)]
    return float(np.average(losses, weights=[len(batch) for batch in batches]))


@eqx.filter_jit
def _loss(model: VisionModel, images: UInt8[Array, "B H W 3"], key: PRNGKeyArray, weights: LossWeights) -> Array:
    return model.loss(images, key, weights)[0]


@functools.cache
def _compiled(config: VisionConfig, env: Environment, stage: Stage):
    """Compile the step for a stage of the curriculum, once for all runs of this process."""
    optimiser = make_optimiser(config)
    env = fewer_sprites(env, stage.sprites)
    slots = min(stage.slots or config.model.slots, config.model.slots)

    @eqx.filter_jit(donate="all-except-first")
    def step(key_and_weights, state: VisionState):
        key, weights = key_and_weights
        frame_key, loss_key = jax.random.split(key)
        images = random_frames(frame_key, env, config.batch)
        given = (images, loss_key, weights, slots)
        model, optimiser_state, gradients, metrics = gradient_step(optimiser, state.optimiser, state.model, *given)
        average = averaged(state.average, model, config.ema_decay)
        return VisionState(model, average, optimiser_state), metrics | {"gradient": optax.tree.norm(gradients)}

    return step


def picture(vision: VisionModel, images: UInt8[np.ndarray, "B H W 3"]) -> UInt8[np.ndarray, "_ _ 3"]:
    """Draw one row per scene: the image, V_dec(V_enc(x)), and each slot's own picture times its mask."""
    decoded = in_batches(lambda batch: vision.decode(vision.encode(jnp.asarray(batch))), images)
    rows = []
    for scene, whole, components, masks in zip(images, *decoded, strict=True):
        parts = [scene / 255.0, whole, *(components * masks[..., None])]
        padded = [np.pad(part, ((1, 1), (1, 1), (0, 0)), constant_values=0.4) for part in parts]
        rows.append(np.concatenate(padded, axis=1))
    return (np.clip(np.concatenate(rows), 0.0, 1.0) * 255).astype(np.uint8)
