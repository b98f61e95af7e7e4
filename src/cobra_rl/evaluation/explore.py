"""Metrics of the exploration phase: does the policy click on sprites, and does the transition model predict pushes?"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from cobra_rl.evaluation import push_metrics, vision
from cobra_rl.evaluation.task import PROPOSALS
from cobra_rl.evaluation.vision import Scenes, Scorer, Scores
from cobra_rl.models.exploration import Deformation
from cobra_rl.models.world import WorldModel
from cobra_rl.spriteworld import Environment, Sprites, Spriteworld, make
from cobra_rl.spriteworld.sprites import front_most_at


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


def explore_scores(env: Environment, scenes: int) -> Scorer:
    """Build the function that scores a world model while it is trained.

    Args:
        env: The environment that is explored.
        scenes: The number of validation scenes.

    Returns:
        A function from a world model to scores of proposals and pushes; outside Spriteworld, to `pixel_scores`.
    """
    if not isinstance(env, Spriteworld):
        states, images = vision.visited_frames(env, scenes)
        return Scorer(images, lambda world: pixel_scores(world, env, states, images=images))
    data = vision.fixed_scenes(env, scenes, min_sprites=1)

    def score(world: WorldModel) -> Scores:
        encoded = push_metrics.encode_scenes(world, env, data)
        proposals = np.asarray(world.propose(encoded.slots, jax.random.key(0), 16))
        scores = policy_scores(proposals, data, encoded.counted) | push_metrics.push_scores(encoded)
        names = ("hit_rate", "position_error", "others_drift", "empty_drift", "ratio_to_encoded", "ratio_to_unchanged")
        return {name: scores[name] for name in names}

    return Scorer(data.images, score)


def pixel_scores(world: WorldModel, env: Environment, states: Any, *, images: vision.SceneImages) -> Scores:
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
    slots = vision.in_batches(world.encode, images)
    keys = jax.random.split(step_key, len(images))
    uniform = np.asarray(jax.random.uniform(act_key, (len(images), env.action_size)))
    proposed = np.asarray(world.propose(slots, policy_key, 1))[:, 0]
    after, after_proposed = (
        np.asarray(push_metrics.step_all(env, keys, states, actions=actions)[1]) for actions in (uniform, proposed)
    )
    imagined = np.asarray(world.imagine(slots, uniform).slots)
    errors = push_metrics.compare_errors(world, slots, imagined, images=after)
    return {
        **{name: errors[name] for name in ("ratio_to_encoded", "ratio_to_unchanged")},
        "changed": float((after_proposed != images).any(axis=(1, 2, 3)).mean()),
        "changed_uniform": float((after != images).any(axis=(1, 2, 3)).mean()),
    }


def evaluate_explore(
    world: WorldModel, env: Spriteworld | None = None, scenes: int = 1000, *, seed: int = vision.TEST_SEED
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
    data = vision.fixed_scenes(env, scenes, min_sprites=1, seed=seed)
    encoded = push_metrics.encode_scenes(world, env, data)
    key = jax.random.key(seed)
    proposals = np.asarray(world.propose(encoded.slots, key, PROPOSALS))
    uniform = np.random.default_rng(seed).random(proposals.shape)
    scores: dict[str, float | list[float]] = {
        **policy_scores(proposals, data, encoded.counted),
        "hit_rate_uniform": policy_scores(uniform, data, encoded.counted)["hit_rate"],
        **_deformations(world, encoded.slots, key),
        **push_metrics.push_scores(encoded, seed),
    }
    for ending, curious in (("", True), ("_uniform", False)):
        found, ceiling = push_metrics.error_correlation(encoded, curious)
        scores |= {f"error_correlation{ending}": found, f"error_correlation_ceiling{ending}": ceiling}
    scores |= {f"rollout_{name}": values for name, values in push_metrics.rollout_scores(encoded, seed).items()}
    return scores | {"scenes": float(scenes)}


def _deformations(world: WorldModel, slots: push_metrics.BatchSlots, key: Array) -> Scores:
    """Measure mean absolute deformations of the two clicks, on average over the mixture; without a policy, none."""
    if not isinstance(world.exploration, Deformation):
        return {}

    @eqx.filter_jit
    def deform(policy: Deformation, slots: Float[Array, "B K M"]) -> Float[Array, " A"]:
        mixture = policy(slots, jax.random.uniform(key, (len(slots), world.action_size)))
        return jnp.sum(jnp.exp(mixture.log_weight)[..., None] * jnp.abs(mixture.mean), axis=1).mean(axis=0)

    x, y, u, v = np.asarray(deform(world.exploration, jnp.asarray(slots))).tolist()
    return {"click_deformation": (x + y) / 2, "motion_deformation": (u + v) / 2}
