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

from cobra_rl.evaluation.probes import Probes, disentanglement, fit_probes, importances, linear_scores, probe_scores
from cobra_rl.evaluation.segmentation import (
    Match,
    count_overlap,
    empty_slot_scores,
    foreground_ari,
    match,
    match_shares,
)
from cobra_rl.evaluation.task import random_policy, visited_states
from cobra_rl.models.vision import Decoded, VisionModel
from cobra_rl.models.world import WorldModel
from cobra_rl.spriteworld import MODES, TASKS, VARIANTS, Environment, Sprites, Spriteworld, coverage, make
from cobra_rl.spriteworld.sprites import front_most_of

SCENE_BATCH = 50  # scenes at a time
SMALL_BATCH = 10  # no more scenes than this are one batch
TEST_SEED = 1905  # of the scenes to report on
VALIDATION_SEED = 9275  # of the scenes to choose a model by
CLEARLY_VISIBLE = 0.8  # share of its pixels that are visible, from which on a sprite's shape must be readable

Vision = VisionModel | WorldModel
Scores = dict[str, float]
SceneImages = UInt8[np.ndarray, "B H W 3"]


class Scorer(NamedTuple):
    """A function from a model to its scores, for use while training, and the pictures that it looks at."""

    images: SceneImages
    score: Callable[[Any], Scores]


class Scenes(NamedTuple):
    """SceneImages and the truth about them, as numpy arrays."""

    images: SceneImages
    labels: Int[np.ndarray, "B H W"]  # the sprite that a pixel shows, or -1
    areas: Int[np.ndarray, "B N"]  # pixels that each sprite would have if none hid it
    uncropped_areas: Int[np.ndarray, "B N"]  # pixels that each would have if the frame's border did not cut it either
    sprites: Sprites  # each factor has a leading axis B


class SegmentedScenes(NamedTuple):
    """The output of a vision module for scenes."""

    slots: Float[np.ndarray, "B K M"]
    attention: Int[np.ndarray, "B rows K"]  # see `count_overlap`
    decoder: Int[np.ndarray, "B rows K"]
    mse: Float[np.ndarray, " B"]  # of V_dec(V_enc(x)), RGB in [0, 1]
    match: Match  # of sprites and slots, by attention


@functools.lru_cache(maxsize=8)
def fixed_scenes(env: Spriteworld, scenes: int = 256, min_sprites: int = 2, *, seed: int = VALIDATION_SEED) -> Scenes:
    """Draw initial scenes; the same arguments give the same scenes, which are drawn once.

    Args:
        env: The environment.
        scenes: The number of scenes.
        min_sprites: The least number of sprites in a scene.
        seed: The random seed of the scenes.

    Returns:
        SceneImages and the truth about them, as read-only arrays.

    Raises:
        ValueError: If the environment has no scene with so many sprites.
    """
    if min_sprites > env.spec.capacity:
        raise ValueError(f"{env} has no scenes with {min_sprites} sprites; min_sprites is at most {env.spec.capacity}.")
    draw_states, draw_truth = _compiled_scenes(env)
    kept = []
    key = jax.random.key(seed)
    while sum(len(states.step) for states in kept) < scenes:
        key, draw_key = jax.random.split(key)
        states = jax.tree.map(np.asarray, draw_states(jax.random.split(draw_key, 20 * SCENE_BATCH)))
        enough = states.sprites.alive.sum(axis=1) >= min_sprites
        kept.append(jax.tree.map(lambda leaf, enough=enough: leaf[enough], states))
    states = jax.tree.map(lambda *parts: np.concatenate(parts)[:scenes], *kept)
    images, labels, areas, uncropped_areas = in_batches(draw_truth, states)
    drawn = Scenes(images, labels.astype(np.int8), areas, uncropped_areas=uncropped_areas, sprites=states.sprites)
    for array in jax.tree.leaves(drawn):
        array.setflags(write=False)  # whoever asks again is given the same
    return drawn


