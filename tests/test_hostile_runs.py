"""Run folders from somebody else: opened by every command and by Python, none runs code or reads what is not its own.

Each hostile folder names code that would write the file PLANTED if it ran, or leads to a SECRET outside of the folder.
"""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import jax
import pytest

from cobra_rl import spriteworld
from cobra_rl.agents.cobra import make_reward
from cobra_rl.cli import main
from cobra_rl.config import COBRA
from cobra_rl.environments import Problem
from cobra_rl.play.catalogue import AgentCatalogue, GivenRun
from cobra_rl.reporting.runs import read_runs
from cobra_rl.runs.agent import Agent
from cobra_rl.runs.load import load_agent
from cobra_rl.runs.worlds import load_world, seal_world

SECRET = "nobody-may-read-this"
SQUARE = spriteworld.SpriteDistribution(shapes=("square",))
SPEC = spriteworld.EnvSpec("mine", ((SQUARE,),), spriteworld.FindGoal(), max_steps=4)


class Place:
    """A folder with a run, the code that would plant a file, and a secret beside them."""

    def __init__(self, folder: Path, run: Path):
        self.run = folder / "run"
        self.planted = folder / "planted"
        self.code = folder / "code.py"
        self.secret = folder / "secret"
        shutil.copytree(run, self.run)
        plant = f"open({str(self.planted)!r}, 'w').close()\n"
        self.code.write_text(f"{plant}\ndef task(mode):\n    {plant}")
        self.secret.write_text(json.dumps({"settings": SECRET, "command": SECRET}))
        (self.run / "task.py").write_text(self.code.read_text())

    def edit(self, name: str, change: Callable[[dict], object]) -> None:
        """Change a JSON file of the run."""
        path = self.run / name
        record = json.loads(path.read_text())
        change(record)
        path.write_text(json.dumps(record))

    def set_env(self, env: str) -> None:
        """Let the run name an environment."""
        self.edit("run.json", lambda record: record["settings"]["problem"].update(env=env, specs=None))

    def link(self, name: str) -> None:
        """Replace a file of the run by a link to the secret."""
        (self.run / name).unlink(missing_ok=True)
        (self.run / name).symlink_to(self.secret)


def name_a_file(place: Place) -> None:
    place.set_env(f"{place.code}:task")


def name_os_system(place: Place) -> None:
    place.set_env("os:system")


def name_a_module(place: Place) -> None:
    place.set_env("code:task")


def name_its_own_task_file(place: Place) -> None:
    place.set_env("task.py:task")


def name_a_file_above(place: Place) -> None:
    place.set_env("../code.py:task")


def name_code_as_data(place: Place) -> None:
    task = {"kind": f"{place.code}:task"}
    place.edit("run.json", lambda record: record["settings"]["problem"]["specs"]["train"].update(task=task))


def name_code_as_model(place: Place) -> None:
    place.edit("seed0/reward/config.json", lambda record: record.update(model=f"{place.code}:task", name="os:system"))


def name_code_as_class(place: Place) -> None:
    place.edit("seed0/reward/config.json", lambda record: record.update({"class": f"{place.code}:task"}))


def name_code_as_part(place: Place) -> None:
    reward = {"class": f"{place.code}:task"}
    place.edit("run.json", lambda record: record["settings"]["config"].update(reward=reward))


def name_code_as_planner(place: Place) -> None:
    place.edit("run.json", lambda record: record["settings"]["config"].update(planner={"class": "os:system"}))


def name_code_as_vision(place: Place) -> None:
    """With a world.json that fits: whoever writes one can write the other."""
    place.edit("world/vision/config.json", lambda record: record.update({"class": f"{place.code}:task"}))
    sha256 = seal_world(place.run / "world")
    place.edit("run.json", lambda record: record["settings"]["world"].update(sha256=sha256))


def name_code_as_agent(place: Place) -> None:
    place.edit("run.json", lambda record: record["settings"]["config"].update(agent=f"{place.code}:task"))


def name_another_world(place: Place) -> None:
    shutil.rmtree(place.run / "world")
    (place.run.parent / "world.json").symlink_to(place.secret)
    place.edit("run.json", lambda record: record["settings"]["world"].update(path=str(place.run.parent)))


def name_a_shipped_world(place: Place) -> None:
    """Which is none with the recorded sha256."""
    shutil.rmtree(place.run / "world")
    place.edit("run.json", lambda record: record["settings"]["world"].update(path="structured"))


