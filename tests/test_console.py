import io
import re
import sys
import time

from cobra_rl import console
from cobra_rl.console import working
from toy import Toy, train


def test_nobody_waits_more_than_five_seconds_for_a_word():
    assert console.REMIND_EVERY < 5.0


def test_without_a_terminal_something_long_is_said_at_once_and_again(capsys, monkeypatch):
    monkeypatch.setattr(console, "REMIND_EVERY", 0.05)
    with working("filming", 9) as tell:
        assert capsys.readouterr().out == "filming\n"
        tell(4)
        seen, deadline = "", time.monotonic() + 30
        while "filming 4/9" not in seen and time.monotonic() < deadline:
            seen += capsys.readouterr().out
    assert re.match(r"filming 4/9 \d+ s\n", seen)


def test_in_a_terminal_a_line_moves_and_is_gone_at_the_end(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", Terminal())
    with working("filming [a]", 9) as tell:
        tell(4)
        time.sleep(0.3)
        assert "filming [a]" in sys.stdout.getvalue()
        assert "4/9" in sys.stdout.getvalue()
    assert sys.stdout.getvalue().endswith("\x1b[?25h\r\x1b[1A\x1b[2K")


def test_a_run_that_takes_long_to_prepare_says_so_again(tmp_path, capsys, monkeypatch):
    class Slow(Toy):
        def init(self):
            time.sleep(0.3)
            return super().init()

    monkeypatch.setattr(console, "REMIND_EVERY", 0.1)
    train(tmp_path, Slow)
    assert re.match(r"toy: preparing\ntoy: preparing \d+ s\n", capsys.readouterr().out)
