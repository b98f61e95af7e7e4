"""Ctrl-C and SIGTERM as a polite request, so that a training loop can save before it stops."""

import signal
from types import FrameType
from typing import Any


class StopRequested:
    """Within the context, SIGINT and SIGTERM only set `requested`; a second SIGINT raises KeyboardInterrupt.

    To be entered in the main thread, the only one that Python lets set signal handlers.
    """

    def __init__(self) -> None:
        self.requested = False
        self._interrupted = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "StopRequested":
        for number in (signal.SIGINT, signal.SIGTERM):
            self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler or signal.SIG_DFL)  # None: it was not set from Python

    def _handle(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGINT and self._interrupted:
            raise KeyboardInterrupt
        self._interrupted = self._interrupted or number == signal.SIGINT
        self.requested = True
