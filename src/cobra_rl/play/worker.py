"""A session beside the server, in a thread: messages in, answers out, learning in between; it survives its crashes."""

import asyncio
import time
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from cobra_rl.play.protocol import Refused
from cobra_rl.play.session import Session

MOST_WAITING = 64  # messages that may wait to be answered
MOST_CRASHES = 3  # in a row, after which a session is given up
IDLE_SECONDS = 1800.0  # after which a session that nobody uses ends

SendAnswer = Callable[[dict[str, Any]], Awaitable[None]]


class Worker:
    """Answers the messages of one page, one after the other, and learns while there are none."""

    def __init__(self, make_session: Callable[[], Session], send: SendAnswer, idle_seconds: float = IDLE_SECONDS):
        self._make_session = make_session
        self._send = send
        self._idle_seconds = idle_seconds
        self._messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue(MOST_WAITING)
        self._crashes = 0
        self._last_message = time.monotonic()

    def put(self, message: dict[str, Any]) -> None:
        """Hand over a message; raise `Refused` if too many wait."""
        self._last_message = time.monotonic()
        if self._messages.full():
            raise Refused("Too many questions wait for an answer; this one is ignored.", message["id"])
        self._messages.put_nowait(message)

    async def run(self) -> None:
        """Serve until nobody uses the session; after a crash, with a fresh one."""
        while self._crashes < MOST_CRASHES:
            try:
                return await self._serve()
            except Exception as error:
                traceback.print_exc()
                self._crashes += 1
                sentence = f"{type(error).__name__}: {error}"[:300]
                await self._send({"type": "crashed", "message": sentence, "restarts": self._crashes < MOST_CRASHES})

    async def _serve(self) -> None:
        session = await asyncio.to_thread(self._make_session)
        parts = enumerate(session.prepare())
        while (part := await asyncio.to_thread(next, parts, None)) is not None:
            await self._send({"type": "preparing", "what": part[1], "done": part[0]})
        await self._send(await asyncio.to_thread(session.hello))
        while (seconds := self._last_message + self._idle_seconds - time.monotonic()) > 0.0:
            if session.busy and self._messages.empty():
                if (progress := await asyncio.to_thread(session.tick)) is not None:
                    await self._send(progress)
                continue
            with suppress(TimeoutError):
                message = await asyncio.wait_for(self._messages.get(), seconds)
                await self._send(await asyncio.to_thread(_answer, session, message))
                self._crashes = 0
        await self._send({"type": "idle"})


def _answer(session: Session, message: dict[str, Any]) -> dict[str, Any]:
    try:
        answer = session.handle(message)
    except (ValueError, OSError) as error:
        answer = {"type": "error", "message": str(error)}
    return answer | {"re": message["id"]}
