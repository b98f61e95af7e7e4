"""Scores of a vision module on held-out scenes: decomposition, reconstruction, and what slots say about sprites."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, UInt8

from cobra_rl.evaluation.probes import Probes, disentanglement, fit_probes, importances, probe_scores
from cobra_rl.evaluation.segmentation import count_overlap, foreground_ari, match, match_shares
from cobra_rl.evaluation.task import random_policy, visited
from cobra_rl.models.vision import VisionModel
from cobra_rl.models.world import WorldModel
from cobra_rl.spriteworld import MODES, TASKS, VARIANTS, Sprites, Spriteworld, coverage, make, segment
from cobra_rl.spriteworld.base import Environment

BATCH = 50
TEST_SEED, VALIDATION_SEED = 1905, 9275  # scenes to report on, scenes to choose a model by

Vision = VisionModel | WorldModel
Scores = dict[str, float]
Images = UInt8[np.ndarray, "B H W 3"]


@dataclass(frozen=True)
class Scorer:
    """A function from a model to its scores, for use while training."""

    images: Images  # the pictures that it looks at
    score: Callable[[Any], Scores]

    def __call__(self, model: Any) -> Scores:
        """Return the scores of a model."""
        return self.score(model)


@dataclass(frozen=True)
class Scenes:
    """Pictures and the truth about them, as numpy arrays."""

    images: Images
    labels: Int[np.ndarray, "B H W"]  # the sprite that a pixel shows, or -1
    areas: Int[np.ndarray, "B N"]  # pixels that each sprite would have if none hid it
    sprites: Sprites  # each factor has a leading axis B


class Seen(NamedTuple):
    """What a vision module makes of scenes."""

    slots: Float[np.ndarray, "B K M"]
    attention: Int[np.ndarray, "B rows K"]  # see `count_overlap`
    decoder: Int[np.ndarray, "B rows K"]
    mse: Float[np.ndarray, " B"]  # of V_dec(V_enc(x)), RGB in [0, 1]


def fixed_scenes(env: Spriteworld, scenes: int = 256, min_sprites: int = 2, seed: int = VALIDATION_SEED) -> Scenes:
    """Draw initial scenes with at least `min_sprites` sprites; the same for the same arguments."""
    if min_sprites > env.spec.capacity:
        raise ValueError(f"{env} has no scenes with {min_sprites} sprites; min_sprites is at most {env.spec.capacity}.")
    draw_states, look = _compiled(env)
    kept, count, key = [], 0, jax.random.key(seed)
    while count < scenes:
        key, draw_key = jax.random.split(key)
        states = jax.tree.map(np.asarray, draw_states(jax.random.split(draw_key, 20 * BATCH)))
        enough = states.sprites.alive.sum(axis=1) >= min_sprites
        kept.append(jax.tree.map(lambda leaf, enough=enough: leaf[enough], states))
        count += int(enough.sum())
    states = jax.tree.map(lambda *parts: np.concatenate(parts)[:scenes], *kept)
    images, labels, areas = in_batches(look, states)
    return Scenes(images, labels.astype(np.int8), areas, states.sprites)


def several(env: Spriteworld) -> int:
    """Return 2, the fewest sprites of a scene that can be told apart; 1 where no scene has more."""
    return min(2, env.spec.capacity)


@functools.cache
def _compiled(env: Spriteworld) -> tuple[Callable, Callable]:
    """Compile (keys -> states) and (states -> images, labels, areas)."""

    def look(state):
        labels, area = segment(state, env.image_size), coverage(state, env.image_size)
        return env.draw(state), labels, area.sum(axis=(0, 1))

    # `map`, for it compiles in half the time, and an environment's scenes are drawn once
    return jax.jit(lambda keys: jax.lax.map(env.initial, keys)), jax.jit(jax.vmap(look))


def in_batches(function: Callable[[Any], Any], data: Any) -> Any:
    """Apply a function to arrays [B, ...] a batch at a time, the last filled up, so that nothing compiles twice."""
    count = len(jax.tree.leaves(data)[0])
    results = []
    for start in range(0, count, BATCH):
        rows = np.minimum(np.arange(start, start + BATCH), count - 1)
        batch = jax.tree.map(lambda leaf, rows=rows: leaf[rows], data)
        results.append(jax.tree.map(np.asarray, function(batch)))
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:count], *results)


def see(vision: Vision, scenes: Scenes) -> Seen:
    """Run a vision module on all scenes."""
    sprites = scenes.areas.shape[1]

    def overlap(labels: np.ndarray, masks: np.ndarray) -> np.ndarray:
        count, slots = masks.shape[:2]
        return count_overlap(labels.reshape(count, -1), masks.argmax(axis=1).reshape(count, -1), sprites, slots)

    def see_batch(batch: tuple[np.ndarray, np.ndarray]) -> Seen:
        images, labels = batch
        pictures = jnp.asarray(images)
        slots = vision.encode(pictures)
        decoded = vision.decode(slots)
        return Seen(
            slots=np.asarray(slots),
            attention=overlap(labels, np.asarray(vision.masks(pictures))),
            decoder=overlap(labels, np.asarray(decoded.masks)),
            mse=_squared_error(decoded.image, images),
        )

    return in_batches(see_batch, (scenes.images, scenes.labels))


def quick_scores(vision: Vision, scenes: Scenes) -> Scores:
    """Measure FG-ARI, unless no scene has two visible sprites, the share of sprites alone in a slot, and the MSE."""
    scores = _decomposition(see(vision, scenes), scenes)
    names = ("fg_ari_attention", "fg_ari_decoder", "alone", "mse")
    return {name: scores[name] for name in names if not np.isnan(scores[name])}


def vision_scores(env: Environment, scenes: int) -> Scorer:
    """Build the scores by which a vision module is followed while it is trained, on some held-out scenes.

    They are `quick_scores` in Spriteworld, and in other environments the MSE of V_dec(V_enc(x)) alone.
    """
    if isinstance(env, Spriteworld):
        data = fixed_scenes(env, scenes, several(env))
        return Scorer(data.images, lambda vision: quick_scores(vision, data))
    images = fresh_frames(env, scenes)[1]

    def errors(vision: Vision) -> Scores:
        def squared(batch: np.ndarray) -> np.ndarray:
            return _squared_error(vision.decode(vision.encode(jnp.asarray(batch))).image, batch)

        return {"mse": float(in_batches(squared, images).mean())}

    return Scorer(images, errors)


def fresh_frames(env: Environment, frames: int) -> tuple[Any, Images]:
    """Collect states of episodes of random actions in any environment, and their pictures."""
    states = visited(random_policy(env.action_size), None, env, frames, VALIDATION_SEED)
    return states, in_batches(jax.jit(jax.vmap(env.draw)), states)


def _squared_error(drawn: Any, images: np.ndarray) -> Float[np.ndarray, " B"]:
    return np.mean((np.asarray(drawn) - images / np.float32(255.0)) ** 2, axis=(1, 2, 3))


def _decomposition(seen: Seen, scenes: Scenes) -> Scores:
    found = match(seen.attention, scenes.areas)
    aris = foreground_ari(seen.attention), foreground_ari(seen.decoder)
    scored = ~np.isnan(aris[0])  # the same scenes for both masks
    attention, decoder = (float(ari[scored].mean()) if scored.any() else float("nan") for ari in aris)
    return {
        "fg_ari_attention": attention,
        "fg_ari_decoder": decoder,
        **match_shares(found),
        "mse": float(seen.mse.mean()),
        "scenes": float(len(scored)),
        "fg_ari_scenes": float(scored.sum()),
        "sprites": float(found.counted.sum()),
    }


def matched_slots(seen: Seen, scenes: Scenes, part: slice = slice(None)) -> tuple[Float[np.ndarray, "S M"], Sprites]:
    """Return the slots of all sprites at least half visible in a part of the scenes, and these sprites."""
    found = match(seen.attention, scenes.areas)
    scene, sprite = np.nonzero(found.counted)
    within = np.isin(scene, np.arange(len(scenes.images))[part])
    scene, sprite = scene[within], sprite[within]
    sprites = jax.tree.map(lambda factor: factor[scene, sprite], scenes.sprites)
    return seen.slots[scene, found.slot[scene, sprite]], sprites


def evaluate_vision(
    vision: Vision,
    env: Spriteworld | None = None,
    scenes: int = 1000,
    seed: int = TEST_SEED,
    probes: bool | Probes = True,
) -> Scores:
    """Measure all scores on held-out initial scenes, of two sprites or more unless all have one.

    Args:
      vision: a vision module, or a world model with one.
      env: the environment; by default that of exploration.
      scenes: how many scenes to look at.
      seed: decides the scenes.
      probes: True fits probes on half of the scenes and scores them on the other; fitted ones are scored on all.
    """
    env = env or make("exploration")
    data = fixed_scenes(env, scenes, several(env), seed)
    seen = see(vision, data)
    scores = _decomposition(seen, data)
    if isinstance(probes, Probes):
        return scores | probe_scores(probes, *matched_slots(seen, data))
    return scores | _probing(seen, data, seed)[1] if probes else scores


def _probing(seen: Seen, scenes: Scenes, seed: int) -> tuple[Probes, Scores]:
    half = len(scenes.images) // 2
    probes = fit_probes(*matched_slots(seen, scenes, slice(0, half)), seed=seed)
    slots, sprites = matched_slots(seen, scenes, slice(half, None))
    importance = importances(probes, slots, sprites, seed)
    dci = {"disentanglement": disentanglement(importance), "completeness": disentanglement(importance.T)}
    return probes, probe_scores(probes, slots, sprites) | dci


def evaluate_suite(vision: Vision, scenes: int = 1000, task_scenes: int = 200) -> dict[str, Scores]:
    """Measure the scores on all environments of the suite, by "variant/task/mode".

    A task's few scenes, with few shapes and hues, would not do to fit probes: those of exploration are used.
    """
    results = {}
    for variant in VARIANTS:
        data = fixed_scenes(make("exploration", "train", variant), scenes, seed=TEST_SEED)
        seen = see(vision, data)
        probes, probing = _probing(seen, data, TEST_SEED)
        results[f"{variant}/exploration/train"] = _decomposition(seen, data) | probing
        for task in TASKS[1:]:
            for mode in MODES:
                scores = evaluate_vision(vision, make(task, mode, variant), task_scenes, probes=probes)
                results[f"{variant}/{task}/{mode}"] = scores
    return results
