"""A toy run that dies at any rename or fsync, loses any file or finds the disk full ends as if nothing had happened."""

import errno
import json
import os
import shutil
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from cobra_rl.runs.folder import OtherRun, holder, locked
from cobra_rl.runs.loop import Diverged
from cobra_rl.runs.signals import Stopped
from cobra_rl.storage import checkpoint
from cobra_rl.storage.weights import load_weights
from faults import crash_everywhere, differences, outcome, quiet
from toy import Toy, train


def test_a_crash_at_any_rename_or_fsync_is_as_if_it_had_not_been(tmp_path):
    tried = crash_everywhere(train, tmp_path)
    assert tried["lost"] == []
    assert tried["states"] == tried["tried"] > 20


class Killed(BaseException):
    """Nothing catches it."""


@pytest.fixture
def half(tmp_path, monkeypatch) -> Path:
    """A run that died after its checkpoint of step 6; the best report was that of step 4."""

    class Dies(Toy):
        def step(self, state, step):
            if step == 7:
                raise Killed
            return super().step(state, step)

    with quiet(), pytest.raises(Killed):
        train(tmp_path / "run", Dies)
    return tmp_path / "run"


@pytest.fixture
def expected(tmp_path) -> dict[str, str]:
    with quiet():
        train(tmp_path / "whole")
    return outcome(tmp_path / "whole")


SIDE_FILES = [
    ("log.jsonl", lambda data: data + b"{}\nnull\n12\n\xff\n[\n"),
    ("log.jsonl", lambda data: data + b'{"step": 7, "sco'),
    ("run.json", lambda data: b""),
    ("run.json", lambda data: b"[]"),
    ("run.json", lambda data: b'{"settings": 3}'),
    (".lock", lambda data: b"\xff\xfe"),
    ("checkpoints/step_00000006.safetensors", lambda data: data[:-5]),
    ("checkpoints/step_00000006.safetensors", lambda data: b""),
    ("tensorboard", None),
]


@pytest.mark.parametrize(("name", "damage"), SIDE_FILES)
def test_a_damaged_side_file_never_stops_a_resume(half, expected, name, damage, capsys):
    if damage is None:
        shutil.rmtree(half / name)
        (half / name).write_bytes(b"")
    else:
        (half / name).write_bytes(damage((half / name).read_bytes()))
    train(half)
    found = outcome(half)
    found.pop("tensorboard", None)
    assert differences(expected, found) == []
    said = "".join(capsys.readouterr()).replace("\n", "")
    assert name == ".lock" or str(half / name) in said


@pytest.mark.parametrize("name", ["weights/weights.safetensors", "weights/config.json"])
def test_weights_that_are_gone_are_made_again(tmp_path, expected, name, capsys):
    whole = tmp_path / "whole"
    (whole / name).unlink()
    train(whole)
    assert f"{whole / 'weights'} is not what it was at step 8" in capsys.readouterr().err
    assert load_weights(whole / "weights", jnp.zeros(3), "toy").shape == (3,)
    train(whole)
    assert capsys.readouterr().err == ""


def test_the_best_weights_survive_stops_before_the_next_report(half, expected):
    """A stop between two reports does not put the weights of that moment in the place of better ones."""

    class Stops(Toy):
        def step(self, state, step):
            os.kill(os.getpid(), 15)
            return super().step(state, step)

    with quiet(), pytest.raises(Stopped, match="Stopped at step 7 of 8"):
        train(half, Stops)
    with quiet():
        train(half)
    assert differences(expected, outcome(half)) == []


def test_a_stop_in_the_last_step_is_honoured(half, expected):
    class Stops(Toy):
        def step(self, state, step):
            if step == 7:
                os.kill(os.getpid(), 2)
            return super().step(state, step)

    with quiet(), pytest.raises(Stopped, match="Stopped at step 8 of 8") as stop:
        train(half, Stops)
    assert stop.value.signal == 2
    with quiet():
        train(half)
    assert differences(expected, outcome(half)) == []


