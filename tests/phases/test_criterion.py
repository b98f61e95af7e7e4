"""When a seed has learnt its task: 27 of 30 episodes, and greedy ones that confirm it."""

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cobra_rl.agents.cobra import Cobra
from cobra_rl.agents.contract import Learner, Policy
from cobra_rl.agents.mpo import Mpo
from cobra_rl.config import COBRA, MPO
from cobra_rl.phases import task as task_phase
from cobra_rl.phases.task import TaskPhase
from cobra_rl.runs.loop import Diverged
from cobra_rl.spriteworld import make
from cobra_rl.spriteworld.base import TimeStep


def phase_of(config=COBRA["debug"], verdicts=(), seeds=(7,), **options):
    """A phase whose greedy agent scores as given, one number for each time that it is asked; and who was asked when."""
    learner = Mpo(config) if config.name.startswith("mpo") else Cobra(config)
    phase = TaskPhase(learner, make("goal_finding_new_shape"), None, seeds, 1, "", **options)
    verdicts, asked = list(verdicts), []

    def greedy(index, state, seed):
        asked.append((len(phase.history["seeds"][index]["success"]), state, seed))
        return verdicts.pop(0)

    phase._greedy_success = greedy
    return phase, asked


def play(phase, outcomes, age=3):
    """Episodes one after the other, each so many steps long; what is learnt is the number of steps."""
    for success in outcomes:
        for step in range(1, age + 1):
            ends = step == age
            state = phase.history["env_steps"] + 1
            phase.count(state, np.full((1, 1), 0.5), np.full((1, 1), success and ends), np.full((1, 1), ends))
    return {name: phase.progress()[name] for name in ("success", "episodes")}


WON, NOT_WON = [False] * 3 + [True] * 27, [False] * 4 + [True] * 26


def test_27_of_30_count_when_the_greedy_agent_confirms_them():
    phase, asked = phase_of(verdicts=[0.9])
    assert phase.summary(0)["episodes_to_90"] is None
    assert play(phase, NOT_WON) == {"success": pytest.approx(26 / 30), "episodes": 30}
    assert asked == []
    assert play(phase, [True]) == {"success": 0.9, "episodes": 31}
    assert [now[:2] for now in asked] == [(31, 93)]  # the agent of that step
    row = phase.summary(0)
    assert (row["seed"], row["episodes"], row["episodes_to_90"], row["steps_to_90"]) == (7, 31, 31, 93)
    assert row["success"] == [*NOT_WON, True]
    assert row["ends"] == list(range(3, 94, 3))


def test_what_is_confirmed_stays_so_and_is_not_asked_again():
    phase, asked = phase_of(verdicts=[1.0])
    play(phase, WON + [False] * 40 + [True] * 40)
    assert [count for count, *_ in asked] == [30]
    row = phase.summary(0)
    assert (row["episodes"], row["episodes_to_90"], row["steps_to_90"]) == (110, 30, 90)


def test_a_window_that_is_not_confirmed_does_not_count():
    phase, asked = phase_of(verdicts=[0.89, 0.5, 0.95])
    play(phase, WON + [True] * 15)
    assert phase.summary(0)["episodes_to_90"] is phase.summary(0)["steps_to_90"] is None
    play(phase, [True] * 14)
    assert len(asked) == 1  # 29 later
    play(phase, [True])
    assert [count for count, *_ in asked] == [30, 60]
    play(phase, [False] * 30 + [True] * 40)  # the wait was over long before the next window was won
    assert [count for count, *_ in asked] == [30, 60, 117]
    assert len({seed for *_, seed in asked}) == 3  # in other scenes each time
    assert (phase.summary(0)["episodes_to_90"], phase.summary(0)["steps_to_90"]) == (117, 351)


@pytest.mark.parametrize(
    ("config", "tries"),
    [(COBRA["debug"], [30, 1030, 1060, 1090]), (MPO["debug"], [30, 1030, 1081, 1135])],
    ids=["cobra", "mpo"],
)
def test_baselines_wait_for_5_percent_more_episodes(config, tries):
    phase, asked = phase_of(config, [0.0] * 4)
    play(phase, WON + [False] * 973 + [True] * (tries[-1] - 1003), age=1)
    assert [count for count, *_ in asked] == tries


def test_several_episodes_may_end_in_one_step():
    phase, asked = phase_of(MPO["debug"], [0.95])
    still = np.zeros((1, 4), bool)
    phase.count(None, np.zeros((1, 4)), still, still)
    assert phase.progress() == {"success": 0.0, "episodes": 0, "env_steps": 4}
    assert phase.summary(0)["ends"] == []
    phase.count(None, np.zeros((1, 4)), np.array([[True, False, False, False]]), np.array([[True, True, False, True]]))
    (record,) = phase.history["seeds"]
    assert record["success"] == [True, False, False]
    assert record["ends"] == [8, 8, 8]
    every = np.ones((1, 4), bool)
    for _ in range(8):
        phase.count(None, np.zeros((1, 4)), every, every)
    assert [count for count, *_ in asked] == [31]  # not at 30, in the middle of the seventh
    row = phase.summary(0)
    assert (row["episodes"], row["episodes_to_90"], row["steps_to_90"]) == (35, 31, 36)


def test_notes_are_all_that_a_resumed_run_needs():
    config = dataclasses.replace(COBRA["debug"], reward_cap=0.2)
    whole, asked = phase_of(config, [0.4, 0.95])
    play(whole, WON + [True] * 20)
    resumed, asked_later = phase_of(config, [0.95])
    resumed.history = json.loads(json.dumps(whole.history))
    for phase in (whole, resumed):
        play(phase, [True] * 20)
    assert resumed.summary(0) == whole.summary(0)
    assert resumed.summary(0)["episodes_to_90"] == 60
    assert asked[1:] == asked_later


