"""A world and a task of one's own, through the phases: another set of sprites, and a world without sprites."""

import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from cobra_rl import Agent, cli
from cobra_rl.config import MPO
from cobra_rl.environments import Problem, load_environment
from cobra_rl.parts import absolute_name
from cobra_rl.reporting.figures import tasks
from cobra_rl.runs.load import load_agent
from cobra_rl.runs.task import prepare
from cobra_rl.runs.worlds import load_world

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"


@pytest.mark.parametrize("name", ["stars", pytest.param("lamps", marks=pytest.mark.slow)])
def test_all_phases_run_in_a_world_of_ones_own(name, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(tasks, "FILM_FRAMES", 6)
    env, task = (f"{EXAMPLES / name}.py:{part}" for part in ("exploration", "task"))
    vision, explore, solved = (str(tmp_path / part) for part in ("vision", "explore", "task"))
    cli.main(["train", "vision", "--env", env, "--preset", "debug", "--out", vision])
    more = ["--vision", vision, "--out", explore]
    cli.main(["train", "explore", "--env", env, "--preset", "debug", *more])
    options = ["--preset", "debug", "--steps", "25", "--final", "2", "--world", f"{explore}/world", "--out", solved]
    cli.main(["solve", "--env", task, *options])
    assert "Film: " in capsys.readouterr().out

    world, own = load_world(explore), load_environment(task)
    assert world.sizes.action == own.action_size
    metrics = [json.loads(line) for line in (tmp_path / "explore" / "log.jsonl").read_text().splitlines()]
    assert ("position_error" in metrics[-1]) == (name == "stars")  # sprites have places, lamps have not
    assert "ratio_to_unchanged" in metrics[-1]
    agent = Agent.load(solved, trust=True)
    assert agent.act(np.zeros((64, 64, 3), np.uint8)).shape == (own.action_size,)
    result = json.loads((tmp_path / "task" / "result.json").read_text())
    assert result["world"]["sha256"] == json.loads((tmp_path / "explore/world/world.json").read_text())["sha256"]
    assert ("bound" in result["context"]) == (name == "stars")  # only a Spriteworld's truth is known


@pytest.mark.parametrize(("name", "handheld"), [("stars", True), ("lamps", False)])
def test_a_baseline_learns_a_task_of_ones_own(name, handheld, debug_world, tmp_path, monkeypatch):
    monkeypatch.setattr(tasks, "FILM_FRAMES", 3)
    task, folder = f"{EXAMPLES / name}.py:task", tmp_path / "task"
    options = ["--features", "slots", "--policy", "deformed", "--world", str(debug_world)] if handheld else []
    options += ["--preset", "debug", "--steps", "24", "--final", "2", "--out", str(folder)]
    cli.main(["baseline", "--env", task, *options])
    result = json.loads((folder / "result.json").read_text())
    assert result["problem"]["env"] == task
    assert (result["problem"]["task"], result["steps"]) == ("task", 24)
    player, image = load_agent(folder, trust=True), jnp.zeros((1, 64, 64, 3), jnp.uint8)
    assert player.policy.act(player.params, image, image).shape == (1, load_environment(task).action_size)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("stars", "must be module:name or path/to/file.py:name"),
        ("nowhere.py:task", "nothing is found there"),
        (f"{EXAMPLES / 'stars'}.py:comet", "has no attribute 'comet'"),
        (f"{EXAMPLES / 'stars'}.py:GOAL", "is a tuple; it must be an EnvSpec"),
    ],
)
def test_a_name_that_leads_nowhere_is_refused(name, sentence):
    with pytest.raises(ValueError, match=sentence):
        load_environment(name)


def test_a_file_is_found_again_from_another_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(EXAMPLES)
    name = absolute_name("stars.py:task")
    monkeypatch.chdir(tmp_path)
    assert load_environment(name).spec.name == "stars_task"
    assert absolute_name("my.module:task") == "my.module:task"


def test_a_function_of_the_mode_gives_both_environments():
    train, test = (load_environment(f"{EXAMPLES / 'stars'}.py:task_with_test", mode) for mode in ("train", "test"))
    assert train != test


def test_modes_whose_pictures_differ_in_size_are_refused_before_any_work(tmp_path):
    text = (EXAMPLES / "stars.py").read_text()
    text += "\n\nimport dataclasses\ndef both(mode):\n"
    text += "    return dataclasses.replace(task, image_size={'train': 64, 'test': 32}[mode])\n"
    (tmp_path / "own.py").write_text(text)
    problem = Problem("both", env=f"{tmp_path / 'own.py'}:both")
    with pytest.raises(ValueError, match="they have: train 64 and 4, test 32 and 4"):
        prepare(MPO["debug"], problem, tmp_path / "run")
