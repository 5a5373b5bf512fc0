"""A receiver of events on the loopback that fails as real ones do."""

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

Answer = Literal["accept", "500", "hang", "lose", "reset"] | int
"""A status; or to hang, to accept and then say nothing, to break the connection."""

Choose = Callable[[bytes], Answer]
"""Looks at a body, and says what to answer."""

_NO_LINGER = struct.pack("ii", 1, 0)  # closing resets the connection


class Receiver(ThreadingHTTPServer):
    """Keeps what it has accepted.

    Args:
        choose: Called for every request.
        hang_seconds: For how long it says nothing when it hangs.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, choose: Choose, hang_seconds: float = 0.2) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.choose = choose
        self.hang_seconds = hang_seconds
        self.ended = threading.Event()
        self.bodies: list[bytes] = []
        self.requests = 0

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}/events"

    def events(self) -> Iterator[dict[str, Any]]:
        """Iterate over what it has accepted, repetitions too."""
        for body in self.bodies:
            yield from json.loads(body)["events"]

    def handle_error(self, *_: object) -> None:
        """Print nothing about clients that were killed."""


class _Handler(BaseHTTPRequestHandler):
    server: Receiver
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.server.requests += 1
        size = int(self.headers["Content-Length"])
        body = self.rfile.read(size)
        if len(body) < size:
            return  # the sender was killed in the middle of it
        self._answer(self.server.choose(body), body)

    def _answer(self, answer: Answer, body: bytes) -> None:
        if answer == "hang":
            self.server.ended.wait(self.server.hang_seconds)
            return self._reset()
        if answer == "reset":
            return self._reset()
        status = 200 if answer in {"accept", "lose"} else int(answer)
        if status < 300:  # noqa: PLR2004 - accepted
            self.server.bodies.append(body)
        if answer == "lose":
            return self._reset()
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()
        return None

    def _reset(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            self.connection.close()

    def log_message(self, *_: object) -> None:
        """Keep the output clean."""


@contextmanager
def receiving(choose: Choose, hang_seconds: float = 0.2) -> Iterator[Receiver]:
    """Listen until the block ends."""
    with Receiver(choose, hang_seconds) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.ended.set()
            server.shutdown()
            thread.join()
