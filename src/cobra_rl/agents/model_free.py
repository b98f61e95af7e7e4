"""Acting and replay contents of the baselines: {pictures, slots} x {raw actions, deformed by D}. Pure functions.

Pictures are rendered by a compiled function of their own: compiled together with what reads them, XLA on a CPU would
render a picture again for each use of it.
"""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, UInt8

from cobra_rl.agents.explorer import PlayState, begin_episodes, hits
from cobra_rl.backend import at_a_time
from cobra_rl.collect.actors import Collected
from cobra_rl.collect.transition import Transition
from cobra_rl.config import MpoConfig
from cobra_rl.models.actor_critic import ActorCritic, Observation
from cobra_rl.models.transition import Sizes
from cobra_rl.models.world import WorldModel
from cobra_rl.spriteworld.base import Environment, auto_reset

GROUP = 8  # scenes that are encoded at a time on a CPU, where larger groups are no faster per scene


def begin(env: Environment, count: int, world: WorldModel | None, key: PRNGKeyArray) -> PlayState:
    """Start fresh episodes in `count` environments; encode their scenes, if the agent uses a world model."""
    state = eqx.filter_jit(begin_episodes)(env, count, key)
    return state if world is None else state._replace(slots=world.encode(render(env, state.envs)))


def play(
    env: Environment, config: MpoConfig, world: WorldModel | None, networks: ActorCritic, state: PlayState
) -> tuple[PlayState, Collected]:
    """Step all environments with actions sampled from the policy, with auto-reset; return whole transitions."""
    after, step, struck = move(env, config, world, networks, state)
    if world is not None and state.slots is not None:
        after = after._replace(
            slots=encode_changed(world, state.slots, before=render(env, state.envs), now=render(env, after.envs))
        )
    return after, Collected(with_next(config, step, after), struck)


@eqx.filter_jit
def encode_changed(
    world: WorldModel,
    slots: Float[Array, "E K M"],
    before: UInt8[Array, "E H W 3"],
    now: UInt8[Array, "E H W 3"],
) -> Float[Array, "E K M"]:
    """Encode the scenes whose pictures have changed, a group at a time; the others keep their slots.

    Most raw actions click on nothing, and encoding is what costs most.
    """
    size = at_a_time(GROUP, len(before))
    changed = jnp.any(before != now, axis=(1, 2, 3))
    changed_first = jnp.argsort(~changed)

    def encode_group(state: tuple[Array, Array]) -> tuple[Array, Array]:
        done, slots = state
        group = jax.lax.dynamic_slice_in_dim(changed_first, done, size)
        return done + size, slots.at[group].set(world.encode(now[group]))

    return jax.lax.while_loop(lambda state: state[0] < changed.sum(), encode_group, (jnp.int32(0), slots))[1]


def move(
    env: Environment, config: MpoConfig, world: WorldModel | None, networks: ActorCritic, state: PlayState
) -> tuple[PlayState, Transition, Float[Array, ""]]:
    """Step all environments with actions sampled from the policy, with auto-reset.

    Returns the new state, whose scenes are not encoded yet (see `encode_changed`), the transitions without their next
    observation (see `with_next`), and the share of actions that moved something.
    """
    return _move(env, config, world, networks, state, policy_input(env, config, replay_observation(config, state)))


@eqx.filter_jit
def _move(
    env: Environment,
    config: MpoConfig,
    world: WorldModel | None,
    networks: ActorCritic,
    state: PlayState,
    observation: Observation,
) -> tuple[PlayState, Transition, Float[Array, ""]]:
    key, act_key, step_key, reset_key = jax.random.split(state.key, 4)
    u = jnp.clip(networks.policy(observation).sample(act_key, 1)[0], 0.0, 1.0)
    action = to_environment(config, world, state.slots, u)
    after = jax.vmap(env.advance)(jax.random.split(step_key, u.shape[0]), state.envs, action)
    envs = jax.vmap(functools.partial(auto_reset, env))(jax.random.split(reset_key, u.shape[0]), after)
    step = Transition(
        replay_observation(config, state),
        u,
        None,
        reward=after.reward,
        terminated=after.terminated,
        truncated=after.truncated,
    )
    return PlayState(envs, None, key), step, hits(env, state.envs, after)


@eqx.filter_jit
def with_next(config: MpoConfig, step: Transition, state: PlayState) -> Transition:
    """Add the next observation to transitions, from the present state.

    The last scene of an episode is never encoded: that would double the work, and its value is not used anyway.
    """
    done = step.terminated | step.truncated

    def following(now: Array, fresh: Array) -> Array:
        return jnp.where(done.reshape(-1, *[1] * (now.ndim - 1)), now, fresh)

    return step._replace(next_observation=jax.tree.map(following, step.observation, replay_observation(config, state)))


def replay_observation(config: MpoConfig, state: PlayState) -> Any:
    """Return what the replay stores of the present scenes: slots, or the states of the environments."""
    return state.slots if config.features == "slots" else state.envs


def policy_input(env: Environment, config: MpoConfig, stored: Any) -> Observation:
    """Convert what the replay stores to the networks' input: slots as they are, or the rendered states."""
    return stored if config.features == "slots" else render(env, stored)


def to_environment(config: MpoConfig, world: WorldModel | None, slots: Array | None, u: Array) -> Array:
    """Convert the policy's actions [B, A] to those of the environment: unchanged, or deformed by D."""
    return u if config.policy == "raw" or world is None else world.deform(slots, u)


@eqx.filter_jit
def render(env: Environment, states: Any) -> UInt8[Array, "E H W 3"]:
    """Render the states of many environments."""
    return jax.vmap(env.draw)(states)


def zero_transition(env: Environment, config: MpoConfig, sizes: Sizes) -> Transition:
    """Return a transition of zeros, with the shapes that the replay stores."""
    stored = (
        jax.ShapeDtypeStruct((sizes.slots, sizes.latents), jnp.float32)
        if config.features == "slots"
        else jax.eval_shape(env.initial, jax.random.key(0))
    )
    scene = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), stored)
    return Transition(
        scene,
        jnp.zeros(env.action_size),
        scene,
        reward=jnp.float32(0.0),
        terminated=jnp.bool_(False),
        truncated=jnp.bool_(False),
    )
