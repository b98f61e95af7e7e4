"""The short form of `make chaos`: whatever goes wrong, nothing is lost."""

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

import chaos
import toy
from cobra_rl.runs import loop


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="files are locked by flock")
def test_nothing_is_lost(tmp_path):
    """In a process of its own, on one core: two threads may differ in the last bits."""
    out = tmp_path / "chaos.json"
    command = [sys.executable, str(Path(__file__).with_name("chaos.py")), "--short", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("lost: nothing") == 5
    assert "crash explore" in out.read_text()


def test_a_weight_that_is_no_number_and_is_saved_counts_as_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "_all_finite", lambda state: True)
    lost = chaos.poisons(toy.train, tmp_path).lost
    assert lost
    assert all(row.startswith("weight: ") for row in lost)


class FakeProcess:
    """A process that leaves results, unless it is to try `task`."""

    def __init__(self, words, **_):
        self.returncode = 7 * ("task" in words)
        if not self.returncode:
            Path(words[words.index("--out") + 1]).write_text('{"parts": [{"part": "crash toy", "lost": []}]}')

    def wait(self):
        return self.returncode


def test_a_part_that_fails_and_a_group_that_crashes_are_lost_rows(monkeypatch, capsys):
    """And not the end of the table."""
    monkeypatch.setattr(subprocess, "Popen", FakeProcess)
    monkeypatch.setattr(chaos, "CORES", [0])
    options = argparse.Namespace(kills=1, every=1, seed=0, only=[], short=False)
    good, bad, _ = chaos.try_side_by_side(options)
    assert good == {"part": "crash toy", "lost": []}
    assert (bad["part"], bad["lost"]) == (
        "task, baseline",
        ["all results: the process that tried it ended with exit code 7"],
    )
    monkeypatch.setattr(chaos, "parts", lambda *_: [("part", lambda: 1 / 0)])
    (row,) = chaos.try_parts(options)
    assert row["lost"] == ["ZeroDivisionError: division by zero"]
    chaos.show([bad, row], 0.0)
    assert "task, baseline" in capsys.readouterr().out
