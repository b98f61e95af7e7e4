"""Planners, in a world whose answer is known."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cobra_rl.agents import cobra
from cobra_rl.agents.cobra import CobraParams, choose
from cobra_rl.bounds import from_json, to_json
from cobra_rl.config import COBRA, EXPLORE, VISION, CobraConfig
from cobra_rl.models.planner import Choice, OneStep, PlannerConfig, Shooting, ShootingConfig
from cobra_rl.models.transition import Change, TransitionConfig, TransitionModel
from cobra_rl.models.world import WorldModel, make_exploration, make_vision
from cobra_rl.parts import make_part
from untrained import untrained


def scene():
    """Return three slots, all alike."""
    return jnp.full((3, 12), 0.5)


class TowardsTheClick(TransitionModel):
    """The first slot moves to where the action says, a tenth of the way."""

    config: TransitionConfig = eqx.field(static=True, default_factory=TransitionConfig)

    def change(self, slots, action) -> Change:
        delta = jnp.zeros_like(slots).at[..., 0, :2].set(0.1 * (action[..., :2] - slots[..., 0, :2]))
        return Change(delta, jnp.abs(delta).sum((-2, -1)), jnp.zeros(slots.shape[:-1]))


@pytest.fixture(scope="module")
def world():
    """Uniform proposals."""
    vision = untrained(lambda key: make_vision(VISION["debug"].model, key))
    return WorldModel(vision, TowardsTheClick(), None, 4)


def wanted(slots):
    """The first slot wants to be at (1, 0)."""
    return -jnp.sum((slots[..., 0, :2] - jnp.array([1.0, 0.0])) ** 2, axis=-1)


def plan(world, key, proposals, depth=None) -> Choice:
    config = PlannerConfig(proposals) if depth is None else ShootingConfig(proposals, depth)
    return make_part(config)(world, wanted, scene(), key)


@pytest.mark.parametrize("depth", [1, 3])
def test_it_takes_the_action_that_is_imagined_to_be_best(world, depth):
    choice = plan(world, jax.random.key(0), proposals=500, depth=depth)
    assert choice.actions.shape == (500, 4)
    best = int(np.argmax(choice.scores))
    np.testing.assert_array_equal(choice.action, choice.actions[best])
    one = plan(world, jax.random.key(0), proposals=500)
    if depth == 1:
        # Over 50 seeds the best click is 0.030 +- 0.024 from the corner along each axis, at most 0.113: the bar is
        # more than ten spreads away.
        assert choice.action[0] > 0.7
        assert choice.action[1] < 0.3
        np.testing.assert_allclose(choice.scores[best], wanted(world.imagine(scene(), choice.action).slots), rtol=1e-5)
        np.testing.assert_array_equal(one.action, choice.action)  # a depth of 1 is the paper's search
    else:  # three steps get further than one
        assert choice.scores.max() > one.scores.max()


def test_epsilon_is_the_share_of_random_choices(world):
    config = dataclasses.replace(COBRA["paper"], planner=PlannerConfig(64))
    run = jax.jit(jax.vmap(lambda key: choose(config, CobraParams(world, wanted), scene(), key, epsilon=0.2)))
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


def test_a_planner_is_chosen_by_its_configuration():
    assert isinstance(make_part(PlannerConfig()), OneStep)
    assert isinstance(make_part(ShootingConfig(depth=3)), Shooting)


def test_the_agent_acts_by_its_planner(world):
    config = dataclasses.replace(COBRA["debug"], planner=ShootingConfig(8, 2))
    params = CobraParams(world, wanted)
    assert choose(config, params, scene(), jax.random.key(3)).actions.shape == (8, 4)
    images = jnp.zeros((2, 64, 64, 3), jnp.uint8)
    acted = cobra.cobra_policy(config).act(params, images, jax.random.split(jax.random.key(4), 2))
    assert acted.shape == (2, 4)


def test_planners_of_version_0_2_are_read():
    """They were a name, with the fields of all planners beside it."""
    data = to_json(COBRA["debug"]) | {"planner": "shooting", "proposals": 8, "depth": 3}
    assert from_json(CobraConfig, data, "it").planner == ShootingConfig(8, 3)
    assert from_json(CobraConfig, data | {"planner": "one_step"}, "it") == COBRA["debug"]


def test_an_unknown_planner_is_refused():
    data = to_json(COBRA["debug"]) | {"planner": {"class": "mcts"}}
    with pytest.raises(ValueError, match="it, planner: there is no planner 'mcts'; choose one of one_step, shooting"):
        from_json(CobraConfig, data, "it")
