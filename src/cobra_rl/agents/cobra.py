"""COBRA in the task phase: the paper's Algorithm 1.

The world model is frozen; only the predictor of reward (or of value) is trained. One environment step:

    z = V_enc(x)                                observe
    a_b = D(z, u_b),  z~_b = T(z, a_b)          explore: propose and imagine (a planner, see models/planner.py),
    r~_b = R(z~_b)                                  predict rewards,
    a = a_b with the largest r~_b, or any           choose (epsilon-greedy among the proposals)
    N minibatches of ||R(z_i) - r_i||^2         update
"""

import functools
from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, UInt8

from cobra_rl.agents.contract import Policy, StepLearner
from cobra_rl.bounds import to_json
from cobra_rl.collect.replay import Replay, ReplayState
from cobra_rl.collect.transition import Transition
from cobra_rl.config import CobraConfig
from cobra_rl.models.nets import averaged
from cobra_rl.models.planner import Choice
from cobra_rl.models.reward import Reward, RewardConfig, value_loss
from cobra_rl.models.world import WorldModel
from cobra_rl.parts import make_part
from cobra_rl.storage.weights import Weights

EMA_WARMUP = 10.0  # gradient steps; before, the moving average covers fewer weights


class CobraParams(NamedTuple):
    """The parameters of the policy."""

    world: WorldModel
    predictor: Reward


class Remembered(NamedTuple):
    """What the replay holds of a step."""

    step: Transition  # its observations are slots, its rewards are clipped and in their unit
    imagined: Float[Array, "*N K M"]  # z~_{t+1}, T's prediction for it


class CobraState(NamedTuple):
    """The training state."""

    predictor: Reward  # moving average of the weights, which is evaluated and saved
    latest: Reward  # current weights, which gradient steps change and which choose actions in training
    target: Reward  # target network for bootstrapped values
    optimiser: optax.OptState
    replay: ReplayState
    steps: Int[Array, ""]  # environment steps so far


