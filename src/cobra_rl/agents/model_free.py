"""How a model-free agent plays and what it remembers: {pictures, slots} x {actions as they are, through D}. Pure."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from cobra_rl.agents.explorer import hits
from cobra_rl.agents.mpo import Transition, to_environment
from cobra_rl.config import BaselineConfig
from cobra_rl.models.actor_critic import ActorCritic, Observation
from cobra_rl.models.world import WorldModel
from cobra_rl.runtime.actors import Collected
from cobra_rl.spriteworld.base import Environment, auto_reset


class PlayState(NamedTuple):
    """Environments in the middle of their episodes."""

    envs: Any
    slots: Float[Array, "E K M"] | None  # of what is seen now; None if the agent uses no world model
    key: PRNGKeyArray


def begin(
    env: Environment, config: BaselineConfig, count: int, world: WorldModel | None, key: PRNGKeyArray
) -> PlayState:
    """Start fresh episodes in `count` environments."""
    key, reset_key = jax.random.split(key)
    envs = jax.vmap(env.initial)(jax.random.split(reset_key, count))
    return PlayState(envs, _look(env, world, envs), key)


def play(
    env: Environment, config: BaselineConfig, world: WorldModel | None, networks: ActorCritic, state: PlayState
) -> tuple[PlayState, Collected]:
    """Take one step in all environments, by samples of the policy; those at their end start anew."""
    key, act_key, *step_keys = jax.random.split(state.key, 4)
    kept = state.slots if config.features == "slots" else state.envs
    policy = networks.policy(see(env, config, kept))
    u = jnp.clip(policy.sample(act_key, 1)[0], 0.0, 1.0)
    noise_keys, reset_keys = (jax.random.split(step_key, u.shape[0]) for step_key in step_keys)
    action = to_environment(config, world, state.slots, u)
    after = jax.vmap(env.advance)(noise_keys, state.envs, action)
    envs = jax.vmap(lambda key, step: auto_reset(env, key, step))(reset_keys, after)
    slots = _look(env, world, envs)

    # The last scene of an episode is never encoded: that would double the work, and nothing follows it anyway.
    def following(now: Array, fresh: Array) -> Array:
        return jnp.where(after.done.reshape(-1, *[1] * (now.ndim - 1)), now, fresh)

    then = jax.tree.map(following, kept, slots if config.features == "slots" else envs)
    moved = hits(after.info, jax.vmap(env.draw)(state.envs), jax.vmap(env.draw)(after.state))
    step = Transition(kept, u, after.reward, then, after.terminated, after.truncated)
    return PlayState(envs, slots, key), Collected(step, moved)


def see(env: Environment, config: BaselineConfig, kept: Any) -> Observation:
    """Return what the networks see of what was remembered: slots as they are, states of the environment drawn."""
    return kept if config.features == "slots" else jax.vmap(env.draw)(kept)


def _look(env: Environment, world: WorldModel | None, envs: Any) -> Float[Array, "E K M"] | None:
    return None if world is None else world.encode(jax.vmap(env.draw)(envs))
