"""One environment step of Algorithm 1, for several seeds at once: search, act, encode, remember, learn. Pure.

Axes: S seeds, C capacity of the memory, K slots, M latents.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

from cobra_rl.agents.search import Choice, search
from cobra_rl.config import TaskConfig
from cobra_rl.models import monet
from cobra_rl.models.exploration import Exploration
from cobra_rl.models.monet import Monet
from cobra_rl.models.reward import Reward, Step, reward_loss, value_loss
from cobra_rl.models.transition import Transition
from cobra_rl.pretrained import Curious
from cobra_rl.spriteworld import EnvState, Spriteworld, where_rows


class Frozen(NamedTuple):
    """What the exploration phase taught. Without a policy, proposals are uniform."""

    vision: Monet
    transition: Transition
    exploration: Exploration | None


def frozen_parts(agent: Curious, use_policy: bool = True) -> Frozen:
    """The exploration phase's parts; without the policy, proposals are uniform."""
    return Frozen(agent.model, agent.transition, agent.exploration if use_policy else None)


def choose(
    config: TaskConfig,
    frozen: Frozen,
    predictor: Reward,
    slots: Float[Array, "K M"],
    key: PRNGKeyArray,
    epsilon: Float[Array, ""] | float = 0.0,
) -> Choice:
    """The search of a configured agent in one scene; greedy unless told otherwise."""
    return search(frozen.exploration, frozen.transition, predictor, slots, key, config.proposals, epsilon, config.depth)


class Memory(NamedTuple):
    """All steps so far."""

    steps: Step  # with a leading axis C
    filled: Int[Array, ""]


class TaskState(NamedTuple):
    """All that a step changes; each leaf has a leading axis S."""

    envs: EnvState
    slots: Float[Array, "S K M"]
    reward: Float[Array, " S"]  # of the scene, as it is learnt; 0 in a fresh one
    predictor: Reward
    target: Reward
    optimiser: Any
    memory: Memory
    key: Key[Array, " S"]


class Outcome(NamedTuple):
    """What happened, for each seed."""

    action: Float[Array, "S 4"]
    reward: Float[Array, " S"]
    success: Bool[Array, " S"]
    done: Bool[Array, " S"]


def begin(config: TaskConfig, env: Spriteworld, frozen: Frozen, keys: Key[Array, " S"], capacity: int) -> TaskState:
    """Fresh predictors, empty memories, new episodes; one for each key."""
    state_keys, reset_keys, model_keys = jax.vmap(lambda key: jax.random.split(key, 3), out_axes=1)(keys)
    envs = jax.vmap(env.initial)(reset_keys)
    predictor = eqx.filter_vmap(lambda key: Reward(config.reward, key))(model_keys)
    slots = monet.encode(frozen.vision, jax.vmap(env.draw)(envs))
    count, shape = keys.shape[0], slots.shape[1:]
    zeros = Step(
        slots=jnp.zeros((count, capacity, *shape)),
        reward=jnp.zeros((count, capacity)),
        action=jnp.zeros((count, capacity, 4)),
        next_slots=jnp.zeros((count, capacity, *shape)),
        next_reward=jnp.zeros((count, capacity)),
        ended=jnp.zeros((count, capacity), bool),
    )
    optimiser = jax.vmap(_adam(config).init)(predictor)
    memory = Memory(zeros, jnp.zeros(count, jnp.int32))
    target = jax.tree.map(jnp.copy, predictor)  # buffers of its own: a step may use the state's again
    return TaskState(envs, slots, jnp.zeros(count), predictor, target, optimiser, memory, state_keys)


