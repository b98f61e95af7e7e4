"""Scores of a vision module on held-out scenes: decomposition, reconstruction, and what slots say about sprites."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

from cobra_rl.evaluation.probes import Probes, disentanglement, fit_probes, importances, probe_scores
from cobra_rl.evaluation.segmentation import count_overlap, foreground_ari, match, match_shares
from cobra_rl.spriteworld import TASKS, VARIANTS, Sprites, Spriteworld, coverage, make, segment

BATCH = 50
TEST_SEED, VALIDATION_SEED = 1905, 9275  # scenes to report on, scenes to choose a model by


@runtime_checkable
class Decoded(Protocol):
    """What `decode` returns, as far as it is needed here."""

    @property
    def image(self) -> Float[Array, "B H W 3"]:
        """The reconstruction, in [0, 1]."""
        ...

    @property
    def masks(self) -> Float[Array, "B K H W"]:
        """The decoder's own masks."""
        ...


@runtime_checkable
class Vision(Protocol):
    """A vision module, such as `load_pretrained()` returns."""

    def encode(self, images: UInt8[np.ndarray, "B H W 3"], /) -> Float[Array, "B K M"]:
        """Pictures -> slots."""
        ...

    def masks(self, images: UInt8[np.ndarray, "B H W 3"], /) -> Float[Array, "B K H W"]:
        """Pictures -> attention masks."""
        ...

    def decode(self, slots: Float[Array, "B K M"], /) -> Decoded:
        """Slots -> pictures."""
        ...


@dataclass(frozen=True)
class Scenes:
    """Pictures and the truth about them, as numpy arrays."""

    images: UInt8[np.ndarray, "B H W 3"]
    labels: Int[np.ndarray, "B H W"]  # the sprite that a pixel shows, or -1
    areas: Int[np.ndarray, "B N"]  # pixels that each sprite would have if none hid it
    sprites: Sprites  # each factor has a leading axis B


class Seen(NamedTuple):
    """What a vision module makes of scenes."""

    slots: Float[np.ndarray, "B K M"]
    attention: Int[np.ndarray, "B rows K"]  # see `count_overlap`
    decoder: Int[np.ndarray, "B rows K"]
    mse: Float[np.ndarray, " B"]  # of V_dec(V_enc(x)), RGB in [0, 1]


def fixed_scenes(
    env_name: str = "exploration",
    mode: str = "train",
    variant: str = "paper",
    scenes: int = 256,
    min_sprites: int = 2,
    seed: int = VALIDATION_SEED,
) -> Scenes:
    """Initial scenes of an environment with at least `min_sprites` sprites; the same for the same arguments."""
    env = make(env_name, mode, variant)
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


@functools.cache
def _compiled(env: Spriteworld) -> tuple[Callable, Callable]:
    """(keys -> states, states -> images, labels, areas)."""

    def look(state):
        return env.draw(state), segment(state), coverage(state).sum(axis=(0, 1))

    # `map`, for it compiles in half the time, and an environment's scenes are drawn once
    return jax.jit(lambda keys: jax.lax.map(env.initial, keys)), jax.jit(jax.vmap(look))


def in_batches(function: Callable[[Any], Any], data: Any) -> Any:
    """The function of arrays [B, ...], a batch at a time; the last one is filled up, so that nothing compiles twice."""
    count = len(jax.tree.leaves(data)[0])
    results = []
    for start in range(0, count, BATCH):
        rows = np.minimum(np.arange(start, start + BATCH), count - 1)
        batch = jax.tree.map(lambda leaf, rows=rows: leaf[rows], data)
        results.append(jax.tree.map(np.asarray, function(batch)))
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:count], *results)


def see(vision: Vision, scenes: Scenes) -> Seen:
    """Runs the vision module on all scenes."""
    sprites = scenes.areas.shape[1]

    def overlap(labels: np.ndarray, masks: np.ndarray) -> np.ndarray:
        count, slots = masks.shape[:2]
        return count_overlap(labels.reshape(count, -1), masks.argmax(axis=1).reshape(count, -1), sprites, slots)

    def see_batch(batch: tuple[np.ndarray, np.ndarray]) -> Seen:
        images, labels = batch
        slots = vision.encode(images)
        decoded = vision.decode(slots)
        return Seen(
            slots=np.asarray(slots),
            attention=overlap(labels, np.asarray(vision.masks(images))),
            decoder=overlap(labels, np.asarray(decoded.masks)),
            mse=np.mean((np.asarray(decoded.image) - images / np.float32(255.0)) ** 2, axis=(1, 2, 3)),
        )

    return in_batches(see_batch, (scenes.images, scenes.labels))


