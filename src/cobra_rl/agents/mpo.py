"""Maximum a posteriori policy optimisation (Abdolmaleki et al. 2018), the paper's model-free baseline.

Actions a_ij, j = 1..N, are drawn from the target policy pi' in each scene x_i of a batch. E-step: weight them by value,

    q_ij  ∝  exp(Q'(x_i, a_ij) / eta),       eta minimises  eta epsilon + eta mean_i log mean_j exp(Q'(x_i, a_ij) / eta)

and likewise, as a second objective with its own temperature, by how far they lie outside of [0, 1]^A; the two sets of
weights are added. M-step, decoupled: fit mean and scale separately, each within a trust region,

    L_pi = - mean_i sum_j q_ij [ log N(a_ij; mean, scale') + log N(a_ij; mean', scale) ]
           + alpha_mean KL(pi' || N(mean, scale')) + alpha_scale KL(pi' || N(mean', scale))
    L_alpha = alpha_mean (epsilon_mean - KL_mean) + alpha_scale (epsilon_scale - KL_scale)

where each dimension of the action has a KL and an alpha of its own, and its share of epsilon. The critic learns by TD
over one step (the paper's trajectories of length 2), its bootstrap being the mean over the same actions:

    L_Q = ( r + gamma mean_j Q'(x_{t+1}, a_j) - Q(x_t, a_t) )^2

A step that solves the task has no bootstrap. A step that is cut off by the time limit is left out of L_Q: its next
scene is not kept.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from cobra_rl.agents import model_free
from cobra_rl.agents.contract import Learner, MakeActors, Outcome, Policy, World, sizes_for
from cobra_rl.bounds import from_json, to_json
from cobra_rl.collect.actors import Actors, Collected
from cobra_rl.collect.replay import Replay, ReplayState
from cobra_rl.collect.transition import Transition
from cobra_rl.config import AgentConfig, MpoConfig
from cobra_rl.models.actor_critic import ActorCritic, Gaussian
from cobra_rl.models.nets import Loss
from cobra_rl.models.transition import Sizes
from cobra_rl.models.world import WorldModel
from cobra_rl.spriteworld.base import Environment
from cobra_rl.storage.weights import Weights

LEAST_DUAL = 1e-8


class Duals(NamedTuple):
    """Temperatures and Lagrange multipliers, before the softplus that makes them positive."""

    temperature: Float[Array, ""]  # eta
    penalty_temperature: Float[Array, ""]  # eta of the second objective: to stay within [0, 1]^A
    mean: Float[Array, " A"]  # alpha_mean
    scale: Float[Array, " A"]  # alpha_scale


class MpoParams(NamedTuple):
    """The parameters of the policy."""

    world: WorldModel | None  # None for MPO raw: pictures and raw actions
    networks: ActorCritic


class MpoState(NamedTuple):
    """What is learnt."""

    networks: ActorCritic
    target: ActorCritic
    duals: Duals
    optimisers: tuple[optax.OptState, optax.OptState]  # of the networks and of the duals
    updates: Int[Array, ""]


class MpoTraining(NamedTuple):
    """The training state."""

    agent: MpoState
    replay: ReplayState
    acting: model_free.PlayState | None  # None: actors elsewhere play
    env_steps: Int[Array, ""]  # so far; Ray actors send many at a time
    turns: Int[Array, ""]  # one is a step in each environment
    key: PRNGKeyArray  # of the minibatches


def weigh(values: Float[Array, "N B"], temperature: Float[Array, ""], epsilon: float) -> tuple[Array, Array]:
    """E-step: weight the sampled actions of each scene by their values.

    Args:
        values: The values of N actions in each of B scenes.
        temperature: eta.
        epsilon: The bound on the KL of the weights from uniform ones.

    Returns:
        The weights q [N, B], which sum to 1 over the actions and pass no gradient, and the loss of the temperature.
    """
    scaled = values / temperature
    normaliser = jax.nn.logsumexp(scaled, axis=0) - jnp.log(values.shape[0])
    return jax.lax.stop_gradient(jax.nn.softmax(scaled, axis=0)), temperature * (epsilon + normaliser.mean())


def mpo_loss(
    online: Gaussian,
    target: Gaussian,
    actions: Float[Array, "N B A"],
    values: Float[Array, "N B"],
    duals: Duals,
    config: MpoConfig,
) -> Loss:
    """Return the loss of the policy and the dual variables for a batch of scenes.

    Args:
        online: The policy that learns.
        target: The policy that `actions` were drawn from, which is not trained.
        actions: N actions sampled in each of B scenes, not clipped to [0, 1].
        values: Q' of the clipped actions.
        duals: The temperatures and multipliers, before their softplus.
        config: The bounds epsilon.

    Returns:
        The sum of all losses, and the metrics `temperature`, `kl_mean` and `kl_scale`.
    """
    positive = Duals(*(jax.nn.softplus(dual) + LEAST_DUAL for dual in duals))
    weights, temperature_loss = weigh(values, positive.temperature, config.epsilon)
    outside = -jnp.linalg.norm(actions - jnp.clip(actions, 0.0, 1.0), axis=-1)
    more, penalty_loss = weigh(outside, positive.penalty_temperature, config.epsilon_penalty)
    total = temperature_loss + penalty_loss
    metrics = {"temperature": positive.temperature}
    for name, policy, alpha, epsilon in (
        ("mean", Gaussian(online.mean, target.scale), positive.mean, config.epsilon_mean),
        ("scale", Gaussian(target.mean, online.scale), positive.scale, config.epsilon_scale),
    ):
        fit = -jnp.sum((weights + more) * policy.log_prob(actions), axis=0).mean()
        kl = target.kl_per_dimension(policy).mean(0)  # [A]
        trust = jnp.sum(jax.lax.stop_gradient(alpha) * kl)
        dual = jnp.sum(alpha * (epsilon / alpha.shape[0] - jax.lax.stop_gradient(kl)))
        total += fit + trust + dual
        metrics[f"kl_{name}"] = kl.sum()
    return total, metrics


def td_loss(
    values: Float[Array, " B"],
    rewards: Float[Array, " B"],
    following: Float[Array, " B"],
    batch: Transition,
    discount: float,
) -> Float[Array, ""]:
    """Return L_Q, the critic's loss.

    Args:
        values: Q(x_t, a_t) of each step.
        rewards: The rewards to learn, clipped and in their unit.
        following: The target network's values of the next scenes.
        batch: The steps, of which only `terminated` and `truncated` are used.
        discount: The discount factor.

    Returns:
        The mean over all B steps, to which truncated ones contribute 0.
    """
    goal = jax.lax.stop_gradient(rewards + discount * jnp.where(batch.terminated, 0.0, following))
    return jnp.mean(jnp.where(batch.truncated, 0.0, (goal - values) ** 2))


@functools.cache
def mpo_policy(config: MpoConfig, sampled: bool = False) -> Policy:
    """Return MPO's policy on pictures: the mean of its Gaussian, or samples. Its parameters are `MpoParams`."""

    def act(params: MpoParams, images: Array, keys: Array) -> Array:
        slots = None if params.world is None else params.world.encode(images)
        policy = params.networks.policy(slots if config.features == "slots" else images)
        u = jax.vmap(lambda each, key: each.sample(key, 1)[0])(policy, keys) if sampled else policy.mean
        return model_free.to_environment(config, params.world, slots, jnp.clip(u, 0.0, 1.0))

    return Policy(act)