def test_if_all_checkpoints_are_damaged_it_is_said_and_the_log_is_kept(half, expected, capsys):
    log = (half / "log.jsonl").read_text()
    for _, path in checkpoint.checkpoints(half / "checkpoints"):
        path.write_bytes(b"damaged")
    train(half)
    said = capsys.readouterr().err.replace("\n", "")
    assert f"All checkpoints in {half / 'checkpoints'} are damaged: the run begins again at step 0" in said
    (aside,) = half.glob("log-before-*.jsonl")
    assert str(aside) in said
    assert aside.read_text() == log
    aside.unlink()
    assert differences(expected, outcome(half)) == []


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_names_the_file_what_is_kept_and_what_to_do(tmp_path, expected, monkeypatch, call):
    """The disk is full from the n-th write on, for each n; once there is room, the same call ends as it should."""
    real, tried = getattr(os, call), 0
    while tried < 60:
        left, folder = tried, tmp_path / f"full{tried}"

        def full(*arguments):
            nonlocal left
            left -= 1
            if left < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(*arguments)

        monkeypatch.setattr(os, call, full)
        try:
            with quiet():
                train(folder)
            break
        except OSError as error:
            text = str(error)
        finally:
            monkeypatch.setattr(os, call, real)
        assert str(folder) in text
        assert "No space left on device" in text
        if checkpoint.checkpoints(folder / "checkpoints") and "result.json" not in text:
            assert "free some space and give the same command again; the checkpoint of step" in text
        with quiet():
            train(folder)
        assert differences(expected, outcome(folder)) == []
        tried += 1
    assert tried > 10


@pytest.mark.parametrize("what", ["weights", "loss"])
def test_what_is_not_finite_is_never_saved(half, expected, what):
    class Poisoned(Toy):
        def step(self, state, step):
            state, _ = super().step(state, step)
            if what == "loss":
                return state, {"loss": np.float32("nan")}
            return state | {"weights": state["weights"] * jnp.nan}, {"loss": 0.0}

    before = {path: path.read_bytes() for path in half.rglob("*.safetensors")}
    with (
        quiet(),
        pytest.raises(Diverged, match=r"the checkpoint of step 6 is kept in .* lower --config\.learning-rate"),
    ):
        train(half, Poisoned)
    assert {path: path.read_bytes() for path in half.rglob("*.safetensors")} == before
    with quiet():
        train(half)
    assert differences(expected, outcome(half)) == []


def test_if_nothing_was_saved_before_the_loss_was_no_number_that_is_said(tmp_path):
    class Poisoned(Toy):
        def step(self, state, step):
            return super().step(state, step)[0], {"loss": np.float32("inf")}

    with quiet(), pytest.raises(Diverged, match=r"loss is inf at step 1; nothing was saved yet\. Start a new"):
        train(tmp_path, Poisoned)
    assert not list(tmp_path.rglob("*.safetensors"))


@pytest.mark.parametrize("failing", [7, 6])
def test_a_run_whose_actors_fail_for_good_stops_having_saved(half, expected, failing):
    """In the first step after a resume, which began at 6, there is nothing to save."""

    class Fails(Toy):
        def step(self, state, step):
            if step == failing:
                raise ChildProcessError("3 actors failed in a row: no such file.")
            return super().step(state, step)

    sentence = rf"3 actors failed in a row: no such file\. Stopped at step {failing} of 8; the same command goes on"
    with quiet(), pytest.raises(ChildProcessError, match=sentence):
        train(half, Fails)
    assert checkpoint.checkpoints(half / "checkpoints")[0][0] == failing
    with quiet():
        train(half)
    assert differences(expected, outcome(half)) == []


def test_a_folder_that_is_in_use_is_refused_and_not_touched(tmp_path):
    with locked(tmp_path):
        before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
        with pytest.raises(OtherRun, match=rf"is in use by process {os.getpid()} since \d{{4}}-.*; wait for it"):
            train(tmp_path)
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
        assert holder(tmp_path).startswith(f"process {os.getpid()} since ")
    assert holder(tmp_path) is None
    assert holder(tmp_path / "nowhere") is None


def test_only_unfinished_files_of_ours_are_removed(tmp_path):
    ours, theirs = tmp_path / "weights" / "weights.safetensors.0123abcd.tmp", tmp_path / "history.tmp"
    for path in (ours, theirs):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    with quiet():
        train(tmp_path)
    assert not ours.exists()
    assert theirs.exists()


def test_a_resumed_run_shows_the_latest_metrics_at_once(half, capsys):
    train(half)
    out = capsys.readouterr().out
    assert f"toy: resumes at step 6 of 8, saved in {half / 'checkpoints'}" in out
    assert "7/8  score 9" in out
    assert [json.loads(line)["step"] for line in (half / "log.jsonl").read_text().splitlines()] == [2, 4, 6, 8]
    train(half)
    assert f"toy: finished, 8 steps are done in {half}" in capsys.readouterr().out
