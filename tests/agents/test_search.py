"""The search, in a world whose answer is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cobra_rl.agents.search import search
from cobra_rl.models.exploration import Exploration, ExplorationConfig
from cobra_rl.models.transition import Imagined


def transition(slots, action) -> Imagined:
    """The first slot moves to where the action says, a tenth of the way."""
    moved = slots.at[..., 0, :2].add(0.1 * (action[..., :2] - slots[..., 0, :2]))
    return Imagined(moved, jnp.zeros(slots.shape[:-2]))


def reward(slots):
    """The first slot wants to be at (1, 0)."""
    return -jnp.sum((slots[..., 0, :2] - jnp.array([1.0, 0.0])) ** 2, axis=-1)


SLOTS = jnp.full((3, 8), 0.5)


@pytest.mark.parametrize("depth", [1, 3])
def test_it_takes_the_action_that_is_imagined_to_be_best(depth):
    choice = search(None, transition, reward, SLOTS, jax.random.key(0), proposals=500, depth=depth)
    assert choice.actions.shape == (500, 4)
    best = int(np.argmax(choice.scores))
    np.testing.assert_array_equal(choice.action, choice.actions[best])
    if depth == 1:
        assert choice.action[0] > 0.9
        assert choice.action[1] < 0.1
        one = reward(transition(SLOTS, choice.action).slots)
        np.testing.assert_allclose(choice.scores[best], one, rtol=1e-5)
    else:  # three steps get further than one
        one = search(None, transition, reward, SLOTS, jax.random.key(0), proposals=500)
        assert choice.scores.max() > one.scores.max()


def test_epsilon_is_the_share_of_random_choices():
    run = jax.jit(jax.vmap(lambda key: search(None, transition, reward, SLOTS, key, 64, epsilon=0.2)))
    choices = run(jax.random.split(jax.random.key(0), 1000))
    greedy = np.take_along_axis(choices.actions, np.argmax(choices.scores, axis=1)[:, None, None], axis=1)[:, 0]
    others = np.mean(np.any(np.asarray(choices.action) != np.asarray(greedy), axis=1))
    assert others == pytest.approx(0.2 * 63 / 64, abs=0.04)


def test_proposals_come_from_the_policy():
    policy = Exploration(ExplorationConfig(slots=3, net="slots"), jax.random.key(0))
    choice = search(policy, transition, reward, SLOTS, jax.random.key(1), proposals=32)
    assert ((np.asarray(choice.actions) >= 0) & (np.asarray(choice.actions) <= 1)).all()
    other = search(None, transition, reward, SLOTS, jax.random.key(1), proposals=32)
    assert not np.allclose(choice.actions, other.actions)