@dataclass(frozen=True)
class Cobra(StepLearner):
    """The learner. Its policy needs the world model and the predictor."""

    config: CobraConfig

    def __post_init__(self) -> None:
        make_part(self.config.planner)  # refuses an unknown planner before any work is done

    def observe(self, world: WorldModel, image: UInt8[Array, "H W 3"]) -> Float[Array, "K M"]:
        """V_enc: encode a picture to slots."""
        return world.encode(image[None])[0]

    def explore(
        self, world: WorldModel, agent: CobraState, observation: Float[Array, "K M"], key: PRNGKeyArray
    ) -> Float[Array, " A"]:
        """Choose epsilon-greedily among the proposals, by the latest weights: their average lags behind the rewards.

        With `wait_for_reward`, choose at random until the first reward: an untrained predictor would bias all actions.
        """
        epsilon = jnp.float32(self.config.epsilon)
        if self.config.wait_for_reward:
            epsilon = jnp.where(agent.replay.items.step.reward.any(), epsilon, 1.0)
        return choose(self.config, CobraParams(world, agent.latest), observation, key, epsilon).action

    def update(
        self, world: WorldModel, agent: CobraState, transition: Transition, key: PRNGKeyArray
    ) -> tuple[CobraState, dict[str, Array]]:
        """Remember a step with T's prediction of it, then take N gradient steps on minibatches of the memory."""
        step = transition._replace(
            reward=self._scaled(transition.reward),
            reward_before=self._scaled(transition.reward_before),
        )
        imagined = world.imagine(step.observation[None], step.action[None]).slots[0]
        replay = self._replay.add(agent.replay, jax.tree.map(lambda leaf: leaf[None], Remembered(step, imagined)))
        steps = agent.steps + 1
        renew = steps % self.config.target_every == 0
        target = jax.tree.map(lambda new, old: jnp.where(renew, new, old), agent.latest, agent.target)
        return self.learn(world, agent._replace(target=target, replay=replay, steps=steps), key)

    def learn(self, world: WorldModel, agent: CobraState, key: PRNGKeyArray) -> tuple[CobraState, dict[str, Array]]:
        """Take N gradient steps on minibatches of the memory."""
        config = self.config
        variance = jnp.var(agent.replay.items.step.reward, where=jnp.arange(config.memory) < agent.replay.size)

        def loss(predictor: Reward, batch: Transition) -> Float[Array, ""]:
            if config.value:
                return value_loss(predictor, agent.target, world.imagine, batch=batch, discount=config.discount)[0]
            return predictor.loss(batch.next_observation, batch.reward, variance)[0]

        def gradient_step(carry: tuple, number_and_key: tuple) -> tuple:
            predictor, latest, optimiser = carry
            number, key = number_and_key
            value, gradients = jax.value_and_grad(loss)(latest, self._minibatch(agent.replay, key))
            updates, optimiser = self._optimiser.update(gradients, optimiser, latest)
            latest = eqx.apply_updates(latest, updates)
            decay = jnp.minimum(config.ema_decay, number / (number + EMA_WARMUP))
            return (averaged(predictor, latest, decay), latest, optimiser), value

        numbers = jnp.arange(config.updates, dtype=jnp.float32) + config.updates * (agent.steps - 1)
        (predictor, latest, optimiser), losses = jax.lax.scan(
            gradient_step,
            (agent.predictor, agent.latest, agent.optimiser),
            (numbers, jax.random.split(key, config.updates)),
        )
        return agent._replace(predictor=predictor, latest=latest, optimiser=optimiser), {"loss": losses[-1]}

    def _minibatch(self, replay: ReplayState, key: PRNGKeyArray) -> Transition:
        """Draw remembered steps; a fraction of their next scenes is replaced by T's prediction (not in the paper)."""
        rows_key, imagined_key = jax.random.split(key)
        batch = self._replay.sample_uniformly(replay, rows_key)
        if not self.config.imagined_fraction:
            return batch.step
        is_imagined = jax.random.bernoulli(imagined_key, self.config.imagined_fraction, (self.config.batch, 1, 1))
        return batch.step._replace(next_observation=jnp.where(is_imagined, batch.imagined, batch.step.next_observation))

    def _scaled(self, reward: Float[Array, ""]) -> Float[Array, ""]:
        """Clip a reward at the cap, and divide it by its unit."""
        return jnp.clip(reward, max=self.config.reward_cap) / self.config.reward_unit

    def init(self, key: PRNGKeyArray, world: WorldModel, observation: Float[Array, "K M"]) -> CobraState:
        """Start with a fresh predictor and an empty memory."""
        predictor = make_reward(self.config.reward, world.sizes.latents, key)
        step = Transition(
            observation,
            jnp.zeros(world.sizes.action),
            observation,
            reward=jnp.float32(0.0),
            reward_before=jnp.float32(0.0),
            terminated=jnp.bool_(False),
            truncated=jnp.bool_(False),
        )
        return CobraState(
            predictor=predictor,
            latest=jax.tree.map(jnp.copy, predictor),  # copies, since steps donate buffers
            target=jax.tree.map(jnp.copy, predictor),
            optimiser=self._optimiser.init(eqx.filter(predictor, eqx.is_array)),
            replay=self._replay.init(Remembered(step, observation)),
            steps=jnp.int32(0),
        )

    @property
    def policy(self) -> Policy:
        """The greedy policy."""
        return cobra_policy(self.config)

    def weights(self, world: WorldModel, agent: CobraState) -> Weights:
        """Return the predictor's weights, to be saved."""
        return reward_weights(agent.predictor, world)

    def restore(self, world: WorldModel, tree: Reward) -> CobraParams:
        """Return world model and predictor."""
        return CobraParams(world, tree)

    @property
    def _replay(self) -> Replay:
        return Replay(self.config.memory, self.config.batch)

    @property
    def _optimiser(self) -> optax.GradientTransformation:
        return optax.adamw(self.config.learning_rate, weight_decay=self.config.weight_decay)


def make_reward(config: RewardConfig, latents: int, key: PRNGKeyArray) -> Reward:
    """Build the predictor of a configuration with fresh weights, for slots with this many latents."""
    return make_part(config, latents, key)


def choose(
    config: CobraConfig,
    params: CobraParams,
    slots: Float[Array, "K M"],
    key: PRNGKeyArray,
    epsilon: Float[Array, ""] | float = 0.0,
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
    choice = make_part(config.planner)(params.world, params.predictor, slots, plan_key)
    random_action = choice.actions[jax.random.randint(pick_key, (), 0, choice.actions.shape[0])]
    return choice._replace(action=jnp.where(jax.random.uniform(explore_key) < epsilon, random_action, choice.action))


def choose_batch(
    config: CobraConfig,
    params: CobraParams,
    slots: Float[Array, "B K M"],
    keys: Key[Array, " B"],
    epsilon: Float[Array, ""] | float = 0.0,
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
def cobra_policy(config: CobraConfig) -> Policy:
    """Return COBRA's greedy policy on pictures. Its parameters are `CobraParams`."""
    return Policy(lambda params, images, keys: choose_batch(config, params, params.world.encode(images), keys))
