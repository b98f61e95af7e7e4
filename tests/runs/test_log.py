import io
import json
import math
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image
from rich.text import Text
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.record_writer import masked_crc32c

from cobra_rl.runs import log as log_module
from cobra_rl.runs.log import RunLog


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(log_module, "monotonic", clock)
    return clock


def lines(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def events(folder: Path) -> list[Event]:
    """All TensorBoard events: records of length (8 bytes), checksum (4), event, checksum (4)."""
    found = []
    for path in sorted((folder / "tensorboard").iterdir()):
        data = path.read_bytes()
        while data:
            size = int.from_bytes(data[:8], "little")
            checksums = [masked_crc32c(part) for part in (data[:8], data[12 : 12 + size])]
            assert checksums == [int.from_bytes(data[at : at + 4], "little") for at in (8, 12 + size)]
            found.append(Event.FromString(data[12 : 12 + size]))
            data = data[16 + size :]
    return found


def test_what_is_written_is_in_the_file_at_once_and_in_tensorboard(tmp_path: Path):
    with RunLog(tmp_path, 10, "see") as log:
        log.write(1, {"loss": jnp.float32(0.5), "n": 3})
        log.write(2, {"loss": float("nan"), "large": 1e300})
        assert lines(tmp_path) == [{"step": 1, "loss": 0.5, "n": 3.0}, {"step": 2, "loss": None, "large": 1e300}]
    first, *_ = written = events(tmp_path)
    assert first.file_version == "brain.Event:2"
    assert all(time.time() - 60 < e.wall_time <= time.time() for e in written)
    values = [(e.step, v.tag, v.simple_value) for e in written for v in e.summary.value]
    assert values[:2] == [(1, "loss", 0.5), (1, "n", 3.0)]
    assert math.isnan(values[2][2])
    assert values[3] == (2, "large", math.inf)


def test_the_log_of_a_resumed_run_is_that_of_an_uninterrupted_one(tmp_path: Path):
    def run(folder: Path, start: int, stop: int) -> None:
        with RunLog(folder, 9, "see", start_step=start) as log:
            for step in range(start, stop) if start == 0 else range(start + 1, stop):
                log.write(step, {"loss": 1 / (step + 1)})
                log.write(step, {"ari": step / 9})

    run(tmp_path / "whole", 0, 10)
    run(tmp_path / "again", 0, 3)  # stopped before its first checkpoint
    run(tmp_path / "again", 0, 7)
    with open(tmp_path / "again" / "log.jsonl", "a") as file:
        file.write('{"step": 5, "lo')  # cut short by a crash
    run(tmp_path / "again", 5, 10)
    assert (tmp_path / "again" / "log.jsonl").read_text() == (tmp_path / "whole" / "log.jsonl").read_text()
    starts = [e.step for e in events(tmp_path / "again") if e.HasField("session_log")]
    assert {e.session_log.status for e in events(tmp_path / "again") if e.HasField("session_log")} == {SessionLog.START}
    assert starts == [0, 0, 6]  # from there on, TensorBoard forgets what was logged before


def test_pictures(tmp_path: Path):
    image = np.random.default_rng(0).integers(0, 256, (6, 4, 3), np.uint8)
    with RunLog(tmp_path, 10, "see") as log:
        log.picture(3, "scenes", image)
        log.picture(4, "scenes", jnp.asarray(image))
    for step in (3, 4):
        assert np.array_equal(Image.open(tmp_path / "pictures" / f"scenes_{step:08d}.png"), image)
    shown = [(e.step, v.tag, v.image) for e in events(tmp_path) for v in e.summary.value]
    assert [(step, tag, i.height, i.width, i.colorspace) for step, tag, i in shown] == [
        (3, "scenes", 6, 4, 3),
        (4, "scenes", 6, 4, 3),
    ]
    assert all(np.array_equal(Image.open(io.BytesIO(i.encoded_image_string)), image) for _, _, i in shown)


def test_without_a_terminal_there_is_a_line_every_half_minute(tmp_path: Path, capsys, clock):
    with RunLog(tmp_path, 1000, "see [a]", start_step=100, columns=("loss", "ari")) as log:
        clock.now += log_module.START  # it is no longer starting
        for step in range(101, 165):
            log.progress(step, {"loss": jnp.float32(step), "other": 1.0})
            if step == 120:
                log.write(step, {"ari": 0.25})
                log.say("a [b] " + "long " * 40)
            clock.now += 1
    assert capsys.readouterr().out.splitlines() == [
        "see [a]  101/1,000  loss 101",
        "a [b] " + "long " * 40,
        "see [a]  131/1,000  1/s  0:14:29 left  loss 131  ari 0.25",
        "see [a]  161/1,000  1/s  0:13:59 left  loss 161  ari 0.25",
        "see [a]  164/1,000  0.971/s  0:14:21 left  loss 164  ari 0.25",  # the last state, on leaving
    ]


def test_the_rate_is_that_of_the_last_half_minute(tmp_path: Path, capsys, clock):
    with RunLog(tmp_path, 10_000, "see") as log:
        log.progress(0, {})
        for step in (30, 6030, 6030):  # at the end it stands still
            clock.now += 30
            log.progress(step, {})
    rates = [line.split("  ")[2:] for line in capsys.readouterr().out.splitlines()]
    assert rates == [[], ["1/s", "2:46:10 left"], ["200/s", "0:00:20 left"], []]


def test_without_a_terminal_a_starting_run_says_something_every_few_seconds(tmp_path: Path, capsys, clock):
    with RunLog(tmp_path, 1000, "see") as log:
        for step in range(100):
            log.progress(step, {})
            clock.now += 1
    shown = [int(line.split()[1].partition("/")[0]) for line in capsys.readouterr().out.splitlines()]
    assert shown == [*range(0, 60, 4), 86, 99]


def wait_for(text: str, output: Callable[[], str]) -> None:
    deadline, seen = time.monotonic() + 60, ""
    while text not in seen:
        assert time.monotonic() < deadline, seen
        time.sleep(0.01)
        seen += output()


def test_without_a_terminal_what_keeps_a_run_busy_is_said_at_once_and_again(tmp_path, capsys, monkeypatch, clock):
    monkeypatch.setattr(log_module, "WORD_EVERY", 0.2)
    with RunLog(tmp_path, 10, "see") as log:
        with log.busy("compiling [a]"):
            assert capsys.readouterr().out.startswith("see  compiling [a]\n")
            clock.now += 7
            wait_for("see  compiling [a] 7 s\n", lambda: capsys.readouterr().out)
            with log.busy("evaluating 8 scenes"):
                clock.now += 3
                wait_for("see  evaluating 8 scenes 3 s\n", lambda: capsys.readouterr().out)
        monkeypatch.setattr(log_module, "WORD_EVERY", 60.0)
        capsys.readouterr()
        with log.busy("evaluating 8 scenes"):
            pass  # said a moment ago, and soon over
        assert capsys.readouterr().out == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_in_a_terminal_there_is_a_bar_and_words_stand_above_it(tmp_path: Path, monkeypatch, clock):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stdout", Terminal())
    with RunLog(tmp_path, 100, "see [a]", columns=("loss",)) as log:
        for step in range(1, 101):
            log.progress(step, {"loss": step / 100})
            clock.now += 0.05
            if step == 50:
                log.say("half [way]")
    shown = sys.stdout.getvalue()
    assert "half [way]" in shown
    assert shown.index("half [way]") < shown.rindex("see [a]")
    assert "100/100  20/s  0:00:00 left  loss 1" in shown


def test_an_error_closes_the_bar_and_the_files(tmp_path: Path, monkeypatch, clock):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", Terminal())
    with pytest.raises(RuntimeError), RunLog(tmp_path, 100, "see") as log:  # noqa: PT012
        log.write(1, {"loss": 1.0})
        raise RuntimeError
    assert sys.stdout.getvalue().rstrip("\n").endswith("\x1b[?25h")  # the cursor is visible again
    assert [e.step for e in events(tmp_path) if e.summary.value] == [1]


@pytest.mark.parametrize("title", ["see", "goal finding, new position, all distractors: seed 3"])
def test_eighty_columns_hold_the_bar_and_the_metric_that_matters(tmp_path: Path, monkeypatch, clock, title):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stdout", Terminal())
    columns = ("success", "loss", "position_error", "hit_rate")
    with RunLog(tmp_path, 60_000, title, columns=columns) as log:
        for step in range(11_000, 12_001, 500):
            log.progress(step, dict.fromkeys(columns, 0.12345))
            clock.now += 10
    last = Text.from_ansi(sys.stdout.getvalue()).plain.splitlines()[-1]
    assert len(last) <= 80
    assert len(re.findall("[━╸╺]", last)) == 10
    assert "12,000/60,000" in last
    assert "left  success 0.1235" in last  # whole
    assert "hit_rate" not in last
    assert "…" not in last.removeprefix(title[:23] + "…")


def test_in_a_terminal_what_keeps_a_run_busy_stands_beside_the_bar(tmp_path: Path, monkeypatch, clock):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", Terminal())
    with RunLog(tmp_path, 100, "see", columns=("loss",)) as log:
        log.progress(1, {"loss": 0.5})
        with log.busy("compiling [a]"):
            assert "compiling [a]" in sys.stdout.getvalue()
            clock.now += 7
            wait_for("compiling [a] 7 s", lambda: sys.stdout.getvalue())
    assert "loss 0.5" in Text.from_ansi(sys.stdout.getvalue()).plain.splitlines()[-1]


@pytest.mark.parametrize(
    "line", ["{}", "null", "12", "[]", '"text"', '{"step": null}', '{"step": "3"}', "\x00", "[" * 9999]
)
def test_a_damaged_line_does_not_stop_a_resume(tmp_path: Path, line):
    whole = '{"step": 1, "loss": 0.5}'
    (tmp_path / "log.jsonl").write_text(f"{whole}\n{line}\n{whole}\n")
    with RunLog(tmp_path, 10, "see", start_step=5):
        assert (tmp_path / "log.jsonl").read_text() == f"{whole}\n{whole}\n"


def test_a_tensorboard_that_cannot_begin_is_switched_off_with_a_sentence(tmp_path: Path, capsys):
    (tmp_path / "tensorboard").touch()  # where its folder should be
    with RunLog(tmp_path, 10, "see") as log:
        log.write(1, {"loss": 0.5})
        log.picture(1, "scene", np.zeros((2, 2, 3), np.uint8))
    assert lines(tmp_path) == [{"step": 1, "loss": 0.5}]
    (said,) = capsys.readouterr().out.splitlines()
    assert said.startswith("TensorBoard is switched off: FileExistsError: ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is full")
def test_a_full_disk_switches_tensorboard_off_and_training_goes_on(tmp_path: Path, capsys):
    with RunLog(tmp_path, 10, "see") as log:
        log.write(1, {"loss": 0.5})
        log._tensorboard._path = Path("/dev/full")
        for step in range(2, 1000):
            log.write(step, {"loss": 0.5})
    assert len(lines(tmp_path)) == 999
    assert capsys.readouterr().out == "TensorBoard is switched off: OSError: [Errno 28] No space left on device.\n"


HANGS_UP = """
import signal, sys, time
from pathlib import Path
from cobra_rl.cli.process import keep_talking
from cobra_rl.runs.log import RunLog
from cobra_rl.runs.signals import StopRequested

keep_talking()  # as the command does; without it Python may fail to flush its output at the end (exit code 120)
folder = Path(sys.argv[1])
with StopRequested() as stop, RunLog(folder, 1000, "see") as log:
    stop.say = log.say
    print("ready", flush=True)
    step = 0
    while not stop.requested:
        step += 1
        log.progress(step, {"loss": 0.5})
        time.sleep(0.01)
    with log.busy("saving"):
        log.write(step, {"loss": 0.5})
    (folder / "saved").write_text(str(stop.signal))
"""


@pytest.mark.usefixtures("hangup_is_heard")
def test_a_run_saves_when_its_terminal_goes_away(tmp_path: Path):
    master, slave = pty.openpty()
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), slave)
    command = [sys.executable, "-c", HANGS_UP, str(tmp_path)]
    process = subprocess.Popen(command, **streams, start_new_session=True)
    os.close(slave)
    seen = b""
    while b"ready" not in seen:
        seen += os.read(master, 4096)
    os.close(master)  # from here on, whatever is printed is an error
    time.sleep(0.3)
    process.send_signal(signal.SIGHUP)
    assert process.wait(timeout=60) == 0
    assert (tmp_path / "saved").read_text() == str(int(signal.SIGHUP))