def step(
    config: TaskConfig, env: Spriteworld, frozen: Frozen, sparse: bool, state: TaskState
) -> tuple[TaskState, Outcome]:
    """One environment step and N updates for each seed. With `sparse`, the reward is 1 on success and 0 otherwise.

    Where rewards are sparse, proposals are chosen at random until the first one: until then there is nothing to search
    for, and the untrained predictor would push everything its own way.
    """
    keys = jax.vmap(lambda key: jax.random.split(key, 5), out_axes=1)(state.key)

    def act(predictor: Reward, memory: Memory, slots: Array, key: PRNGKeyArray) -> Array:
        epsilon = jnp.where(memory.steps.next_reward.any(), config.epsilon, 1.0) if sparse else config.epsilon
        return choose(config, frozen, predictor, slots, key, epsilon).action

    action = jax.vmap(act)(state.predictor, state.memory, state.slots, keys[1])
    after, reward, success, truncated, _ = jax.vmap(env.advance)(keys[2], state.envs, action)
    reward = success.astype(jnp.float32) if sparse else reward
    done = success | truncated
    fresh = jax.vmap(env.initial)(keys[3])
    envs = where_rows(done, fresh, after)

    reached = monet.encode(frozen.vision, jax.vmap(env.draw)(after))

    def begin_anew(row: tuple[EnvState, Array, Array]) -> Array:
        """After an end another scene is seen: rare enough to be worth a branch for each seed."""
        fresh, done, slots = row
        return jax.lax.cond(done, lambda: monet.encode(frozen.vision, env.draw(fresh)[None])[0], lambda: slots)

    seen = jax.lax.map(begin_anew, (envs, done, reached))
    learnt = jnp.clip(reward, max=config.most_reward) / (1.0 if sparse else config.reward_unit)
    happened = Step(state.slots, state.reward, action, reached, learnt, success)
    memory = jax.vmap(_remember)(state.memory, happened)
    target = where_rows(memory.filled % config.target_every == 0, state.predictor, state.target)

    def learn(predictor: Reward, target: Reward, optimiser: Any, memory: Memory, key: PRNGKeyArray):
        return learn_from(config, frozen.transition, predictor, target, optimiser, memory, key)

    predictor, optimiser = jax.vmap(learn)(state.predictor, target, state.optimiser, memory, keys[4])
    state = TaskState(envs, seen, jnp.where(done, 0.0, learnt), predictor, target, optimiser, memory, keys[0])
    return state, Outcome(action, reward, success, done)


def _remember(memory: Memory, happened: Step) -> Memory:
    place = memory.filled % memory.steps.reward.shape[0]
    steps = jax.tree.map(lambda all, one: all.at[place].set(one), memory.steps, happened)
    return Memory(steps, memory.filled + 1)


def learn_from(config: TaskConfig, transition: Transition, predictor, target, optimiser, memory: Memory, key):
    """N minibatches."""
    adam, size = _adam(config), jnp.minimum(memory.filled, memory.steps.reward.shape[0])

    def loss(predictor: Reward, batch: Step) -> Array:
        if config.value:
            return value_loss(predictor, target, transition, batch, config.discount)[0]
        return reward_loss(predictor, batch.next_slots, batch.next_reward)[0]

    def update(carry, key):
        predictor, optimiser = carry
        rows_key, order_key = jax.random.split(key)
        rows = jax.random.randint(rows_key, (config.batch,), 0, size)
        batch = jax.tree.map(lambda all: all[rows], memory.steps)
        batch = _shuffled(batch, order_key) if config.shuffle else batch
        updates, optimiser = adam.update(jax.grad(loss)(predictor, batch), optimiser, predictor)
        return (eqx.apply_updates(predictor, updates), optimiser), None

    return jax.lax.scan(update, (predictor, optimiser), jax.random.split(key, config.updates))[0]


def _adam(config: TaskConfig) -> optax.GradientTransformation:
    return optax.adamw(config.learning_rate, weight_decay=config.weight_decay)


def _shuffled(batch: Step, key: PRNGKeyArray) -> Step:
    """The slots of each step in another order, the same before and after it."""
    keys = jax.random.split(key, batch.reward.shape[0])
    order = jax.vmap(lambda key: jax.random.permutation(key, batch.slots.shape[1]))(keys)[..., None]
    slots, after = (jnp.take_along_axis(part, order, axis=1) for part in (batch.slots, batch.next_slots))
    return batch._replace(slots=slots, next_slots=after)
