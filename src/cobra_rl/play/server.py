"""The web: a page and a WebSocket on the loopback interface, for whoever has the token. The only file that knows it.

Each page has a session of its own. Host and Origin must be the same and of the loopback interface, so that no other
site reaches it through the browser; messages are checked against the schema and limited in size and rate.
"""

import asyncio
import contextlib
import re
import secrets
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from cobra_rl.play import protocol
from cobra_rl.play.catalogue import AgentCatalogue
from cobra_rl.play.session import Session
from cobra_rl.play.worker import IDLE_SECONDS, SendAnswer, Worker

STATIC = Path(__file__).parent / "static"
HOST = "127.0.0.1"
LOOPBACK = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?")  # with any port: a tunnel may have another
MOST_SESSIONS = 8
RATE = 200.0  # messages a second of one page
BURST = 400.0  # messages at once
FOREIGN = (
    "This page is for the machine that it runs on; open it at 127.0.0.1 or localhost, or through a tunnel to there."
)
GONE = contextlib.suppress(WebSocketDisconnect, RuntimeError)  # for what is sent to a page that may be gone
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; connect-src 'self' ws://{host}"
)


@dataclass
class TokenBucket:
    """Tells whether one more message is within the rate."""

    tokens: float = BURST
    last: float = field(default_factory=time.monotonic)

    def take(self) -> bool:
        """Count a message; return whether it is allowed."""
        now = time.monotonic()
        self.tokens = min(BURST, self.tokens + RATE * (now - self.last))
        self.last = now
        allowed = self.tokens >= 1.0
        self.tokens -= allowed
        return allowed


class OwnSiteOnly:
    """Refuses requests that are meant for another host or come from another site, and adds headers to answers.

    The loopback interface is ours at any port, for a tunnel (`ssh -L 9000:localhost:8765`) has its own.
    """

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on if it is ours."""
        if scope["type"] not in ("http", "websocket"):
            return await self.app(scope, receive, send)
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        origin = headers.get("origin")
        is_socket = scope["type"] == "websocket"  # for which browsers always name the origin
        is_ours = LOOPBACK.fullmatch(host) is not None
        policy = CONTENT_POLICY.format(host=host if is_ours else HOST)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS | {"Content-Security-Policy": policy})
            await send(message)

        if is_ours and (origin == f"http://{host}" or (origin is None and not is_socket)):
            await self.app(scope, receive, send_with_headers)
        elif is_socket:
            await send({"type": "websocket.close", "code": 1008})
        else:
            await PlainTextResponse(FOREIGN, 403)(scope, receive, send_with_headers)


@dataclass
class Pages:
    """The open pages, each with its session."""

    make_session: Callable[[], Session]
    token: str
    idle_seconds: float
    workers: set[Worker] = field(default_factory=set)

    def has_token(self, visitor: Request | WebSocket) -> bool:
        """Tell whether the address of a visitor has the token."""
        token = visitor.query_params.get("token")
        return token is not None and secrets.compare_digest(token.encode(), self.token.encode())

    async def index(self, request: Request) -> Response:
        """Serve the page."""
        if not self.has_token(request):
            return PlainTextResponse("The address lacks its token; take it from where `cobra play` printed it.", 403)
        return FileResponse(STATIC / "index.html")

    async def socket(self, websocket: WebSocket) -> None:
        """Serve one page's session until the page is closed."""
        if not self.has_token(websocket):
            await websocket.close(1008)
            return
        await websocket.accept()
        if len(self.workers) >= MOST_SESSIONS:
            await websocket.send_json({"type": "full", "most": MOST_SESSIONS})
            await websocket.close(1013)
            return

        async def send(answer: dict) -> None:
            with GONE:
                await websocket.send_json(answer)

        worker = Worker(self.make_session, send, self.idle_seconds)
        self.workers.add(worker)
        tasks = [asyncio.create_task(worker.run()), asyncio.create_task(self._read(websocket, worker, send))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            with GONE:
                await websocket.close()
        finally:
            for task in tasks:
                task.cancel()
            self.workers.discard(worker)

    async def _read(self, websocket: WebSocket, worker: Worker, send: SendAnswer) -> None:
        """Hand the page's messages to its session; what is not allowed is answered at once."""
        bucket = TokenBucket()
        while (received := await websocket.receive())["type"] == "websocket.receive":
            within_rate = bucket.take()
            try:
                message = protocol.read(received.get("text") or received.get("bytes") or "")
                if not within_rate:
                    raise protocol.Refused("Too many messages at once; the rest is ignored.", message["id"])
                worker.put(message)
            except protocol.Refused as refused:
                await send({"type": "error", "message": str(refused), "re": refused.identity})


def make_app(make_session: Callable[[], Session], token: str, *, idle_seconds: float = IDLE_SECONDS) -> ASGIApp:
    """Build the application.

    Args:
        make_session: Makes the session of a page, in its thread.
        token: Opens the page and its socket.
        idle_seconds: A session that gets no message for so long ends.
    """
    pages = Pages(make_session, token, idle_seconds)
    routes = [
        Route("/", pages.index),
        WebSocketRoute("/socket", pages.socket),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    return OwnSiteOnly(Starlette(routes=routes))


def serve(catalogue: AgentCatalogue, port: int, ready: Callable[[str], None]) -> None:
    """Serve pages until the process is told to stop; `ready` gets the address once it can be opened.

    Args:
        catalogue: What all sessions share.
        port: Of the loopback interface; 0: any that is free.
        ready: Called with the address, token included.
    """
    token = secrets.token_urlsafe(24)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError as error:
            raise ValueError(f"Port {port} cannot be used ({error.strerror}); give another with --port.") from error
        listener.listen()
        port = listener.getsockname()[1]
        config = uvicorn.Config(
            make_app(lambda: Session(catalogue), token),
            log_level="warning", ws="websockets-sansio", ws_max_size=2**20, lifespan="off",
            timeout_graceful_shutdown=2, server_header=False,
        )  # fmt: skip
        ready(f"http://{HOST}:{port}/?token={token}")
        uvicorn.Server(config).run(sockets=[listener])
