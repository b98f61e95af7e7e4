"""Metrics of the exploration phase: does the policy click on sprites, and does the transition model predict pushes?

An action of Spriteworld is a position click and a motion click, two dimensions each. Distances are in frame widths.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from cobra_rl.evaluation.probes import PositionProbe
from cobra_rl.evaluation.task import PROPOSALS, noise_free
from cobra_rl.evaluation.vision import (
    TEST_SEED,
    SceneImages,
    Scenes,
    Scorer,
    Scores,
    fixed_scenes,
    in_batches,
    matched_slots,
    segment_scenes,
    visited_frames,
)
from cobra_rl.models.exploration import Deformation
from cobra_rl.models.world import WorldModel
from cobra_rl.spriteworld import Environment, EnvState, Sprites, Spriteworld, make
from cobra_rl.spriteworld.sprites import front_most_at

ROLLOUT_STEPS = 5

BatchSlots = Float[np.ndarray, "B K M"]
SpriteIndex = Int[np.ndarray, " B"]  # a sprite of each scene


@jax.jit
@jax.vmap
def _clicked_sprites(sprites: Sprites, actions: Float[Array, "P A"]) -> Int[Array, " P"]:
    """Return the sprite that each action would push, -1 for none."""
    return jax.vmap(lambda action: front_most_at(sprites, action[:2]))(actions)


def policy_scores(proposals: Float[np.ndarray, "B P A"], scenes: Scenes, counted: Bool[np.ndarray, "B N"]) -> Scores:
    """Measure where proposals click and how their motions are distributed.

    Args:
        proposals: P actions for each of B scenes.
        scenes: The scenes.
        counted: The sprites that count, such as those at least half visible.

    Returns:
        `hit_rate`, the share of proposals that click on a sprite; `sprites_struck`, the share of counted sprites that
        some proposal clicks on; `octant_least` and `octant_most`, how often the rarest and the most frequent of eight
        directions of motion occur, relative to uniform motions.
    """
    clicked = np.asarray(_clicked_sprites(scenes.sprites, jnp.asarray(proposals)))
    found = (clicked[:, :, None] == np.arange(counted.shape[1])).any(axis=1)
    motion = proposals[..., 2:] - 0.5
    octant = np.floor((np.arctan2(motion[..., 1], motion[..., 0]) / (2 * np.pi) % 1.0) * 8).astype(int)
    share = 8 * np.bincount(octant.ravel() % 8, minlength=8) / octant.size  # 1 under uniform motions
    return {
        "hit_rate": float((clicked >= 0).mean()),
        "sprites_struck": float(found[counted].mean()),
        "octant_least": float(share.min()),
        "octant_most": float(share.max()),
    }


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


@jax.jit(static_argnums=0)
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


def roll_out(
    world: WorldModel,
    env: Spriteworld,
    scenes: Scenes,
    *,
    slots: BatchSlots,
    sprite: SpriteIndex,
    motion: Float[np.ndarray, "B 2"],
    steps: int,
) -> Iterator[tuple[BatchSlots, Float[np.ndarray, "B 2"], SceneImages]]:
    """Push a sprite of each scene along a line, without motion noise, while T imagines it from its own predictions.

    Args:
        world: The world model.
        env: The environment.
        scenes: The scenes to start from.
        slots: Their slots.
        sprite: The sprite of each scene to push; the click follows it.
        motion: The motion of each push, in [0, 1].
        steps: The number of pushes.

    Yields:
        For each step, the imagined slots, where the pushed sprites truly are, and the true pictures.
    """
    rows = np.arange(len(sprite))
    states = initial_states(scenes.sprites)
    click = aim_clicks(scenes.labels, sprite, np.random.default_rng(0))  # nothing is drawn from it
    before = np.asarray(states.sprites.position)[rows, sprite]
    for _ in range(steps):
        action = np.concatenate([np.clip(click, 0.0, 1.0), motion], axis=1)
        states, images = push_sprites(env, states, action)
        slots = np.asarray(world.imagine(slots, action).slots)
        truth = np.asarray(states.sprites.position)[rows, sprite]
        yield slots, truth, np.asarray(images)
        click = click + truth - before  # it follows the sprite
        before = truth


def push_scores(encoded: EncodedScenes, seed: int = 0, steps: int = 1) -> dict[str, Any]:
    """Score how well noise-free pushes of a visible sprite in each scene are imagined, and one click on nothing.

    Args:
        encoded: The scenes; those without a visible sprite are left out.
        seed: The random seed of sprites and motions.
        steps: How often the sprite is pushed along a line.

    Returns:
        In frame widths: `position_error` and `position_error_median` of the pushed sprites, `others_drift`, how far the
        other sprites move in imagination, and `empty_drift`, how far all sprites move after a click on nothing.
        In squared pixels: the entries of `compare_errors` for the push. `rollout_position_error` and
        `rollout_pixel_error` have the mean after each step.
    """
    rng = np.random.default_rng(seed)
    some = encoded.counted.any(axis=1)
    encoded = EncodedScenes(*encoded[:3], *jax.tree.map(lambda leaf: leaf[some], encoded[3:]))
    world, env, probe, scenes, slots, *_ = encoded
    sprite = np.array([rng.choice(np.nonzero(row)[0]) for row in encoded.counted])
    motion = rng.random((len(sprite), 2))
    rows = np.arange(len(sprite))
    pushed = encoded.slot[rows, sprite]
    pushes = list(roll_out(world, env, scenes, slots=slots, sprite=sprite, motion=motion, steps=steps))
    distances = [np.linalg.norm(probe(after[rows, pushed]) - truth, axis=1) for after, truth, _ in pushes]
    imagined, _, images = pushes[0]
    beside = aim_clicks(scenes.labels, np.full(len(sprite), -1), rng)
    nothing = np.concatenate([beside, rng.random((len(sprite), 2))], axis=1)
    others = encoded.counted & (np.arange(encoded.counted.shape[1]) != sprite[:, None])

    def drift(after: BatchSlots, sprites: Bool[np.ndarray, "B N"]) -> float:
        scene, which = np.nonzero(sprites)
        slot = encoded.slot[scene, which]
        moved = probe(after[scene, slot]) - probe(slots[scene, slot])
        return float(np.linalg.norm(moved, axis=1).mean()) if len(scene) else 0.0

    return {
        "position_error": float(distances[0].mean()),
        "position_error_median": float(np.median(distances[0])),
        "others_drift": drift(imagined, others),
        "empty_drift": drift(np.asarray(world.imagine(slots, nothing).slots), encoded.counted),
        **compare_errors(world, slots, imagined, images=images),
        "rollout_position_error": [float(distance.mean()) for distance in distances],
        "rollout_pixel_error": [float(_pixel_errors(world, after, images).mean()) for after, _, images in pushes],
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
        _, images = step_all(env, keys, states, actions=actions)
        errors.append(_pixel_errors(world, np.asarray(imagined.slots), np.asarray(images)))
    ceiling = np.sqrt(max(np.corrcoef(*errors)[0, 1], 0.0))
    return float(np.corrcoef(np.asarray(imagined.error), errors[0])[0, 1]), float(ceiling)


def explore_scores(env: Environment, scenes: int) -> Scorer:
    """Build the function that scores a world model while it is trained.

    Args:
        env: The environment that is explored.
        scenes: The number of validation scenes.

    Returns:
        A function from a world model to scores of proposals and pushes; outside Spriteworld, to `pixel_scores`.
    """
    if not isinstance(env, Spriteworld):
        states, images = visited_frames(env, scenes)
        return Scorer(images, lambda world: pixel_scores(world, env, states, images=images))
    data = fixed_scenes(env, scenes, min_sprites=1)

    def score(world: WorldModel) -> Scores:
        encoded = encode_scenes(world, env, data)
        proposals = np.asarray(world.propose(encoded.slots, jax.random.key(0), 16))
        scores = policy_scores(proposals, data, encoded.counted) | push_scores(encoded)
        names = ("hit_rate", "position_error", "others_drift", "empty_drift", "ratio_to_encoded", "ratio_to_unchanged")
        return {name: scores[name] for name in names}

    return Scorer(data.images, score)


def pixel_scores(world: WorldModel, env: Environment, states: Any, *, images: SceneImages) -> Scores:
    """Score a world model by pictures alone, in any environment.

    Args:
        world: The world model.
        env: The environment.
        states: B of its states, batched.
        images: The pictures of these states.

    Returns:
        `ratio_to_encoded` and `ratio_to_unchanged` of random actions (see `compare_errors`), and the shares of
        proposed (`changed`) and of random actions (`changed_uniform`) that change the picture.
    """
    act_key, step_key, policy_key = jax.random.split(jax.random.key(0), 3)
    slots = in_batches(world.encode, images)
    keys = jax.random.split(step_key, len(images))
    uniform = np.asarray(jax.random.uniform(act_key, (len(images), env.action_size)))
    proposed = np.asarray(world.propose(slots, policy_key, 1))[:, 0]
    after, after_proposed = (
        np.asarray(step_all(env, keys, states, actions=actions)[1]) for actions in (uniform, proposed)
    )
    imagined = np.asarray(world.imagine(slots, uniform).slots)
    errors = compare_errors(world, slots, imagined, images=after)
    return {
        **{name: errors[name] for name in ("ratio_to_encoded", "ratio_to_unchanged")},
        "changed": float((after_proposed != images).any(axis=(1, 2, 3)).mean()),
        "changed_uniform": float((after != images).any(axis=(1, 2, 3)).mean()),
    }


def evaluate_explore(
    world: WorldModel, env: Spriteworld | None = None, scenes: int = 1000, *, seed: int = TEST_SEED
) -> dict[str, float | list[float]]:
    """Measure all scores of a world model on held-out scenes.

    Args:
        world: The world model.
        env: The environment of the scenes, by default the suite's "exploration".
        scenes: The number of scenes.
        seed: The random seed of scenes, proposals and pushes.

    Returns:
        The scores of `policy_scores`, `push_scores` and `error_correlation`, mean deformations, and for comparison
        those of uniform actions (`..._uniform`); `rollout_...` have one number for each step.
    """
    env = env or make("exploration")
    data = fixed_scenes(env, scenes, min_sprites=1, seed=seed)
    encoded = encode_scenes(world, env, data)
    key = jax.random.key(seed)
    proposals = np.asarray(world.propose(encoded.slots, key, PROPOSALS))
    uniform = np.random.default_rng(seed).random(proposals.shape)
    scores: dict[str, float | list[float]] = {
        **policy_scores(proposals, data, encoded.counted),
        "hit_rate_uniform": policy_scores(uniform, data, encoded.counted)["hit_rate"],
        **_deformations(world, encoded.slots, key),
        **push_scores(encoded, seed, ROLLOUT_STEPS),
    }
    for ending, curious in (("", True), ("_uniform", False)):
        found, ceiling = error_correlation(encoded, curious)
        scores |= {f"error_correlation{ending}": found, f"error_correlation_ceiling{ending}": ceiling}
    return scores | {"scenes": float(scenes)}


def _deformations(world: WorldModel, slots: BatchSlots, key: Array) -> Scores:
    """Measure mean absolute deformations of the two clicks, on average over the mixture; without a policy, none."""
    if not isinstance(world.exploration, Deformation):
        return {}

    @eqx.filter_jit
    def deform(policy: Deformation, slots: Float[Array, "B K M"]) -> Float[Array, " A"]:
        mixture = policy(slots, jax.random.uniform(key, (len(slots), world.action_size)))
        return jnp.sum(jnp.exp(mixture.log_weight)[..., None] * jnp.abs(mixture.mean), axis=1).mean(axis=0)

    x, y, u, v = np.asarray(deform(world.exploration, jnp.asarray(slots))).tolist()
    return {"click_deformation": (x + y) / 2, "motion_deformation": (u + v) / 2}
