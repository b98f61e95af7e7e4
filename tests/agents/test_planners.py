"""Planners, in a world whose answer is known."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cobra_rl.agents import cobra, planners
from cobra_rl.agents.cobra import CobraParams, choose
from cobra_rl.agents.planners import Choice, make_planner
from cobra_rl.config import EXPLORE, TASK, VISION
from cobra_rl.models.transition import Change, TransitionConfig, TransitionModel
from cobra_rl.models.world import WorldModel, make_exploration, make_vision
from untrained import untrained

SLOTS = jnp.full((3, 12), 0.5)


class TowardsTheClick(TransitionModel):
    """The first slot moves to where the action says, a tenth of the way."""

    config: TransitionConfig = eqx.field(static=True, default_factory=TransitionConfig)

    def change(self, slots, action) -> Change:
        delta = jnp.zeros_like(slots).at[..., 0, :2].set(0.1 * (action[..., :2] - slots[..., 0, :2]))
        return Change(delta, delta, jnp.zeros(slots.shape[:-1]))

    def change_size(self, change: Change):
        return jnp.abs(change.delta).sum((1, 2))


@pytest.fixture(scope="module")
def world():
    """Uniform proposals."""
    vision = untrained(lambda key: make_vision(VISION["debug"].model, key))
    return WorldModel(vision, TowardsTheClick(), None, 4)


def wanted(slots):
    """The first slot wants to be at (1, 0)."""
    return -jnp.sum((slots[..., 0, :2] - jnp.array([1.0, 0.0])) ** 2, axis=-1)


def plan(world, key, **settings) -> Choice:
    config = dataclasses.replace(TASK["paper"], **settings)
    return make_planner(config)(world, wanted, SLOTS, key)


@pytest.mark.parametrize("depth", [1, 3])
def test_it_takes_the_action_that_is_imagined_to_be_best(world, depth):
    choice = plan(world, jax.random.key(0), planner="shooting", proposals=500, depth=depth)
    assert choice.actions.shape == (500, 4)
    best = int(np.argmax(choice.scores))
    np.testing.assert_array_equal(choice.action, choice.actions[best])
    one = plan(world, jax.random.key(0), planner="one_step", proposals=500)
    if depth == 1:
        # Over 50 seeds the best click is 0.030 +- 0.024 from the corner along each axis, at most 0.113: the bar is
        # more than ten spreads away.
        assert choice.action[0] > 0.7
        assert choice.action[1] < 0.3
        np.testing.assert_allclose(choice.scores[best], wanted(world.imagine(SLOTS, choice.action).slots), rtol=1e-5)
        np.testing.assert_array_equal(one.action, choice.action)  # a depth of 1 is the paper's search
    else:  # three steps get further than one
        assert choice.scores.max() > one.scores.max()


def test_epsilon_is_the_share_of_random_choices(world):
    config = dataclasses.replace(TASK["paper"], proposals=64)
    run = jax.jit(jax.vmap(lambda key: choose(config, CobraParams(world, wanted), SLOTS, key, epsilon=0.2)))
    choices = run(jax.random.split(jax.random.key(0), 1000))
    greedy = np.take_along_axis(choices.actions, np.argmax(choices.scores, axis=1)[:, None, None], axis=1)[:, 0]
    others = np.mean(np.any(np.asarray(choices.action) != np.asarray(greedy), axis=1))
    # The standard deviation of a share of 0.2 in 1,000 is 0.0126: the margin is more than three of them.
    assert others == pytest.approx(0.2 * 63 / 64, abs=0.04)


def test_proposals_come_from_the_policy(world):
    policy = make_exploration(EXPLORE["debug"].exploration, world.vision, 4, jax.random.key(0))
    curious = WorldModel(world.vision, world.transition, policy, 4)
    choice = plan(curious, jax.random.key(1), proposals=32)
    assert ((np.asarray(choice.actions) >= 0) & (np.asarray(choice.actions) <= 1)).all()
    other = plan(curious.without_policy(), jax.random.key(1), proposals=32)
    assert not np.allclose(choice.actions, other.actions)


def test_another_planner_is_a_function_and_a_line(world, monkeypatch):
    """A planner of one's own: it goes where the first proposal says, whatever it is worth."""

    def impulsive(config):
        def choose_first(world, score, slots, key):
            actions = world.propose(slots, key, config.proposals)
            return Choice(actions[0], actions, score(world.imagine(jnp.stack([slots] * len(actions)), actions).slots))

        return choose_first

    monkeypatch.setitem(planners.PLANNERS, "impulsive", impulsive)
    config = dataclasses.replace(TASK["debug"], planner="impulsive")
    params = CobraParams(world, wanted)
    choice = choose(config, params, SLOTS, jax.random.key(3))
    np.testing.assert_array_equal(choice.action, choice.actions[0])
    images = jnp.zeros((2, 64, 64, 3), jnp.uint8)
    acted = cobra.cobra_policy(config).act(params, images, jax.random.split(jax.random.key(4), 2))
    assert acted.shape == (2, 4)


def test_an_unknown_planner_is_refused():
    with pytest.raises(ValueError, match="There is no planner 'mcts'; choose one of one_step, shooting"):
        make_planner(dataclasses.replace(TASK["debug"], planner="mcts"))
