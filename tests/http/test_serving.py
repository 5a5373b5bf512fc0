"""A server over HTTP in a process of its own: it serves, and it ends."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import httpx
import pytest

from skills_mcp.errors import ConfigError
from skills_mcp.http.http_server import open_listener
from tests.http_server import HttpServer, served
from tests.support import PATIENCE_SECONDS


async def test_content_is_loaded_before_any_client_comes() -> None:
    with served() as server:
        assert server.wait_for_log("Serving 27 skills")


def test_a_signal_ends_the_server_with_success() -> None:
    with served() as server:
        assert server.url
        server.process.send_signal(signal.SIGTERM)

        assert server.wait() == 0


def test_a_port_that_is_taken_is_named_with_its_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]

        with pytest.raises(ConfigError, match=f"127.0.0.1:{number} .* another http.po"):
            open_listener("127.0.0.1", number, "http.port")


@pytest.mark.parametrize("host", ["256.1.1.1", "203.0.113.7"])
def test_a_host_that_is_not_of_this_machine_is_named_with_its_setting(host: str) -> None:
    with pytest.raises(ConfigError, match=r"or correct http\.operations_host"):
        open_listener(host, 0, "http.operations_port")


def test_a_page_that_lets_its_name_point_here_is_refused() -> None:
    with served() as server, httpx.Client() as client:
        for path in ("/mcp", "/.well-known/oauth-protected-resource", "/nothing"):
            url = httpx.URL(server.url).copy_with(path=path)
            host = client.post(url, headers={"Host": "evil.example"})
            origin = client.post(url, headers={"Origin": "http://evil.example"})

            assert (host.status_code, origin.status_code) == (421, 403)


def test_a_path_for_programs_may_end_with_a_slash() -> None:
    with served() as server, httpx.Client() as client:
        for path in ("/mcp", "/mcp/server-card", "/.well-known/ai-catalog.json"):
            url = httpx.URL(server.url)
            plain, slashed = (
                client.get(url.copy_with(path=each), headers={"Accept": "application/json"})
                for each in (path, f"{path}/")
            )

            assert (slashed.status_code, slashed.text) == (plain.status_code, plain.text)


def test_it_does_not_start_without_knowing_its_name() -> None:
    with served({"http": {"host": "0.0.0.0", "allow_anonymous": True}}) as server:  # noqa: S104
        assert server.wait() != 0
        assert "Set http.base_url" in server.wait_for_log("http.host is 0.0.0.0")


_FAILING = """
import anyio
from skills_mcp.http.http_server import serve_http
from skills_mcp.server.parts import Serving, open_parts
from skills_mcp.server.app import create_server
from tests.support import SKILLS_CONTENT, open_library

class Publisher:
    async def run(self):
        raise OSError("no memory")

    async def publish(self):
        pass

free = {"http": {"port": 0, "operations_port": 0}}
library = open_library(SKILLS_CONTENT, settings=free)
server = create_server(library, is_shared=True)
serving = Serving(server=server, library=library, publisher=Publisher(), transport="tcp")
anyio.run(serve_http, serving)
"""


def test_after_an_unexpected_error_the_exit_code_asks_for_a_new_start() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _FAILING],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )

    assert ended.returncode == 1
    assert "no memory" in ended.stderr


def test_an_answer_does_not_wait_for_the_acknowledgement_of_its_head() -> None:
    with (
        open_listener("127.0.0.1", 0, "http.port") as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


# A page and a call that take as long as the test wants: for ever, or until a file is.
_BUSY = """
import logging
import sys
from pathlib import Path
from threading import Event
import anyio
from skills_mcp.features.web import catalogue_page
from skills_mcp.library import LibraryView
from skills_mcp.http import http_server
from skills_mcp.http.http_server import serve_http
from skills_mcp.server.parts import Serving, open_parts
from skills_mcp.server.app import create_server
from tests.support import SKILLS_CONTENT, open_library

http_server._LAST_SECONDS = 1.0  # not five, for which each test would wait

class Publisher:
    async def run(self):
        await anyio.sleep_forever()

    async def publish(self):
        if sys.argv[3] == "blocked":
            Event().wait()