@dataclass(frozen=True)
class Mpo(Learner):
    """The learner: vectorised environments -> replay -> MPO. Its state is that of one seed.

    A step of it is one step in each of E environments, or as many steps of Ray actors, followed by the updates that the
    replay ratio requires. The replay stores slots, or states of the environment that are rendered when sampled.
    """

    config: MpoConfig
    actors: Actors | None = None  # None: environments are stepped in this process
    most_seeds: ClassVar[int | None] = 1

    def with_actors(self, make: MakeActors, env: Environment, world: World, seed: int) -> "Mpo":
        """Return the same learner with actors elsewhere; see `Learner`."""
        return Mpo(
            self.config,
            make(
                functools.partial(model_free.begin, env, 1),
                functools.partial(model_free.play, env, self.config),
                world,
                seed + 2,
            ),
        )

    @property
    def uses_world(self) -> bool:
        """Whether the baseline uses slots or the exploration policy; MPO raw uses neither."""
        return self.config.name != "mpo_raw"

    @property
    def policy(self) -> Policy:
        """The greedy policy: the mean of the Gaussian."""
        return mpo_policy(self.config)

    def begin(self, env: Environment, world: World, seeds: Sequence[int]) -> MpoTraining:
        """Start with fresh networks, an empty replay and fresh episodes; see `Learner`."""
        (seed,) = seeds
        sizes = sizes_for(env, world)
        return MpoTraining(
            agent=eqx.filter_jit(self.init)(sizes, jax.random.key(seed)),
            replay=_replay(self.config).init(model_free.zero_transition(env, self.config, sizes)),
            acting=None
            if self.actors is not None
            else model_free.begin(env, self.config.envs, world, jax.random.key(seed + 2)),
            env_steps=jnp.int32(0),
            turns=jnp.int32(0),
            key=jax.random.key(seed + 1),
        )

    def step(self, env: Environment, world: World, state: MpoTraining) -> tuple[MpoTraining, Outcome, dict[str, Any]]:
        """Play, remember, and learn as often as the replay ratio requires; see `Learner`."""
        config = self.config
        turns = int(state.turns) + 1
        due_steps = turns * config.envs
        parts, acting = self._collect(env, world, state, due_steps)
        replay = state.replay
        for part in parts:
            replay = _add((config, part.transitions), replay)
        agent = state.agent
        metrics = {}
        first_update = int((due_steps - config.envs) * config.replay_ratio / config.batch)
        last_update = int(due_steps * config.replay_ratio / config.batch)
        for number in range(first_update, last_update) if due_steps >= config.warmup_steps else ():
            sample_key, learn_key = jax.random.split(jax.random.fold_in(state.key, number))
            agent, metrics = _learn_from((self, _sample(env, config, replay, sample_key), learn_key), agent)
        outcome = _outcome(parts)
        if parts:
            metrics = metrics | {"hits": np.mean([part.hits for part in parts])}
        env_steps = state.env_steps + outcome.done.size
        return MpoTraining(agent, replay, acting, env_steps, jnp.int32(turns), state.key), outcome, metrics

    def _collect(
        self, env: Environment, world: World, state: MpoTraining, due_steps: int
    ) -> tuple[list[Collected], model_free.PlayState | None]:
        """Play until there are `due_steps` environment steps; Ray actors send many at a time, so there may be more."""
        networks = state.agent.networks
        if self.actors is None:
            assert state.acting is not None
            acting, part = model_free.play(env, self.config, world, networks, state.acting)
            return [part], acting
        parts = []
        played = int(state.env_steps)
        while played < due_steps:
            parts += (new := self.actors.collect(networks, wait=True))
            played += sum(part.transitions.reward.shape[0] for part in new)
        return parts, None

    def agent_of(self, state: MpoTraining, index: int) -> MpoState:
        """Return what was learnt, without replay and environments."""
        return state.agent

    def weights(self, world: World, agent: MpoState) -> Weights:
        """Return the weights of actor and critic, to be saved."""
        return Weights(agent.networks, to_json(self.config), "actor_critic")

    def restore(self, world: World, tree: ActorCritic) -> MpoParams:
        """Return world model and networks."""
        return MpoParams(world if self.uses_world else None, tree)

    def saved_like(self, world: World, sizes: Sizes) -> Weights:
        """Return the weights of fresh networks; see `Learner`."""
        return self.weights(world, self.init(sizes, jax.random.key(0)))

    def is_saved_by(self, saved: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
        """Tell whether the configuration beside saved weights is this one; version 0.2 saved sizes with it."""
        return from_json(AgentConfig, {name: saved[name] for name in saved if name != "sizes"}, "it") == self.config

    def close(self) -> None:
        """Stop the Ray actors."""
        if self.actors is not None:
            self.actors.close()

    def init(self, sizes: Sizes, key: PRNGKeyArray) -> MpoState:
        """Make fresh networks, for slots or pictures and actions of these sizes."""
        config = self.config
        networks = ActorCritic(config.networks, sizes, config.features == "pixels", key)
        temperature, mean, scale = config.first_duals
        duals = Duals(
            jnp.asarray(temperature, jnp.float32),
            jnp.asarray(temperature, jnp.float32),
            jnp.full(sizes.action, mean, jnp.float32),
            jnp.full(sizes.action, scale, jnp.float32),
        )
        of_networks, of_duals = self._optimisers
        return MpoState(
            networks=networks,
            target=jax.tree.map(lambda leaf: jnp.copy(leaf) if eqx.is_array(leaf) else leaf, networks),
            duals=duals,
            optimisers=(of_networks.init(eqx.filter(networks, eqx.is_array)), of_duals.init(duals)),
            updates=jnp.int32(0),
        )

    def update(self, state: MpoState, batch: Transition, key: PRNGKeyArray) -> tuple[MpoState, dict[str, Array]]:
        """Take one gradient step on a batch whose observations are slots or rendered pictures."""
        gradients, metrics = eqx.filter_grad(self.loss, has_aux=True)((state.networks, state.duals), state, batch, key)
        of_networks, of_duals = self._optimisers
        updates, networks_state = of_networks.update(gradients[0], state.optimisers[0])
        dual_updates, duals_state = of_duals.update(gradients[1], state.optimisers[1])
        networks = eqx.apply_updates(state.networks, updates)
        count = state.updates + 1
        renew = count % self.config.target_every == 0
        target = jax.tree.map(
            lambda new, old: jnp.where(renew, new, old) if eqx.is_array(new) else old, networks, state.target
        )
        duals = eqx.apply_updates(state.duals, dual_updates)
        return MpoState(networks, target, duals, (networks_state, duals_state), count), metrics

    def loss(self, learnt: tuple[ActorCritic, Duals], state: MpoState, batch: Transition, key: PRNGKeyArray) -> Loss:
        """Return L_pi + L_eta + L_alpha + L_Q; L_pi uses the next scenes, for which L_Q samples actions anyway.

        Args:
            learnt: The networks and the duals, with respect to which the gradient is taken.
            state: The training state, of which only the target networks are used.
            batch: B steps, whose observations are slots or rendered pictures.
            key: The random key of the sampled actions.

        Returns:
            The loss, and the metrics of `mpo_loss`, `td`, `value` (mean Q') and `scale` of the target policy.
        """
        networks, duals = learnt
        config = self.config
        following = batch.next_observation
        target = state.target.policy(following)
        actions = target.sample(key, config.samples)
        values = state.target.value(following, jnp.clip(actions, 0.0, 1.0))
        policy, metrics = mpo_loss(networks.policy(following), target, actions, values, duals, config)
        rewards = jnp.clip(batch.reward, max=config.reward_cap) / config.reward_unit
        td = td_loss(networks.value(batch.observation, batch.action), rewards, values.mean(0), batch, config.discount)
        return policy + td, metrics | {"td": td, "value": values.mean(), "scale": target.scale.mean()}

    @functools.cached_property
    def _optimisers(self) -> tuple[optax.GradientTransformation, optax.GradientTransformation]:
        """Adam for the networks and for the duals."""
        return optax.adam(self.config.learning_rate), optax.adam(self.config.dual_rate)


# Separate from `_learn_from`, so that pictures are rendered once (see model_free.py).
@eqx.filter_jit
def _sample(env: Environment, config: MpoConfig, replay: ReplayState, key: PRNGKeyArray) -> Transition:
    batch = _replay(config).sample_uniformly(replay, key)
    return batch._replace(
        observation=model_free.policy_input(env, config, batch.observation),
        next_observation=model_free.policy_input(env, config, batch.next_observation),
    )


@eqx.filter_jit(donate="all-except-first")
def _learn_from(given: tuple[Mpo, Transition, PRNGKeyArray], state: MpoState) -> tuple[MpoState, dict[str, Array]]:
    learner, batch, key = given
    return learner.update(state, batch, key)


@eqx.filter_jit(donate="all-except-first")
def _add(given: tuple[MpoConfig, Transition], replay: ReplayState) -> ReplayState:
    config, transitions = given
    return _replay(config).add(replay, transitions)


def _replay(config: MpoConfig) -> Replay:
    return Replay(config.capacity, config.batch)


def _outcome(parts: Sequence[Collected]) -> Outcome:
    """Join what was played, as the outcome of one seed; it is no work for the device."""
    if not parts:  # Ray actors have sent more than is due
        none = np.zeros((1, 0), bool)
        return Outcome(np.zeros((1, 0, 1)), np.zeros((1, 0)), none, none)
    found = jax.device_get([part.transitions for part in parts])
    action, reward, success, truncated = (
        np.concatenate([getattr(each, name) for each in found])[None]
        for name in ("action", "reward", "terminated", "truncated")
    )
    return Outcome(action, reward, success, success | truncated)
