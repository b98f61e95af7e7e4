"""Pushes of sprites, and how well a world model imagines them.

An action of Spriteworld is a position click and a motion click, two dimensions each. Distances are in frame widths.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from cobra_rl.evaluation.probes import PositionProbe
from cobra_rl.evaluation.segmentation import match
from cobra_rl.evaluation.task import noise_free
from cobra_rl.evaluation.vision import Images, Scenes, Scores, in_batches, matched_slots, see
from cobra_rl.models.world import WorldModel
from cobra_rl.spriteworld import EnvState, Sprites, Spriteworld
from cobra_rl.spriteworld.base import Environment

ROLLOUT = 5  # steps

Slots = Float[np.ndarray, "B K M"]
Chosen = Int[np.ndarray, " B"]  # a sprite of each scene


class Push(NamedTuple):
    """One push in each scene, without motion noise."""

    action: Float[np.ndarray, "B A"]
    sprite: Chosen  # the one to be pushed, -1 for none
    images: Images  # after it
    states: EnvState


def push(env: Spriteworld, states: EnvState, action: Float[np.ndarray, "B A"], sprite: Chosen) -> Push:
    """Take one step in each scene, without motion noise; `sprite`, which the action aims at, is only recorded."""
    keys = jax.random.split(jax.random.key(0), len(sprite))  # nothing is drawn from them
    after, images = stepping(noise_free(env))(keys, states, jnp.asarray(action, jnp.float32))
    return Push(np.asarray(action), sprite, np.asarray(images), after)


@functools.cache
def stepping(env: Environment) -> Callable:
    """Compile the step of an environment: (keys, states, actions) -> (states, images)."""

    def step(key, state, action):
        after = env.advance(key, state, action).state
        return after, env.draw(after)

    return jax.jit(jax.vmap(step))


@jax.jit
@jax.vmap
def states_from(sprites: Sprites) -> EnvState:
    """Return states at step 0; the sprites' factors have a leading axis B."""
    return EnvState(sprites, jnp.int32(0))


def aim(labels: Int[np.ndarray, "B H W"], sprite: Chosen, rng: np.random.Generator) -> Float[np.ndarray, "B 2"]:
    """Click on each scene's sprite: (x, y) of the pixel nearest to the middle of what is seen of it, in [0, 1], y up.

    Where `sprite` is -1, a random pixel of the background is clicked on.
    """
    clicks, size = [], labels.shape[1]
    for picture, index in zip(labels, sprite, strict=True):
        rows, columns = np.nonzero(picture == index)
        if index < 0:
            chosen = rng.integers(len(rows))
        else:
            chosen = np.argmin((rows - rows.mean()) ** 2 + (columns - columns.mean()) ** 2)
        clicks.append([(columns[chosen] + 0.5) / size, 1.0 - (rows[chosen] + 0.5) / size])
    return np.array(clicks)


class Looked(NamedTuple):
    """Scenes as a world model sees them, and which slot is whose."""

    world: WorldModel
    env: Spriteworld
    scenes: Scenes
    slots: Slots
    slot: Int[np.ndarray, "B N"]  # of each sprite
    counted: Bool[np.ndarray, "B N"]  # sprites at least half visible
    probe: PositionProbe  # fitted on all of them


def look(world: WorldModel, env: Spriteworld, scenes: Scenes) -> Looked:
    """Encode scenes of an environment, match sprites to slots, and fit the position probe."""
    seen = see(world, scenes)
    found = match(seen.attention, scenes.areas)
    slots, sprites = matched_slots(seen, scenes)
    probe = PositionProbe.fit(slots, np.asarray(sprites.position))
    return Looked(world, env, scenes, seen.slots, found.slot, found.counted, probe)


def _choose_sprites(looked: Looked, rng: np.random.Generator) -> tuple[Looked, Chosen]:
    """Keep the scenes with a visible sprite, and choose one of each."""
    some = np.nonzero(looked.counted.any(axis=1))[0]
    sprites = jax.tree.map(lambda factor: factor[some], looked.scenes.sprites)
    scenes = Scenes(looked.scenes.images[some], looked.scenes.labels[some], looked.scenes.areas[some], sprites)
    slots, slot, counted = looked.slots[some], looked.slot[some], looked.counted[some]
    chosen = np.array([rng.choice(np.nonzero(row)[0]) for row in counted])
    return looked._replace(scenes=scenes, slots=slots, slot=slot, counted=counted), chosen


