"""The actor of the exploration phase: it acts by the exploration policy D and returns transitions. Pure functions."""

from typing import Any, Literal, NamedTuple

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
    env: Environment,
    uniform: Scalar,
    seen: Literal["pixels", "slots"],
    vision: VisionModel,
    policy: Exploration | None,
    state: PlayState,
) -> tuple[PlayState, Collected]:
    """Step all environments, with auto-reset.

    Args:
        env: The environment.
        uniform: The share of the actions that are uniformly random.
        seen: What is remembered of the scene after an action: its picture, or its slots.
        vision: The vision module.
        policy: The exploration policy; None acts uniformly at random.
        state: The environments in the middle of their episodes.
    """
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
    next_image = draw(after.state)
    next_slots = vision.encode(next_image)
    over = after.terminated | after.truncated
    slots = jax.lax.cond(jnp.any(over), lambda: vision.encode(draw(envs)), lambda: next_slots)
    remembered = next_image if seen == "pixels" else next_slots
    collected = Collected(Transition(state.slots, action, remembered), hits(env, state.envs, after))
    return PlayState(envs, slots, key), collected


def hits(env: Environment, before: Any, after: TimeStep) -> Float[Array, ""]:
    """Return the share of actions that moved something, by `info["moved"]` or else by comparing pictures."""
    if "moved" in after.info:
        return jnp.mean(after.info["moved"] >= 0)
    draw = jax.vmap(env.draw)
    return jnp.mean(jnp.any(draw(before) != draw(after.state), axis=(1, 2, 3)))
