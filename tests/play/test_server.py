"""The server lets in who has the token and comes from its own page; sessions are few, and survive what goes wrong."""

import contextlib
import functools
import time

import pytest
from fuzz import malformed

pytest.importorskip("starlette")
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from cobra_rl.play import server
from cobra_rl.play.session import Session

TOKEN, PORT = "secret-token", 8765
HOST = f"127.0.0.1:{PORT}"
SOCKET = f"ws://{HOST}/socket?token={TOKEN}"
ORIGIN = {"origin": f"http://{HOST}"}


class FakeSession(Session):
    """Answers at once; `undo` is a crash, `reset` a refusal."""

    busy = False

    def __init__(self):
        pass

    def prepare(self):
        yield "nothing"

    def hello(self):
        return {"type": "ready"}

    def handle(self, message):
        if message["type"] == "undo":
            raise RuntimeError("a bug")
        if message["type"] == "reset":
            raise ValueError("not now")
        return {"type": "done"}


def client(make_session=FakeSession, idle_seconds=60.0, host=HOST):
    app = server.make_app(make_session, TOKEN, idle_seconds=idle_seconds)
    return TestClient(app, base_url=f"http://{host}")


def ready(socket):
    assert socket.receive_json()["type"] == "preparing"
    assert socket.receive_json() == {"type": "ready"}


def test_the_page_needs_the_token():
    with client() as web:
        assert web.get("/").status_code == 403
        assert web.get("/?token=wrong").status_code == 403
        page = web.get(f"/?token={TOKEN}")
    assert page.status_code == 200
    assert "cobra play" in page.text
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert page.headers["x-content-type-options"] == "nosniff"


FOREIGN = ("evil.example", f"evil.example:{PORT}", f"0.0.0.0:{PORT}", f"127.0.0.1.evil.example:{PORT}", "127.0.0.2:80")
FOREIGN += (f"localhost.evil.example:{PORT}", f"evil-localhost:{PORT}", "[::2]:8765", f"192.168.0.7:{PORT}")


@pytest.mark.parametrize("host", FOREIGN)
def test_another_host_is_refused(host):
    with client(host=host) as web:
        assert web.get(f"/?token={TOKEN}").status_code == 403
        assert web.get("/static/app.js").status_code == 403
        path, headers = SOCKET.replace(HOST, host), {"origin": f"http://{host}"}
        with pytest.raises(WebSocketDisconnect), web.websocket_connect(path, headers=headers):
            pass


@pytest.mark.parametrize("origin", [None, "null", "http://evil.example", f"https://{HOST}", f"http://localhost:{PORT}"])
def test_another_origin_is_refused(origin):
    headers = {} if origin is None else {"origin": origin}
    with client() as web, pytest.raises(WebSocketDisconnect), web.websocket_connect(SOCKET, headers=headers):
        pass


@pytest.mark.parametrize("host", ["127.0.0.1:9000", "localhost:1", f"localhost:{PORT}", "localhost", "[::1]:9000"])
def test_a_tunnel_may_have_another_port(host):
    """`ssh -L 9000:localhost:8765`: the browser says what is at its own end."""
    with client(host=host) as web:
        page = web.get(f"/?token={TOKEN}")
        assert page.status_code == 200
        assert f"connect-src 'self' ws://{host}" in page.headers["content-security-policy"]
        path = SOCKET.replace(HOST, host)
        with web.websocket_connect(path, headers={"host": host, "origin": f"http://{host}"}) as socket:
            ready(socket)
        for origin in ("http://evil.example", "http://127.0.0.1:1", f"https://{host}"):
            with pytest.raises(WebSocketDisconnect):
                web.websocket_connect(path, headers={"host": host, "origin": origin}).__enter__()


@pytest.mark.parametrize(
    "host", ["127.0.0.1:x", "127.0.0.1:123456", "localhost:80@evil.example", "127.0.0.1:80, a", ""]
)
def test_a_damaged_host_is_refused(host):
    with client() as web:
        assert web.get(f"/?token={TOKEN}", headers={"host": host}).status_code == 403


def test_a_socket_needs_the_token():
    with client() as web:
        for path in (f"ws://{HOST}/socket", f"ws://{HOST}/socket?token=wrong"):
            with pytest.raises(WebSocketDisconnect), web.websocket_connect(path, headers=ORIGIN):
                pass


@pytest.mark.parametrize(
    "path", ["/static/../server.py", "/static/%2e%2e/server.py", "/static/..%2fserver.py", "/etc/passwd"]
)
def test_nothing_else_of_the_file_system_is_served(path):
    with client() as web:
        assert web.get(path).status_code == 404