@functools.cache
def _compiled_scenes(env: Spriteworld) -> tuple[Callable, Callable]:
    """Compile (keys -> states) and (states -> images, labels, areas, areas if they were in the middle)."""

    def draw_truth(state):
        middle = eqx.tree_at(lambda state: state.sprites.position, state, jnp.full_like(state.sprites.position, 0.5))
        covered, uncropped = (coverage(each, env.image_size) for each in (state, middle))
        return env.draw(state), front_most_of(covered), covered.sum(axis=(0, 1)), uncropped.sum(axis=(0, 1))

    # `map`, for it compiles in half the time, and an environment's scenes are drawn once; `draw_truth` takes longer to
    # run than to compile: it is compiled well even where compiling is to be quick, as in tests
    draw_states = jax.jit(lambda keys: jax.lax.map(env.initial, keys))
    return draw_states, jax.jit(jax.vmap(draw_truth), compiler_options={"xla_backend_optimization_level": 3})


def in_batches(function: Callable[[Any], Any], data: Any) -> Any:
    """Apply a function to arrays a batch at a time; the last batch is padded, so that nothing compiles twice.

    Args:
        function: A function of a batch, which keeps the leading axis.
        data: A pytree of arrays [B, ...].

    Returns:
        The outputs for all rows, as NumPy arrays [B, ...].
    """
    count = len(jax.tree.leaves(data)[0])
    size = SCENE_BATCH if count > SMALL_BATCH else SMALL_BATCH
    results = []
    for start in range(0, count, size):
        rows = np.minimum(np.arange(start, start + size), count - 1)
        batch = jax.tree.map(lambda leaf, rows=rows: leaf[rows], data)
        results.append(jax.tree.map(np.asarray, function(batch)))
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:count], *results)


def segment_scenes(vision: Vision, scenes: Scenes) -> SegmentedScenes:
    """Run a vision module on all scenes."""

    def overlap(labels: np.ndarray, masks: Array) -> np.ndarray:
        guess = np.asarray(masks).argmax(axis=1).reshape(len(labels), -1)
        return count_overlap(labels.reshape(len(labels), -1), guess, scenes.areas.shape[1], masks.shape[1])

    def segment_batch(batch: tuple[np.ndarray, np.ndarray]) -> tuple[Any, ...]:
        images, labels = batch
        slots, decoded, mse = _reconstruct(vision, images)
        return slots, overlap(labels, vision.masks(jnp.asarray(images))), overlap(labels, decoded.masks), mse

    slots, attention, decoder, mse = in_batches(segment_batch, (scenes.images, scenes.labels))
    return SegmentedScenes(slots, attention, decoder, mse=mse, match=match(attention, scenes.areas))


def _reconstruct(vision: Vision, images: SceneImages) -> tuple[Array, Decoded, Float[np.ndarray, " B"]]:
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
        images = visited_frames(env, scenes)[1]

        def error(vision: Vision) -> Scores:
            return {"mse": float(in_batches(lambda batch: _reconstruct(vision, batch)[2], images).mean())}

        return Scorer(images, error)
    data = fixed_scenes(env, scenes, min(2, env.spec.capacity))

    def score(vision: Vision) -> Scores:
        scores = _segmentation_scores(segment_scenes(vision, data))
        names = ("fg_ari_attention", "fg_ari_decoder", "alone", "mse")
        return {name: scores[name] for name in names if not np.isnan(scores[name])}

    return Scorer(data.images, score)


def visited_frames(env: Environment, frames: int) -> tuple[Any, SceneImages]:
    """Collect states of episodes of random actions in any environment, and their pictures."""
    states = visited_states(random_policy(env.action_size), None, env, scenes=frames, seed=VALIDATION_SEED)
    return states, in_batches(jax.jit(jax.vmap(env.draw)), states)


def _segmentation_scores(segmented: SegmentedScenes) -> Scores:
    aris = foreground_ari(segmented.attention), foreground_ari(segmented.decoder)
    scored = ~np.isnan(aris[0])  # the same scenes for both masks
    attention, decoder = (float(ari[scored].mean()) if scored.any() else float("nan") for ari in aris)
    return {
        "fg_ari_attention": attention,
        "fg_ari_decoder": decoder,
        **match_shares(segmented.match),
        "mse": float(segmented.mse.mean()),
        "scenes": float(len(scored)),
        "fg_ari_scenes": float(scored.sum()),
        "sprites": float(segmented.match.counted.sum()),
    }


