"""Metrics of a vision module on held-out scenes: segmentation, reconstruction, and probes of the slots."""

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

from cobra_rl.evaluation.probes import Probes, disentanglement, fit_probes, importances, probe_scores
from cobra_rl.evaluation.reading import linear_scores, quiet_scores
from cobra_rl.evaluation.segmentation import Match, count_overlap, foreground_ari, match, match_shares
from cobra_rl.evaluation.task import random_policy, visited
from cobra_rl.models.vision import Decoded, VisionModel
from cobra_rl.models.world import WorldModel
from cobra_rl.spriteworld import MODES, TASKS, VARIANTS, Sprites, Spriteworld, coverage, make
from cobra_rl.spriteworld.base import Environment
from cobra_rl.spriteworld.sprites import in_front

BATCH, FEW = 50, 10  # scenes at a time; no more than a few are one small batch
TEST_SEED, VALIDATION_SEED = 1905, 9275  # scenes to report on, scenes to choose a model by
CLEAR = 0.8  # share of its pixels that are visible, from which on a sprite's shape must be readable

Vision = VisionModel | WorldModel
Scores = dict[str, float]
Images = UInt8[np.ndarray, "B H W 3"]


class Scorer(NamedTuple):
    """A function from a model to its scores, for use while training, and the pictures that it looks at."""

    images: Images
    score: Callable[[Any], Scores]

    def __call__(self, model: Any) -> Scores:
        """Return the scores of a model."""
        return self.score(model)


class Scenes(NamedTuple):
    """Pictures and the truth about them, as numpy arrays."""

    images: Images
    labels: Int[np.ndarray, "B H W"]  # the sprite that a pixel shows, or -1
    areas: Int[np.ndarray, "B N"]  # pixels that each sprite would have if none hid it
    whole: Int[np.ndarray, "B N"]  # pixels that each would have if the frame's border did not cut it either
    sprites: Sprites  # each factor has a leading axis B


class Seen(NamedTuple):
    """The output of a vision module for scenes."""

    slots: Float[np.ndarray, "B K M"]
    attention: Int[np.ndarray, "B rows K"]  # see `count_overlap`
    decoder: Int[np.ndarray, "B rows K"]
    mse: Float[np.ndarray, " B"]  # of V_dec(V_enc(x)), RGB in [0, 1]
    found: Match  # by attention


@functools.lru_cache(maxsize=8)
def fixed_scenes(env: Spriteworld, scenes: int = 256, min_sprites: int = 2, seed: int = VALIDATION_SEED) -> Scenes:
    """Draw initial scenes; the same arguments give the same scenes, which are drawn once.

    Args:
        env: The environment.
        scenes: The number of scenes.
        min_sprites: The least number of sprites in a scene.
        seed: The random seed of the scenes.

    Returns:
        Pictures and the truth about them, as read-only arrays.

    Raises:
        ValueError: If the environment has no scene with so many sprites.
    """
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
    images, labels, areas, whole = in_batches(look, states)
    drawn = Scenes(images, labels.astype(np.int8), areas, whole, states.sprites)
    for array in jax.tree.leaves(drawn):
        array.setflags(write=False)  # whoever asks again is given the same
    return drawn


@functools.cache
def _compiled(env: Spriteworld) -> tuple[Callable, Callable]:
    """Compile (keys -> states) and (states -> images, labels, areas, areas if they were in the middle)."""

    def look(state):
        middle = eqx.tree_at(lambda state: state.sprites.position, state, jnp.full_like(state.sprites.position, 0.5))
        covered, whole = (coverage(each, env.image_size) for each in (state, middle))
        return env.draw(state), in_front(covered), covered.sum(axis=(0, 1)), whole.sum(axis=(0, 1))

    # `map`, for it compiles in half the time, and an environment's scenes are drawn once; `look` takes longer to run
    # than to compile: it is compiled well even where compiling is to be quick, as in tests
    draw_states = jax.jit(lambda keys: jax.lax.map(env.initial, keys))
    return draw_states, jax.jit(jax.vmap(look), compiler_options={"xla_backend_optimization_level": 3})


