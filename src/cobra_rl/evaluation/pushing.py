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
from cobra_rl.evaluation.vision import Images, Scenes, Scores, in_batches, matched_slots, see
from cobra_rl.models.world import WorldModel
from cobra_rl.spriteworld import EnvState, Sprites, Spriteworld
from cobra_rl.spriteworld.base import Environment

ROLLOUT = 5  # steps

Slots = Float[np.ndarray, "B K M"]
Chosen = Int[np.ndarray, " B"]  # a sprite of each scene


def push(env: Spriteworld, states: EnvState, action: Float[np.ndarray, "B A"]) -> tuple[EnvState, Array]:
    """Take one step in each scene, without motion noise: the states and pictures after it."""
    keys = jax.random.split(jax.random.key(0), len(action))  # nothing is drawn from them
    return step_all(noise_free(env), keys, states, jnp.asarray(action, jnp.float32))


@functools.partial(jax.jit, static_argnums=0)
def step_all(env: Environment, keys: Key[Array, " B"], states: Any, actions: Any) -> tuple[Any, Array]:
    """Take a step in each of several scenes: the states and pictures after it."""
    after = jax.vmap(env.advance)(keys, states, actions).state
    return after, jax.vmap(env.draw)(after)


@jax.jit
@jax.vmap
def states_from(sprites: Sprites) -> EnvState:
    """Return states at step 0; the sprites' factors have a leading axis B."""
    return EnvState(sprites, jnp.int32(0))


def aim(labels: Int[np.ndarray, "B H W"], sprite: Chosen, rng: np.random.Generator) -> Float[np.ndarray, "B 2"]:
    """Click in the middle of what is seen of a sprite, (x, y) in [0, 1], y up; for -1, anywhere on the background."""
    clicks, size = [], labels.shape[1]
    for picture, index in zip(labels, sprite, strict=True):
        pixels = np.argwhere(picture == index)
        chosen = rng.integers(len(pixels)) if index < 0 else ((pixels - pixels.mean(axis=0)) ** 2).sum(axis=1).argmin()
        row, column = pixels[chosen]
        clicks.append([(column + 0.5) / size, 1.0 - (row + 0.5) / size])
    return np.array(clicks)


class Looked(NamedTuple):
    """Scenes as a world model sees them, and which slot is whose."""

    world: WorldModel
    env: Spriteworld
    probe: PositionProbe  # fitted on all visible sprites
    scenes: Scenes
    slots: Slots
    slot: Int[np.ndarray, "B N"]  # of each sprite
    counted: Bool[np.ndarray, "B N"]  # sprites at least half visible


def look(world: WorldModel, env: Spriteworld, scenes: Scenes) -> Looked:
    """Encode scenes of an environment, match sprites to slots, and fit the position probe."""
    seen = see(world, scenes)
    slots, sprites = matched_slots(seen, scenes)
    probe = PositionProbe.fit(slots, np.asarray(sprites.position))
    return Looked(world, env, probe, scenes, seen.slots, seen.found.slot, seen.found.counted)


def _choose_sprites(looked: Looked, rng: np.random.Generator) -> tuple[Looked, Chosen]:
    """Keep the scenes with a visible sprite, and choose one of each."""
    some = looked.counted.any(axis=1)
    kept = Looked(*looked[:3], *jax.tree.map(lambda leaf: leaf[some], looked[3:]))  # from the fourth on, by scene
    return kept, np.array([rng.choice(np.nonzero(row)[0]) for row in kept.counted])


def roll_out(
    world: WorldModel, env: Spriteworld, scenes: Scenes, slots: Slots, sprite: Chosen, motion: Float[np.ndarray, "B 2"]
) -> Iterator[tuple[Slots, Float[np.ndarray, "B 2"], Images]]:
    """Push each scene's sprite along a line, without motion noise, and imagine it, T as an RNN on its own predictions.

    Yields for each step the imagined slots, where the pushed sprites truly are, and the true pictures.
    """
    rows, states = np.arange(len(sprite)), states_from(scenes.sprites)
    click = aim(scenes.labels, sprite, np.random.default_rng(0))  # nothing is drawn from it
    before = np.asarray(states.sprites.position)[rows, sprite]
    while True:
        action = np.concatenate([np.clip(click, 0.0, 1.0), motion], axis=1)
        states, images = push(env, states, action)
        slots = np.asarray(world.imagine(slots, action).slots)
        truth = np.asarray(states.sprites.position)[rows, sprite]
        yield slots, truth, np.asarray(images)
        click, before = click + truth - before, truth  # the click follows the sprite


