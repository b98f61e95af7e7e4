"""Actors: they play with the exploration policy and hand over transitions. One interface, two runtimes.

`LocalActors` play in this process, all environments in one compiled call. `RayActors` (in `ray_actors.py`) play on
other cores or machines. A learner calls `collect(policy)` and gets what there is.
"""

from typing import NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from cobra_rl.models import exploration, monet
from cobra_rl.models.exploration import Exploration
from cobra_rl.models.monet import Monet
from cobra_rl.models.transition import Transitions
from cobra_rl.spriteworld import EnvState, Spriteworld, where_rows


class ActorState(NamedTuple):
    """Environments in the middle of their episodes. E environments."""

    envs: EnvState
    slots: Float[Array, "E K M"]  # of what is seen now
    key: PRNGKeyArray


class Collected(NamedTuple):
    """What actors bring."""

    transitions: Transitions  # with a leading axis
    hits: Float[Array, ""]  # share of actions that moved a sprite


@runtime_checkable
class Actors(Protocol):
    """What a learner needs to know of actors."""

    def collect(self, policy: Exploration | None, wait: bool) -> list[Collected]:
        """Transitions since the last call, in parts of equal size; with `wait`, at least one part.

        Without a policy, actions are uniformly random.
        """
        ...

    def close(self) -> None:
        """No more is wanted."""
        ...


def begin(env: Spriteworld, vision: Monet, key: PRNGKeyArray, count: int) -> ActorState:
    """Fresh episodes. Pure."""
    key, reset_key = jax.random.split(key)
    envs = jax.vmap(env.initial)(jax.random.split(reset_key, count))
    return ActorState(envs, monet.encode(vision, jax.vmap(env.draw)(envs)), key)


def play(
    env: Spriteworld,
    vision: Monet,
    policy: Exploration | None,
    state: ActorState,
    uniform: Float[Array, ""] | float = 0.0,
) -> tuple[ActorState, Collected]:
    """One step of all environments; those at their end start anew. Pure. A share `uniform` of actions is random."""
    count = state.slots.shape[0]
    key, act_key, *step_keys = jax.random.split(state.key, 4)
    noise_keys, reset_keys = (jax.random.split(step_key, count) for step_key in step_keys)
    action = jax.random.uniform(jax.random.fold_in(act_key, 1), (count, 4))
    if policy is not None:
        chance = jax.random.uniform(jax.random.fold_in(act_key, 2), (count, 1))
        action = jnp.where(chance < uniform, action, exploration.sample(policy, state.slots, act_key))
    after, _, terminated, truncated, info = jax.vmap(env.advance)(noise_keys, state.envs, action)
    done = terminated | truncated
    fresh = jax.vmap(env.initial)(reset_keys)
    envs = where_rows(done, fresh, after)
    draw = jax.vmap(env.draw)
    collected = Collected(Transitions(state.slots, action, draw(after)), jnp.mean(info["moved"] >= 0))
    return ActorState(envs, monet.encode(vision, draw(envs)), key), collected


class LocalActors:
    """All environments in this process."""

    def __init__(self, env: Spriteworld, vision: Monet, count: int, seed: int, uniform: float = 0.0):
        self._vision = vision
        self._play = eqx.filter_jit(lambda vision, policy, state: play(env, vision, policy, state, uniform))
        self.state = eqx.filter_jit(lambda vision, key: begin(env, vision, key, count))(vision, jax.random.key(seed))

    def collect(self, policy: Exploration | None, wait: bool = True) -> list[Collected]:
        """One step of each environment."""
        self.state, collected = self._play(self._vision, policy, self.state)
        return [collected]

    def close(self) -> None:
        """Nothing to do."""
