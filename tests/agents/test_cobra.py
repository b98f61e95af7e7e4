"""COBRA as a learner: the memory of a task, the weights that act, and rewards beyond success."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cobra_rl.agents import cobra, contract
from cobra_rl.agents.cobra import Cobra, CobraState, Remembered, make_reward
from cobra_rl.agents.contract import Learner
from cobra_rl.collect.replay import Replay, ReplayState
from cobra_rl.collect.transition import Transition
from cobra_rl.config import COBRA
from cobra_rl.models.planner import Choice, PlannerConfig
from cobra_rl.runs.worlds import load_world
from cobra_rl.spriteworld import make

ROWS, SLOTS, M = 64, 4, 12
FLAGS = {"terminated": np.True_, "truncated": np.False_}


def replay_of(seed: int) -> ReplayState:
    """Scenes whose reward depends on the things in them; the first slot always holds the largest."""
    slots = jax.random.normal(jax.random.key(seed), (ROWS, SLOTS, M))
    slots = jnp.take_along_axis(slots, jnp.argsort(-slots[..., :1], axis=1), axis=1)
    steps = Transition(
        slots,
        jnp.zeros((ROWS, 4)),
        slots,
        reward=slots[..., 0].max(1),
        reward_before=jnp.zeros(ROWS),
        terminated=jnp.zeros(ROWS, bool),
        truncated=jnp.zeros(ROWS, bool),
    )
    replay = Replay(ROWS, 1)
    items = Remembered(steps, slots)
    return replay.add(replay.init(jax.tree.map(lambda leaf: leaf[0], items)), items)


def state_of(agent: Cobra, replay: ReplayState) -> CobraState:
    """The state of an agent that remembers so much and has learnt nothing."""
    predictor = make_reward(agent.config.reward, M, jax.random.key(0))
    return CobraState(predictor, predictor, predictor, agent._optimiser.init(predictor), replay, jnp.int32(ROWS))


@pytest.fixture(scope="module")
def world(debug_world):
    return load_world(debug_world)


def test_a_share_of_the_remembered_scenes_is_learnt_as_imagined(world):
    """What was seen is worth nothing, and what was imagined instead is worth its reward: only dreams can teach that."""
    errors = {}
    for dreams in (0.0, 1.0):
        learning = {"updates": 300, "batch": 16, "learning_rate": 3e-3, "memory": ROWS}
        config = dataclasses.replace(COBRA["debug"], imagined_fraction=dreams, **learning)
        replay = replay_of(1)
        step, imagined = replay.items
        seen = step._replace(next_observation=jnp.zeros_like(step.observation))
        agent = Cobra(config)
        state = state_of(agent, replay._replace(items=Remembered(seen, imagined)))
        model = agent.learn(world, state, jax.random.key(2))[0].predictor
        errors[dreams] = float(np.mean((model(imagined) - step.reward) ** 2))
    assert errors[1.0] < 0.1 < 0.3 < errors[0.0]


@pytest.mark.parametrize(("average", "share"), [(0.0, 0.0), (0.5, 0.5), (0.99, 63 / 73)])  # the 64th gradient step
def test_an_average_of_the_weights_is_kept_at_first_of_few(world, average, share):
    config = dataclasses.replace(COBRA["debug"], ema_decay=average, updates=1, memory=ROWS)
    state = state_of(Cobra(config), replay_of(1))
    predictor = state.predictor
    after = Cobra(config).learn(world, state, jax.random.key(2))[0]
    assert not eqx.tree_equal(after.latest, predictor)
    expected = jax.tree.map(lambda old, new: share * old + (1.0 - share) * new, predictor, after.latest)
    jax.tree.map(lambda found, wanted: np.testing.assert_allclose(found, wanted, atol=1e-6), after.predictor, expected)
    assert eqx.tree_equal(Cobra(config).params(world, after).predictor, after.predictor)


def test_in_training_the_latest_weights_choose_and_their_average_is_what_is_kept(world, monkeypatch):
    agent, slots = Cobra(COBRA["debug"]), jnp.zeros((3, M))
    state = agent.init(jax.random.key(0), world, slots)
    other = make_reward(agent.config.reward, M, jax.random.key(9))
    chosen_by = []

    def choose(config, params, slots, key, epsilon):
        chosen_by.append(params.predictor)
        return Choice(jnp.zeros(4), jnp.zeros((1, 4)), jnp.zeros(1))

    monkeypatch.setattr(cobra, "choose", choose)
    agent.explore(world, state._replace(predictor=other), slots, jax.random.key(1))
    agent.explore(world, state._replace(latest=other), slots, jax.random.key(1))
    assert chosen_by[0] is state.latest
    assert chosen_by[1] is other
    assert agent.weights(world, state._replace(predictor=other)).tree is other


def test_rewards_are_remembered_in_their_unit_and_up_to_the_cap(world):
    agent = Cobra(dataclasses.replace(COBRA["debug"], reward_cap=5.0, reward_unit=10.0))
    slots = jnp.zeros((3, M))
    state = agent.init(jax.random.key(0), world, slots)
    rewards = {"reward": jnp.float32(9.0), "reward_before": jnp.float32(-3.0)}
    transition = Transition(slots, jnp.full(4, 0.5), slots + 1.0, **rewards, **FLAGS)
    after, metrics = agent.update(world, state, transition, jax.random.key(1))
    assert int(after.replay.size) == int(after.steps) == 1
    step, imagined = jax.tree.map(lambda leaf: leaf[0], after.replay.items)
    np.testing.assert_allclose(step.reward_before, -0.3, rtol=1e-6)
    np.testing.assert_allclose(step.reward, 0.5, rtol=1e-6)
    np.testing.assert_array_equal(step.next_observation, slots + 1.0)
    np.testing.assert_allclose(imagined, world.imagine(slots[None], transition.action[None]).slots[0], atol=1e-5)
    assert np.isfinite(metrics["loss"])


def test_it_waits_for_the_first_reward(world):
    """Until then all proposals are alike, afterwards the best is taken."""
    config = dataclasses.replace(COBRA["debug"], wait_for_reward=True, epsilon=0.0, planner=PlannerConfig(32))
    agent, slots = Cobra(config), jax.random.normal(jax.random.key(5), (3, M))
    state = agent.init(jax.random.key(0), world, slots)
    later = eqx.tree_at(lambda s: s.replay.items.step.reward, state, replace_fn=lambda reward: reward.at[0].set(1.0))
    explore = jax.jit(jax.vmap(lambda state, key: agent.explore(world, state, slots, key), in_axes=(None, 0)))
    keys = jax.random.split(jax.random.key(1), 40)
    before, after = np.asarray(explore(state, keys)), np.asarray(explore(later, keys))
    assert (before != after).any(axis=1).sum() > 20  # one in 32 would be the same by chance


def test_a_step_is_remembered_and_an_ended_episode_begins_anew(world):
    agent, env = Cobra(COBRA["debug"]), make("goal_finding_new_shape")
    assert isinstance(agent, Learner)
    state = agent.begin(env, world, [0])
    for t in range(1, env.max_steps + 1):
        before = state
        state, outcome, _ = agent.step(env, world, state)
        steps = agent.agent_of(state, 0).replay.items.step
        np.testing.assert_array_equal(steps.observation[t - 1], before.observation[0])
        np.testing.assert_array_equal(steps.action[t - 1], outcome.action[0, 0])
        if outcome.done:
            break
        np.testing.assert_array_equal(steps.next_observation[t - 1], state.observation[0])
    assert outcome.done
    assert int(state.env.step[0]) == 0
    assert float(state.reward[0]) == 0.0
    assert not np.array_equal(steps.next_observation[t - 1], state.observation[0])  # another scene is seen


def test_seeds_side_by_side_learn_what_each_learns_alone(world):
    agent, env = Cobra(COBRA["debug"]), make("goal_finding_new_shape")
    seeds = [3, 0, 8]
    together = agent.begin(env, world, seeds)
    alone = [agent.begin(env, world, [seed]) for seed in seeds]
    ended = np.zeros(3, int)
    for _ in range(2 * env.max_steps + 2):
        together, outcome, metrics = agent.step(env, world, together)
        for index in range(3):
            alone[index], expected, metrics_alone = agent.step(env, world, alone[index])
            np.testing.assert_allclose(outcome.action[index], expected.action[0], atol=1e-5)
            np.testing.assert_allclose(outcome.reward[index], expected.reward[0], atol=1e-3)
            np.testing.assert_array_equal(outcome.done[index], expected.done[0])
            np.testing.assert_allclose(metrics["loss"][index], metrics_alone["loss"][0], rtol=1e-3)
        ended += np.asarray(outcome.done[:, 0])
    assert (ended >= 2).all()
    for index in range(3):
        first, second = agent.agent_of(together, index).predictor, agent.agent_of(alone[index], 0).predictor
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4), first, second)


def copied(state):
    """A state that may be used again."""
    return jax.tree.map(lambda leaf: jnp.copy(leaf) if eqx.is_array(leaf) else leaf, state)


@pytest.mark.parametrize("seeds", [[3], [3, 0, 8]])
def test_steps_in_one_call_are_those_taken_one_by_one(world, seeds):
    """Each from the same state, so that a rounding that decides between two actions decides no later step."""
    agent, env = Cobra(COBRA["debug"]), make("goal_finding_new_shape")
    state = agent.begin(env, world, seeds)
    never = [10**6] * len(seeds)
    ended = np.zeros(len(seeds), int)
    for _ in range(2 * env.max_steps + 2):
        expected, outcome, metrics = agent.step(env, world, copied(state))
        state, taken = agent.steps(env, world, state, 1, never)
        np.testing.assert_allclose(taken.outcome.action[0], outcome.action, atol=1e-5)
        np.testing.assert_allclose(taken.outcome.reward[0], outcome.reward, atol=1e-4)
        np.testing.assert_array_equal(taken.outcome.done[0], outcome.done)
        np.testing.assert_allclose(taken.metrics["loss"][0], metrics["loss"], rtol=1e-3, atol=1e-6)
        for found, wanted in zip(jax.tree.leaves(state), jax.tree.leaves(expected), strict=True):
            if eqx.is_inexact_array(found):
                np.testing.assert_allclose(found, wanted, atol=1e-4)
            else:
                assert bool(jnp.all(found == wanted))
        ended += np.asarray(outcome.done[:, 0])
    assert (ended >= 2).all()


@pytest.mark.parametrize("seeds", [[3], [3, 0]])
def test_however_steps_are_divided_into_calls_they_give_the_same_bits(world, seeds):
    agent, env = Cobra(COBRA["debug"]), make("goal_finding_new_shape")
    never = [10**6] * len(seeds)
    once, whole = agent.steps(env, world, agent.begin(env, world, seeds), 45, never)
    state, parts = agent.begin(env, world, seeds), []
    for most in (1, 19, 7, 18):
        state, taken = agent.steps(env, world, state, most, never)
        parts.append(taken)
        assert len(taken.outcome.done) == most
    together = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
    assert eqx.tree_equal(jax.tree.map(np.asarray, whole), together)
    assert eqx.tree_equal(once, state)


def test_a_call_ends_with_the_episodes_that_were_waited_for(world):
    agent, env = Cobra(COBRA["debug"]), make("goal_finding_new_shape")
    _, taken = agent.steps(env, world, agent.begin(env, world, [3, 0]), 60, [5, 1])
    done = taken.outcome.done[:, :, 0]
    assert len(done) < 60
    assert done[-1, 1]
    assert not done[:-1, 1].any()
    most = contract.MOST_STEPS
    _, taken = agent.steps(env, world, agent.begin(env, world, [3]), most + 9, [10**6])
    assert len(taken.outcome.done) == most
