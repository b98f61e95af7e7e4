"""Algorithm 1: look, propose, imagine, want, choose, learn.

The world model is frozen; all that a task teaches is the predictor of reward (or of value). One environment step:

    z = V_enc(x)                                look
    a_b = D(z, u_b),  z~_b = T(z, a_b)          propose, imagine (a planner, see planners.py)
    r~_b = R(z~_b)                              want
    a = a_b with the largest r~_b, or any       choose (epsilon-greedy among the proposals)
    N minibatches of ||R(z_i) - r_i||^2         learn

Axes: C capacity of the memory, B batch, K slots, M latents, A action dimension.
"""

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt8

from cobra_rl.agents.base import Experience, Policy
from cobra_rl.agents.planners import Choice, make_planner
from cobra_rl.config import TaskConfig
from cobra_rl.models.reward import Reward, Step, reward_loss, value_loss
from cobra_rl.models.world import WorldModel
from cobra_rl.runtime.run import Weights
from cobra_rl.runtime.typed import to_json


class CobraParams(NamedTuple):
    """All that acting needs."""

    world: WorldModel
    predictor: Reward


class Memory(NamedTuple):
    """The steps of the task so far."""

    steps: Step  # with a leading axis C
    filled: Int[Array, ""]


class CobraState(NamedTuple):
    """All that learning changes."""

    predictor: Reward
    target: Reward  # gives the values that are bootstrapped from
    optimiser: Any
    memory: Memory


def choose(
    config: TaskConfig,
    params: CobraParams,
    slots: Float[Array, "K M"],
    key: PRNGKeyArray,
    epsilon: Float[Array, ""] | float = 0.0,
) -> Choice:
    """Plan in one scene and take the best proposal; with probability `epsilon`, any of them.

    Args:
        config: Names the planner and its size.
        params: World model and predictor.
        slots: The scene as it is seen.
        key: Randomness of proposals and choice.
        epsilon: Share of random choices among the proposals.

    Returns:
        The action to take, beside all that were compared.
    """
    explore_key, pick_key, plan_key = jax.random.split(key, 3)
    choice = make_planner(config)(params.world, params.predictor, slots, plan_key)
    random_action = choice.actions[jax.random.randint(pick_key, (), 0, choice.actions.shape[0])]
    explores = jax.random.uniform(explore_key) < epsilon
    return choice._replace(action=jnp.where(explores, random_action, choice.action))


@functools.cache
def cobra_policy(config: TaskConfig, epsilon: float = 0.0) -> Policy:
    """Return how COBRA acts on pictures: greedily, unless told otherwise. Its parameters are `CobraParams`."""

    def act(params: CobraParams, images: UInt8[Array, "B H W 3"], keys) -> Float[Array, "B A"]:
        slots = params.world.encode(images)
        return jax.vmap(lambda slots, key: choose(config, params, slots, key, epsilon).action)(slots, keys)

    return Policy(act)


