"""MPO: its losses against an oracle and closed forms, and problems whose answer is known."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy

from cobra_rl.agents.mpo import Duals, Mpo, mpo_loss, td_loss, weigh
from cobra_rl.collect.transition import Transition
from cobra_rl.config import MPO
from cobra_rl.models.actor_critic import ActorCriticConfig, Gaussian
from cobra_rl.models.transition import Sizes

CONFIG = MPO["laptop"]
N, B, A = 7, 5, 3


@pytest.fixture
def problem():
    """A batch of random policies, actions, values and duals, in double precision."""
    with jax.enable_x64(True):
        keys = iter(jax.random.split(jax.random.key(0), 9))
        online, target = (
            Gaussian(jax.random.uniform(next(keys), (B, A)), jax.random.uniform(next(keys), (B, A), minval=0.1))
            for _ in range(2)
        )
        actions = target.sample(next(keys), N)
        values = jax.random.normal(next(keys), (N, B))
        duals = Duals(jnp.array(0.3), jnp.array(-1.0), jnp.array([1.0, 2.0, 0.5]), jnp.array([3.0, 1.0, 0.2]))
        yield online, target, actions, values, duals


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_value_and_gradients_are_those_of_rlax(problem):
    rlax = pytest.importorskip("rlax")
    online, target, actions, values, duals = problem

    def oracle(online, duals):
        positive = Duals(*(jax.nn.softplus(dual) + 1e-8 for dual in duals))
        mean_only, scale_only = Gaussian(online.mean, target.scale), Gaussian(target.mean, online.scale)
        log_probs = mean_only.log_prob(actions) + scale_only.log_prob(actions)
        bounds = (CONFIG.epsilon_mean, CONFIG.epsilon_scale)
        constraints = [
            (target.kl_per_dimension(policy), rlax.LagrangePenalty(alpha, jnp.asarray(bound / A), per_dimension=True))
            for policy, alpha, bound in zip((mean_only, scale_only), positive[2:], bounds, strict=True)
        ]
        eta = rlax.LagrangePenalty(positive.temperature, jnp.asarray(CONFIG.epsilon))
        loss, _ = rlax.mpo_loss(log_probs, values, eta, constraints)
        outside = -jnp.linalg.norm(actions - jnp.clip(actions, 0.0, 1.0), axis=-1)
        eta = rlax.LagrangePenalty(positive.penalty_temperature, jnp.asarray(CONFIG.epsilon_penalty))
        more, _ = rlax.mpo_loss(log_probs, outside, eta, constraints, kl_loss_weight=0.0, alpha_loss_weight=0.0)
        return (loss + more).mean()

    def ours(online, duals):
        return mpo_loss(online, target, actions, values, duals, CONFIG)[0]

    wanted, wanted_gradients = jax.value_and_grad(oracle, argnums=(0, 1))(online, duals)
    found, gradients = jax.value_and_grad(ours, argnums=(0, 1))(online, duals)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    for one, other in zip(jax.tree.leaves(gradients), jax.tree.leaves(wanted_gradients), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)


def test_at_the_best_temperature_the_weights_are_as_far_from_uniform_as_epsilon_allows(problem):
    values = problem[3]
    best = scipy.optimize.minimize_scalar(
        lambda eta: float(weigh(values, jnp.asarray(eta), 0.2)[1]), bounds=(1e-3, 50.0), method="bounded"
    )
    weights = np.asarray(weigh(values, jnp.asarray(best.x), 0.2)[0])
    np.testing.assert_allclose(weights.sum(0), 1.0)
    assert np.mean(np.sum(weights * np.log(weights * N), axis=0)) == pytest.approx(0.2, abs=1e-4)


def test_the_gaussians_density_and_divergence_are_scipys(problem):
    from scipy.stats import norm

    online, target, actions = problem[:3]
    np.testing.assert_allclose(target.log_prob(actions), norm.logpdf(actions, *target).sum(-1), rtol=1e-9)
    grid = np.linspace(-12.0, 12.0, 200_001)[:, None]
    one, other = norm.logpdf(grid, target.mean[0], target.scale[0]), norm.logpdf(grid, online.mean[0], online.scale[0])
    numeric = np.trapezoid(np.exp(one) * (one - other), grid, axis=0)
    np.testing.assert_allclose(target.kl_per_dimension(online)[0], numeric, rtol=1e-6)


def test_success_ends_the_return_and_time_does_not_teach():
    ended = jnp.array([False, True, False])
    late = jnp.array([False, False, True])
    batch = Transition(None, jnp.zeros((3, 1)), None, reward=jnp.zeros(3), terminated=ended, truncated=late)
    values, rewards, following = jnp.array([1.0, 2.0, 50.0]), jnp.array([0.5, 3.0, 0.0]), jnp.array([2.0, 100.0, 9.0])
    assert float(td_loss(values, rewards, following, batch, 0.9)) == pytest.approx(((2.3 - 1.0) ** 2 + 1.0) / 3)


@pytest.mark.parametrize(
    ("cap", "unit", "learnt"),
    [(5.0, 10.0, [-2.0, 0.5, 0.5]), (None, 10.0, [-2.0, 0.5, 5.0]), (5.0, 1.0, [-20.0, 5.0, 5.0])],
)
def test_rewards_are_learnt_capped_and_in_their_unit(cap, unit, learnt):
    mpo = Mpo(dataclasses.replace(PROBE.config, reward_cap=cap, reward_unit=unit))
    state = PROBE.init(PROBE_SIZES, jax.random.key(0))
    slots, actions = jax.random.normal(jax.random.key(1), (3, 2, 2)), jnp.full((3, 2), 0.3)
    rewards = jnp.array([-20.0, 5.0, 50.0])
    ended = {"terminated": jnp.ones(3, bool), "truncated": jnp.zeros(3, bool)}
    batch = Transition(slots, actions, slots, reward=rewards, **ended)
    learn = eqx.filter_jit(mpo.loss)
    total, metrics = learn((state.networks, state.duals), state, batch, jax.random.key(2))
    wanted = jnp.mean((jnp.array(learnt) - state.networks.value(slots, actions)) ** 2)
    assert float(metrics["td"]) == pytest.approx(float(wanted), rel=1e-5)
    none, without = learn((state.networks, state.duals), state, batch._replace(reward=0.0 * rewards), jax.random.key(2))
    assert float(total - none) == pytest.approx(float(metrics["td"] - without["td"]), rel=1e-4)  # as it is minimised


# Problems with a known answer. Scenes are two slots of two latents.

NETWORKS = ActorCriticConfig(
    actor_slot_layers=(32,), actor_global_layers=(32,), critic_slot_layers=(32,), critic_global_layers=(32,)
)
PROBE = Mpo(
    dataclasses.replace(
        CONFIG, features="slots", networks=NETWORKS, learning_rate=3e-3, target_every=20, reward_unit=1.0,
        reward_cap=None, discount=0.8, samples=8,
    )
)  # fmt: skip
PROBE_SIZES = Sizes(slots=2, latents=2, action=2, image=64)
UPDATES = 600


@eqx.filter_jit
def update_often(state, batches, keys):
    """Take an update with each batch; compiled once for all problems."""
    arrays, static = eqx.partition(state, eqx.is_array)

    def update(arrays, given):
        learnt = PROBE.update(eqx.combine(arrays, static), *given)[0]
        return eqx.filter(learnt, eqx.is_array), None

    return eqx.combine(jax.lax.scan(update, arrays, (batches, keys))[0], static)


def learn(make_batch, rounds=1):
    """MPO after so many rounds of updates on batches of 32 transitions."""
    state = PROBE.init(PROBE_SIZES, jax.random.key(0))
    for key in jax.random.split(jax.random.key(1), rounds):
        batch_keys, learn_keys = jax.random.split(key, (2, UPDATES))
        state = update_often(state, jax.jit(jax.vmap(make_batch))(batch_keys), learn_keys)
    return state.networks


def one_step(key, best):
    """Random actions whose reward falls with the distance from the best; each ends its episode."""
    scene_key, action_key = jax.random.split(key)
    scenes = jax.random.uniform(scene_key, (32, 2, 2), minval=-1.0)
    actions = jax.random.uniform(action_key, (32, 2))
    rewards = -10.0 * jnp.sum((actions - best(scenes)) ** 2, axis=-1)
    ended = {"terminated": jnp.ones(32, bool), "truncated": jnp.zeros(32, bool)}
    return Transition(scenes, actions, scenes, reward=rewards, **ended)


def test_a_bandit_learns_the_best_action_and_what_it_is_worth():
    best = jnp.array([0.4, 0.65])
    networks = learn(lambda key: one_step(key, lambda scenes: best))
    scenes = jax.random.uniform(jax.random.key(5), (16, 2, 2), minval=-1.0)
    policy = networks.policy(scenes)
    assert float(jnp.abs(policy.mean - best).max()) < 0.1
    assert float(policy.scale.max()) < 0.25  # from 0.3
    assert float(jnp.abs(networks.value(scenes, jnp.broadcast_to(best, (16, 2)))).max()) < 0.3
    assert float(networks.value(scenes, jnp.ones((16, 2))).mean()) == pytest.approx(
        -10.0 * (0.6**2 + 0.35**2), rel=0.25
    )


def test_one_step_control_learns_an_action_for_each_scene():
    def best(scenes):
        return 0.5 + 0.15 * scenes.sum(1)  # of both slots, in whatever order

    networks = learn(lambda key: one_step(key, best), rounds=2)
    scenes = jax.random.uniform(jax.random.key(5), (32, 2, 2), minval=-1.0)
    error = jnp.abs(networks.policy(scenes).mean - best(scenes)).mean()
    assert float(error) < 0.05
    assert float(jnp.abs(0.5 - best(scenes)).mean()) > 0.09  # what a policy that does not look would have
    swapped = networks.policy(scenes[:, ::-1]).mean
    np.testing.assert_allclose(swapped, networks.policy(scenes).mean, atol=1e-5)


def test_a_chain_of_two_steps_has_its_discounted_value():
    first, second = jnp.eye(2)[:, None] * jnp.ones((2, 2, 1))  # two scenes [2, 2]

    def chain(key):
        kind = jnp.arange(32) % 4  # from the first to the second; to the end; out of time, with a reward that misleads
        scenes = jnp.where((kind == 1)[:, None, None], second, first)
        following = jnp.where((kind == 0)[:, None, None], second, scenes)
        reward = jnp.where(kind == 1, 1.0, jnp.where(kind == 0, 0.0, 100.0))
        actions = jax.random.uniform(key, (32, 2))
        ended = {"terminated": kind == 1, "truncated": kind >= 2}
        return Transition(scenes, actions, following, reward=reward, **ended)

    networks = learn(chain)
    actions = jax.random.uniform(jax.random.key(2), (50, 2, 2))
    values = networks.value(jnp.stack([first, second]), actions)
    np.testing.assert_allclose(values.mean(0), [0.8, 1.0], atol=0.05)
