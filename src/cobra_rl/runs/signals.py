"""Ctrl-C and other requests to stop, so that a training loop can save before it stops."""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

STOPPING = "Stopping after this step"

at_second_interrupt: Callable[[], None] | None = None  # set by a program that owns its process, to end it at once


class Stopped(Exception):
    """The run was stopped by a signal, and what it had done is saved."""

    def __init__(self, sentence: str, signal: int):
        super().__init__(sentence)
        self.signal = signal


class StopRequested:
    """Within the context, SIGINT, SIGTERM and SIGHUP only set `requested`; a second SIGINT raises KeyboardInterrupt.

    Python runs signal handlers only between two steps of its own, and compiled code may take minutes. Therefore a
    thread says at once that the run is about to stop, and calls `at_second_interrupt` if there is one.
    Python lets only the main thread set signal handlers: elsewhere the context does nothing.
    """

    def __init__(self, say: Callable[[str], None] | None = None) -> None:
        self.say = say
        self.requested = False
        self.signal: int | None = None  # the first
        self._received: list[int] = []
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "StopRequested":
        if threading.current_thread() is not threading.main_thread():
            return self
        self._read_fd, self._write_fd = os.pipe()  # Python writes the number of each signal into it when it comes
        os.set_blocking(self._write_fd, False)
        self._wakeup = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._talk, daemon=True)
        self._thread.start()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # ignored under nohup
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        if not self._previous:
            return
        for number, handler in self._previous.items():
            signal.signal(number, handler or signal.SIG_DFL)  # None: it was not set from Python
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._write_fd)
        self._thread.join()
        os.close(self._read_fd)

    def _handle(self, number: int, _: object) -> None:
        if number == signal.SIGINT and number in self._received:
            raise KeyboardInterrupt
        self._received.append(number)
        self.requested = True
        self.signal = self._received[0]

    def _talk(self) -> None:
        """Say what each signal leads to, in a thread of its own."""
        heard: list[int] = []
        while number := os.read(self._read_fd, 1):
            interrupt = number[0] == signal.SIGINT
            if number[0] not in self._previous:
                continue
            if interrupt and number[0] in heard and at_second_interrupt is not None:
                at_second_interrupt()
            if self.say is not None and (not heard or (interrupt and number[0] not in heard)):
                with suppress(OSError, ValueError):  # the terminal may be gone
                    self.say(f"{STOPPING}; press Ctrl-C again to stop at once." if interrupt else f"{STOPPING}.")
            heard.append(number[0])
