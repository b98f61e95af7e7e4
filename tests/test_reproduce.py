"""From nothing to the report in one command, on the debug preset; and again, when nothing is left to do."""

import functools
import json
import re
import time

import pytest

from cobra_rl import Agent, cli
from cobra_rl.cli import report, reproduce
from cobra_rl.evaluation import vision
from cobra_rl.reporting import figures
from cobra_rl.reporting.page import page

SOLVED = ("goal_finding_new_shape", "sorting")  # each task compiles anew, and the six go the same way
DRAWN = ("decomposition", "performance")  # the others are drawn in tests/show: here two stand for all
NEVER_DRAWN = "ablation"  # here nothing is learnt without the exploration policy


@pytest.fixture
def less(monkeypatch):
    assert set(SOLVED) < set(reproduce.REWARDED)
    monkeypatch.setattr(reproduce, "REWARDED", SOLVED)
    few = {name: figures.FIGURES[name] for name in (*DRAWN, NEVER_DRAWN)}
    for module in (figures, page, report):
        monkeypatch.setattr(module, "FIGURES", few)
    monkeypatch.setattr(vision, "fit_probes", functools.partial(vision.fit_probes, steps=100))


@pytest.mark.slow
def test_everything_is_made_and_not_made_twice(tmp_path, less, capsys):
    command = ["reproduce", "--preset", "debug", "--seeds", "1", "--steps", "12", "--final", "2", "--out"]
    command += [str(tmp_path)]
    cli.main(command)
    output = capsys.readouterr().out
    assert "100-1000 rewarded environment steps" in output  # the paper's words beside the table
    minutes = json.loads((tmp_path / "reproduce.json").read_text())["minutes"]
    assert list(minutes) == ["vision", "explore", "evaluation", *SOLVED, "figures", "report"]
    assert {path.stem for path in (tmp_path / "results" / "solve").iterdir()} == set(SOLVED)
    world = json.loads((tmp_path / "explore" / "world" / "world.json").read_text())["sha256"]
    for task in SOLVED:
        assert json.loads((tmp_path / "solve" / task / "result.json").read_text())["world"]["sha256"] == world
    assert Agent.load(tmp_path / "solve" / "sorting").world.sizes.slots == 3
    text = (tmp_path / "report.html").read_text()
    assert "cobra reproduce" in text or "python" in text
    assert len(re.findall("data:image/png;base64", text)) == len(DRAWN)

    kept = [*tmp_path.rglob("*.safetensors"), *tmp_path.rglob("*.png"), *(tmp_path / "results").rglob("*.json*")]
    times = {path: path.stat().st_mtime_ns for path in kept}
    record = (tmp_path / "solve" / "sorting" / "result.json").read_text()
    cli.main(command)
    output = capsys.readouterr().out
    assert "finished" in output
    assert [f"{name}: drawing\n" in output for name in (*DRAWN, NEVER_DRAWN)] == [False, False, True]
    assert times == {path: path.stat().st_mtime_ns for path in times}
    assert (tmp_path / "solve" / "sorting" / "result.json").read_text() == record  # its minutes included
    assert "Drawn before" not in (tmp_path / "report.html").read_text()
    later = json.loads((tmp_path / "reproduce.json").read_text())["minutes"]
    assert list(later) == list(minutes)
    assert all(later[part] > minutes[part] for part in minutes)  # of both calls together

    (tmp_path / "results" / "solve" / "sorting.json").touch()  # a figure of what is newer than it is drawn anew
    reproduce.Reproduce(out=tmp_path)._figures()
    output = capsys.readouterr().out
    assert [f"{name}: drawing\n" in output for name in DRAWN] == [False, True]


def test_a_part_that_was_stopped_took_its_time(tmp_path, monkeypatch, capsys):
    class Stopped(Exception):
        pass

    def stopped(self):
        time.sleep(0.06)
        raise Stopped

    monkeypatch.setattr(reproduce.Reproduce, "_vision", stopped)
    for calls in (1, 2):
        with pytest.raises(Stopped):
            reproduce.Reproduce(out=tmp_path).run()
        minutes = json.loads((tmp_path / "reproduce.json").read_text())["minutes"]
        assert list(minutes) == ["vision"]
        assert 0.001 * calls <= minutes["vision"] < 0.1
    (tmp_path / "reproduce.json").write_text("[]")
    with pytest.raises(Stopped):
        reproduce.Reproduce(out=tmp_path).run()
    assert "The wall times of earlier calls are lost." in capsys.readouterr().err
