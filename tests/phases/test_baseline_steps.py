"""The first two steps of each of the four baselines, with an untrained world: what is done, kept and learnt."""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cobra_rl.agents.model_free import render
from cobra_rl.agents.mpo import Mpo
from cobra_rl.config import BASELINES, MPO
from cobra_rl.runs.worlds import load_world
from cobra_rl.spriteworld import Spriteworld, make

QUADRANT = [dataclasses.replace(MPO["debug"], features=seen, policy=done) for seen, done in BASELINES]


class Recorded(NamedTuple):
    scene: Any
    action: Any  # the one that led here


@dataclasses.dataclass(frozen=True)
class Recorder:
    """An environment whose states say which action reached it."""

    env: Spriteworld
    action_size, image_size, max_steps = 4, 64, 20

    def initial(self, key):
        return Recorded(self.env.initial(key), jnp.zeros(4))

    def draw(self, state):
        return self.env.draw(state.scene)

    def advance(self, key, state, action):
        step = self.env.advance(key, state.scene, action)
        return step._replace(state=Recorded(step.state, action))


class Steps(NamedTuple):
    learner: Mpo
    env: Recorder
    world: Any
    states: list  # the first, and one after each step; arrays of NumPy, for steps give their state away
    metrics: list


def copied(state):
    agent, replay = jax.tree.map(np.array, eqx.filter((state.agent, state.replay), eqx.is_array))
    return state._replace(agent=agent, replay=replay)


@pytest.fixture(scope="module", params=QUADRANT, ids=lambda config: config.name)
def steps(request, debug_world):
    learner = Mpo(request.param)
    world = load_world(debug_world) if learner.uses_world else None
    env = Recorder(make("goal_finding_new_shape"))
    state, metrics = learner.begin(env, world, [0]), []
    states = [copied(state)]
    for _ in range(2):  # of four environments: learning begins with the second
        state, _, found = learner.step(env, world, state)
        states.append(copied(state))
        metrics.append(found)
    return Steps(learner, env, world, states, metrics)


def test_steps_fill_the_replay_and_then_teach(steps):
    fresh, first, second = steps.states
    assert [int(state.replay.size) for state in steps.states] == [0, 4, 8]
    assert [int(state.env_steps) for state in steps.states] == [0, 4, 8]
    assert all(np.isfinite(value).all() for metrics in steps.metrics for value in metrics.values())
    assert "td" not in steps.metrics[0]
    assert {"td", "value", "temperature", "kl_mean", "kl_scale", "scale"} <= steps.metrics[1].keys()
    assert [int(state.agent.updates) for state in steps.states] == [0, 0, 2]
    assert eqx.tree_equal(fresh.agent, first.agent)
    pairs = zip(*(jax.tree.leaves(state.agent.networks) for state in (first, second)), strict=True)
    assert all(np.any(old != new) for old, new in pairs if old.ndim > 1)  # each of the weights has learnt
    assert eqx.tree_equal(second.agent.target, second.agent.networks)  # target_every is 2
    assert not eqx.tree_equal(first.agent.target, second.agent.target)


def test_the_replay_holds_what_was_seen_before_and_after_each_step(steps):
    kept = steps.states[-1].replay.items
    for number in range(2):
        before, after = (
            state.acting.slots if steps.learner.config.features == "slots" else state.acting.envs
            for state in steps.states[number : number + 2]
        )
        rows = jax.tree.map(lambda leaf, start=4 * number: leaf[start : start + 4], kept)
        assert not (rows.terminated | rows.truncated).any()  # too early
        jax.tree.map(np.testing.assert_array_equal, rows.observation, jax.tree.map(np.asarray, before))
        jax.tree.map(np.testing.assert_array_equal, rows.next_observation, jax.tree.map(np.asarray, after))
    assert (kept.reward[:8] != 0.0).all()


def test_slots_are_those_of_the_present_scenes(steps):
    world = steps.world
    for state in steps.states:
        if world is None:
            assert state.acting.slots is None
            continue
        seen = world.encode(render(steps.env, state.acting.envs))
        np.testing.assert_allclose(state.acting.slots, seen, rtol=1e-4, atol=1e-5)


def test_the_replay_holds_the_policys_action_and_the_environment_gets_the_deformed_one(steps):
    before, after, _ = steps.states
    chosen, done = after.replay.items.action[:4], np.asarray(after.acting.envs.action)
    assert chosen.std() > 0.1  # sampled with a scale of 0.3
    if steps.learner.config.policy == "raw":
        np.testing.assert_array_equal(done, chosen)
    else:
        np.testing.assert_allclose(done, steps.world.deform(before.acting.slots, chosen), atol=1e-5)
        assert np.abs(done - chosen).max() > 0.01


def test_the_greedy_policy_does_the_same_with_its_mean(steps):
    learner, world, acting = steps.learner, steps.world, steps.states[0].acting
    agent = learner.begin(steps.env, world, [0]).agent
    config, slots = learner.config, acting.slots
    far = jnp.zeros(8).at[0].set(3.0)  # the first number of the mean is beyond 1
    agent = eqx.tree_at(lambda agent: agent.networks.actor.global_net.layers[-1].bias, agent, far)
    images = render(steps.env, acting.envs)
    params, keys = learner.params(world, agent), jax.random.split(jax.random.key(0), 4)
    mean = eqx.filter_jit(agent.networks.policy)(slots if config.features == "slots" else images).mean
    assert (mean[:, 0] > 1.0).all()
    within = jnp.clip(mean, 0.0, 1.0)
    wanted = within if config.policy == "raw" else world.deform(slots, within)
    np.testing.assert_allclose(eqx.filter_jit(learner.policy.act)(params, images, keys), wanted, atol=1e-5)
