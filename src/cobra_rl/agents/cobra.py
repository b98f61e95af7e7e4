"""COBRA in the task phase: the paper's Algorithm 1.

The world model is frozen; only the predictor of reward (or of value) is trained. One environment step:

    z = V_enc(x)                                look
    a_b = D(z, u_b),  z~_b = T(z, a_b)          propose and imagine (a planner, see planners.py)
    r~_b = R(z~_b)                              predict rewards
    a = a_b with the largest r~_b, or any       choose (epsilon-greedy among the proposals)
    N minibatches of ||R(z_i) - r_i||^2         learn
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, UInt8

from cobra_rl.agents.base import Experience, Policy
from cobra_rl.agents.planners import Choice, make_planner
from cobra_rl.config import TaskConfig
from cobra_rl.models.nets import averaged
from cobra_rl.models.reward import (
    ObjectConfig,
    ObjectReward,
    RelationConfig,
    RelationReward,
    Reward,
    RewardConfig,
    Step,
    value_loss,
)
from cobra_rl.models.world import Kind, WorldModel, name_of
from cobra_rl.runtime.run import Weights
from cobra_rl.runtime.typed import to_json

Chance = Float[Array, ""] | float


class CobraParams(NamedTuple):
    """The parameters of the policy."""

    world: WorldModel
    predictor: Reward


class Memory(NamedTuple):
    """The replay memory: the steps of the task so far."""

    steps: Step  # arrays with a leading axis of the memory's capacity
    imagined: Float[Array, "N K M"]  # T's prediction z~_{t+1} for each step
    filled: Int[Array, ""]


class CobraState(NamedTuple):
    """The training state."""

    predictor: Reward  # moving average of the weights, which is evaluated and saved
    latest: Reward  # current weights, which gradient steps change and which choose actions in training
    target: Reward  # target network for bootstrapped values
    optimiser: Any
    memory: Memory


REWARDS: Mapping[str, Kind] = {  # to add a predictor, add a line here
    "relation": Kind(RelationConfig, RelationReward),
    "object": Kind(ObjectConfig, ObjectReward),
}


def make_reward(config: RewardConfig, latents: int, key: PRNGKeyArray) -> Reward:
    """Build the predictor of a configuration with fresh weights, for slots with this many latents."""
    return REWARDS[name_of(REWARDS, config)].model(config, latents, key)


def choose(
    config: TaskConfig, params: CobraParams, slots: Float[Array, "K M"], key: PRNGKeyArray, epsilon: Chance = 0.0
) -> Choice:
    """Plan in one scene, and choose the best proposal or, to explore, a random one.

    Args:
        config: Names the planner.
        params: The world model, and the predictor that scores imagined scenes.
        slots: The slots of the scene.
        key: A random key.
        epsilon: The probability of a random proposal.

    Returns:
        The chosen action, and all proposals with their scores.
    """
    explore_key, pick_key, plan_key = jax.random.split(key, 3)
    choice = make_planner(config)(params.world, params.predictor, slots, plan_key)
    random_action = choice.actions[jax.random.randint(pick_key, (), 0, choice.actions.shape[0])]
    explores = jax.random.uniform(explore_key) < epsilon
    return choice._replace(action=jnp.where(explores, random_action, choice.action))


def choose_batch(
    config: TaskConfig, params: CobraParams, slots: Float[Array, "B K M"], keys: Key[Array, " B"], epsilon: Chance = 0.0
) -> Float[Array, "B A"]:
    """Choose an action in each of several scenes; see `choose`.

    Args:
        config: Names the planner.
        params: The world model and the predictor.
        slots: The slots of the scenes.
        keys: One random key for each scene.
        epsilon: The probability of a random proposal.

    Returns:
        One action for each scene.
    """
    return jax.vmap(lambda slots, key: choose(config, params, slots, key, epsilon).action)(slots, keys)


def reward_weights(predictor: Reward, world: WorldModel) -> Weights:
    """Return the weights of a predictor with their description, to be saved."""
    return Weights(predictor, to_json(predictor.config) | {"latents": world.sizes.latents}, "reward")


@functools.cache
def cobra_policy(config: TaskConfig) -> Policy:
    """Return COBRA's greedy policy on pictures. Its parameters are `CobraParams`."""
    return Policy(lambda params, images, keys: choose_batch(config, params, params.world.encode(images), keys))