@dataclass(frozen=True)
class Cobra:
    """The agent as a learner (`agents.base.Agent`); `frozen` is the world model."""

    config: TaskConfig

    @property
    def policy(self) -> Policy:
        """How it acts: greedily."""
        return cobra_policy(self.config)

    def init(self, key: PRNGKeyArray, frozen: WorldModel, observation: Float[Array, "K M"]) -> CobraState:
        """Start with a fresh predictor and an empty memory."""
        config, capacity = self.config, self.config.memory
        predictor = Reward(config.reward, frozen.sizes.latents, key)
        zeros = Step(
            slots=jnp.zeros((capacity, *observation.shape)),
            reward=jnp.zeros(capacity),
            action=jnp.zeros((capacity, frozen.sizes.action)),
            next_slots=jnp.zeros((capacity, *observation.shape)),
            next_reward=jnp.zeros(capacity),
            ended=jnp.zeros(capacity, bool),
        )
        target = jax.tree.map(jnp.copy, predictor)  # buffers of its own: a step may use the state's again
        optimiser = _adam(config).init(eqx.filter(predictor, eqx.is_array))
        return CobraState(predictor, target, optimiser, Memory(zeros, jnp.int32(0)))

    def params(self, frozen: WorldModel, state: CobraState) -> CobraParams:
        """Return world model and predictor."""
        return CobraParams(frozen, state.predictor)

    def weights(self, frozen: WorldModel, state: CobraState) -> Weights:
        """Keep the predictor."""
        config = to_json(self.config.reward) | {"latents": frozen.sizes.latents}
        return Weights(state.predictor, config, "reward")

    def observe(self, frozen: WorldModel, image: UInt8[Array, "H W 3"]) -> Float[Array, "K M"]:
        """Look: the slots of a picture."""
        return frozen.encode(image[None])[0]

    def explore(
        self, frozen: WorldModel, state: CobraState, observation: Float[Array, "K M"], key: PRNGKeyArray
    ) -> Float[Array, " A"]:
        """Choose epsilon-greedily among the proposals.

        With `wait_for_reward`, at random until the first reward: until then there is nothing to search for, and the
        untrained predictor would push everything its own way.
        """
        epsilon = jnp.float32(self.config.epsilon)
        if self.config.wait_for_reward:
            epsilon = jnp.where(state.memory.steps.next_reward.any(), epsilon, 1.0)
        return choose(self.config, self.params(frozen, state), observation, key, epsilon).action

    def update(
        self, frozen: WorldModel, state: CobraState, experience: Experience, key: PRNGKeyArray
    ) -> tuple[CobraState, dict[str, Array]]:
        """Remember a step, then learn from N minibatches of the memory."""
        memory = _remember(state.memory, self._to_step(experience))
        renew = memory.filled % self.config.target_every == 0
        target = jax.tree.map(lambda new, old: jnp.where(renew, new, old), state.predictor, state.target)
        state = CobraState(state.predictor, target, state.optimiser, memory)
        return self.learn(frozen, state, key)

    def learn(self, frozen: WorldModel, state: CobraState, key: PRNGKeyArray) -> tuple[CobraState, dict[str, Array]]:
        """Take N gradient steps on minibatches of the memory."""
        config, adam = self.config, _adam(self.config)
        rows_filled = jnp.minimum(state.memory.filled, config.memory)

        def loss(predictor: Reward, batch: Step) -> Float[Array, ""]:
            if config.value:
                return value_loss(predictor, state.target, frozen.imagine, batch, config.discount)[0]
            return reward_loss(predictor, batch.next_slots, batch.next_reward)[0]

        def update(carry, key):
            predictor, optimiser = carry
            rows_key, order_key = jax.random.split(key)
            rows = jax.random.randint(rows_key, (config.batch,), 0, rows_filled)
            batch = jax.tree.map(lambda column: column[rows], state.memory.steps)
            batch = shuffle_slots(batch, order_key) if config.shuffle else batch
            value, gradients = jax.value_and_grad(loss)(predictor, batch)
            updates, optimiser = adam.update(gradients, optimiser, predictor)
            return (eqx.apply_updates(predictor, updates), optimiser), value

        start = (state.predictor, state.optimiser)
        (predictor, optimiser), losses = jax.lax.scan(update, start, jax.random.split(key, config.updates))
        return state._replace(predictor=predictor, optimiser=optimiser), {"loss": losses[-1]}

    def _to_step(self, experience: Experience) -> Step:
        """Return the experience as it is remembered, rewards in their unit and clipped at the cap."""
        before, after = (
            jnp.clip(reward, max=self.config.reward_cap) / self.config.reward_unit
            for reward in (experience.reward, experience.next_reward)
        )
        observations = (experience.observation, experience.next_observation)
        return Step(observations[0], before, experience.action, observations[1], after, experience.terminated)


def _remember(memory: Memory, step: Step) -> Memory:
    place = memory.filled % memory.steps.reward.shape[0]
    steps = jax.tree.map(lambda column, row: column.at[place].set(row), memory.steps, step)
    return Memory(steps, memory.filled + 1)


def _adam(config: TaskConfig) -> optax.GradientTransformation:
    return optax.adamw(config.learning_rate, weight_decay=config.weight_decay)


def shuffle_slots(batch: Step, key: PRNGKeyArray) -> Step:
    """Put the slots of each step in another order, the same before and after it."""
    keys = jax.random.split(key, batch.reward.shape[0])
    order = jax.vmap(lambda key: jax.random.permutation(key, batch.slots.shape[1]))(keys)[..., None]
    slots, after = (jnp.take_along_axis(part, order, axis=1) for part in (batch.slots, batch.next_slots))
    return batch._replace(slots=slots, next_slots=after)
