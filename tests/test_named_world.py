"""A second world known by name is data alone: a folder that is dropped in, used through the command line and Python."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import cobra_rl
from cobra_rl import Agent, cli
from cobra_rl.play.catalogue import AgentCatalogue
from cobra_rl.reporting.figures import FIGURES, tasks
from cobra_rl.reporting.page import page
from cobra_rl.reporting.results import results_of
from cobra_rl.runs.worlds import (
    DEFAULT_WORLD,
    agents_in,
    find_world,
    home_of,
    load_vision,
    load_world,
    named_worlds,
    world_sha256,
)
from cobra_rl.storage.weights import WeightsError

TASK = "goal_finding_new_shape"
IMAGE = np.zeros((64, 64, 3), np.uint8)
CARD = "---\nwhat: three slots: [bold]and a bracket[/]\ntrained: not at all\n---\n\n# A card\n"


@pytest.fixture
def mine(debug_world, tmp_path, monkeypatch):
    """A world of the user's own: the folder `mine` in the folder of worlds. Nothing else is done."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COBRA_WORLDS", str(tmp_path / "worlds"))
    monkeypatch.setattr(tasks, "FILM_FRAMES", 3)
    home = tmp_path / "worlds" / "mine"
    shutil.copytree(debug_world, home / "world")
    return home


def solve(*words: str, steps: int = 6, out: str = "run") -> None:
    cli.main(["solve", TASK, "--preset", "debug", "--final", "1", "--steps", str(steps), "--out", out, *words])


def refused(capsys, *words: str) -> str:
    """Run a command that ends with one sentence, and return that."""
    with pytest.raises(SystemExit) as ended:
        cli.main(list(words))
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def recorded(run: str) -> dict[str, str]:
    return json.loads(Path(run, "run.json").read_text())["settings"]["world"]


def shown_worlds(capsys, monkeypatch) -> str:
    monkeypatch.setenv("COLUMNS", "200")
    cli.main(["worlds"])
    return capsys.readouterr().out


def test_a_world_that_is_dropped_in_is_known_everywhere(mine, tmp_path, capsys, monkeypatch):
    solve("--world", "mine")
    assert recorded("run") == {"sha256": world_sha256(mine), "path": "mine"}
    solve("--world", "mine", steps=8)
    assert "resumes at step 6 of 8" in capsys.readouterr().out
    solve("--world", str(mine / "world"), steps=8)  # the same world by its folder
    assert recorded("run")["path"] == "mine"
    agent = Agent.load("run")
    assert agent.world.sizes.slots == 3
    assert recorded(str(agent.save("saved")))["path"] == "mine"
    assert not Path("saved", "world").exists()

    shutil.copytree("run", mine / "tasks" / TASK)  # from now on the world has an agent
    kept = Agent.pretrained(TASK, world="mine")
    action = kept.act(IMAGE)
    assert np.array_equal(action, agent.act(IMAGE))
    assert np.array_equal(action, Agent.load("saved").act(IMAGE))
    for words in (["watch", TASK, "--world", "mine"], ["watch", "--run", "run", "--world", "mine"]):
        cli.main([*words, "--frames", "2", "--out", "film.gif"])
    cli.main(["evaluate", "run", "--episodes", "1"])
    catalogue = AgentCatalogue(load_world("mine"), "mine", tmp_path / "page")
    assert list(catalogue.agents()) == [f"shipped:{TASK}"]
    assert catalogue.load(f"shipped:{TASK}", "train").world.sizes.slots == 3

    (mine / "README.md").write_text(CARD)
    table = shown_worlds(capsys, monkeypatch)
    assert re.search(r"mine +│three slots: \[bold\]and a bracket\[/\] *│not at all +│not measured", table)
    shutil.rmtree(mine)  # a run has a copy of a world that is not shipped; a saved agent has none
    assert Agent.load("run").world.sizes.slots == 3
    with pytest.raises(FileNotFoundError, match=r"The world that saved learnt in is no longer there \(mine\)"):
        Agent.load("saved")


def test_its_results_are_shown_with_it(mine, tmp_path, capsys, monkeypatch):
    assert results_of("mine") == mine / "results"
    assert "There is no result of `cobra solve` in " in refused(capsys, "figures", "performance", "--world", "mine")
    assert f"There are no results in {mine / 'results'}" in refused(capsys, "report", "--world", "mine")
    (mine / "results" / "solve").mkdir(parents=True)
    for name in ("vision.json", "explore.json", "solve/sorting.json"):
        shutil.copy(results_of("structured") / name, mine / "results" / name)
    monkeypatch.setattr("cobra_rl.cli.report.FIGURES", {"performance": FIGURES["performance"]})
    monkeypatch.setattr(page, "FIGURES", {"performance": FIGURES["performance"]})
    cli.main(["figures", "--world", "mine", "--out", "figures"])
    cli.main(["report", "--world", "mine", "--figures", "figures", "--out", "report.html"])
    assert "results/solve/sorting.json" in Path("report.html").read_text()
    assert "image/gif" not in Path("report.html").read_text()  # films are of the default world
    assert "tasks solved: 1 of 1, in test mode 1 of 1" in shown_worlds(capsys, monkeypatch)


