"""Ctrl-C and other requests to stop, so that a training loop can save before it stops."""

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

STOPPING = "Stopping after this step"


class Stopped(Exception):
    """The run was stopped by a signal, and what it had done is saved."""

    def __init__(self, sentence: str, signal: int):
        super().__init__(sentence)
        self.signal = signal


class StopRequested:
    """Within the context, SIGINT, SIGTERM and SIGHUP only set `requested`; a second SIGINT raises KeyboardInterrupt.

    Python lets only the main thread set signal handlers: elsewhere the context does nothing.
    """

    def __init__(self, say: Callable[[str], None] | None = None) -> None:
        self.say, self.requested, self._interrupted = say, False, False
        self.signal: int | None = None  # the first
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "StopRequested":
        if threading.current_thread() is not threading.main_thread():
            return self
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # ignored under nohup
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler or signal.SIG_DFL)  # None: it was not set from Python

    def _handle(self, number: int, _: FrameType | None) -> None:
        interrupt = number == signal.SIGINT
        if interrupt and self._interrupted:
            raise KeyboardInterrupt
        if self.say is not None and (interrupt or not self.requested):
            # The terminal may be gone, or the signal may have come in the middle of another word.
            with suppress(OSError, RuntimeError):
                self.say(f"{STOPPING}; press Ctrl-C again to stop at once." if interrupt else f"{STOPPING}.")
        self._interrupted |= interrupt
        self.requested, self.signal = True, self.signal or number