released = Path(sys.argv[1])
home = released.with_suffix(".home")
home.mkdir(exist_ok=True)
browse = catalogue_page.browse

def stall(*its, **named):
    print("A thread is busy", file=sys.stderr, flush=True)
    while not released.exists():
        Event().wait(0.01)
    return browse(*its)

catalogue_page.browse = LibraryView.list_skills = stall
free = {"port": 0, "operations_port": 0, "shutdown_seconds": int(sys.argv[2])}
library = open_library(SKILLS_CONTENT, settings={"http": free})
server = create_server(library, is_shared=True)
serving = Serving(
    server=server, library=library, publisher=Publisher(), transport="tcp", home=home
)
parts = open_parts(serving)
logging.basicConfig(level="INFO")
anyio.run(lambda: serve_http(serving, parts))
"""


@contextmanager
def busy(released: Path, *, shutdown_seconds: int, loop: str = "free") -> Iterator[HttpServer]:
    """Start a server whose lists are made until a file exists.

    Args:
        released: The file.
        shutdown_seconds: The setting.
        loop: `blocked` to block the event loop after the last request, for ever.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", _BUSY, str(released), str(shutdown_seconds), loop],
        stderr=subprocess.PIPE,
        text=True,
    )
    server = HttpServer(process)
    reader = Thread(target=server.follow)
    reader.start()
    try:
        yield server
    finally:
        process.kill()
        reader.join()
        process.wait()
        assert process.stderr
        process.stderr.close()


def send(server: HttpServer, head: str, body: str = "") -> socket.socket:
    parts = urlsplit(server.url)
    opened = socket.create_connection((parts.hostname or "", parts.port or 80))
    opened.settimeout(PATIENCE_SECONDS)
    fields = f"Host: {parts.netloc}\r\nContent-Length: {len(body)}"
    opened.sendall(f"{head}\r\n{fields}\r\n\r\n{body}".encode())
    return opened


def ask_for_catalogue(server: HttpServer) -> socket.socket:
    opened = send(server, "GET /catalogue HTTP/1.1")
    server.wait_for_log("A thread is busy")
    return opened


def call_in_session(server: HttpServer) -> socket.socket:
    """Call a tool as clients of the earlier protocol version do."""
    headers = {"Accept": "application/json, text/event-stream"}
    client = {"name": "test", "version": "1"}
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": client,
    }
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    opened = httpx.post(server.url, json=hello, headers=headers, timeout=60)
    fields = {
        **headers,
        "Content-Type": "application/json",
        "Mcp-Session-Id": opened.headers["Mcp-Session-Id"],
    }
    head = "\r\n".join(f"{name}: {value}" for name, value in fields.items())
    params = {"name": "list_skills", "arguments": {}}
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
    sent = send(server, f"POST /mcp HTTP/1.1\r\n{head}", json.dumps(call))
    server.wait_for_log("A thread is busy")
    return sent


@pytest.mark.parametrize("ask", [ask_for_catalogue, call_in_session])
def test_the_process_ends_in_time_although_threads_never_do(
    tmp_path: Path, ask: Callable[[HttpServer], socket.socket]
) -> None:
    with busy(tmp_path / "released", shutdown_seconds=1) as server:
        opened = [ask(server) for _ in range(6)]
        server.process.send_signal(signal.SIGTERM)

        assert server.wait() == 0
        for each in opened:
            each.close()


def test_the_process_ends_in_time_although_the_event_loop_is_blocked(
    tmp_path: Path,
) -> None:
    with busy(tmp_path / "released", shutdown_seconds=0, loop="blocked") as server:
        assert server.url
        server.process.send_signal(signal.SIGTERM)

        assert server.wait() == 0
        assert server.wait_for_log("Ending although not everything has ended in time")


def test_a_page_that_ends_within_the_time_is_answered(tmp_path: Path) -> None:
    released = tmp_path / "released"
    with (
        busy(released, shutdown_seconds=PATIENCE_SECONDS) as server,
        ask_for_catalogue(server) as opened,
    ):
        server.process.send_signal(signal.SIGTERM)
        server.wait_for_log("Ending on SIGTERM")
        released.touch()

        assert opened.recv(12) == b"HTTP/1.1 200"
        assert server.wait() == 0