def name_this_folder(place: Place) -> None:
    """A name is looked up among the worlds, and is no path."""
    shutil.rmtree(place.run / "world")
    (place.run.parent / "world.json").symlink_to(place.secret)
    place.edit("run.json", lambda record: record["settings"]["world"].update(path="."))


def link_run_json(place: Place) -> None:
    place.link("run.json")


def link_result_json(place: Place) -> None:
    place.link("result.json")


def link_weights(place: Place) -> None:
    place.link("seed0/reward/weights.safetensors")


def link_the_log(place: Place) -> None:
    place.link("seed0/log.jsonl")


def link_the_lock(place: Place) -> None:
    place.link(".lock")


def link_a_folder(place: Place) -> None:
    shutil.rmtree(place.run / "seed0")
    (place.run / "seed0").symlink_to(place.run.parent)


def change_the_world(place: Place) -> None:
    shutil.copytree(place.run / "world", place.run.parent / "other")
    shutil.rmtree(place.run / "world")
    (place.run.parent / "other" / "world.json").write_text(place.secret.read_text())
    (place.run / "world").symlink_to(place.run.parent / "other")


# `result.json` and a log are not needed to load an agent; with a link among them the run is refused all the same.
HOSTILE = (
    name_a_file, name_os_system, name_a_module, name_its_own_task_file, name_a_file_above, name_code_as_data,
    name_code_as_model, name_code_as_class, name_code_as_part, name_code_as_planner, name_code_as_vision,
    name_code_as_agent, name_another_world, name_a_shipped_world, name_this_folder, link_run_json, link_result_json,
    link_weights, link_the_log, link_the_lock, link_a_folder, change_the_world,
)  # fmt: skip

ELSEWHERE = (name_another_world, name_a_shipped_world, name_this_folder, change_the_world)  # their world is gone

# The page loads an agent when it is chosen, which the test of Python and the page does.
LOADED_LATER = (
    name_code_as_model, name_code_as_class, name_code_as_vision, name_code_as_agent, *ELSEWHERE,
)  # fmt: skip


@pytest.fixture(scope="module")
def run(debug_world, tmp_path_factory):
    """A tiny agent of a task of the user's own, in a folder with its world."""
    world = load_world(debug_world)
    predictor = make_reward(COBRA["debug"].reward, world.sizes.latents, jax.random.key(0))
    env = spriteworld.Spriteworld(SPEC)
    problem = Problem("mine").with_data({"train": env, "test": env})
    folder = Agent(world, predictor, COBRA["debug"], problem, debug_world).save(tmp_path_factory.mktemp("sent") / "run")
    shutil.copytree(debug_world, folder / "world")
    record = json.loads((folder / "run.json").read_text())
    record["settings"]["world"]["path"] = "gone"
    (folder / "run.json").write_text(json.dumps(record))
    return folder


@pytest.fixture
def place(run, tmp_path, monkeypatch):
    place = Place(tmp_path, run)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # so that `code` can be imported as a module
    monkeypatch.setattr(os, "system", lambda *_: place.planted.touch())
    return place


def commands(run: Path) -> dict[str, list[str]]:
    """Every command that opens run folders."""
    results = run.parent / "results"
    (results / "solve").mkdir(parents=True, exist_ok=True)
    if not (results / "solve" / "sorting").exists():
        shutil.copytree(run, results / "solve" / "sorting", symlinks=True)
    return {
        "evaluate": ["evaluate", str(run), "--episodes", "1"],
        "watch": ["watch", "--run", str(run), "--frames", "1", "--out", "film.gif"],
        "play": ["play", "--run", str(run), "--no-browser", "--port", "0"],
        "solve": ["solve", "goal_finding_new_shape", "--preset", "debug", "--steps", "1", "--out", str(run)],
        "baseline": ["baseline", "goal_finding_new_shape", "--preset", "debug", "--steps", "1", "--out", str(run)],
        "train vision": ["train", "vision", "--preset", "debug", "--out", str(run)],
        "train explore": ["train", "explore", "--preset", "debug", "--out", str(run)],
        "figures": ["figures", "solving", "--world", str(run / "world"), "--results", str(results)],
    }


@pytest.mark.parametrize("spoil", HOSTILE, ids=lambda spoil: spoil.__name__)
def test_a_hostile_run_is_refused_with_a_sentence(spoil, place, capsys, monkeypatch):
    """Whatever is opened: nothing runs, the secret is not shown, and the user is told in one sentence."""
    served = []
    monkeypatch.setattr("cobra_rl.play.server.serve", lambda catalogue, *_: served.append(catalogue))
    spoil(place)
    before = place.secret.read_text()
    for name, words in commands(place.run).items():
        if name == "play" and spoil in LOADED_LATER:
            continue
        with pytest.raises(SystemExit) as ended:
            main(words)
        shown = capsys.readouterr()
        assert ended.value.code == 2, name
        assert shown.err.startswith("cobra: "), name
        assert shown.err.count("\n") == 1, shown.err
        assert SECRET not in shown.out + shown.err, name
        assert not place.planted.exists(), name
    assert place.secret.read_text() == before
    assert not served