def test_the_page_loads_nothing_from_elsewhere():
    for path in server.STATIC.iterdir():
        text = path.read_text()
        assert "https://" not in text, path
        assert text.count("http://") == text.count("http://www.w3.org/2000/svg"), path
        assert len(text.splitlines()) <= 300, path


def test_a_thousand_malformed_messages_leave_the_session_alive(monkeypatch):
    monkeypatch.setattr(server.TokenBucket, "take", lambda self: True)
    with client() as web, web.websocket_connect(SOCKET, headers=ORIGIN) as socket:
        ready(socket)
        for number, text in enumerate(malformed(1000)):
            socket.send_bytes(text.encode()) if number % 10 == 0 else socket.send_text(text)
            refusal = socket.receive_json()
            assert refusal["type"] == "error"
            assert refusal["re"] is None
        socket.send_json({"type": "look", "id": 1})
        assert socket.receive_json() == {"type": "done", "re": 1}


def test_too_many_messages_are_ignored():
    bucket = server.TokenBucket()
    assert sum(bucket.take() for _ in range(1000)) < 600


def test_a_refusal_is_an_answer():
    with client() as web, web.websocket_connect(SOCKET, headers=ORIGIN) as socket:
        ready(socket)
        socket.send_json({"type": "reset", "id": 5})
        assert socket.receive_json() == {"type": "error", "message": "not now", "re": 5}


def test_a_refusal_says_which_question_it_answers(monkeypatch):
    """Else the page would wait for ever: of the schema, of the rate, and of a full queue."""
    with client() as web, web.websocket_connect(SOCKET, headers=ORIGIN) as socket:
        ready(socket)
        for number, wrong in enumerate(({"type": "agent", "name": "no name"}, {"type": "eval"}, {"type": "save"}), 1):
            socket.send_json(wrong | {"id": number})
            answer = socket.receive_json()
            assert answer["re"] == number
            assert answer["type"] == "error"
        with monkeypatch.context() as patched:
            patched.setattr(server.TokenBucket, "take", lambda self: False)
            socket.send_json({"type": "look", "id": 7})
            assert socket.receive_json()["re"] == 7
        with monkeypatch.context() as patched:
            patched.setattr("asyncio.Queue.full", lambda self: True)
            socket.send_json({"type": "look", "id": 8})
            assert socket.receive_json()["re"] == 8
        socket.send_json({"type": "look", "id": 9})
        assert socket.receive_json() == {"type": "done", "re": 9}


def test_a_crash_is_said_and_the_session_restarts(capsys):
    made = []

    def make():
        made.append(FakeSession())
        return made[-1]

    with client(make) as web, web.websocket_connect(SOCKET, headers=ORIGIN) as socket:
        ready(socket)
        socket.send_json({"type": "undo", "id": 1})
        crashed = socket.receive_json()
        assert crashed == {"type": "crashed", "message": "RuntimeError: a bug", "restarts": True}
        ready(socket)
        socket.send_json({"type": "look", "id": 2})
        assert socket.receive_json() == {"type": "done", "re": 2}
    assert len(made) == 2
    assert "a bug" in capsys.readouterr().err


def test_a_session_that_always_crashes_is_given_up(capsys):
    def make():
        raise MemoryError("no room")

    with client(make) as web, web.websocket_connect(SOCKET, headers=ORIGIN) as socket:
        said = [socket.receive_json() for _ in range(3)]
        assert [answer["restarts"] for answer in said] == [True, True, False]
        with pytest.raises(WebSocketDisconnect):
            socket.receive_json()


def test_there_are_at_most_eight_sessions_and_a_closed_page_makes_room():
    with client() as web, contextlib.ExitStack() as pages:
        connect = functools.partial(web.websocket_connect, SOCKET, headers=ORIGIN)
        with connect() as first:
            ready(first)
            others = [pages.enter_context(connect()) for _ in range(7)]
            for page in others:
                ready(page)
            with connect() as ninth:
                assert ninth.receive_json() == {"type": "full", "most": 8}
        time.sleep(0.5)
        ready(pages.enter_context(connect()))
        for page in others:
            page.send_json({"type": "look", "id": 3})
            assert page.receive_json() == {"type": "done", "re": 3}


def test_an_idle_session_ends():
    with client(idle_seconds=0.3) as web, web.websocket_connect(SOCKET, headers=ORIGIN) as socket:
        ready(socket)
        assert socket.receive_json() == {"type": "idle"}
        with pytest.raises(WebSocketDisconnect):
            socket.receive_json()
