"""Measures of the task phase: episodes played, policies to compare with, the window of 90 %."""

import jax
import jax.numpy as jnp
import numpy as np
from corridor import Corridor

from cobra_rl.agents.contract import Policy
from cobra_rl.evaluation.task import (
    greedy_scores,
    normalised_reward,
    play_episodes,
    random_policy,
    reaches_criterion,
    reference_scores,
    true_state_search,
    visited_states,
)
from cobra_rl.spriteworld import make


def test_a_window_is_won_with_27_of_the_last_30():
    assert not reaches_criterion([True] * 29)
    assert reaches_criterion([True] * 30)
    assert reaches_criterion([False] * 50 + [True, True, True, True, True, False, True, True, True, True] * 3)
    assert not reaches_criterion([True] * 50 + [True, True, True, True, False, False, True, True, True, True] * 3)


def compared(seed):
    """What chance and the truth come to in 100 episodes."""
    env = make("goal_finding_new_shape")
    policies = {"chance": random_policy(env.action_size), "truth": true_state_search(env)}
    played = {name: play_episodes(policy, None, env, episodes=100, seed=seed) for name, policy in policies.items()}
    truth = played["truth"]
    assert (truth.steps >= 1).all()
    assert (truth.reward[truth.success] > 0.0).all()
    return {f"{name} {what}": values.mean() for name in played for what, values in played[name]._asdict().items()}


def test_knowing_the_truth_solves_what_chance_does_not():
    # Over ten seeds 0.022 +- 0.009 and 1 +- 0 succeed, after 19.6 +- 0.2 and 3.3 +- 0.1 steps: 25 spreads to the bar.
    means = compared(seed=0)
    assert means["chance success"] < 0.25
    assert means["truth success"] > 0.95
    assert means["truth steps"] < means["chance steps"]


def test_episodes_are_the_same_for_the_same_seed_however_many_are_played():
    env = make("goal_finding_new_shape")
    policy = random_policy(env.action_size)
    few, many, other = (
        play_episodes(policy, None, env, episodes=count, seed=seed) for count, seed in ((20, 0), (40, 0), (20, 1))
    )
    for some, all_of_them in zip(few, many, strict=True):
        np.testing.assert_array_equal(some, all_of_them[:20])
    assert not np.array_equal(few.reward, other.reward)


def walk(goal, images, keys):
    """Goes on as long as the walker is seen to the left of a goal, which is what was learnt."""
    assert images.dtype == jnp.uint8
    place = images[:, 0, :, 0].argmax(axis=1) / images.shape[2]
    go = jnp.where(place < goal, 0.9, 0.1)
    return jnp.stack([go, jax.vmap(jax.random.uniform)(keys)], axis=1)


def test_any_environment_can_be_played_by_what_is_seen():
    env = Corridor()
    policy = Policy(walk)
    played = play_episodes(policy, 2.0, env, episodes=50, seed=0)  # always goes
    assert played.success.all()
    assert ((played.steps == 6) | (played.steps == 7)).all()  # from 0.3 to 0.4, by tenths, to 1
    assert (played.reward >= 1.0).all()
    still = play_episodes(policy, -1.0, env, episodes=50, seed=0)  # never goes
    assert not still.success.any()
    assert (still.steps == env.max_steps).all()
    assert (still.reward <= 0.4).all()
    half_way = play_episodes(policy, 0.6, env, episodes=50, seed=0)
    # It stops at the first place whose column begins right of 0.6, which is 0.05 and at most half a pixel to the left.
    assert ((half_way.reward > 0.64) & (half_way.reward < 0.76)).all()


def test_play_stops_when_too_many_episodes_are_lost():
    env, policy = Corridor(), random_policy(2)
    played = play_episodes(policy, None, env, episodes=200, seed=0)
    lost = int(np.sum(~played.success))
    assert 10 < lost < 190
    cut = play_episodes(policy, None, env, episodes=200, seed=0, most_lost=10)
    assert 10 < np.sum(~cut.success) <= 10 + 16  # those that were under way may be lost in the same turn
    assert cut.success.size < 200
    np.testing.assert_array_equal(cut.steps[:5], played.steps[:5])  # of those that began first
    assert play_episodes(policy, None, env, episodes=200, seed=0, most_lost=lost).success.size == 200
    assert play_episodes(Policy(walk), 2.0, env, episodes=50, seed=0, most_lost=0).success.size == 50


def test_states_that_a_policy_comes_to():
    env = Corridor()
    states = visited_states(random_policy(env.action_size), None, env, scenes=40, seed=0)
    assert states.place.shape == (40,)
    assert (states.left[:16] == env.max_steps).all()
    assert (states.left[16:32] == env.max_steps - 4).all()  # four steps later; none can be over


def test_scores_and_context_of_any_environment():
    envs = {"train": Corridor(), "test": Corridor(max_steps=6)}
    scores = greedy_scores(Policy(walk), 2.0, envs, episodes=30, seed=0)
    assert set(scores) == {f"{name}_{mode}" for name in ("success", "reward", "steps") for mode in envs}
    assert scores["success_train"] == 1.0
    assert scores["steps_test"] <= 6.0
    found = reference_scores(envs, 30, seed=0)
    assert set(found) == {"random"}  # nobody knows all of it
    assert found["random"]["reward_train"] < scores["reward_train"]  # 0.92 +- 0.02, and at least 1: four spreads
    assert normalised_reward(scores, found) == {}


def test_the_bound_is_that_of_spriteworld():
    found = reference_scores({"train": make("goal_finding_new_shape")}, 20, seed=0)
    assert set(found) == {"random", "bound"}
    assert set(found["bound"]) == {"train", "reward_train"}
    assert found["bound"]["train"] > found["random"]["train"] + 0.5  # 1 and 0.02 +- 0.02


def test_normalised_reward_is_0_for_the_random_policy_and_1_for_the_bound():
    compared = {
        "random": {"train": 0.0, "reward_train": -3.0, "reward_test": -4.0, "reward_same": 2.0},
        "bound": {"train": 1.0, "reward_train": 1.0, "reward_test": 0.0, "reward_same": 2.0},
    }
    scores = {"reward_train": 0.0, "reward_test": -4.0, "reward_same": 2.0}
    found = normalised_reward(scores, compared)
    assert found == {"normalised_reward_train": 0.75, "normalised_reward_test": 0.0}  # no scale where both are the same
