import hashlib
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from cobra_rl.runs import signals
from cobra_rl.runs.signals import StopRequested


def send(number: int) -> None:
    os.kill(os.getpid(), number)


pytestmark = pytest.mark.usefixtures("hangup_is_heard")
NUMBERS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_sets_the_flag_and_the_old_handlers_come_back(number):
    before = [signal.getsignal(each) for each in NUMBERS]
    with StopRequested() as stop:
        assert not stop.requested
        assert stop.signal is None
        send(number)
        assert stop.requested
    assert stop.requested
    assert stop.signal == number
    assert [signal.getsignal(each) for each in NUMBERS] == before


def test_it_is_said_at_once_that_the_run_is_about_to_stop():
    said = []
    with StopRequested(said.append) as stop:
        send(signal.SIGTERM)
        wait_for(lambda: said == ["Stopping after this step."])
        send(signal.SIGHUP)
        send(signal.SIGINT)
        wait_for(lambda: said[1:] == ["Stopping after this step; press Ctrl-C again to stop at once."])
        assert stop.signal == signal.SIGTERM  # the first


def test_it_is_said_and_ended_at_once_even_while_compiled_code_runs(monkeypatch):
    """Python runs no handler meanwhile: hashing, which also lets other threads run, stands for compiled code."""
    said, ended, running = [], [], [True]
    monkeypatch.setattr(signals, "at_second_interrupt", lambda: ended.append(running[0]))

    def interrupt_twice() -> None:
        send(signal.SIGINT)
        wait_for(lambda: said)
        send(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), StopRequested(said.append):  # noqa: PT012
        threading.Thread(target=interrupt_twice).start()
        hashlib.pbkdf2_hmac("sha256", b"", b"", 2_000_000)
        running[0] = False
        wait_for(lambda: False)  # here the second interrupt is raised
    assert ended == [True]
    assert said == ["Stopping after this step; press Ctrl-C again to stop at once."]


def wait_for(holds: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_terminal_that_is_gone_does_not_keep_a_run_from_stopping():
    def fail(_: str) -> None:
        raise OSError

    with StopRequested(fail) as stop:
        send(signal.SIGHUP)
        assert stop.requested


def test_under_nohup_a_hangup_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequested() as stop:
            send(signal.SIGHUP)
            assert not stop.requested
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_in_another_thread_it_does_nothing():
    results = []

    def run() -> None:
        with StopRequested() as stop:
            results.append(stop.requested)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert results == [False]


def test_the_second_interrupt_is_a_keyboard_interrupt():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), StopRequested() as stop:  # noqa: PT012
        send(signal.SIGTERM)
        send(signal.SIGTERM)
        send(signal.SIGINT)  # the first of its kind
        assert stop.requested
        send(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
