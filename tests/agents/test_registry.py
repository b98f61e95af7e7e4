"""An agent of one's own is one class and one entry of AGENTS: all commands know it then."""

import json
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from cobra_rl import Agent, cli
from cobra_rl.agents import registry
from cobra_rl.agents.base import Policy
from cobra_rl.config import TaskConfig
from cobra_rl.phases import solving
from cobra_rl.play.house import House
from cobra_rl.players import learnt_seeds, load_player
from cobra_rl.runtime.run import Weights
from cobra_rl.show.figures import tasks
from cobra_rl.show.runs import read_runs
from cobra_rl.show.task_results import task_result
from cobra_rl.worlds import load_world

TASK = "goal_finding_new_shape"
POLICY = Policy(lambda mean, images, _: jnp.broadcast_to(mean, (images.shape[0], 4)))


class HabitState(NamedTuple):
    mean: jax.Array
    count: jax.Array


@dataclass(frozen=True)
class Habit:
    """Sees nothing, clicks at random, and learns the mean of what it did."""

    config: TaskConfig
    policy = POLICY

    def observe(self, frozen, image):
        return jnp.zeros(())

    def init(self, key, frozen, observation):
        return HabitState(jnp.zeros(4), jnp.zeros(()))

    def params(self, frozen, state):
        return state.mean

    def weights(self, frozen, state):
        return Weights(state.mean, {"actions": 4}, "habit")

    def restore(self, frozen, tree):
        return tree

    def explore(self, frozen, state, observation, key):
        return jax.random.uniform(key, (4,))

    def update(self, frozen, state, experience, key):
        count = state.count + 1
        return HabitState(state.mean + (experience.action - state.mean) / count, count), {"loss": jnp.zeros(())}


@pytest.fixture
def run(debug_world, tmp_path, monkeypatch):
    """A run of that agent."""
    monkeypatch.setattr(registry, "AGENTS", {**registry.AGENTS, "habit": Habit})
    monkeypatch.setattr(solving, "context", lambda *_: {})
    monkeypatch.setattr(tasks, "FILM_FRAMES", 3)
    monkeypatch.chdir(tmp_path)
    options = ["--preset", "debug", "--steps", "6", "--final", "2", "--world", str(debug_world)]
    cli.main(["solve", TASK, "--config.agent", "habit", *options])
    return tmp_path / f"runs/solve/{TASK}-habit-debug"


def test_an_agent_of_ones_own_is_trained_shown_measured_and_watched(run, debug_world, tmp_path):
    assert (run / "film.gif").exists()
    assert (run / "learning_curve.png").exists()
    assert "proposals" not in (run / "learning_curve.txt").read_text()
    assert task_result(json.loads((run / "result.json").read_text())).agent == "habit"
    assert [line.what for line in read_runs(run)] == ["habit, goal finding new shape, 1 seed"]

    player = load_player(run)
    assert (player.world, player.name) == (None, f"{TASK}-habit")
    assert learnt_seeds(run) == [0]
    images, keys = np.zeros((1, 64, 64, 3), np.uint8), jax.random.split(jax.random.key(0), 1)
    action = player.policy.act(player.params, images, keys)
    assert np.all((action > 0) & (action < 1))  # the mean that it learnt, and not the zeros of a fresh one
    with pytest.raises(ValueError, match="was learnt by habit, not by COBRA"):
        Agent.load(run)

    cli.main(["watch", "--run", str(run), "--frames", "2", "--out", str(tmp_path / "film.gif")])
    with Image.open(tmp_path / "film.gif") as gif:
        assert gif.width == 200  # the scene alone: it has no slots
    cli.main(["evaluate", str(run), "--episodes", "2", "--out", str(tmp_path / "metrics.json")])
    assert task_result(json.loads((tmp_path / "metrics.json").read_text())["figures"]).agent == "habit"
    chosen = House(load_world(debug_world), debug_world, tmp_path, {"mine": run}).load("run:mine", "test")
    assert chosen.wish is None
    np.testing.assert_array_equal(chosen.params, player.params)


def test_weights_of_another_agent_are_refused(run):
    path = run / "seed0" / "habit" / "config.json"
    path.write_text(path.read_text().replace("4", "5"))
    with pytest.raises(ValueError, match="its configuration is another"):
        load_player(run)


def test_an_unknown_agent_is_refused():
    with pytest.raises(ValueError, match="There is no agent 'chess'; choose one of cobra"):
        registry.make_agent(TaskConfig(agent="chess"))
