"""The actor of the exploration phase: it acts by the exploration policy D and returns transitions. Pure functions."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from cobra_rl.collect.actors import Collected
from cobra_rl.collect.transition import Transition
from cobra_rl.models.exploration import Exploration
from cobra_rl.models.transition import Scalar
from cobra_rl.models.vision import VisionModel
from cobra_rl.spriteworld.base import Environment, TimeStep, auto_reset


class PlayState(NamedTuple):
    """Environments in the middle of their episodes."""

    envs: Any
    slots: Float[Array, "E K M"] | None  # slots of the present scenes; None if the agent uses no world model
    key: PRNGKeyArray


def begin_episodes(env: Environment, count: int, key: PRNGKeyArray) -> PlayState:
    """Start fresh episodes in `count` environments, whose scenes are not encoded yet."""
    key, reset_key = jax.random.split(key)
    return PlayState(jax.vmap(env.initial)(jax.random.split(reset_key, count)), None, key)


def begin(env: Environment, count: int, vision: VisionModel, key: PRNGKeyArray) -> PlayState:
    """Start fresh episodes in `count` environments."""
    state = begin_episodes(env, count, key)
    return state._replace(slots=vision.encode(jax.vmap(env.draw)(state.envs)))


def play(
    env: Environment, uniform: Scalar, vision: VisionModel, policy: Exploration | None, state: PlayState
) -> tuple[PlayState, Collected]:
    """Step all environments, with auto-reset; a share `uniform` of the actions is uniformly random."""
    assert state.slots is not None
    count = state.slots.shape[0]
    key, act_key, *step_keys = jax.random.split(state.key, 4)
    noise_keys, reset_keys = (jax.random.split(step_key, count) for step_key in step_keys)
    action = jax.random.uniform(jax.random.fold_in(act_key, 1), (count, env.action_size))
    if policy is not None:
        chance = jax.random.uniform(jax.random.fold_in(act_key, 2), (count, 1))
        action = jnp.where(chance < uniform, action, policy.sample(state.slots, act_key))
    after = jax.vmap(env.advance)(noise_keys, state.envs, action)
    envs = jax.vmap(lambda key, step: auto_reset(env, key, step))(reset_keys, after)
    draw = jax.vmap(env.draw)
    step = Transition(state.slots, action, draw(after.state))
    return PlayState(envs, vision.encode(draw(envs)), key), Collected(step, hits(env, state.envs, after))


def hits(env: Environment, before: Any, after: TimeStep) -> Float[Array, ""]:
    """Return the share of actions that moved something, by `info["moved"]` or else by comparing pictures."""
    if "moved" in after.info:
        return jnp.mean(after.info["moved"] >= 0)
    draw = jax.vmap(env.draw)
    return jnp.mean(jnp.any(draw(before) != draw(after.state), axis=(1, 2, 3)))