def in_batches(function: Callable[[Any], Any], data: Any) -> Any:
    """Apply a function to arrays a batch at a time; the last batch is padded, so that nothing compiles twice.

    Args:
        function: A function of a batch, which keeps the leading axis.
        data: A pytree of arrays [B, ...].

    Returns:
        The outputs for all rows, as NumPy arrays [B, ...].
    """
    count = len(jax.tree.leaves(data)[0])
    results, size = [], BATCH if count > FEW else FEW
    for start in range(0, count, size):
        rows = np.minimum(np.arange(start, start + size), count - 1)
        batch = jax.tree.map(lambda leaf, rows=rows: leaf[rows], data)
        results.append(jax.tree.map(np.asarray, function(batch)))
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:count], *results)


def see(vision: Vision, scenes: Scenes) -> Seen:
    """Run a vision module on all scenes."""
    sprites = scenes.areas.shape[1]

    def overlap(labels: np.ndarray, masks: Array) -> np.ndarray:
        guess = np.asarray(masks).argmax(axis=1).reshape(len(labels), -1)
        return count_overlap(labels.reshape(len(labels), -1), guess, sprites, masks.shape[1])

    def see_batch(batch: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, ...]:
        images, labels = batch
        slots, decoded, mse = _reconstruct(vision, images)
        attention = vision.masks(jnp.asarray(images))
        return np.asarray(slots), overlap(labels, attention), overlap(labels, decoded.masks), mse

    slots, attention, decoder, mse = in_batches(see_batch, (scenes.images, scenes.labels))
    return Seen(slots, attention, decoder, mse, match(attention, scenes.areas))


def _reconstruct(vision: Vision, images: Images) -> tuple[Array, Decoded, Float[np.ndarray, " B"]]:
    """Return the slots of pictures, V_dec of them, and its mean squared error."""
    slots = vision.encode(jnp.asarray(images))
    decoded = vision.decode(slots)
    return slots, decoded, np.mean((np.asarray(decoded.image) - images / np.float32(255.0)) ** 2, axis=(1, 2, 3))


def vision_scores(env: Environment, scenes: int) -> Scorer:
    """Build the function that scores a vision module while it is trained, on held-out scenes.

    Args:
        env: The environment that vision is trained for.
        scenes: The number of validation scenes.

    Returns:
        A function from a vision module to its scores: the FG-ARI of both masks (if any scene has two visible sprites),
        `alone`, the share of sprites alone in a slot, and `mse`; in other environments than Spriteworld, `mse` alone.
    """
    if not isinstance(env, Spriteworld):
        images = fresh_frames(env, scenes)[1]

        def error(vision: Vision) -> Scores:
            return {"mse": float(in_batches(lambda batch: _reconstruct(vision, batch)[2], images).mean())}

        return Scorer(images, error)
    data = fixed_scenes(env, scenes, min(2, env.spec.capacity))

    def score(vision: Vision) -> Scores:
        scores, names = _decomposition(see(vision, data)), ("fg_ari_attention", "fg_ari_decoder", "alone", "mse")
        return {name: scores[name] for name in names if not np.isnan(scores[name])}

    return Scorer(data.images, score)


def fresh_frames(env: Environment, frames: int) -> tuple[Any, Images]:
    """Collect states of episodes of random actions in any environment, and their pictures."""
    states = visited(random_policy(env.action_size), None, env, frames, VALIDATION_SEED)
    return states, in_batches(jax.jit(jax.vmap(env.draw)), states)


def _decomposition(seen: Seen) -> Scores:
    aris = foreground_ari(seen.attention), foreground_ari(seen.decoder)
    scored = ~np.isnan(aris[0])  # the same scenes for both masks
    attention, decoder = (float(ari[scored].mean()) if scored.any() else float("nan") for ari in aris)
    return {
        "fg_ari_attention": attention,
        "fg_ari_decoder": decoder,
        **match_shares(seen.found),
        "mse": float(seen.mse.mean()),
        "scenes": float(len(scored)),
        "fg_ari_scenes": float(scored.sum()),
        "sprites": float(seen.found.counted.sum()),
    }


