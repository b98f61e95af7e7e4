"""A session in a thread of its own: messages in, answers out, learning in between; it reports a crash and goes on."""

import queue
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from cobra_rl.play.session import Session

MOST_WAITING = 64  # messages that may wait to be answered
MOST_CRASHES = 3  # in a row, after which a session is given up
IDLE_SECONDS = 1800.0  # after which a session that nobody uses ends

Send = Callable[[dict[str, Any]], None]


class Worker(threading.Thread):
    """Answers the messages of one page, one after the other, and learns while there are none."""

    def __init__(self, make_session: Callable[[], Session], send: Send, idle_seconds: float = IDLE_SECONDS):
        super().__init__(daemon=True, name="cobra-play")
        self._make_session = make_session
        self._send = send
        self._idle_seconds = idle_seconds
        self._messages: queue.Queue[dict[str, Any]] = queue.Queue(MOST_WAITING)
        self._closed = False
        self._crashes = 0
        self._last_message = time.monotonic()

    def put(self, message: dict[str, Any]) -> bool:
        """Hand over a message; return whether there was room for it."""
        self._last_message = time.monotonic()
        try:
            self._messages.put_nowait(message)
        except queue.Full:
            return False
        return True

    def close(self) -> None:
        """End the session after what it is doing."""
        self._closed = True

    def run(self) -> None:
        """Serve until the page is gone; after a crash, with a fresh session."""
        while not self._closed:
            try:
                self._serve()
            except Exception as error:
                traceback.print_exc()
                self._crashes += 1
                sentence = f"{type(error).__name__}: {error}"[:300]
                self._send({"type": "crashed", "message": sentence, "restarts": self._crashes < MOST_CRASHES})
                self._closed |= self._crashes >= MOST_CRASHES
        self._send({"type": "end"})

    def _serve(self) -> None:
        session = self._make_session()
        for done, part in enumerate(session.prepare()):
            if self._closed:
                return
            self._send({"type": "preparing", "what": part, "done": done})
        self._send(session.hello())
        while not self._closed:
            if time.monotonic() - self._last_message > self._idle_seconds:
                self._send({"type": "idle"})
                self._closed = True
            elif (message := self._next(wait=not session.busy)) is not None:
                self._answer(session, message)
                self._crashes = 0
            elif session.busy and (progress := session.tick()) is not None:
                self._send(progress)

    def _next(self, wait: bool) -> dict[str, Any] | None:
        try:
            return self._messages.get(block=wait, timeout=0.2 if wait else None)
        except queue.Empty:
            return None

    def _answer(self, session: Session, message: dict[str, Any]) -> None:
        try:
            answer = session.handle(message)
        except (ValueError, OSError) as error:
            answer = {"type": "error", "message": str(error)}
        self._send(answer | {"re": message["id"]})
