"""Scores of what was learnt by being curious: does it click on things, and does it know what its pushes do?

Shapes, stated once for the module: B scenes, N sprites, K slots, M latents, P proposals.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from cobra_rl.evaluation.probes import PositionProbe
from cobra_rl.evaluation.segmentation import match
from cobra_rl.evaluation.vision import TEST_SEED, VALIDATION_SEED, Scenes, fixed_scenes, in_batches, see
from cobra_rl.models.transition import pixel_error
from cobra_rl.pretrained import Curious
from cobra_rl.spriteworld import EnvState, Sprites, Spriteworld, env_spec, make
from cobra_rl.spriteworld.sprites import front_most

ExploreScenes = Scenes
PROPOSALS = 128
ROLLOUT = 5  # steps


def explore_scenes(scenes: int = 1000, seed: int = VALIDATION_SEED) -> ExploreScenes:
    """Initial exploration scenes with 1-6 sprites; the same for the same arguments."""
    return fixed_scenes(scenes=scenes, min_sprites=1, seed=seed)


# ------------------------------------------------------------------------------------ the policy


@jax.jit
@functools.partial(jax.vmap, in_axes=(0, 0))
def _struck(state: EnvState, actions: Float[Array, "P 4"]) -> Int[Array, " P"]:
    """The sprite that each action would push, -1 for none."""
    return jax.vmap(lambda action: front_most(state.sprites, action[:2]))(actions)


def policy_scores(
    proposals: Float[np.ndarray, "B P 4"], scenes: ExploreScenes, counted: Bool[np.ndarray, "B N"]
) -> dict[str, float]:
    """What proposals do: how many strike a sprite, how many sprites are struck at all, how motions are spread.

    `counted` are the sprites to be struck: those at least half visible.
    """
    struck = np.asarray(_struck(_states(scenes), jnp.asarray(proposals)))
    found = (struck[:, :, None] == np.arange(counted.shape[1])).any(axis=1)
    motion = proposals[..., 2:] - 0.5
    octant = np.floor((np.arctan2(motion[..., 1], motion[..., 0]) / (2 * np.pi) % 1.0) * 8).astype(int)
    share = 8 * np.bincount(octant.ravel() % 8, minlength=8) / octant.size  # 1 under uniform motions
    return {
        "hit_rate": float((struck >= 0).mean()),
        "sprites_struck": float(found[counted].mean()),
        "octant_least": float(share.min()),
        "octant_most": float(share.max()),
    }


# -------------------------------------------------------------------------------------- pushing


class Push(NamedTuple):
    """One push in each scene, without motion noise."""

    action: Float[np.ndarray, "B 4"]
    sprite: Int[np.ndarray, " B"]  # the one to be pushed, -1 for none
    images: np.ndarray  # after it, [B, H, W, 3]
    states: EnvState


@functools.cache
def _still_step() -> Callable:
    """The compiled step of exploration without motion noise: (states, actions) -> (states, images)."""
    env = Spriteworld(dataclasses.replace(env_spec("exploration"), motion_noise=0.0))

    def step(state, action):
        after = env.advance(jax.random.key(0), state, action)[0]
        return after, env.draw(after)

    return jax.jit(jax.vmap(step))


def push(states: EnvState, action: Float[np.ndarray, "B 4"], sprite: Int[np.ndarray, " B"]) -> Push:
    """What the world without noise does."""
    after, images = _still_step()(states, jnp.asarray(action, jnp.float32))
    return Push(np.asarray(action), sprite, np.asarray(images), after)


def aim(
    labels: Int[np.ndarray, "B H W"], sprite: Int[np.ndarray, " B"], rng: np.random.Generator
) -> Float[np.ndarray, "B 2"]:
    """A click on each scene's sprite: the centre of its pixel nearest to the middle of what is seen of it.

    For sprite -1, a random pixel of the background.
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


def _states(scenes: ExploreScenes) -> EnvState:
    return states_from(scenes.sprites)


@jax.jit
@jax.vmap
def states_from(sprites: Sprites) -> EnvState:
    """States at step 0; the sprites' factors have a leading axis B."""
    return EnvState(sprites, jnp.int32(0))


class Looked(NamedTuple):
    """Scenes as the agent sees them, and which slot is whose."""

    slots: Float[np.ndarray, "B K M"]
    slot: Int[np.ndarray, "B N"]
    counted: Bool[np.ndarray, "B N"]  # sprites at least half visible
    probe: PositionProbe


