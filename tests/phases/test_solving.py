"""When a seed has learnt its task: 27 of 30 episodes, and greedy ones that confirm it."""

import json
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cobra_rl.agents.base import Policy
from cobra_rl.agents.mpo import Mpo
from cobra_rl.config import BASELINE
from cobra_rl.models.transition import Sizes
from cobra_rl.phases.baseline import BaselinePhase
from cobra_rl.phases.solving import SeedPhase
from cobra_rl.phases.task import TaskPhase
from cobra_rl.runtime.run import Diverged, Weights
from cobra_rl.spriteworld import make
from cobra_rl.spriteworld.base import TimeStep


def seed_of(kind=SeedPhase, verdicts=(), **options):
    """A phase whose greedy agent scores as given, one number for each time that it is asked; and who was asked when."""
    phase = kind(Mpo(BASELINE["debug"], Sizes(0, 0, 4, 64)), make("goal_finding_new_shape"), None, 7, 1, "", **options)
    verdicts, asked = list(verdicts), []

    def greedy(learnt, seed):
        asked.append((len(phase.notes["success"]), learnt, seed))
        return verdicts.pop(0)

    phase._greedy_success = greedy
    return phase, asked


def play(phase, outcomes, age=3):
    """Episodes one after the other, each so many steps long; what is learnt is the number of steps."""
    for success in outcomes:
        start = phase.notes["ends"][-1] if phase.notes["ends"] else 0
        for step in range(start + 1, start + age + 1):
            ends = step == start + age
            metrics = phase.count(np.float32(0.5), np.bool_(success and ends), np.bool_(ends), step, step)
    return metrics


WON, NOT_WON = [False] * 3 + [True] * 27, [False] * 4 + [True] * 26


def test_27_of_30_count_when_the_greedy_agent_confirms_them():
    phase, asked = seed_of(verdicts=[0.9])
    assert phase.summary()["episodes_to_90"] is None
    assert play(phase, NOT_WON) == {"success": pytest.approx(26 / 30), "episodes": 30}
    assert asked == []
    assert play(phase, [True]) == {"success": 0.9, "episodes": 31}
    assert [now[:2] for now in asked] == [(31, 93)]  # the agent of that step
    row = phase.summary()
    assert (row["seed"], row["episodes"], row["episodes_to_90"], row["steps_to_90"]) == (7, 31, 31, 93)
    assert row["success"] == [*NOT_WON, True]
    assert row["ends"] == list(range(3, 94, 3))


def test_what_is_confirmed_stays_so_and_is_not_asked_again():
    phase, asked = seed_of(verdicts=[1.0])
    play(phase, WON + [False] * 40 + [True] * 40)
    assert [count for count, *_ in asked] == [30]
    row = phase.summary()
    assert (row["episodes"], row["episodes_to_90"], row["steps_to_90"]) == (110, 30, 90)


def test_a_window_that_is_not_confirmed_does_not_count():
    phase, asked = seed_of(verdicts=[0.89, 0.5, 0.95])
    play(phase, WON + [True] * 15)
    assert phase.summary()["episodes_to_90"] is phase.summary()["steps_to_90"] is None
    play(phase, [True] * 14)
    assert len(asked) == 1  # 29 later
    play(phase, [True])
    assert [count for count, *_ in asked] == [30, 60]
    play(phase, [False] * 30 + [True] * 40)  # the wait was over long before the next window was won
    assert [count for count, *_ in asked] == [30, 60, 117]
    assert len({seed for *_, seed in asked}) == 3  # in other scenes each time
    assert (phase.summary()["episodes_to_90"], phase.summary()["steps_to_90"]) == (117, 351)


@pytest.mark.parametrize(
    ("kind", "tries"),
    [(TaskPhase, [30, 1030, 1060, 1090]), (BaselinePhase, [30, 1030, 1081, 1135])],
    ids=["task", "baseline"],
)
def test_baselines_wait_for_5_percent_more_episodes(kind, tries):
    phase, asked = seed_of(kind, [0.0] * 4)
    play(phase, WON + [False] * 973 + [True] * (tries[-1] - 1003), age=1)
    assert [count for count, *_ in asked] == tries


