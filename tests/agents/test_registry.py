"""Agents by name: MPO, and one of one's own that is one class in a file; all commands know them."""

import json

import jax
import numpy as np
import pytest
from PIL import Image

from cobra_rl import Agent, cli
from cobra_rl.play.catalogue import AgentCatalogue, GivenRun
from cobra_rl.reporting.figures import tasks
from cobra_rl.reporting.results import task_result
from cobra_rl.reporting.runs import read_runs
from cobra_rl.runs import task as task_runs
from cobra_rl.runs.load import learnt_seeds, load_agent
from cobra_rl.runs.worlds import load_world

TASK = "goal_finding_new_shape"
HABIT = '''"""An agent that learns nothing but a habit: a complete example of an agent of one's own."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from cobra_rl.agents.contract import Policy, StepLearner
from cobra_rl.config import AgentConfig
from cobra_rl.storage.weights import Weights

POLICY = Policy(lambda mean, images, _: jnp.broadcast_to(mean, (images.shape[0], 4)))


class HabitState(NamedTuple):
    mean: jax.Array
    count: jax.Array


@dataclass(frozen=True)
class HabitConfig(AgentConfig):
    """The options of the agent."""

    start: float = 0.0  # what it is used to at first


@dataclass(frozen=True)
class habit(StepLearner):
    """Sees nothing, clicks at random, and learns the mean of what it did."""

    config: HabitConfig
    policy = POLICY

    def observe(self, world, image):
        return jnp.zeros(())

    def init(self, key, world, observation):
        return HabitState(jnp.full(4, self.config.start), jnp.zeros(()))

    def weights(self, world, agent):
        return Weights(agent.mean, {"actions": 4}, "habit")

    def restore(self, world, tree):
        return tree

    def explore(self, world, agent, observation, key):
        return jax.random.uniform(key, (4,))

    def update(self, world, agent, transition, key):
        count = agent.count + 1
        return HabitState(agent.mean + (transition.action - agent.mean) / count, count), {"loss": jnp.zeros(())}
'''


@pytest.fixture
def run(debug_world, tmp_path, monkeypatch):
    """A run of that agent."""
    (tmp_path / "habits.py").write_text(HABIT)
    monkeypatch.setattr(task_runs, "reference_scores", lambda *_: {})
    monkeypatch.setattr(tasks, "FILM_FRAMES", 3)
    monkeypatch.chdir(tmp_path)
    options = ["--preset", "debug", "--steps", "6", "--final", "2", "--world", str(debug_world)]
    cli.main(["solve", TASK, "--agent", "habits.py:habit", "--config.start", "0.5", *options])
    return tmp_path / f"runs/solve/{TASK}-habit-debug"


def test_an_agent_of_ones_own_is_trained_shown_measured_and_watched(run, debug_world, tmp_path, monkeypatch):
    assert (run / "film.gif").exists()
    assert (run / "learning_curve.png").exists()
    assert "proposals" not in (run / "learning_curve.txt").read_text()
    assert task_result(json.loads((run / "result.json").read_text())).agent == "habit"
    assert [line.what for line in read_runs(run)] == ["habit, goal finding new shape, 1 seed"]

    player = load_agent(run, trust=True)
    assert (player.world, player.name) == (None, f"{TASK}-habit")
    assert learnt_seeds(run) == [0]
    images, keys = np.zeros((1, 64, 64, 3), np.uint8), jax.random.split(jax.random.key(0), 1)
    action = player.policy.act(player.params, images, keys)
    assert np.all((action > 0) & (action < 1))  # the mean that it learnt, and not the zeros of a fresh one
    with pytest.raises(ValueError, match="was learnt by habit, not by COBRA"):
        Agent.load(run)
    monkeypatch.setattr("cobra_rl.parts._own", {})  # as if in another process
    with pytest.raises(ValueError, match=r"names code, .*habits\.py:habit.*--trust"):
        load_agent(run)

    cli.main(["watch", "--run", str(run), "--frames", "2", "--out", str(tmp_path / "film.gif"), "--trust"])
    with Image.open(tmp_path / "film.gif") as gif:
        assert gif.width == 200  # the scene alone: it has no slots
    cli.main(["evaluate", str(run), "--episodes", "2", "--out", str(tmp_path / "metrics.json"), "--trust"])
    assert task_result(json.loads((tmp_path / "metrics.json").read_text())["figures"]).agent == "habit"
    chosen = AgentCatalogue(load_world(debug_world), debug_world, tmp_path, {"mine": GivenRun(run, trust=True)}).load(
        "run:mine", "test"
    )
    assert chosen.reward_head is None
    np.testing.assert_array_equal(chosen.params, player.params)


def test_weights_of_another_agent_are_refused(run):
    path = run / "seed0" / "habit" / "config.json"
    path.write_text(path.read_text().replace("4", "5"))
    with pytest.raises(ValueError, match="its configuration is another"):
        load_agent(run, trust=True)


def test_an_unknown_agent_is_refused(capsys):
    with pytest.raises(SystemExit):
        cli.main(["solve", TASK, "--agent", "chess"])
    assert (
        "There is no agent 'chess'; choose one of cobra, mpo, or your own as FILE.py:CLASS" in capsys.readouterr().err
    )


def test_mpo_is_an_agent_like_any_other(debug_world, tmp_path, monkeypatch):
    monkeypatch.setattr(task_runs, "reference_scores", lambda *_: {})
    monkeypatch.setattr(tasks, "FILM_FRAMES", 3)
    out = tmp_path / "run"
    budget = ["--preset", "debug", "--steps", "24", "--final", "2"]
    kind = ["--config.features", "slots", "--config.policy", "deformed", "--world", str(debug_world)]
    cli.main(["solve", TASK, "--agent", "mpo", *kind, *budget, "--out", str(out)])
    assert task_result(json.loads((out / "result.json").read_text())).agent == "mpo_handheld"
    assert load_agent(out).name == f"{TASK}-mpo_handheld"