def look(agent: Curious, scenes: ExploreScenes) -> Looked:
    """Encodes the scenes, matches sprites to slots, and fits the position probe on all of them."""
    seen = see(agent, scenes)
    found = match(seen.attention, scenes.areas)
    scene, sprite = np.nonzero(found.counted)
    slots = seen.slots[scene, found.slot[scene, sprite]]
    return Looked(
        seen.slots,
        found.slot,
        found.counted,
        PositionProbe.fit(slots, np.asarray(scenes.sprites.position)[scene, sprite]),
    )


def push_scores(agent: Curious, scenes: ExploreScenes, looked: Looked, seed: int = 0) -> dict[str, float]:
    """One noise-free push of a visible sprite in each scene, and one click on the background."""
    rng = np.random.default_rng(seed)
    some = np.nonzero(looked.counted.any(axis=1))[0]
    rows = np.arange(len(some))
    looked = looked._replace(slots=looked.slots[some], slot=looked.slot[some], counted=looked.counted[some])
    scenes = _subset(scenes, some)
    sprite = np.array([rng.choice(np.nonzero(row)[0]) for row in looked.counted])
    action = np.concatenate([aim(scenes.labels, sprite, rng), rng.random((len(some), 2))], axis=1)
    pushed = push(_states(scenes), action, sprite)
    imagined = np.asarray(agent.imagine(looked.slots, action).slots)
    predicted = looked.probe(imagined[rows, looked.slot[rows, sprite]])
    truth = np.asarray(pushed.states.sprites.position)[rows, sprite]

    def drift(after: Float[np.ndarray, "B K M"], others: Bool[np.ndarray, "B N"]) -> float:
        scene, which = np.nonzero(others)
        slot = looked.slot[scene, which]
        moved = looked.probe(after[scene, slot]) - looked.probe(looked.slots[scene, slot])
        return float(np.linalg.norm(moved, axis=1).mean()) if len(scene) else 0.0

    others = looked.counted & (np.arange(looked.counted.shape[1]) != sprite[:, None])
    nothing = np.concatenate([aim(scenes.labels, np.full(len(some), -1), rng), rng.random((len(some), 2))], axis=1)
    errors = {
        "imagined": _pixel_errors(agent, imagined, pushed.images),
        "encoded": _pixel_errors(agent, in_batches(agent.encode, pushed.images), pushed.images),
        "unchanged": _pixel_errors(agent, looked.slots, pushed.images),
    }
    return {
        "position_error": float(np.linalg.norm(predicted - truth, axis=1).mean()),
        "position_error_median": float(np.median(np.linalg.norm(predicted - truth, axis=1))),
        "others_drift": drift(imagined, others),
        "empty_drift": drift(np.asarray(agent.imagine(looked.slots, nothing).slots), looked.counted),
        **{f"pixel_error_{name}": float(values.mean()) for name, values in errors.items()},
        "ratio_to_encoded": float(errors["imagined"].mean() / errors["encoded"].mean()),
        "ratio_to_unchanged": float(errors["imagined"].mean() / errors["unchanged"].mean()),
    }


def rollout_scores(agent: Curious, scenes: ExploreScenes, looked: Looked, seed: int = 0) -> dict[str, list[float]]:
    """A sprite pushed along a line for five steps, T as an RNN on its own predictions: errors after each step."""
    rng = np.random.default_rng(seed)
    some = np.nonzero(looked.counted.any(axis=1))[0]
    rows, scenes = np.arange(len(some)), _subset(scenes, some)
    slots, slot, counted = looked.slots[some], looked.slot[some], looked.counted[some]
    sprite = np.array([rng.choice(np.nonzero(row)[0]) for row in counted])
    states, motion = _states(scenes), rng.random((len(some), 2))
    click, curve = aim(scenes.labels, sprite, rng), {"position_error": [], "pixel_error": []}
    before = np.asarray(states.sprites.position)[rows, sprite]
    for _ in range(ROLLOUT):
        action = np.concatenate([np.clip(click, 0.0, 1.0), motion], axis=1)
        pushed = push(states, action, sprite)
        slots = np.asarray(agent.imagine(slots, action).slots)
        truth = np.asarray(pushed.states.sprites.position)[rows, sprite]
        distance = np.linalg.norm(looked.probe(slots[rows, slot[rows, sprite]]) - truth, axis=1)
        curve["position_error"].append(float(distance.mean()))
        curve["pixel_error"].append(float(_pixel_errors(agent, slots, pushed.images).mean()))
        click, before, states = click + truth - before, truth, pushed.states  # the click follows the sprite
    return curve