def test_steps_are_taken_together_only_until_the_greedy_agent_may_be_asked():
    """With the end of how many episodes at most; what is played meanwhile asks nobody."""
    phase, asked = phase_of(verdicts=[0.5, 0.95])
    (record,) = phase.history["seeds"]
    random = np.random.default_rng(0)
    while record["confirmed"] is None:
        until = phase._ends_until_asked(record)
        before = len(asked)
        play(phase, random.random(until - 1) < 0.95)
        assert len(asked) == before
        play(phase, [True])
        assert len(record["success"]) < 500
    assert len(asked) == 2
    assert phase._ends_until_asked(record) > 10**9

    phase, _ = phase_of()
    (record,) = phase.history["seeds"]
    assert phase._ends_until_asked(record) == 30
    play(phase, [True] * 20)
    assert phase._ends_until_asked(record) == 10
    play(phase, [False] * 10)
    assert phase._ends_until_asked(record) == 27
    play(phase, WON[:-1])
    assert phase._ends_until_asked(record) == 1


def test_steps_are_taken_together_only_until_a_check():
    phase, _ = phase_of(verdicts=[0.5] * 9, check_every=7)
    assert phase._steps_until_check() == 7
    play(phase, [False], age=5)
    assert phase._steps_until_check() == 2
    play(phase, [False], age=2)
    assert phase._steps_until_check() == 7
    baseline, _ = phase_of(MPO["debug"], check_every=10)
    assert baseline._steps_until_check() == 3  # of 4 environments


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_reward_that_is_no_number_stops_the_run(wrong):
    phase, _ = phase_of()
    no = np.zeros((1, 3), bool)
    with pytest.raises(Diverged, match=f"gave a reward of {wrong} at step 3; rewards must be finite"):
        phase.count(None, np.array([[1.0, wrong, 2.0]]), no, no)


@pytest.mark.parametrize(("cap", "capped"), [(5.0, 3), (None, 0)])
def test_rewards_above_the_cap_are_counted_unless_they_are_of_success(cap, capped):
    phase, _ = phase_of(dataclasses.replace(COBRA["debug"], reward_cap=cap))
    none = np.zeros((1, 4), bool)
    third = np.arange(4)[None] == 2
    phase.count(None, np.array([[5.1, 5.0, 50.0, -9.0]]), third, third)
    phase.count(None, np.array([[7.0, 0.0, 0.0, 6.0]]), none, none)
    assert phase.history["seeds"][0]["capped"] == capped


def test_seeds_side_by_side_are_counted_each_for_itself():
    phase, asked = phase_of(verdicts=[0.95], seeds=(3, 4))
    for _ in range(30):
        phase.count("both", np.zeros((2, 1)), np.array([[True], [False]]), np.ones((2, 1), bool))
    assert [state for _, state, _ in asked] == ["both"]
    rows = [phase.summary(index) for index in range(2)]
    assert [row["seed"] for row in rows] == [3, 4]
    assert [row["steps_to_90"] for row in rows] == [30, None]
    progress = phase.progress()
    assert (progress["success"], progress["episodes"], progress["env_steps"]) == (0.5, 60, 30)
    assert (progress["success_seed3"], progress["success_seed4"]) == (1.0, 0.0)


def test_a_long_curve_is_thinned(monkeypatch):
    monkeypatch.setattr(task_phase, "MOST_ENTRIES", 4999)
    phase, _ = phase_of()
    random = np.random.default_rng(0)
    solved = (random.random(5000) < np.linspace(0.0, 1.0, 5000)).tolist()
    phase.history["seeds"][0] |= {"ends": np.arange(4, 20_004, 4).tolist(), "success": solved}
    curve = phase.summary(0)["curve"]
    assert len(curve["steps"]) == len(curve["success"]) <= task_phase.POINTS
    assert curve["steps"][:3] == [4, 8, 12]
    assert curve["steps"][-1] == 20_000
    for step, success in zip(curve["steps"], curve["success"], strict=True):
        assert success == pytest.approx(sum(solved[max(0, step // 4 - 30) : step // 4]) / 30, abs=1e-4)


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


@dataclass(frozen=True)
class Chance(Learner):
    """An agent that has learnt how likely it is to win."""

    policy = Policy(lambda share, images, keys: jnp.full((len(images), 1), share))
    begin = step = weights = restore = saved_like = None

    def agent_of(self, state: Any, index: int) -> Any:
        return state

    def params(self, world: Any, agent: Any) -> Any:
        return jnp.float32(agent)


def test_the_greedy_agent_plays_100_episodes_of_its_own():
    phase = TaskPhase(Chance(COBRA["debug"]), Gate(), None, [0], 1, "")
    sure = [phase._greedy_success(0, 0.95, seed) for seed in range(5)]
    in_hundredths = 100.0 * np.array(sure)
    np.testing.assert_allclose(in_hundredths, in_hundredths.round())
    assert (in_hundredths.round() % 10 != 0.0).any()  # not ten of them
    assert len(set(sure)) > 1  # other seeds are other episodes
    assert abs(np.mean(sure) - 0.95) < 0.05  # 5 spreads of 500 episodes
    assert phase._greedy_success(0, 0.95, 0) == sure[0]
    play(phase, [True] * 29 + [False])
    assert phase.history["seeds"][0]["confirmed"] == 30  # what is learnt is the number of steps: it always wins
    phase = TaskPhase(Chance(COBRA["debug"]), Gate(), None, [0], 1, "")
    yes = np.ones((1, 1), bool)
    for _ in range(30):
        phase.count(0.6, np.ones((1, 1)), yes, yes)
    assert phase.history["seeds"][0]["confirmed"] is None
    assert phase.history["seeds"][0]["next_try"] == 60
