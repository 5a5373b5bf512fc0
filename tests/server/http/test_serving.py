"""A server over HTTP in a process of its own: it serves, and it ends."""

import signal
import socket
import subprocess
import sys

import httpx
import pytest

from skills_mcp.errors import ConfigError
from skills_mcp.server.http.serving import listen
from tests.http_server import served
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
            listen("127.0.0.1", number, "http.port")


def test_a_page_that_lets_its_name_point_here_is_refused() -> None:
    with served() as server, httpx.Client() as client:
        for path in ("/mcp", "/.well-known/oauth-protected-resource", "/nothing"):
            url = httpx.URL(server.url).copy_with(path=path)
            host = client.post(url, headers={"Host": "evil.example"})
            origin = client.post(url, headers={"Origin": "http://evil.example"})

            assert (host.status_code, origin.status_code) == (421, 403)


def test_it_does_not_start_without_knowing_its_name() -> None:
    with served({"http": {"host": "0.0.0.0", "allow_anonymous": True}}) as server:  # noqa: S104
        assert server.wait() != 0
        assert "Set http.base_url" in server.wait_for_log("http.host is 0.0.0.0")


_FAILING = """
import anyio
from skills_mcp.server.http import serving
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
anyio.run(serving.serve_http, server, library, Publisher())
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
        listen("127.0.0.1", 0, "http.port") as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