@pytest.mark.parametrize("spoil", HOSTILE, ids=lambda spoil: spoil.__name__)
def test_python_and_the_page_refuse_it_too(spoil, place, debug_world):
    spoil(place)
    catalogue = AgentCatalogue(load_world(debug_world), debug_world, place.run.parent, {"given": GivenRun(place.run)})
    opened = [lambda: Agent.load(place.run), lambda: load_agent(place.run)]
    if spoil not in ELSEWHERE:  # the page has a world of its own
        opened += [lambda: catalogue.load("run:run", "train"), lambda: catalogue.load("run:given", "train")]
    for open_run in opened:
        with pytest.raises((ValueError, OSError)) as refused:
            open_run()
        assert SECRET not in str(refused.value)
        assert not place.planted.exists()


@pytest.mark.parametrize("spoil", HOSTILE, ids=lambda spoil: spoil.__name__)
def test_it_has_its_line_in_the_list_of_runs(spoil, place):
    spoil(place)
    lines = {line.folder: line for line in read_runs(place.run.parent)}
    assert place.run in lines
    assert SECRET not in str(lines)
    assert not place.planted.exists()


def test_the_same_run_as_it_was_is_opened(place, capsys, debug_world):
    """What is refused above is refused for its hostile part alone."""
    main(commands(place.run)["evaluate"])
    assert "mine" in capsys.readouterr().out
    catalogue = AgentCatalogue(load_world(debug_world), debug_world, place.run.parent)
    assert catalogue.load("run:run", "train").env == spriteworld.Spriteworld(SPEC)
    assert Agent.load(place.run).problem.environments()["test"] == spriteworld.Spriteworld(SPEC)
    assert not place.planted.exists()  # its task.py is there to be read


@pytest.fixture
def own_env(place):
    """The run, with an environment that is a user's file and cannot be written as data."""
    place.code.write_text(
        f"open({str(place.planted)!r}, 'w').close()\n"
        "from cobra_rl.spriteworld import EnvSpec, FindGoal, SpriteDistribution\n"
        "task = EnvSpec('mine', ((SpriteDistribution(shapes=('square',)),),), FindGoal(), max_steps=4)\n"
    )
    place.set_env(f"{place.code}:task")
    return place


@pytest.mark.parametrize("word", [["--trust"], ["--env", "code.py:task"]], ids=["trust", "env"])
def test_with_the_users_word_it_is_run(word, own_env, capsys):
    main([*commands(own_env.run)["evaluate"], *word])
    assert "mine" in capsys.readouterr().out
    assert own_env.planted.exists()
    main([*commands(own_env.run)["watch"], *word])
    with pytest.raises(SystemExit):
        main(commands(own_env.run)["evaluate"])  # each time
    assert "--trust" in capsys.readouterr().err


def test_the_sentence_names_the_file_and_what_to_type(own_env):
    with pytest.raises(ValueError, match="--trust") as refused:
        Agent.load(own_env.run)
    for words in (str(own_env.code), "trust=True", "--env FILE:NAME", "env="):
        assert words in str(refused.value)
    assert Agent.load(own_env.run, env=SPEC).problem.environments()["train"] == spriteworld.Spriteworld(SPEC)
    assert not own_env.planted.exists()
    assert Agent.load(own_env.run, trust=True).problem.env == f"{own_env.code}:task"
    assert not own_env.planted.exists()  # only when the environment is asked for


def test_a_run_of_version_0_2_with_a_task_file(own_env):
    """It recorded `task.py:task`, which was loaded; now only with the user's word."""
    own_env.set_env("task.py:task")
    (own_env.run / "task.py").write_text(own_env.code.read_text())
    with pytest.raises(ValueError, match=r"task\.py:task"):
        Agent.load(own_env.run)
    envs = Agent.load(own_env.run, trust=True).problem.environments()
    assert envs["train"] == spriteworld.Spriteworld(SPEC)


def test_a_name_is_no_path(own_env):
    own_env.edit("run.json", lambda record: record["settings"]["problem"].update(task="../../up/.name"))
    assert Agent.load(own_env.run, env=SPEC).name == "--..-up-.name"
