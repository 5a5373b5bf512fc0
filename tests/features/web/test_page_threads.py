"""Pages take a few threads, and none once nobody waits for them."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.from_thread
import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from skills_mcp.features.web import catalogue_page, rest
from skills_mcp.features.web.site import (
    MAX_EXPENSIVE_THREADS,
    MAX_PAGE_THREADS,
    PageThreads,
    build_web,
)
from skills_mcp.http.http_server import create_application
from skills_mcp.server.app import create_server
from tests.http.listening import listening
from tests.support import PATIENCE_SECONDS, open_library, wait_for, write_skill

CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "get_skill", "arguments": {"context": "write one"}},
}


@dataclass
class Blocking:
    """Work that blocks its thread until the test lets it go on."""

    released: Event = field(default_factory=Event)
    running: int = 0
    begun: int = 0
    _lock: Lock = field(default_factory=Lock)

    def run(self) -> None:
        with self._lock:
            self.running += 1
            self.begun += 1
        self.released.wait(PATIENCE_SECONDS)
        with self._lock:
            self.running -= 1

    def answer(self, _: Request) -> Response:
        self.run()
        return PlainTextResponse("done")


@contextmanager
def released_at_the_end(blocking: Blocking) -> Iterator[Blocking]:
    try:
        yield blocking
    finally:
        blocking.released.set()


def begin(url: str, path: str) -> socket.socket:
    """Send a request of which nobody reads the answer."""
    parts = urlsplit(url)
    opened = socket.create_connection((parts.hostname or "", parts.port or 80))
    opened.sendall(f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
    return opened


def bound(threads: PageThreads, *routes: tuple[str, Any], **options: Any) -> Starlette:
    bare = (Route(path, handler) for path, handler in routes)
    return Starlette(routes=[threads.bind(route) for route in bare], **options)


def test_abandoned_pages_take_few_threads_and_tools_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path / "content", "one.md")
    settings = {"http": {"stateless": True}}
    library = open_library(tmp_path / "content", settings=settings)
    web = build_web(library, None, tmp_path / "key")
    server = create_server(library, is_shared=True)
    app = create_application(server, library.config, shutdown=anyio.Event(), web=web)
    blocking = Blocking()
    for module in (catalogue_page, rest):
        monkeypatch.setattr(module, "browse", lambda *_: blocking.run())

    with listening(app) as url, released_at_the_end(blocking):
        for path in ["/catalogue", "/api/skills", "/catalogue?q=one"] * 20:
            begin(url, path).close()
        wait_for(lambda: blocking.running == MAX_PAGE_THREADS)
        answer = httpx.post(
            f"{url}/mcp",
            json=CALL,
            headers={"Accept": "application/json, text/event-stream"},
            timeout=PATIENCE_SECONDS,
        )
        assert answer.status_code == 200
        assert blocking.running == MAX_PAGE_THREADS
        blocking.released.set()
        wait_for(lambda: blocking.running == 0)
        assert httpx.get(f"{url}/problems").status_code == 200

    assert blocking.begun == MAX_PAGE_THREADS


def test_routes_that_read_every_skill_leave_threads_to_the_others() -> None:
    blocking, threads = Blocking(), PageThreads(frozenset({"/all"}))
    fast = ("/one", lambda _: PlainTextResponse("one"))
    app = bound(threads, ("/all", blocking.answer), fast)

    with listening(app) as url, released_at_the_end(blocking):
        opened = [begin(url, "/all") for _ in range(2 * MAX_PAGE_THREADS)]
        wait_for(lambda: blocking.running == MAX_EXPENSIVE_THREADS)

        assert httpx.get(f"{url}/one", timeout=PATIENCE_SECONDS).text == "one"
        assert blocking.begun == MAX_EXPENSIVE_THREADS
        for each in opened:
            each.close()


def test_a_request_that_waits_too_long_is_told_when_to_come_again() -> None:
    blocking, threads = Blocking(), PageThreads(max_wait_seconds=0.05)
    app = bound(threads, ("/", blocking.answer))

    with listening(app) as url, released_at_the_end(blocking):
        opened = [begin(url, "/") for _ in range(MAX_PAGE_THREADS)]
        wait_for(lambda: blocking.running == MAX_PAGE_THREADS)
        refused = httpx.get(url)
        blocking.released.set()
        served = [each.recv(12) for each in opened]
        for each in opened:
            each.close()

    assert refused.status_code == 503
    assert int(refused.headers["Retry-After"]) > 0
    assert served == [b"HTTP/1.1 200"] * MAX_PAGE_THREADS


def test_work_that_looks_stops_when_its_client_has_gone() -> None:
    blocking, steps = Blocking(), Event()

    def loop(_: Request) -> Response:
        blocking.begun += 1
        try:
            while not blocking.released.wait(0.001):
                anyio.from_thread.check_cancelled()
        finally:
            steps.set()
        return PlainTextResponse("done")

    with (
        listening(bound(PageThreads(), ("/", loop))) as url,
        released_at_the_end(blocking),
    ):
        opened = begin(url, "/")
        wait_for(lambda: blocking.begun)
        opened.close()

        assert steps.wait(PATIENCE_SECONDS)
        assert not blocking.released.is_set()


def test_a_failure_of_a_handler_is_answered_as_before() -> None:
    def fail(_: Request) -> Response:
        raise LookupError("no such thing")

    def tell(_: Request, error: Exception) -> Response:
        return PlainTextResponse(str(error), 418)

    app = bound(PageThreads(), ("/", fail), exception_handlers={LookupError: tell})

    with listening(app) as url:
        answer = httpx.get(url)

    assert (answer.status_code, answer.text) == (418, "no such thing")
