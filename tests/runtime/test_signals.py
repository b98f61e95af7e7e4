import os
import signal

import pytest

from cobra_rl.runtime.signals import StopRequested


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_sets_the_flag_and_the_old_handlers_come_back(number):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with StopRequested() as stop:
        assert not stop.requested
        send(number)
        assert stop.requested
    assert stop.requested
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_the_second_interrupt_is_a_keyboard_interrupt():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), StopRequested() as stop:  # noqa: PT012
        send(signal.SIGTERM)
        send(signal.SIGTERM)
        send(signal.SIGINT)  # the first of its kind
        assert stop.requested
        send(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