def matched_slots(
    segmented: SegmentedScenes, scenes: Scenes, part: slice = slice(None), *, clear: bool = False
) -> tuple[Float[np.ndarray, "S M"], Sprites]:
    """Collect the sprites that are visible enough, and the slots that they are matched to.

    Args:
        segmented: The output of the vision module for the scenes.
        scenes: The scenes.
        part: The scenes to use, by default all.
        clear: Whether at least 80 % of a whole sprite must be visible; otherwise at least half of its pixels within the
            frame must not be hidden by other sprites.

    Returns:
        One slot for each of S sprites, and these sprites.
    """
    least = CLEARLY_VISIBLE * scenes.uncropped_areas if clear else 0.5 * scenes.areas
    visible = (scenes.areas > 0) & (segmented.attention[:, 1:].sum(axis=2) >= least)
    slots, sprites, slot, counted = jax.tree.map(
        lambda leaf: leaf[part], (segmented.slots, scenes.sprites, segmented.match.slot, visible)
    )
    scene, sprite = np.nonzero(counted)
    return slots[scene, slot[scene, sprite]], jax.tree.map(lambda factor: factor[scene, sprite], sprites)


def evaluate_vision(
    vision: Vision, env: Spriteworld | None = None, scenes: int = 1000, *, seed: int = TEST_SEED, probes: bool = True
) -> Scores:
    """Measure all scores of a vision module on held-out initial scenes, of two sprites or more if there are such.

    Args:
        vision: A vision module, or a world model.
        env: The environment of the scenes, by default the suite's "exploration".
        scenes: The number of scenes.
        seed: The random seed of scenes and probes.
        probes: Whether to measure what slots say about sprites: half of the scenes fit probes, the others score them.

    Returns:
        The scores; `reporting.results.VISION` names what is reported. Those that do not exist in these scenes are NaN.
    """
    data, segmented, scores = _segment_and_score(vision, env or make("exploration"), scenes, seed=seed)
    return scores | _fit_and_score(segmented, data, seed)[1] if probes else scores


def _segment_and_score(
    vision: Vision, env: Spriteworld, scenes: int, *, seed: int = TEST_SEED
) -> tuple[Scenes, SegmentedScenes, Scores]:
    """Segment held-out scenes, and measure all that needs no probes."""
    data = fixed_scenes(env, scenes, min(2, env.spec.capacity), seed=seed)
    segmented = segment_scenes(vision, data)
    return data, segmented, _segmentation_scores(segmented) | empty_slot_scores(segmented.slots, segmented.attention)


def _fit_and_score(segmented: SegmentedScenes, data: Scenes, seed: int) -> tuple[Probes, Scores]:
    """Fit probes to half of the scenes, and score them on the others."""
    half = len(data.images) // 2
    parts = (slice(0, half), slice(half, None))
    fitted, tested = (matched_slots(segmented, data, part) for part in parts)
    clear_fitted, clear_tested = (matched_slots(segmented, data, part, clear=True) for part in parts)
    probes = fit_probes(*fitted, seed)
    importance = importances(probes, *tested, seed=seed)
    return probes, {
        **linear_scores(clear_fitted, clear_tested),
        "shape_clear": probe_scores(probes, *clear_tested)["shape_accuracy"],
        **probe_scores(probes, *tested),
        "disentanglement": disentanglement(importance),
        "completeness": disentanglement(importance.T),
    }


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
        data, segmented, scores = _segment_and_score(vision, make("exploration", "train", variant), scenes)
        probes, slot_scores = _fit_and_score(segmented, data, TEST_SEED)
        results[f"{variant}/exploration/train"] = scores | slot_scores
        for task, mode in itertools.product(TASKS[1:], MODES):
            data, segmented, scores = _segment_and_score(vision, make(task, mode, variant), task_scenes)
            results[f"{variant}/{task}/{mode}"] = scores | probe_scores(probes, *matched_slots(segmented, data))
    return results