def matched_slots(
    seen: Seen, scenes: Scenes, part: slice = slice(None), clear: bool = False
) -> tuple[Float[np.ndarray, "S M"], Sprites]:
    """Collect the sprites that are visible enough, and the slots that they are matched to.

    Args:
        seen: What the vision module makes of the scenes.
        scenes: The scenes.
        part: The scenes to use, by default all.
        clear: Whether at least 80 % of a whole sprite must be visible; otherwise at least half of its pixels within the
            frame must not be hidden by other sprites.

    Returns:
        One slot for each of S sprites, and these sprites.
    """
    least = CLEAR * scenes.whole if clear else 0.5 * scenes.areas
    shown = (scenes.areas > 0) & (seen.attention[:, 1:].sum(axis=2) >= least)
    slots, sprites, slot, counted = jax.tree.map(
        lambda leaf: leaf[part], (seen.slots, scenes.sprites, seen.found.slot, shown)
    )
    scene, sprite = np.nonzero(counted)
    return slots[scene, slot[scene, sprite]], jax.tree.map(lambda factor: factor[scene, sprite], sprites)


def evaluate_vision(
    vision: Vision, env: Spriteworld | None = None, scenes: int = 1000, seed: int = TEST_SEED, probes: bool = True
) -> Scores:
    """Measure all scores of a vision module on held-out initial scenes, of two sprites or more if there are such.

    Args:
        vision: A vision module, or a world model.
        env: The environment of the scenes, by default the suite's "exploration".
        scenes: The number of scenes.
        seed: The random seed of scenes and probes.
        probes: Whether to measure what slots say about sprites: half of the scenes fit probes, the others score them.

    Returns:
        The scores; `show.results.VISION` names what is reported. Those that do not exist in these scenes are NaN.
    """
    return _evaluate(vision, env or make("exploration"), scenes, seed, probes)[0]


def _evaluate(
    vision: Vision, env: Spriteworld, scenes: int, seed: int = TEST_SEED, probes: bool | Probes = True
) -> tuple[Scores, bool | Probes]:
    """Return all scores and the probes; those that are given are scored on all scenes."""
    data = fixed_scenes(env, scenes, min(2, env.spec.capacity), seed)
    seen = see(vision, data)
    scores = _decomposition(seen) | quiet_scores(seen.slots, seen.attention)
    if isinstance(probes, Probes):
        scores |= probe_scores(probes, *matched_slots(seen, data))
    elif probes:
        probes = fit_probes(*matched_slots(seen, data, slice(0, scenes // 2)), seed=seed)
        slots, sprites = matched_slots(seen, data, slice(scenes // 2, None))
        parts = slice(0, scenes // 2), slice(scenes // 2, None)
        fitted, tested = (matched_slots(seen, data, part, clear=True) for part in parts)
        scores |= linear_scores(fitted, tested) | {"shape_clear": probe_scores(probes, *tested)["shape_accuracy"]}
        importance = importances(probes, slots, sprites, seed)
        scores |= probe_scores(probes, slots, sprites)
        scores |= {"disentanglement": disentanglement(importance), "completeness": disentanglement(importance.T)}
    return scores, probes


def evaluate_suite(vision: Vision, scenes: int = 1000, task_scenes: int = 200) -> dict[str, Scores]:
    """Measure the scores of a vision module in all environments of the suite.

    A task's scenes have too few shapes and hues to fit probes; those of exploration are used for all tasks.

    Args:
        vision: A vision module, or a world model.
        scenes: The number of scenes of exploration.
        task_scenes: The number of scenes of each task and mode.

    Returns:
        The scores by "variant/task/mode"; exploration has the mode "train" only.
    """
    results = {}
    for variant in VARIANTS:
        explored, probes = _evaluate(vision, make("exploration", "train", variant), scenes)
        results[f"{variant}/exploration/train"] = explored
        for task, mode in itertools.product(TASKS[1:], MODES):
            env = make(task, mode, variant)
            results[f"{variant}/{task}/{mode}"] = _evaluate(vision, env, task_scenes, probes=probes)[0]
    return results
