"""The last answers of a server that ends."""

import signal
from contextlib import closing
from http.client import HTTPConnection
from urllib.parse import urlsplit

from tests.http_server import HttpServer, served


def ask(connection: HTTPConnection) -> str | None:
    """Send a request that any server answers, and return what it says of the rest."""
    connection.request("GET", "/nothing")
    reply = connection.getresponse()
    reply.read()
    assert reply.status == 404
    return reply.getheader("connection")


def connect(server: HttpServer) -> HTTPConnection:
    return HTTPConnection(urlsplit(server.url).netloc, timeout=30)


def test_after_the_signal_it_still_answers_and_asks_to_leave() -> None:
    with served({"http": {"drain_seconds": 2}}) as server:
        with closing(connect(server)) as kept, closing(connect(server)) as new:
            assert ask(kept) is None

            server.process.send_signal(signal.SIGTERM)
            server.wait_for_log("Ending on SIGTERM")

            assert ask(kept) == "close"
            assert ask(new) == "close"
        assert server.wait() == 0


def test_without_a_grace_it_ends_at_once() -> None:
    with served() as server:
        with closing(connect(server)) as kept:
            assert ask(kept) is None

        server.process.send_signal(signal.SIGTERM)

        assert server.wait() == 0
