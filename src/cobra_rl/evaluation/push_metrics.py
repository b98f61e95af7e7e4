"""Pushes of sprites, and how well a world model imagines them.

An action of Spriteworld is a position click and a motion click, two dimensions each. Distances are in frame widths.
"""

import functools
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from cobra_rl.evaluation.probes import PositionProbe
from cobra_rl.evaluation.task import noise_free
from cobra_rl.evaluation.vision import SceneImages, Scenes, Scores, in_batches, matched_slots, segment_scenes
from cobra_rl.models.world import WorldModel
from cobra_rl.spriteworld import Environment, EnvState, Sprites, Spriteworld

ROLLOUT_STEPS = 5

BatchSlots = Float[np.ndarray, "B K M"]
SpriteIndex = Int[np.ndarray, " B"]  # a sprite of each scene


def push_sprites(env: Spriteworld, states: EnvState, action: Float[np.ndarray, "B A"]) -> tuple[EnvState, Array]:
    """Take one step in each scene, without motion noise.

    Args:
        env: The environment.
        states: Its states, batched.
        action: One action for each scene.

    Returns:
        The states and the pictures after the step.
    """
    keys = jax.random.split(jax.random.key(0), len(action))  # nothing is drawn from them
    return step_all(noise_free(env), keys, states, actions=jnp.asarray(action, jnp.float32))


@functools.partial(jax.jit, static_argnums=0)
def step_all(env: Environment, keys: Key[Array, " B"], states: Any, *, actions: Any) -> tuple[Any, Array]:
    """Take a step in each of several scenes.

    Args:
        env: The environment.
        keys: One random key for each scene.
        states: The states of the environment, batched.
        actions: One action for each scene.

    Returns:
        The states and the pictures after the step.
    """
    after = jax.vmap(env.advance)(keys, states, actions).state
    return after, jax.vmap(env.draw)(after)


@jax.jit
@jax.vmap
def initial_states(sprites: Sprites) -> EnvState:
    """Return states at step 0; the sprites' factors have a leading axis B."""
    return EnvState(sprites, jnp.int32(0))


def aim_clicks(
    labels: Int[np.ndarray, "B H W"], sprite: SpriteIndex, rng: np.random.Generator
) -> Float[np.ndarray, "B 2"]:
    """Choose a click on a sprite of each scene.

    Args:
        labels: The sprite that each pixel shows, -1 for the background.
        sprite: The sprite to click on, which must be visible; -1 for the background.
        rng: Chooses the pixel of the background.

    Returns:
        Clicks (x, y) in [0, 1], y up: on the pixel of the sprite nearest to the middle of what is seen of it, or
        anywhere on the background.
    """
    clicks = []
    size = labels.shape[1]
    for picture, index in zip(labels, sprite, strict=True):
        pixels = np.argwhere(picture == index)
        chosen = rng.integers(len(pixels)) if index < 0 else ((pixels - pixels.mean(axis=0)) ** 2).sum(axis=1).argmin()
        row, column = pixels[chosen]
        clicks.append([(column + 0.5) / size, 1.0 - (row + 0.5) / size])
    return np.array(clicks)


class EncodedScenes(NamedTuple):
    """Scenes as a world model sees them, and which slot is whose."""

    world: WorldModel
    env: Spriteworld
    probe: PositionProbe  # fitted on all visible sprites
    scenes: Scenes
    slots: BatchSlots
    slot: Int[np.ndarray, "B N"]  # of each sprite
    counted: Bool[np.ndarray, "B N"]  # sprites at least half visible


def encode_scenes(world: WorldModel, env: Spriteworld, scenes: Scenes) -> EncodedScenes:
    """Encode scenes, match sprites to slots, and fit the position probe, as all scores of this module need it.

    Args:
        world: The world model.
        env: The environment that the scenes are of.
        scenes: The scenes.

    Returns:
        The scenes as the world model sees them.
    """
    segmented = segment_scenes(world, scenes)
    slots, sprites = matched_slots(segmented, scenes)
    return EncodedScenes(
        world=world,
        env=env,
        probe=PositionProbe.fit(slots, np.asarray(sprites.position)),
        scenes=scenes,
        slots=segmented.slots,
        slot=segmented.match.slot,
        counted=segmented.match.counted,
    )


