"""The interfaces of agents: an `Agent` learns, a `Policy` acts (docs/design.md says more)."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PRNGKeyArray, UInt8

from cobra_rl.runtime.run import Weights
from cobra_rl.spriteworld.base import Environment, TimeStep

Params = Any  # the parameters that a policy needs, as a pytree
Observations = Any  # uint8 images [B, H, W, 3]; batched states for a policy with `sees_state`


@dataclass(frozen=True)
class Policy:
    """How an agent acts. Two policies with the same function `act` are equal and share their compiled code."""

    act: Callable[[Params, Observations, Key[Array, " B"]], Float[Array, "B A"]]  # pure
    sees_state: bool = False  # `act` gets states instead of images: only for upper bounds


class Experience(NamedTuple):
    """One step of the environment, as an agent learns from it."""

    observation: Any  # what `observe` returned for the picture before the action
    reward: Float[Array, ""]  # reward of that scene; 0 in a fresh one
    action: Float[Array, " A"]
    next_observation: Any
    next_reward: Float[Array, ""]
    terminated: Bool[Array, ""]  # solved: nothing follows. Truncation by the time limit does not count.


@runtime_checkable
class Learner(Protocol):
    """What scoring and saving need of an agent. `state` is any pytree; `frozen` is what learning does not change."""

    @property
    def policy(self) -> Policy: ...  # how it acts in evaluation
    def params(self, frozen: Any, state: Any) -> Params: ...  # what `policy` needs
    def weights(self, frozen: Any, state: Any) -> Weights: ...  # what is saved; its `kind` is also the folder's name


@runtime_checkable
class Agent(Learner, Protocol):
    """A learner that takes one step of one environment at a time. All functions are pure."""

    def init(self, key: PRNGKeyArray, frozen: Any, observation: Any) -> Any: ...  # a fresh state
    def observe(self, frozen: Any, image: UInt8[Array, "H W 3"]) -> Any: ...  # COBRA: slots
    # Choose an action while learning
    def explore(self, frozen: Any, state: Any, observation: Any, key: PRNGKeyArray) -> Float[Array, " A"]: ...
    def restore(self, frozen: Any, tree: Any) -> Params: ...  # what `policy` needs, from the tree of saved `weights`
    # Remember a step and learn from it; return the new state and metrics
    def update(self, frozen: Any, state: Any, experience: Experience, key: PRNGKeyArray) -> tuple[Any, dict]: ...


class Playing(NamedTuple):
    """An agent in the middle of an episode."""

    env: Any  # state of the environment
    observation: Any  # what `observe` returned for the present picture
    reward: Float[Array, ""]  # reward of the present scene; 0 in a fresh one
    agent: Any  # state of the agent
    key: PRNGKeyArray


class Outcome(NamedTuple):
    """The result of a step."""

    action: Float[Array, " A"]
    reward: Float[Array, ""]
    success: Bool[Array, ""]
    done: Bool[Array, ""]


def begin(agent: Agent, env: Environment, frozen: Any, key: PRNGKeyArray) -> Playing:
    """Start an agent with a fresh state in a fresh episode.

    Args:
        agent: The agent.
        env: The environment.
        frozen: What the agent uses without changing it, such as the world model.
        key: A random key.

    Returns:
        The state of agent and environment, for `step`.
    """
    key, reset_key, agent_key = jax.random.split(key, 3)
    env_state, image = _initial(env, reset_key)
    observation = compiled_agent(agent)[0](frozen, image)
    return Playing(env_state, observation, jnp.float32(0.0), agent.init(agent_key, frozen, observation), key)


def step(agent: Agent, env: Environment, frozen: Any, state: Playing) -> tuple[Playing, Outcome, dict]:
    """Take one step of the environment and learn from it; an episode that ends is followed by a fresh one.

    Args:
        agent: The agent.
        env: The environment.
        frozen: What the agent uses without changing it, such as the world model.
        state: The state of agent and environment; its agent's part is donated and must not be used again.

    Returns:
        The next state, the outcome of the step, and the agent's metrics.
    """
    observe, explore, update = compiled_agent(agent)
    key, act_key, step_key, reset_key, learn_key = jax.random.split(state.key, 5)
    action = explore(frozen, state.agent, state.observation, act_key)
    after = _advance(env, step_key, state.env, action)
    seen = observe(frozen, after.image)
    experience = Experience(state.observation, state.reward, action, seen, after.reward, after.terminated)
    learnt, metrics = update((frozen, experience, learn_key), state.agent)
    env_state, reward = after.state, after.reward
    if after.done:
        env_state, image = _initial(env, reset_key)
        seen, reward = observe(frozen, image), jnp.float32(0.0)
    outcome = Outcome(action, after.reward, after.terminated, after.done)
    return Playing(env_state, seen, reward, learnt, key), outcome, metrics


@functools.partial(jax.jit, static_argnums=0)
def _initial(env: Environment, key: PRNGKeyArray) -> tuple[Any, UInt8[Array, "H W 3"]]:
    state = env.initial(key)
    return state, env.draw(state)


@functools.partial(jax.jit, static_argnums=0)
def _advance(env: Environment, key: PRNGKeyArray, state: Any, action: Float[Array, " A"]) -> TimeStep:
    after = env.advance(key, state, action)
    return after._replace(image=env.draw(after.state))


@functools.cache
def compiled_agent(agent: Agent) -> tuple[Callable, Callable, Callable]:
    """Compile `observe`, `explore` and `update` of an agent; `update` takes ((frozen, experience, key), state).

    It reuses the memory of the state that it gets (donation).
    """

    def update(given: tuple, state: Any):
        frozen, experience, key = given
        return agent.update(frozen, state, experience, key)

    updates = eqx.filter_jit(update, donate="all-except-first")
    return eqx.filter_jit(agent.observe), eqx.filter_jit(agent.explore), updates