def quick_scores(vision: Vision, scenes: Scenes) -> dict[str, float]:
    """FG-ARI, share of sprites alone in a slot, and MSE: for use while training."""
    scores = _decomposition(see(vision, scenes), scenes)
    return {name: scores[name] for name in ("fg_ari_attention", "fg_ari_decoder", "alone", "mse")}


def _decomposition(seen: Seen, scenes: Scenes) -> dict[str, float]:
    found = match(seen.attention, scenes.areas)
    aris = foreground_ari(seen.attention)
    scored = ~np.isnan(aris)  # the same scenes for both masks

    def mean_ari(aris: Float[np.ndarray, " B"]) -> float:
        return float(aris[scored].mean()) if scored.any() else float("nan")

    return {
        "fg_ari_attention": mean_ari(aris),
        "fg_ari_decoder": mean_ari(foreground_ari(seen.decoder)),
        **match_shares(found),
        "mse": float(seen.mse.mean()),
        "scenes": float(len(aris)),
        "fg_ari_scenes": float(scored.sum()),
        "sprites": float(found.counted.sum()),
    }


def matched_slots(seen: Seen, scenes: Scenes, part: slice = slice(None)) -> tuple[Float[np.ndarray, "S M"], Sprites]:
    """The slots and factors of all sprites of the scenes in `part` that are at least half visible."""
    found = match(seen.attention, scenes.areas)
    scene, sprite = np.nonzero(found.counted)
    within = np.isin(scene, np.arange(len(scenes.images))[part])
    scene, sprite = scene[within], sprite[within]
    sprites = jax.tree.map(lambda factor: factor[scene, sprite], scenes.sprites)
    return seen.slots[scene, found.slot[scene, sprite]], sprites


def evaluate_vision(
    vision: Vision,
    env_name: str = "exploration",
    mode: str = "train",
    variant: str = "paper",
    scenes: int = 1000,
    min_sprites: int = 2,
    seed: int = TEST_SEED,
    probes: bool | Probes = True,
) -> dict[str, float]:
    """All scores on held-out initial scenes.

    Probes are fitted on the first half of the scenes and scored on the second; fitted ones can be given, to be scored
    on all scenes; False leaves them out. FG-ARI is NaN if no scene has two visible sprites.
    """
    data = fixed_scenes(env_name, mode, variant, scenes, min_sprites, seed)
    seen = see(vision, data)
    scores = _decomposition(seen, data)
    if isinstance(probes, Probes):
        return scores | probe_scores(probes, *matched_slots(seen, data))
    return scores | _probing(seen, data, seed)[1] if probes else scores


def _probing(seen: Seen, scenes: Scenes, seed: int) -> tuple[Probes, dict[str, float]]:
    half = len(scenes.images) // 2
    probes = fit_probes(*matched_slots(seen, scenes, slice(0, half)), seed=seed)
    slots, sprites = matched_slots(seen, scenes, slice(half, None))
    importance = importances(probes, slots, sprites, seed)
    dci = {"disentanglement": disentanglement(importance), "completeness": disentanglement(importance.T)}
    return probes, probe_scores(probes, slots, sprites) | dci


def evaluate_suite(vision: Vision, scenes: int = 1000, task_scenes: int = 200) -> dict[str, dict[str, float]]:
    """Scores on all environments, by "variant/task/mode".

    A task's few scenes, with few shapes and hues, would not do to fit probes: those of exploration are used.
    """
    results = {}
    for variant in VARIANTS:
        data = fixed_scenes("exploration", "train", variant, scenes, seed=TEST_SEED)
        seen = see(vision, data)
        probes, probing = _probing(seen, data, TEST_SEED)
        results[f"{variant}/exploration/train"] = _decomposition(seen, data) | probing
        for task in TASKS[1:]:
            for mode in ("train", "test"):
                least = min(2, make(task, mode, variant).spec.capacity)
                scores = evaluate_vision(vision, task, mode, variant, task_scenes, least, probes=probes)
                results[f"{variant}/{task}/{mode}"] = scores
    return results