@dataclass(frozen=True)
class Cobra:
    """COBRA as an `agents.base.Agent`; `frozen` is the world model."""

    config: TaskConfig

    def __post_init__(self) -> None:
        make_planner(self.config)  # refuses an unknown planner before any work is done

    @property
    def policy(self) -> Policy:
        """The greedy policy."""
        return cobra_policy(self.config)

    def init(self, key: PRNGKeyArray, frozen: WorldModel, observation: Float[Array, "K M"]) -> CobraState:
        """Start with a fresh predictor and an empty memory."""
        predictor = make_reward(self.config.reward, frozen.sizes.latents, key)
        latest, target = (jax.tree.map(jnp.copy, predictor) for _ in range(2))  # steps donate buffers
        optimiser = _adam(self.config).init(eqx.filter(predictor, eqx.is_array))
        reward = jnp.float32(0.0)
        step = Step(observation, reward, jnp.zeros(frozen.sizes.action), observation, reward, jnp.bool_(False))
        steps = jax.tree.map(lambda leaf: jnp.zeros((self.config.memory, *leaf.shape), leaf.dtype), step)
        memory = Memory(steps, jnp.copy(steps.next_slots), jnp.int32(0))
        return CobraState(predictor, latest, target, optimiser, memory)

    def params(self, frozen: WorldModel, state: CobraState) -> CobraParams:
        """Return world model and predictor."""
        return CobraParams(frozen, state.predictor)

    def weights(self, frozen: WorldModel, state: CobraState) -> Weights:
        """Return the predictor's weights, to be saved."""
        return reward_weights(state.predictor, frozen)

    def restore(self, frozen: WorldModel, tree: Reward) -> CobraParams:
        """Return world model and saved predictor."""
        return CobraParams(frozen, tree)

    def observe(self, frozen: WorldModel, image: UInt8[Array, "H W 3"]) -> Float[Array, "K M"]:
        """Encode a picture to slots."""
        return frozen.encode(image[None])[0]

    def explore(
        self, frozen: WorldModel, state: CobraState, observation: Float[Array, "K M"], key: PRNGKeyArray
    ) -> Float[Array, " A"]:
        """Choose epsilon-greedily among the proposals, by the latest weights: their average lags behind the rewards.

        With `wait_for_reward`, choose at random until the first reward: an untrained predictor would bias all actions.
        """
        epsilon = jnp.float32(self.config.epsilon)
        if self.config.wait_for_reward:
            epsilon = jnp.where(state.memory.steps.next_reward.any(), epsilon, 1.0)
        return choose(self.config, CobraParams(frozen, state.latest), observation, key, epsilon).action

    def update(
        self, frozen: WorldModel, state: CobraState, experience: Experience, key: PRNGKeyArray
    ) -> tuple[CobraState, dict[str, Array]]:
        """Add a step to the memory, then learn from N minibatches of the memory."""
        steps, imagined, filled = state.memory
        place, row = filled % self.config.memory, self._to_step(experience)
        steps = jax.tree.map(lambda column, value: column.at[place].set(value), steps, row)
        imagined = imagined.at[place].set(frozen.imagine(row.slots[None], row.action[None]).slots[0])
        memory = Memory(steps, imagined, filled + 1)
        renew = memory.filled % self.config.target_every == 0
        target = jax.tree.map(lambda new, old: jnp.where(renew, new, old), state.latest, state.target)
        return self.learn(frozen, state._replace(target=target, memory=memory), key)

    def learn(self, frozen: WorldModel, state: CobraState, key: PRNGKeyArray) -> tuple[CobraState, dict[str, Array]]:
        """Take N gradient steps on minibatches of the memory."""
        config, adam = self.config, _adam(self.config)
        rows_filled = jnp.minimum(state.memory.filled, config.memory)
        variance = jnp.var(state.memory.steps.next_reward, where=jnp.arange(config.memory) < rows_filled)

        def loss(predictor: Reward, batch: Step) -> Float[Array, ""]:
            if config.value:
                return value_loss(predictor, state.target, frozen.imagine, batch, config.discount)[0]
            return predictor.loss(batch.next_slots, batch.next_reward, variance)[0]

        def update(carry, key_and_count):
            (predictor, latest, optimiser), (key, count) = carry, key_and_count
            rows_key, dream_key = jax.random.split(key)
            rows = jax.random.randint(rows_key, (config.batch,), 0, rows_filled)
            batch = jax.tree.map(lambda column: column[rows], state.memory.steps)
            if config.dreams:
                dreams = jax.random.bernoulli(dream_key, config.dreams, (config.batch, 1, 1))
                batch = batch._replace(next_slots=jnp.where(dreams, state.memory.imagined[rows], batch.next_slots))
            value, gradients = jax.value_and_grad(loss)(latest, batch)
            updates, optimiser = adam.update(gradients, optimiser, latest)
            latest = eqx.apply_updates(latest, updates)
            share = jnp.minimum(config.average, count / (count + 10.0))  # at first, the average covers few weights
            predictor = averaged(predictor, latest, share)
            return (predictor, latest, optimiser), value

        start, counts = (state.predictor, state.latest, state.optimiser), jnp.arange(config.updates, dtype=jnp.float32)
        counts += config.updates * (state.memory.filled - 1)  # gradient steps so far
        keys = jax.random.split(key, config.updates)
        (predictor, latest, optimiser), losses = jax.lax.scan(update, start, (keys, counts))
        return state._replace(predictor=predictor, latest=latest, optimiser=optimiser), {"loss": losses[-1]}

    def _to_step(self, experience: Experience) -> Step:
        """Convert an experience to a row of the memory, with rewards clipped at the cap and in their unit."""
        before, after = (
            jnp.clip(reward, max=self.config.reward_cap) / self.config.reward_unit
            for reward in (experience.reward, experience.next_reward)
        )
        return Step(*experience._replace(reward=before, next_reward=after))


def _adam(config: TaskConfig) -> optax.GradientTransformation:
    return optax.adamw(config.learning_rate, weight_decay=config.weight_decay)