def _choose_sprites(encoded: EncodedScenes, rng: np.random.Generator) -> tuple[EncodedScenes, SpriteIndex]:
    """Keep the scenes with a visible sprite, and choose one of each."""
    some = encoded.counted.any(axis=1)
    by_scene = jax.tree.map(lambda leaf: leaf[some], encoded[3:])
    kept = EncodedScenes(*encoded[:3], *by_scene)
    return kept, np.array([rng.choice(np.nonzero(row)[0]) for row in kept.counted])


def roll_out(
    world: WorldModel,
    env: Spriteworld,
    scenes: Scenes,
    *,
    slots: BatchSlots,
    sprite: SpriteIndex,
    motion: Float[np.ndarray, "B 2"],
) -> Iterator[tuple[BatchSlots, Float[np.ndarray, "B 2"], SceneImages]]:
    """Push a sprite of each scene along a line, without motion noise, while T imagines it from its own predictions.

    Args:
        world: The world model.
        env: The environment.
        scenes: The scenes to start from.
        slots: Their slots.
        sprite: The sprite of each scene to push; the click follows it.
        motion: The motion of each push, in [0, 1].

    Yields:
        For each step, without end, the imagined slots, where the pushed sprites truly are, and the true pictures.
    """
    rows = np.arange(len(sprite))
    states = initial_states(scenes.sprites)
    click = aim_clicks(scenes.labels, sprite, np.random.default_rng(0))  # nothing is drawn from it
    before = np.asarray(states.sprites.position)[rows, sprite]
    while True:
        action = np.concatenate([np.clip(click, 0.0, 1.0), motion], axis=1)
        states, images = push_sprites(env, states, action)
        slots = np.asarray(world.imagine(slots, action).slots)
        truth = np.asarray(states.sprites.position)[rows, sprite]
        yield slots, truth, np.asarray(images)
        click = click + truth - before  # it follows the sprite
        before = truth


def _push_errors(
    encoded: EncodedScenes, sprite: SpriteIndex, rng: np.random.Generator
) -> Iterator[tuple[BatchSlots, np.ndarray, SceneImages]]:
    """Roll out; yield with slots and pictures how far off the pushed sprites are in the imagined slots [B]."""
    world, env, _, scenes, *_ = encoded
    motion = rng.random((len(sprite), 2))
    slot = encoded.slot[np.arange(len(sprite)), sprite]
    for slots, truth, images in roll_out(world, env, scenes, slots=encoded.slots, sprite=sprite, motion=motion):
        place = encoded.probe(slots[np.arange(len(slots)), slot])
        yield slots, np.linalg.norm(place - truth, axis=1), images


def push_scores(encoded: EncodedScenes, seed: int = 0) -> Scores:
    """Score how well one noise-free push of a visible sprite in each scene is imagined, and one click on nothing.

    Args:
        encoded: The scenes; those without a visible sprite are left out.
        seed: The random seed of sprites and motions.

    Returns:
        In frame widths: `position_error` and `position_error_median` of the pushed sprites, `others_drift`, how far the
        other sprites move in imagination, and `empty_drift`, how far all sprites move after a click on nothing.
        In squared pixels: the entries of `compare_errors` for the push.
    """
    rng = np.random.default_rng(seed)
    encoded, sprite = _choose_sprites(encoded, rng)
    imagined, distance, images = next(_push_errors(encoded, sprite, rng))
    background = aim_clicks(encoded.scenes.labels, np.full(len(sprite), -1), rng)
    nothing = np.concatenate([background, rng.random((len(sprite), 2))], axis=1)
    others = encoded.counted & (np.arange(encoded.counted.shape[1]) != sprite[:, None])

    def drift(after: BatchSlots, sprites: Bool[np.ndarray, "B N"]) -> float:
        scene, which = np.nonzero(sprites)
        slot = encoded.slot[scene, which]
        moved = encoded.probe(after[scene, slot]) - encoded.probe(encoded.slots[scene, slot])
        return float(np.linalg.norm(moved, axis=1).mean()) if len(scene) else 0.0

    return {
        "position_error": float(distance.mean()),
        "position_error_median": float(np.median(distance)),
        "others_drift": drift(imagined, others),
        "empty_drift": drift(np.asarray(encoded.world.imagine(encoded.slots, nothing).slots), encoded.counted),
        **compare_errors(encoded.world, encoded.slots, imagined, images=images),
    }


