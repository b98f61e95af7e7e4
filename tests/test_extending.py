"""docs/extending.md: every example is written to the file that it names, and every command is run, on tiny settings."""

import dataclasses
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from cobra_rl import Agent, cli
from cobra_rl.config import VISION
from cobra_rl.reporting.figures import tasks
from cobra_rl.runs import task as task_runs
from cobra_rl.runs.load import load_agent
from cobra_rl.runs.worlds import load_world

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "extending.md").read_text()
SECTIONS = {title[0]: text for title, text in re.findall(r"^## (\w\. .*?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.M)}
IMAGE = np.zeros((64, 64, 3), np.uint8)
QUICK = {
    "train": ["--preset", "debug", "--steps", "8"],
    "solve": ["--preset", "debug", "--steps", "6", "--final", "1"],
}


def commands(letter: str) -> list[list[str]]:
    """The commands of a section."""
    return [line.split() for line in re.findall(r"^`cobra ([^`]+)`$", SECTIONS[letter], re.MULTILINE)]


@pytest.fixture(autouse=True)
def _files(monkeypatch, tmp_path):
    """The files of the page, in the present folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tasks, "FILM_FRAMES", 3)
    monkeypatch.setattr(task_runs, "reference_scores", lambda *_, **__: {})
    monkeypatch.setattr("cobra_rl.parts._own", {})
    for text in SECTIONS.values():
        for name, code in re.findall(r"```python\n# (\w+\.py)\n(.*?)```", text, re.DOTALL):
            Path(name).write_text(code)
    shutil.copy(DOCS / "examples" / "lamps.py", "lamps.py")


def small_vision() -> list[str]:
    """The tiny model of preset debug as options, for a class of one's own."""
    words = []
    for field in dataclasses.fields(VISION["debug"].model):
        value = getattr(VISION["debug"].model, field.name)
        values = [str(item) for item in value] if isinstance(value, tuple) else [str(value)]
        if values and not isinstance(value, bool):
            words += [f"--config.model.{field.name.replace('_', '-')}", *values]
    return words


def test_the_page_has_a_section_for_each_way_of_extending():
    assert list(SECTIONS) == list("abcdefghi")
    assert all(commands(letter) for letter in SECTIONS)
    for letter in "abcdeghi":
        for words in commands(letter):
            cli.parse([*words, "--world", "structured"] if letter == "i" and words[0] == "solve" else words)
    rows = re.findall(r"^\| (\w) \|", PAGE, re.MULTILINE)
    assert rows == list("abcdefghi")


@pytest.mark.parametrize("letter", ["b", "d", "e", "h"])
def test_a_task_is_learnt_with_what_is_ones_own(letter, debug_world, monkeypatch, capsys):
    (words,) = commands(letter)
    run = [*words, *QUICK["solve"], "--world", str(debug_world), "--out", "run"]
    cli.main(run)
    own = re.search(r"(\w+\.py:\w+)", " ".join(words))
    assert own is not None
    assert own[1] in Path("run", "run.json").read_text()
    if letter in "de":  # tests/test_parts.py resumes a planner and a reward predictor
        cli.main([*run, "--steps", "8"])
        assert "resumes at step 6 of 8" in capsys.readouterr().out
    monkeypatch.setattr("cobra_rl.parts._own", {})  # as if in another process
    with pytest.raises(ValueError, match="trust"):
        load_agent("run")
    agent = load_agent("run", trust=True)
    if letter != "d":
        assert Agent.load("run", trust=True).act(IMAGE).shape == (4,)
    else:
        assert agent.name.endswith("-Habit")


@pytest.mark.slow
def test_vision_curiosity_weights_and_a_name_of_ones_own(capsys, monkeypatch, tmp_path):
    """(a) and (c), of which (f) makes a world, which (i) gives a name."""
    (see,), (be_curious,) = commands("a"), commands("c")
    train_vision, train_explore, solve = commands("f")
    cli.main([*train_vision, *see[2:], *QUICK["train"], *small_vision()])
    explore = [*train_explore, *be_curious[2:4], *QUICK["train"], "--trust"]
    cli.main(explore)
    out = Path(explore[explore.index("--out") + 1])
    assert "my_curiosity.py:Movement" in (out / "run.json").read_text()
    folder = Path(solve[solve.index("--world") + 1])
    world = load_world(folder, trust=True)
    assert type(world.vision).__name__ == "Unhurried"
    monkeypatch.setattr("cobra_rl.parts._own", {})  # as if in another process
    with pytest.raises(ValueError, match="--trust"):
        load_world(folder)
    cli.main([*solve, *QUICK["solve"], "--trust"])
    assert Agent.load("runs/mine/sorting", trust=True).act(IMAGE).shape == (4,)

    monkeypatch.setenv("COBRA_WORLDS", str(tmp_path / "worlds"))
    shutil.copytree(folder, tmp_path / "worlds" / "mine" / "world")
    (by_name,) = commands("i")
    cli.main([*by_name, *QUICK["solve"], "--out", "named", "--trust"])
    assert json.loads(Path("named", "run.json").read_text())["settings"]["world"]["path"] == "mine"


@pytest.mark.slow
def test_an_environment_of_ones_own():
    """Through all phases; tests/test_own_world.py says more."""
    train_vision, train_explore, solve = commands("g")
    cli.main([*train_vision, *QUICK["train"]])
    cli.main([*train_explore, *QUICK["train"]])
    cli.main([*solve, *QUICK["solve"]])
    assert Agent.load("runs/lamps/task", trust=True).act(IMAGE).shape == (3,)
