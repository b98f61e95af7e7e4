"""Learning from the memory of a task: the order of slots, and rewards beyond success."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from cobra_rl.agents import learner
from cobra_rl.config import TASK
from cobra_rl.models.reward import Reward, Step
from cobra_rl.models.transition import Transition, TransitionConfig

ROWS, SLOTS = 64, 4


def memory():
    """Scenes whose reward depends on the things in them; the first slot always holds the largest."""
    slots = jax.random.normal(jax.random.key(1), (ROWS, SLOTS, 8))
    slots = jnp.take_along_axis(slots, jnp.argsort(-slots[..., :1], axis=1), axis=1)
    steps = Step(slots, jnp.zeros(ROWS), jnp.zeros((ROWS, 4)), slots, slots[..., 0].max(1), jnp.zeros(ROWS, bool))
    return learner.Memory(steps, jnp.array(ROWS))


def learnt(shuffle):
    config = dataclasses.replace(TASK["debug"], shuffle=shuffle, updates=400, batch=16, learning_rate=3e-3)
    predictor = Reward(config.reward, jax.random.key(0))
    transition = Transition(TransitionConfig(hidden=(8,)), jax.random.key(2))
    state = learner._adam(config).init(predictor)
    return learner.learn_from(config, transition, predictor, predictor, state, memory(), jax.random.key(3))[0]


def test_with_shuffled_slots_a_scene_is_worth_the_same_in_any_order():
    steps = memory().steps
    turned = steps.slots[:, ::-1]
    errors = {}
    for shuffle in (False, True):
        model = learnt(shuffle)
        errors[shuffle] = [float(np.mean((model(slots) - steps.next_reward) ** 2)) for slots in (steps.slots, turned)]
    assert errors[False][0] < 0.3  # what was seen is learnt either way
    assert errors[True][0] < 0.3
    assert errors[True][1] < 0.5 * errors[False][1]


def test_shuffling_keeps_a_slot_and_what_became_of_it_together():
    slots = jnp.arange(2 * SLOTS * 8.0).reshape(2, SLOTS, 8)
    steps = Step(slots, jnp.zeros(2), jnp.zeros((2, 4)), slots + 1.0, jnp.zeros(2), jnp.zeros(2, bool))
    shuffled = learner._shuffled(steps, jax.random.key(0))
    np.testing.assert_array_equal(shuffled.next_slots, shuffled.slots + 1.0)
    np.testing.assert_array_equal(np.sort(shuffled.slots[..., 0]), np.sort(slots[..., 0]))
    assert not np.array_equal(shuffled.slots, slots)
