"""The contract between agents and everything else: an `Agent` learns, a `Policy` acts (docs/design.md says more)."""

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

Params = Any  # all that acting needs, as a pytree
Observations = Any  # uint8 images [B, H, W, 3]; batched states for a policy that sees them


@dataclass(frozen=True)
class Policy:
    """How an agent acts. Equal if `act` is the same function, so that it can be compiled once."""

    act: Callable[[Params, Observations, Key[Array, " B"]], Float[Array, "B A"]]  # pure
    sees_state: bool = False  # it is given states instead of images: for bounds only


class Experience(NamedTuple):
    """What a step of the environment taught, in the agent's own terms."""

    observation: Any  # what `observe` made of the picture before the action
    reward: Float[Array, ""]  # reward of that scene; 0 in a fresh one
    action: Float[Array, " A"]
    next_observation: Any
    next_reward: Float[Array, ""]
    terminated: Bool[Array, ""]  # solved: nothing follows. Running out of time is no end.


@runtime_checkable
class Learner(Protocol):
    """What scoring and saving need of whoever learns: a state is any pytree, `frozen` what learning does not change."""

    @property
    def policy(self) -> Policy: ...  # how it acts when it is not learning
    def params(self, frozen: Any, state: Any) -> Params: ...  # what `policy` needs
    def weights(self, frozen: Any, state: Any) -> Weights: ...  # what is to be kept; its `kind` also names the folder


@runtime_checkable
class Agent(Learner, Protocol):
    """A learner that takes one step of one environment at a time. All functions are pure."""

    def init(self, key: PRNGKeyArray, frozen: Any, observation: Any) -> Any: ...  # a fresh state
    def observe(self, frozen: Any, image: UInt8[Array, "H W 3"]) -> Any: ...  # what it keeps of a picture: COBRA slots
    # An action while learning
    def explore(self, frozen: Any, state: Any, observation: Any, key: PRNGKeyArray) -> Float[Array, " A"]: ...
    # Remember a step and learn from it: the state, and metrics
    def update(self, frozen: Any, state: Any, experience: Experience, key: PRNGKeyArray) -> tuple[Any, dict]: ...


class Playing(NamedTuple):
    """An agent in the middle of an episode."""

    env: Any  # state of the environment
    observation: Any  # what the agent keeps of the present picture
    reward: Float[Array, ""]  # reward of the present scene; 0 in a fresh one
    agent: Any  # state of the agent
    key: PRNGKeyArray


class Outcome(NamedTuple):
    """What a step came to."""

    action: Float[Array, " A"]
    reward: Float[Array, ""]
    success: Bool[Array, ""]
    done: Bool[Array, ""]


def begin(agent: Agent, env: Environment, frozen: Any, key: PRNGKeyArray) -> Playing:
    """Start an agent with a fresh state in a fresh episode; `frozen` is what it uses and does not change."""
    key, reset_key, agent_key = jax.random.split(key, 3)
    env_state, image = _compiled_env(env)[0](reset_key)
    observation = _compiled_agent(agent)[0](frozen, image)
    return Playing(env_state, observation, jnp.float32(0.0), agent.init(agent_key, frozen, observation), key)


def step(agent: Agent, env: Environment, frozen: Any, state: Playing) -> tuple[Playing, Outcome, dict]:
    """Take one step and learn from it: the next state (the old is used up), what the step came to, and metrics."""
    initial, advance = _compiled_env(env)
    observe, explore, update = _compiled_agent(agent)
    key, act_key, step_key, reset_key, learn_key = jax.random.split(state.key, 5)
    action = explore(frozen, state.agent, state.observation, act_key)
    after = advance(step_key, state.env, action)
    seen = observe(frozen, after.image)
    experience = Experience(state.observation, state.reward, action, seen, after.reward, after.terminated)
    learnt, metrics = update((frozen, experience, learn_key), state.agent)
    env_state, reward = after.state, after.reward
    if after.done:
        env_state, image = initial(reset_key)
        seen, reward = observe(frozen, image), jnp.float32(0.0)
    outcome = Outcome(action, after.reward, after.terminated, after.done)
    return Playing(env_state, seen, reward, learnt, key), outcome, metrics


@functools.cache
def _compiled_env(env: Environment) -> tuple[Callable, Callable]:
    """Compile the start of an episode and a step, both with their pictures."""

    def initial(key: PRNGKeyArray):
        state = env.initial(key)
        return state, env.draw(state)

    def advance(key: PRNGKeyArray, state: Any, action: Float[Array, " A"]) -> TimeStep:
        after = env.advance(key, state, action)
        return after._replace(image=env.draw(after.state))

    return jax.jit(initial), jax.jit(advance)


@functools.cache
def _compiled_agent(agent: Agent) -> tuple[Callable, Callable, Callable]:
    """Compile what an agent does; `update` writes into the memory of the state that it is given."""

    def update(given: tuple, state: Any):
        frozen, experience, key = given
        return agent.update(frozen, state, experience, key)

    updates = eqx.filter_jit(update, donate="all-except-first")
    return eqx.filter_jit(agent.observe), eqx.filter_jit(agent.explore), updates
