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
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from cobra_rl.agents.base import Policy
from cobra_rl.config import BaselineConfig
from cobra_rl.models.actor_critic import ActorCritic, Gaussian
from cobra_rl.models.nets import Loss
from cobra_rl.models.transition import Sizes
from cobra_rl.models.world import WorldModel
from cobra_rl.runtime.run import Weights
from cobra_rl.runtime.typed import to_json

LEAST_DUAL = 1e-8


class Duals(NamedTuple):
    """Temperatures and Lagrange multipliers, before the softplus that makes them positive."""

    temperature: Float[Array, ""]  # eta
    penalty_temperature: Float[Array, ""]  # eta of the second objective: to stay within [0, 1]^A
    mean: Float[Array, " A"]  # alpha_mean
    scale: Float[Array, " A"]  # alpha_scale


class Transition(NamedTuple):
    """A step in the replay; the last step of an episode has its own `observation` as `next_observation`."""

    observation: Any  # slots; or the state of the environment, which is rendered when sampled
    action: Float[Array, "*N A"]  # the policy's, in [0, 1]^A, before any deformation
    reward: Float[Array, "*N"]
    next_observation: Any
    terminated: Bool[Array, "*N"]  # solved
    truncated: Bool[Array, "*N"]  # ran out of time


class MpoParams(NamedTuple):
    """The parameters of the policy."""

    world: WorldModel | None  # None for MPO raw: pictures and raw actions
    networks: ActorCritic


class MpoState(NamedTuple):
    """The training state."""

    networks: ActorCritic
    target: ActorCritic
    duals: Duals
    optimisers: tuple[optax.OptState, optax.OptState]  # of the networks and of the duals
    updates: Int[Array, ""]


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
    weights = jax.lax.stop_gradient(jax.nn.softmax(scaled, axis=0))
    normaliser = jax.nn.logsumexp(scaled, axis=0) - jnp.log(values.shape[0])
    return weights, temperature * (epsilon + normaliser.mean())


def mpo_loss(
    online: Gaussian,
    target: Gaussian,
    actions: Float[Array, "N B A"],
    values: Float[Array, "N B"],
    duals: Duals,
    config: BaselineConfig,
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
    mean_only, scale_only = Gaussian(online.mean, target.scale), Gaussian(target.mean, online.scale)
    total, metrics = temperature_loss + penalty_loss, {"temperature": positive.temperature}
    parts = (
        ("mean", mean_only, positive.mean, config.epsilon_mean),
        ("scale", scale_only, positive.scale, config.epsilon_scale),
    )
    for name, policy, alpha, epsilon in parts:
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
def mpo_policy(config: BaselineConfig, sampled: bool = False) -> Policy:
    """Return MPO's policy on pictures: the mean of its Gaussian, or samples. Its parameters are `MpoParams`."""

    def act(params: MpoParams, images: Array, keys: Array) -> Array:
        slots = None if params.world is None else params.world.encode(images)
        policy = params.networks.policy(slots if config.features == "slots" else images)
        u = jax.vmap(lambda each, key: each.sample(key, 1)[0])(policy, keys) if sampled else policy.mean
        return to_environment(config, params.world, slots, jnp.clip(u, 0.0, 1.0))

    return Policy(act)


def to_environment(config: BaselineConfig, world: WorldModel | None, slots: Array | None, u: Array) -> Array:
    """Convert the policy's actions [B, A] to those of the environment: unchanged, or deformed by D."""
    return u if config.policy == "raw" or world is None else world.deform(slots, u)


@dataclass(frozen=True)
class Mpo:
    """The learner; `model_free.py` steps its environments. `frozen` is the world model, or None if none is used."""

    config: BaselineConfig
    sizes: Sizes

    @property
    def policy(self) -> Policy:
        """The greedy policy: the mean of the Gaussian."""
        return mpo_policy(self.config)

    def init(self, key: PRNGKeyArray) -> MpoState:
        """Start with fresh networks."""
        config, size = self.config, self.sizes.action
        networks = ActorCritic(config.networks, self.sizes, config.features == "pixels", key)
        target = jax.tree.map(lambda leaf: jnp.copy(leaf) if eqx.is_array(leaf) else leaf, networks)
        temperature, mean, scale = config.first_duals
        values = (temperature, temperature, jnp.full(size, mean), jnp.full(size, scale))
        duals = Duals(*(jnp.asarray(value, jnp.float32) for value in values))
        first, second = self._optimisers
        states = first.init(eqx.filter(networks, eqx.is_array)), second.init(duals)
        return MpoState(networks, target, duals, states, jnp.int32(0))

    def params(self, frozen: WorldModel | None, state: MpoState) -> MpoParams:
        """Return world model and networks."""
        return MpoParams(frozen, state.networks)

    def weights(self, frozen: WorldModel | None, state: MpoState) -> Weights:
        """Return the weights of actor and critic, to be saved."""
        return Weights(state.networks, to_json(self.config) | {"sizes": list(self.sizes)}, "actor_critic")

    def update(self, state: MpoState, batch: Transition, key: PRNGKeyArray) -> tuple[MpoState, dict[str, Array]]:
        """Take one gradient step on a batch whose observations are slots or rendered pictures."""
        gradients, metrics = eqx.filter_grad(self.loss, has_aux=True)((state.networks, state.duals), state, batch, key)
        first, second = self._optimisers
        updates, networks_state = first.update(gradients[0], state.optimisers[0])
        dual_updates, duals_state = second.update(gradients[1], state.optimisers[1])
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
        (networks, duals), config, following = learnt, self.config, batch.next_observation
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
