"""Measures of the task phase."""

import numpy as np
import pytest
import scipy.stats

from cobra_rl.evaluation.task import (
    bootstrap_interval,
    interquartile_mean,
    knowing,
    normalised_reward,
    or_never,
    play_episodes,
    random_policy,
    window_won,
)
from cobra_rl.spriteworld import make


def test_a_window_is_won_with_27_of_the_last_30():
    assert not window_won([True] * 29)
    assert window_won([True] * 30)
    assert window_won([False] * 50 + [True, True, True, True, True, False, True, True, True, True] * 3)
    assert not window_won([True] * 50 + [True, True, True, True, False, False, True, True, True, True] * 3)


@pytest.mark.parametrize("count", [3, 4, 5, 8, 11])
def test_the_interquartile_mean_is_scipys(count):
    values = np.random.default_rng(count).normal(size=count)
    if count % 4 == 0:
        assert interquartile_mean(values) == pytest.approx(scipy.stats.trim_mean(values, 0.25))
    fine = np.repeat(np.sort(values), 4)  # in quarters: then trimming a quarter cuts between values
    assert interquartile_mean(values) == pytest.approx(scipy.stats.trim_mean(fine, 0.25))


def test_a_seed_that_never_got_there_counts_as_infinite():
    counts = or_never([400, None, 700, 800, 900])
    assert interquartile_mean(counts) == pytest.approx((0.15 * 700 + 0.2 * 800 + 0.15 * 900) / 0.5)
    assert bootstrap_interval(counts, draws=200)[1] == np.inf
    assert interquartile_mean(or_never([400, None, 700, None, 900])) == np.inf


def test_the_interval_holds_the_mean():
    values = np.random.default_rng(0).normal(10.0, 1.0, size=12)
    low, high = bootstrap_interval(values, draws=1000)
    assert low < interquartile_mean(values) < high
    assert high - low < 2.5


def test_knowing_the_truth_solves_what_chance_does_not():
    env = make("goal_finding_new_shape")
    chance = play_episodes(random_policy, None, env, 100, seed=0)
    truth = play_episodes(knowing(env), None, env, 100, seed=0)
    assert chance.success.mean() < 0.25
    assert truth.success.mean() > 0.95
    assert truth.steps.mean() < chance.steps.mean()
    assert (truth.steps >= 1).all()
    assert (truth.reward[truth.success] > 0.0).all()
    again = play_episodes(random_policy, None, env, 100, seed=0)
    np.testing.assert_array_equal(chance.reward, again.reward)


def test_normalised_reward_is_0_for_the_random_policy_and_1_for_the_bound():
    compared = {
        "random": {"reward_train": -3.0, "reward_test": -4.0},
        "bound": {"reward_train": 1.0, "reward_test": 0.0},
    }
    found = normalised_reward({"reward_train": 0.0, "reward_test": -4.0}, compared)
    assert found == {"normalised_reward_train": 0.75, "normalised_reward_test": 0.0}