def push_scores(looked: Looked, seed: int = 0) -> Scores:
    """Score the imagination of one noise-free push of a visible sprite in each scene, and of one click on nothing."""
    rng = np.random.default_rng(seed)
    looked, sprite = _choose_sprites(looked, rng)
    world, scenes, rows = looked.world, looked.scenes, np.arange(len(sprite))
    action = np.concatenate([aim(scenes.labels, sprite, rng), rng.random((len(rows), 2))], axis=1)
    pushed = push(looked.env, states_from(scenes.sprites), action, sprite)
    imagined = np.asarray(world.imagine(looked.slots, action).slots)
    truth = np.asarray(pushed.states.sprites.position)[rows, sprite]
    distance = np.linalg.norm(looked.probe(imagined[rows, looked.slot[rows, sprite]]) - truth, axis=1)

    def drift(after: Slots, others: Bool[np.ndarray, "B N"]) -> float:
        scene, which = np.nonzero(others)
        slot = looked.slot[scene, which]
        moved = looked.probe(after[scene, slot]) - looked.probe(looked.slots[scene, slot])
        return float(np.linalg.norm(moved, axis=1).mean()) if len(scene) else 0.0

    others = looked.counted & (np.arange(looked.counted.shape[1]) != sprite[:, None])
    background = aim(scenes.labels, np.full(len(rows), -1), rng)
    nothing = np.concatenate([background, rng.random((len(rows), 2))], axis=1)
    return {
        "position_error": float(distance.mean()),
        "position_error_median": float(np.median(distance)),
        "others_drift": drift(imagined, others),
        "empty_drift": drift(np.asarray(world.imagine(looked.slots, nothing).slots), looked.counted),
        **compare_errors(world, looked.slots, imagined, pushed.images),
    }


def compare_errors(world: WorldModel, before: Slots, imagined: Slots, images: Images) -> Scores:
    """Compare the pixel error of imagined slots with that of encoding the truth and of predicting no change."""
    slots = {"imagined": imagined, "encoded": in_batches(world.encode, images), "unchanged": before}
    errors = {name: _pixel_errors(world, values, images).mean() for name, values in slots.items()}
    return {
        **{f"pixel_error_{name}": float(error) for name, error in errors.items()},
        "ratio_to_encoded": float(errors["imagined"] / errors["encoded"]),
        "ratio_to_unchanged": float(errors["imagined"] / errors["unchanged"]),
    }


def _pixel_errors(world: WorldModel, slots: Slots, images: Images) -> Float[np.ndarray, " B"]:
    return in_batches(lambda batch: world.pixel_error(*batch), (slots, images))


def rollout_scores(looked: Looked, seed: int = 0) -> dict[str, list[float]]:
    """Push a sprite along a line, T as an RNN on its own predictions: position and pixel error after each step."""
    rng = np.random.default_rng(seed)
    looked, sprite = _choose_sprites(looked, rng)
    rows, slots, states = np.arange(len(sprite)), looked.slots, states_from(looked.scenes.sprites)
    motion = rng.random((len(rows), 2))
    click, curve = aim(looked.scenes.labels, sprite, rng), {"position_error": [], "pixel_error": []}
    before = np.asarray(states.sprites.position)[rows, sprite]
    for _ in range(ROLLOUT):
        action = np.concatenate([np.clip(click, 0.0, 1.0), motion], axis=1)
        pushed = push(looked.env, states, action, sprite)
        slots = np.asarray(looked.world.imagine(slots, action).slots)
        truth = np.asarray(pushed.states.sprites.position)[rows, sprite]
        distance = np.linalg.norm(looked.probe(slots[rows, looked.slot[rows, sprite]]) - truth, axis=1)
        curve["position_error"].append(float(distance.mean()))
        curve["pixel_error"].append(float(_pixel_errors(looked.world, slots, pushed.images).mean()))
        click, before, states = click + truth - before, truth, pushed.states  # the click follows the sprite
    return curve


def error_correlation(looked: Looked, curious: bool, seed: int = 0) -> tuple[float, float]:
    """Correlate e_pred with L_T on fresh transitions of curious or uniform actions, motion noise included.

    Returns:
      The correlation and the best that it could be. Nobody can know the noise: the ceiling is the correlation of L_T
      with its mean over the noise, the root of that between two transitions that differ in the noise alone.
    """
    key, world, env = jax.random.key(seed), looked.world, looked.env
    if curious:
        action = np.asarray(world.propose(looked.slots, key, 1))[:, 0]
    else:
        action = np.random.default_rng(seed).random((len(looked.slots), env.action_size)).astype(np.float32)
    imagined, states, errors = world.imagine(looked.slots, action), states_from(looked.scenes.sprites), []
    for draw in (1, 2):
        keys = jax.random.split(jax.random.fold_in(key, draw), len(action))
        images = np.asarray(stepping(env)(keys, states, action)[1])
        errors.append(_pixel_errors(world, np.asarray(imagined.slots), images))
    ceiling = np.sqrt(max(np.corrcoef(*errors)[0, 1], 0.0))
    return float(np.corrcoef(np.asarray(imagined.error), errors[0])[0, 1]), float(ceiling)
