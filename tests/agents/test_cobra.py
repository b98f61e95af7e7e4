"""COBRA as a learner: the memory of a task, the weights that act, and rewards beyond success."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cobra_rl.agents import cobra
from cobra_rl.agents.base import Agent, Experience, begin, step
from cobra_rl.agents.cobra import Cobra, CobraState, Memory, _adam, make_reward
from cobra_rl.agents.planners import Choice
from cobra_rl.config import TASK
from cobra_rl.models.reward import Step
from cobra_rl.spriteworld import make
from cobra_rl.worlds import load_world

ROWS, SLOTS, M = 64, 4, 12


def memory(seed: int) -> Memory:
    """Scenes whose reward depends on the things in them; the first slot always holds the largest."""
    slots = jax.random.normal(jax.random.key(seed), (ROWS, SLOTS, M))
    slots = jnp.take_along_axis(slots, jnp.argsort(-slots[..., :1], axis=1), axis=1)
    steps = Step(slots, jnp.zeros(ROWS), jnp.zeros((ROWS, 4)), slots, slots[..., 0].max(1), jnp.zeros(ROWS, bool))
    return Memory(steps, slots, jnp.array(ROWS))


@pytest.fixture(scope="module")
def world(debug_world):
    return load_world(debug_world)


def test_a_share_of_the_remembered_scenes_is_learnt_as_imagined(world):
    """What was seen is worth nothing, and what was imagined instead is worth its reward: only dreams can teach that."""
    errors = {}
    for dreams in (0.0, 1.0):
        learning = {"updates": 300, "batch": 16, "learning_rate": 3e-3, "memory": ROWS}
        config = dataclasses.replace(TASK["debug"], dreams=dreams, **learning)
        kept = memory(1)
        seen = kept.steps._replace(next_slots=jnp.zeros_like(kept.steps.slots))
        predictor = make_reward(config.reward, M, jax.random.key(0))
        state = CobraState(predictor, predictor, predictor, _adam(config).init(predictor), kept._replace(steps=seen))
        model = Cobra(config).learn(world, state, jax.random.key(2))[0].predictor
        errors[dreams] = float(np.mean((model(kept.imagined) - seen.next_reward) ** 2))
    assert errors[1.0] < 0.1 < 0.3 < errors[0.0]


@pytest.mark.parametrize(("average", "share"), [(0.0, 0.0), (0.5, 0.5), (0.99, 63 / 73)])  # the 64th gradient step
def test_an_average_of_the_weights_is_kept_at_first_of_few(world, average, share):
    config = dataclasses.replace(TASK["debug"], average=average, updates=1, memory=ROWS)
    predictor = make_reward(config.reward, M, jax.random.key(0))
    state = CobraState(predictor, predictor, predictor, _adam(config).init(predictor), memory(1))
    after = Cobra(config).learn(world, state, jax.random.key(2))[0]
    assert not eqx.tree_equal(after.latest, predictor)
    expected = jax.tree.map(lambda old, new: share * old + (1.0 - share) * new, predictor, after.latest)
    jax.tree.map(lambda found, wanted: np.testing.assert_allclose(found, wanted, atol=1e-6), after.predictor, expected)
    assert eqx.tree_equal(Cobra(config).params(world, after).predictor, after.predictor)


def test_in_training_the_latest_weights_choose_and_their_average_is_what_is_kept(world, monkeypatch):
    agent, slots = Cobra(TASK["debug"]), jnp.zeros((3, M))
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
    agent = Cobra(dataclasses.replace(TASK["debug"], reward_cap=5.0, reward_unit=10.0))
    slots = jnp.zeros((3, M))
    state = agent.init(jax.random.key(0), world, slots)
    experience = Experience(slots, jnp.float32(-3.0), jnp.full(4, 0.5), slots + 1.0, jnp.float32(9.0), jnp.array(True))
    after, metrics = agent.update(world, state, experience, jax.random.key(1))
    assert int(after.memory.filled) == 1
    np.testing.assert_allclose(after.memory.steps.reward[0], -0.3, rtol=1e-6)
    np.testing.assert_allclose(after.memory.steps.next_reward[0], 0.5, rtol=1e-6)
    np.testing.assert_array_equal(after.memory.steps.next_slots[0], slots + 1.0)
    imagined = world.imagine(slots[None], experience.action[None]).slots[0]
    np.testing.assert_allclose(after.memory.imagined[0], imagined, atol=1e-5)
    assert np.isfinite(metrics["loss"])


def test_it_waits_for_the_first_reward(world):
    """Until then all proposals are alike, afterwards the best is taken."""
    config = dataclasses.replace(TASK["debug"], wait_for_reward=True, epsilon=0.0, proposals=32)
    agent, slots = Cobra(config), jax.random.normal(jax.random.key(5), (3, M))
    state = agent.init(jax.random.key(0), world, slots)
    rewarded = state.memory.steps.next_reward.at[0].set(1.0)
    later = state._replace(memory=state.memory._replace(steps=state.memory.steps._replace(next_reward=rewarded)))
    explore = jax.jit(jax.vmap(lambda state, key: agent.explore(world, state, slots, key), in_axes=(None, 0)))
    keys = jax.random.split(jax.random.key(1), 40)
    before, after = np.asarray(explore(state, keys)), np.asarray(explore(later, keys))
    assert (before != after).any(axis=1).sum() > 20  # one in 32 would be the same by chance


def test_a_step_is_remembered_and_an_ended_episode_begins_anew(world):
    agent, env = Cobra(TASK["debug"]), make("goal_finding_new_shape")
    assert isinstance(agent, Agent)
    state = begin(agent, env, world, jax.random.key(0))
    for t in range(1, env.max_steps + 1):
        before = state
        state, outcome, _ = step(agent, env, world, state)
        steps = state.agent.memory.steps
        np.testing.assert_array_equal(steps.slots[t - 1], before.observation)
        np.testing.assert_array_equal(steps.action[t - 1], outcome.action)
        if outcome.done:
            break
        np.testing.assert_array_equal(steps.next_slots[t - 1], state.observation)
    assert outcome.done
    assert int(state.env.step) == 0
    assert float(state.reward) == 0.0
    assert not np.array_equal(steps.next_slots[t - 1], state.observation)  # another scene is seen
