"""Ctrl-C and other requests to stop, so that a training loop can save before it stops."""

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

STOPPING = "Stopping after this step"


class StopRequested:
    """Within the context, SIGINT, SIGTERM and SIGHUP only set `requested`; a second SIGINT raises KeyboardInterrupt.

    Python lets only the main thread set signal handlers: elsewhere the context does nothing.
    """

    def __init__(self, say: Callable[[str], None] | None = None) -> None:
        self.requested = False
        self.signal: int | None = None
        self.say = say
        self._interrupted = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "StopRequested":
        if threading.current_thread() is not threading.main_thread():
            return self
        numbers = [signal.SIGINT, signal.SIGTERM]
        if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # ignored under nohup
            numbers.append(signal.SIGHUP)
        for number in numbers:
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
        self._interrupted = self._interrupted or interrupt
        self.requested = True
        self.signal = self.signal or number