def _probed(looked: Looked, sprite: Chosen, rng: np.random.Generator) -> Iterator[tuple[Slots, np.ndarray, Images]]:
    """Roll out; yield with slots and pictures how far off the pushed sprites are in the imagined slots [B]."""
    motion, slot = rng.random((len(sprite), 2)), looked.slot[np.arange(len(sprite)), sprite]
    for slots, truth, images in roll_out(looked.world, looked.env, looked.scenes, looked.slots, sprite, motion):
        place = looked.probe(slots[np.arange(len(slots)), slot])
        yield slots, np.linalg.norm(place - truth, axis=1), images


def push_scores(looked: Looked, seed: int = 0) -> Scores:
    """Score the imagination of one noise-free push of a visible sprite in each scene, and of one click on nothing."""
    rng = np.random.default_rng(seed)
    looked, sprite = _choose_sprites(looked, rng)
    imagined, distance, images = next(_probed(looked, sprite, rng))
    background = aim(looked.scenes.labels, np.full(len(sprite), -1), rng)
    nothing = np.concatenate([background, rng.random((len(sprite), 2))], axis=1)
    others = looked.counted & (np.arange(looked.counted.shape[1]) != sprite[:, None])

    def drift(after: Slots, sprites: Bool[np.ndarray, "B N"]) -> float:
        scene, which = np.nonzero(sprites)
        slot = looked.slot[scene, which]
        moved = looked.probe(after[scene, slot]) - looked.probe(looked.slots[scene, slot])
        return float(np.linalg.norm(moved, axis=1).mean()) if len(scene) else 0.0

    return {
        "position_error": float(distance.mean()),
        "position_error_median": float(np.median(distance)),
        "others_drift": drift(imagined, others),
        "empty_drift": drift(np.asarray(looked.world.imagine(looked.slots, nothing).slots), looked.counted),
        **compare_errors(looked.world, looked.slots, imagined, images),
    }


def rollout_scores(looked: Looked, seed: int = 0) -> dict[str, list[float]]:
    """Push a sprite along a line and imagine it: position and pixel error after each step."""
    rng = np.random.default_rng(seed)
    curve = {"position_error": [], "pixel_error": []}
    for slots, distance, images in itertools.islice(_probed(*_choose_sprites(looked, rng), rng), ROLLOUT):
        curve["position_error"].append(float(distance.mean()))
        curve["pixel_error"].append(float(_pixel_errors(looked.world, slots, images).mean()))
    return curve


def compare_errors(world: WorldModel, before: Slots, imagined: Slots, images: Images) -> Scores:
    """Compare the pixel error of imagined slots with that of encoding the truth and of predicting no change."""
    slots = {"imagined": imagined, "encoded": in_batches(world.encode, images), "unchanged": before}
    errors = {name: _pixel_errors(world, values, images).mean() for name, values in slots.items()}
    ratios = {f"ratio_to_{name}": float(errors["imagined"] / errors[name]) for name in ("encoded", "unchanged")}
    return {f"pixel_error_{name}": float(error) for name, error in errors.items()} | ratios


def _pixel_errors(world: WorldModel, slots: Slots, images: Images) -> Float[np.ndarray, " B"]:
    return in_batches(lambda batch: world.pixel_error(*batch), (slots, images))


def error_correlation(looked: Looked, curious: bool, seed: int = 0) -> tuple[float, float]:
    """Correlate e_pred with L_T on fresh transitions of curious or uniform actions, and return the ceiling beside it.

    The motion noise cannot be predicted: the ceiling is the correlation of L_T with its mean over the noise, the root
    of that between two transitions that differ in the noise alone.
    """
    key, world, env = jax.random.key(seed), looked.world, looked.env
    uniform = np.random.default_rng(seed).random((len(looked.slots), env.action_size)).astype(np.float32)
    action = np.asarray(world.propose(looked.slots, key, 1))[:, 0] if curious else uniform
    imagined, states, errors = world.imagine(looked.slots, action), states_from(looked.scenes.sprites), []
    for draw in (1, 2):
        keys = jax.random.split(jax.random.fold_in(key, draw), len(action))
        images = np.asarray(step_all(env, keys, states, action)[1])
        errors.append(_pixel_errors(world, np.asarray(imagined.slots), images))
    ceiling = np.sqrt(max(np.corrcoef(*errors)[0, 1], 0.0))
    return float(np.corrcoef(np.asarray(imagined.error), errors[0])[0, 1]), float(ceiling)