def test_other_commands_take_the_name_too(mine, capsys):
    assert load_vision("mine").config.slots == 3
    train = ["train", "explore", "--preset", "debug", "--steps", "8", "--vision", "mine", "--out", "explored"]
    cli.main(train)
    assert load_world("explored").sizes.slots == 3
    for command in ("evaluate explore", "evaluate vision", "figures", "report", "play", "solve sorting"):
        assert cli.parse([*command.split(), "--world", "mine"]).world == "mine"
    slots = ["--features", "slots", "--world", "mine", "--preset", "debug", "--steps", "24", "--final", "2"]
    cli.main(["baseline", TASK, *slots, "--out", "free"])
    assert recorded("free")["path"] == "mine"
    assert not re.search("warning", capsys.readouterr().err)


@pytest.mark.parametrize(
    "words",
    [
        ["solve", "sorting", "--world", "yours"],
        ["baseline", "sorting", "--features", "slots", "--world", "yours"],
        ["watch", "sorting", "--world", "yours"],
        ["evaluate", "explore", "--world", "yours"],
        ["figures", "clicks", "--world", "yours"],
        ["report", "--world", "yours"],
        ["play", "--world", "yours"],
        ["train", "explore", "--vision", "yours"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_an_unknown_name_is_refused_with_the_names_that_there_are(words, mine, capsys):
    error = refused(capsys, *words)
    assert "yours" in error
    assert "structured, mine" in error


def test_a_name_wins_over_a_folder_of_that_name(mine, debug_world):
    shutil.copytree(debug_world, "structured")
    assert load_world("structured").sizes.slots == 8
    assert load_world("./structured").sizes.slots == load_world(Path("structured")).sizes.slots == 3
    assert cli.parse(["solve", "sorting", "--world", "./structured"]).world == "./structured"
    shutil.copytree(debug_world, mine.parent / "structured")  # nor is a shipped world hidden by one of the user's own
    assert load_world("structured").sizes.slots == 8
    assert list(named_worlds()) == ["structured", "mine"]


def test_one_constant_names_the_default(mine, monkeypatch):
    assert DEFAULT_WORLD == "structured"
    assert find_world(None) == find_world("structured")
    monkeypatch.setattr("cobra_rl.runs.worlds.DEFAULT_WORLD", "mine")
    assert cobra_rl.load_world().sizes.slots == 3
    assert home_of(None) == mine
    assert results_of() == mine / "results"
    solve()
    assert recorded("run")["path"] == "mine"
    assert agents_in(None) == {}
    with pytest.raises(ValueError, match=r"No agent is shipped for .*; there is none for any task in mine"):
        Agent.pretrained("sorting")


def test_worlds_of_ones_own_are_in_the_data_folder(mine, monkeypatch, tmp_path):
    monkeypatch.delenv("COBRA_WORLDS")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert list(named_worlds()) == ["structured"]
    (tmp_path / "data" / "cobra-rl").mkdir(parents=True)
    mine.parent.rename(tmp_path / "data" / "cobra-rl" / "worlds")
    assert load_world("mine").sizes.slots == 3


def test_a_damaged_world_has_its_row_and_harms_no_other(mine, capsys, monkeypatch):
    config = mine / "world" / "transition" / "config.json"
    config.write_text(config.read_text().replace("{", "{ ", 1))
    shown = " ".join(shown_worlds(capsys, monkeypatch).replace("│", "").split())
    assert "is not whole: its transition changed" in shown
    (mine / "world" / "world.json").write_text("[")
    assert "FG-ARI, attention: 0.983" in shown_worlds(capsys, monkeypatch)
    assert Agent.pretrained("sorting").world.sizes.slots == 8
    with pytest.raises(ValueError, match=r"world\.json"):
        load_world("mine")


def test_an_older_run_says_that_its_world_is_shipped(mine, tmp_path):
    """Version 0.2 recorded so; which world that is, the sha256 says."""
    run = shutil.copytree(agents_in("structured")["sorting"], tmp_path / "old")
    assert recorded(str(run)) == {"sha256": world_sha256("structured"), "path": "shipped"}
    loaded = Agent.load(run)
    assert loaded.world.sizes.slots == 8
    assert recorded(str(loaded.save(tmp_path / "new"))) == {"sha256": world_sha256("structured"), "path": "structured"}
    shutil.copytree(run, mine / "tasks" / "sorting")
    with pytest.raises(ValueError, match=r"learnt in another world than .*mine"):
        Agent.pretrained("sorting", world="mine")
    with pytest.raises(WeightsError, match="none of the names structured, mine"):
        Agent.pretrained("sorting", world="yours")
