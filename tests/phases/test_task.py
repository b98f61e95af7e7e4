"""The task phase on the debug preset, with untrained parts: what is left behind, and going on after a crash."""

import json

import jax
import numpy as np
import pytest

from cobra_rl import Agent
from cobra_rl.config import EXPLORE, TASK
from cobra_rl.models.exploration import Exploration
from cobra_rl.models.transition import Transition
from cobra_rl.phases import task
from cobra_rl.phases.task import Problem, solve
from cobra_rl.pretrained import Curious, load_vision

PROBLEM, STEPS = Problem("goal_finding_new_shape"), 44


@pytest.fixture(scope="module")
def parts(debug_vision):
    config = EXPLORE["debug"]
    transition = Transition(config.transition, jax.random.key(0))
    return Curious(load_vision(debug_vision), transition, Exploration(config.exploration, jax.random.key(1)))


def test_a_run_that_crashed_goes_on_as_if_it_had_not(parts, tmp_path, monkeypatch):
    monkeypatch.setattr(task, "SAVE_EVERY", 10)
    # Slow to compile, and not asked about here.
    monkeypatch.setattr(task, "context", lambda *_: {})
    monkeypatch.setattr(task, "greedy_scores", lambda *_: {})
    monkeypatch.setattr(task, "normalised_reward", lambda *_: {})
    run = {"config": TASK["debug"], "agent": parts, "problem": PROBLEM, "seeds": 2, "steps": STEPS, "final": 4}
    whole = solve(folder=tmp_path / "whole", **run)
    real = task.RunLog.progress

    def crash(log, step, scalars):
        if step == 33:
            raise RuntimeError("the power is gone")
        real(log, step, scalars)

    with monkeypatch.context() as power_cut:
        power_cut.setattr(task.RunLog, "progress", crash)
        with pytest.raises(RuntimeError, match="power"):
            solve(folder=tmp_path / "parts", **run)
    parts_of_it = solve(folder=tmp_path / "parts", **run)
    assert whole is not None
    assert parts_of_it is not None
    assert whole["seeds"] == parts_of_it["seeds"]
    assert [len(seed["ends"]) == seed["episodes"] >= 2 for seed in whole["seeds"]] == [True, True]
    assert whole["seeds"][0]["ends"] != whole["seeds"][1]["ends"] or whole["seeds"][0] != whole["seeds"][1]
    assert json.loads((tmp_path / "whole" / "result.json").read_text())["seeds"] == whole["seeds"]
    with monkeypatch.context() as idle:
        idle.setattr(task, "_compiled", None)  # what has come to its end is not done again
        finished = solve(folder=tmp_path / "whole", **run)
    assert finished is not None
    assert finished["seeds"] == whole["seeds"]
    with pytest.raises(ValueError, match=r"other settings \(steps: 44, now 45\); give another folder"):
        solve(folder=tmp_path / "whole", **run | {"steps": STEPS + 1})
    settings = Agent.settings(tmp_path / "whole")
    assert settings["steps"] == STEPS
    assert settings["problem"]["task"] == PROBLEM.task


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="is no run of `cobra solve`"):
        Agent.load(tmp_path)


@pytest.mark.parametrize(
    ("problem", "value", "name"),
    [
        (Problem("sorting"), False, "sorting"),
        (Problem("sorting", "released"), True, "sorting-released-value"),
        (Problem("sorting", sparse=True), True, "sorting-sparse"),
        (Problem("sorting", sparse=True, exploration_policy=False), False, "sorting-sparse-reward-uniform"),
    ],
)
def test_folders_say_what_was_asked_for(problem, value, name):
    assert problem.name(value) == name


def test_an_agent_acts_on_what_it_sees(parts):
    from cobra_rl.models.reward import Reward

    config = TASK["debug"]
    agent = Agent(parts, Reward(config.reward, jax.random.key(2)), config)
    action = agent.act(np.zeros((64, 64, 3), np.uint8))
    assert action.shape == (4,)
    assert ((action >= 0.0) & (action <= 1.0)).all()
    with pytest.raises(ValueError, match="must be uint8"):
        agent.act(np.zeros((64, 64, 3)))