def rollout_scores(encoded: EncodedScenes, seed: int = 0) -> dict[str, list[float]]:
    """Push a visible sprite of each scene along a line for 5 steps, and score how well this is imagined.

    Args:
        encoded: The scenes; those without a visible sprite are left out.
        seed: The random seed of sprites and motions.

    Returns:
        The mean `position_error`, in frame widths, and `pixel_error` after each step.
    """
    rng = np.random.default_rng(seed)
    steps = list(itertools.islice(_push_errors(*_choose_sprites(encoded, rng), rng), ROLLOUT_STEPS))
    return {
        "position_error": [float(distance.mean()) for _, distance, _ in steps],
        "pixel_error": [float(_pixel_errors(encoded.world, slots, images).mean()) for slots, _, images in steps],
    }


def compare_errors(world: WorldModel, before: BatchSlots, imagined: BatchSlots, *, images: SceneImages) -> Scores:
    """Compare the pixel error of imagined slots with that of encoding the truth and of predicting no change.

    Args:
        world: The world model.
        before: The slots before the step.
        imagined: The slots that T predicts.
        images: The true pictures after the step.

    Returns:
        The mean errors `pixel_error_imagined`, `pixel_error_encoded` and `pixel_error_unchanged`, and the first of them
        divided by the others, `ratio_to_encoded` and `ratio_to_unchanged`.
    """
    slots = {"imagined": imagined, "encoded": in_batches(world.encode, images), "unchanged": before}
    errors = {name: _pixel_errors(world, values, images).mean() for name, values in slots.items()}
    ratios = {f"ratio_to_{name}": float(errors["imagined"] / errors[name]) for name in ("encoded", "unchanged")}
    return {f"pixel_error_{name}": float(error) for name, error in errors.items()} | ratios


def _pixel_errors(world: WorldModel, slots: BatchSlots, images: SceneImages) -> Float[np.ndarray, " B"]:
    return in_batches(lambda batch: world.pixel_error(*batch), (slots, images))


def error_correlation(encoded: EncodedScenes, curious: bool) -> tuple[float, float]:
    """Correlate the predicted error e_pred with the true error L_T on fresh transitions.

    No model can know the motion noise. The ceiling is the correlation of L_T with its mean over the noise, the root of
    the correlation between two transitions that differ in the noise alone.

    Args:
        encoded: The scenes to start from.
        curious: Whether actions come from the exploration policy; otherwise they are uniform.

    Returns:
        The correlation, and its ceiling.
    """
    world, env, *_ = encoded
    key = jax.random.key(0)
    if curious:
        actions = np.asarray(world.propose(encoded.slots, key, 1))[:, 0]
    else:
        actions = np.random.default_rng(0).random((len(encoded.slots), env.action_size)).astype(np.float32)
    imagined = world.imagine(encoded.slots, actions)
    states = initial_states(encoded.scenes.sprites)
    errors = []
    for draw in (1, 2):
        keys = jax.random.split(jax.random.fold_in(key, draw), len(actions))
        images = np.asarray(step_all(env, keys, states, actions=actions)[1])
        errors.append(_pixel_errors(world, np.asarray(imagined.slots), images))
    ceiling = np.sqrt(max(np.corrcoef(*errors)[0, 1], 0.0))
    return float(np.corrcoef(np.asarray(imagined.error), errors[0])[0, 1]), float(ceiling)