def test_several_episodes_may_end_in_one_step():
    phase, asked = seed_of(BaselinePhase, [0.95])
    still = np.zeros(4, bool)
    assert phase.count(np.zeros(4), still, still, 4, None) == {"success": 0.0, "episodes": 0}
    assert phase.summary()["curve"] == {"steps": [], "success": []}
    phase.count(np.zeros(4), np.array([True, False, False, False]), np.array([True, True, False, True]), 8, None)
    assert phase.notes["success"] == [True, False, False]
    assert phase.notes["ends"] == [8, 8, 8]
    every = np.ones(4, bool)
    for step in range(12, 44, 4):
        phase.count(np.zeros(4), every, every, step, None)
    assert [count for count, *_ in asked] == [31]  # not at 30, in the middle of the seventh
    row = phase.summary()
    assert (row["episodes"], row["episodes_to_90"], row["steps_to_90"]) == (35, 31, 36)


def test_notes_are_all_that_a_resumed_run_needs():
    whole, asked = seed_of(BaselinePhase, [0.4, 0.95], reward_cap=0.2)
    play(whole, WON + [True] * 20)
    resumed, asked_later = seed_of(BaselinePhase, [0.95], reward_cap=0.2)
    resumed.notes = json.loads(json.dumps(whole.notes))
    for phase in (whole, resumed):
        play(phase, [True] * 20)
    assert resumed.summary() == whole.summary()
    assert resumed.summary()["episodes_to_90"] == 60
    assert asked[1:] == asked_later


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_reward_that_is_no_number_stops_the_run(wrong):
    phase, _ = seed_of(BaselinePhase)
    no = np.zeros(3, bool)
    with pytest.raises(Diverged, match=f"gave a reward of {wrong} at step 12; rewards must be finite"):
        phase.count(np.array([1.0, wrong, 2.0]), no, no, 12, None)


@pytest.mark.parametrize(("cap", "capped"), [(5.0, 3), (None, 0)])
def test_rewards_above_the_cap_are_counted_unless_they_are_of_success(cap, capped):
    phase, _ = seed_of(BaselinePhase, reward_cap=cap)
    none, third = np.zeros(4, bool), np.arange(4) == 2
    phase.count(np.array([5.1, 5.0, 50.0, -9.0]), third, third, 4, None)
    phase.count(np.array([7.0, 0.0, 0.0, 6.0]), none, none, 8, None)
    assert phase.notes["capped"] == capped


@dataclass(frozen=True)
class Gate:
    """Each step is an episode, won if the action is above a number that nobody sees."""

    action_size: int = 1
    image_size: int = 1
    max_steps: int = 1

    def initial(self, key):
        return jax.random.uniform(key)

    def draw(self, state):
        return jnp.zeros((1, 1, 3), jnp.uint8)

    def advance(self, key, state, action):
        won = action[0] > state
        return TimeStep(state, None, jnp.float32(won), won, ~won, {})


class Chance:
    """An agent that has learnt how likely it is to win."""

    policy = Policy(lambda share, images, keys: jnp.full((len(images), 1), share))

    def params(self, frozen: Any, state: Any) -> Any:
        return jnp.float32(state)

    def weights(self, frozen: Any, state: Any) -> Weights:
        return Weights(state, {}, "chance")


def test_the_greedy_agent_plays_100_episodes_of_its_own():
    phase = SeedPhase(Chance(), Gate(), None, 0, 1, "")
    sure = [phase._greedy_success(0.95, seed) for seed in range(5)]
    in_hundredths = 100.0 * np.array(sure)
    np.testing.assert_allclose(in_hundredths, in_hundredths.round())
    assert (in_hundredths.round() % 10 != 0.0).any()  # not ten of them
    assert len(set(sure)) > 1  # other seeds are other episodes
    assert abs(np.mean(sure) - 0.95) < 0.05  # 5 spreads of 500 episodes
    assert phase._greedy_success(0.95, 0) == sure[0]
    play(phase, [True] * 29 + [False])
    assert phase.notes["confirmed"] == 30  # what is learnt is the number of steps: it always wins
    phase = SeedPhase(Chance(), Gate(), None, 0, 1, "")
    for step in range(30):
        phase.count(np.float32(1.0), np.True_, np.True_, step + 1, 0.6)
    assert phase.notes["confirmed"] is None
    assert phase.notes["next_try"] == 60