def error_correlation(
    agent: Curious, scenes: ExploreScenes, looked: Looked, curious: bool, seed: int = 0
) -> tuple[float, float]:
    """Correlation of e_pred with L_T on fresh transitions, motion noise included, and the best that it could be.

    Nobody can know the noise. The ceiling is the correlation of L_T with its mean over the noise: the root of that
    between two transitions that differ in the noise alone.
    """
    key = jax.random.key(seed)
    if curious:
        action = np.asarray(agent.propose(looked.slots, key, 1))[:, 0]
    else:
        action = np.random.default_rng(seed).random((len(scenes.images), 4)).astype(np.float32)
    imagined, states, errors = agent.imagine(looked.slots, action), _states(scenes), []
    for draw in (1, 2):
        keys = jax.random.split(jax.random.fold_in(key, draw), len(action))
        errors.append(_pixel_errors(agent, np.asarray(imagined.slots), np.asarray(_noisy_images(keys, states, action))))
    ceiling = np.sqrt(max(np.corrcoef(*errors)[0, 1], 0.0))
    return float(np.corrcoef(np.asarray(imagined.error), errors[0])[0, 1]), float(ceiling)


@jax.jit
@jax.vmap
def _noisy_images(key, state: EnvState, action: Float[Array, " 4"]) -> Array:
    env = make("exploration")
    return env.draw(env.advance(key, state, action)[0])


def quick_explore_scores(agent: Curious, scenes: ExploreScenes) -> dict[str, float]:
    """For use while training."""
    looked = look(agent, scenes)
    proposals = np.asarray(agent.propose(looked.slots, jax.random.key(0), 16))
    pushes = push_scores(agent, scenes, looked)
    names = ("position_error", "others_drift", "empty_drift", "ratio_to_encoded", "ratio_to_unchanged")
    return {"hit_rate": policy_scores(proposals, scenes, looked.counted)["hit_rate"]} | {n: pushes[n] for n in names}


def evaluate_explore(agent: Curious, scenes: int = 1000, seed: int = TEST_SEED) -> dict[str, float | list[float]]:
    """All scores on held-out exploration scenes with 1-6 sprites."""
    data = explore_scenes(scenes, seed)
    looked = look(agent, data)
    key = jax.random.key(seed)
    proposals = np.asarray(agent.propose(looked.slots, key, PROPOSALS))
    uniform = np.random.default_rng(seed).random(proposals.shape)
    return {
        **policy_scores(proposals, data, looked.counted),
        "hit_rate_uniform": policy_scores(uniform, data, looked.counted)["hit_rate"],
        **_deformations(agent, looked.slots, key),
        **push_scores(agent, data, looked, seed),
        **_correlations(agent, data, looked),
        **{f"rollout_{name}": values for name, values in rollout_scores(agent, data, looked, seed).items()},
        "scenes": float(scenes),
    }


def _correlations(agent: Curious, scenes: ExploreScenes, looked: Looked) -> dict[str, float]:
    scores = {}
    for ending, curious in (("", True), ("_uniform", False)):
        found, ceiling = error_correlation(agent, scenes, looked, curious)
        scores |= {f"error_correlation{ending}": found, f"error_correlation_ceiling{ending}": ceiling}
    return scores


def _deformations(agent: Curious, slots: Float[np.ndarray, "B K M"], key: Array) -> dict[str, float]:
    """Mean absolute deformation of the position and of the motion click, on average over the mixture."""

    @eqx.filter_jit
    def deform(policy, slots):
        mixture = policy(slots, jax.random.uniform(key, (len(slots), 4)))
        return jnp.sum(jnp.exp(mixture.log_weight)[..., None] * jnp.abs(mixture.mean), axis=1).mean(axis=0)

    x, y, u, v = np.asarray(deform(agent.exploration, jnp.asarray(slots))).tolist()
    return {"click_deformation": (x + y) / 2, "motion_deformation": (u + v) / 2}


_pixel_error = eqx.filter_jit(pixel_error)


def _pixel_errors(agent: Curious, slots: Float[np.ndarray, "B K M"], images: np.ndarray) -> Float[np.ndarray, " B"]:
    return in_batches(lambda batch: _pixel_error(agent.model, *batch), (slots, images))


def _subset(scenes: Scenes, rows: Int[np.ndarray, " b"]) -> Scenes:
    sprites = jax.tree.map(lambda factor: factor[rows], scenes.sprites)
    return Scenes(scenes.images[rows], scenes.labels[rows], scenes.areas[rows], sprites)
