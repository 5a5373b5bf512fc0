"""Requests as bytes, as no client library would send them, and what comes back."""

import re
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

_STATUS = re.compile(rb"^HTTP/1\.[01] (\d{3}) ", re.MULTILINE)
_WORDS = re.compile(rb"[A-Za-z :=]{0,30}\Z")
"""The end of a text of ours: what comes before it may be of the request."""
_EVENTS = b"content-type: text/event-stream"
_CHUNK_BYTES = 1 << 16

_BRIEF_SECONDS = 0.2
"""A server that waits for more bytes, and a stream of notices, say nothing more."""

_MOST_ANSWER_BYTES = 1 << 26

_SERVER_ERROR = 500
_TOLD_BUSY = frozenset({HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.INSUFFICIENT_STORAGE})

Header = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class RawRequest:
    """The bytes of a request."""

    data: bytes
    is_whole: bool = True
    """Whether a server can tell where the request ends, and so has to answer."""

    def __repr__(self) -> str:
        """Return an expression of Python that sends it again."""
        return repr(self.data)


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """What a server has sent until it closed the connection or fell silent."""

    data: bytes
    seconds: float
    is_silent: bool
    """Whether nothing came for as long as the caller wanted to wait."""

    @property
    def statuses(self) -> tuple[int, ...]:
        """The statuses: one request may be two for the server."""
        return tuple(int(each) for each in _STATUS.findall(self.data))


def compose(
    method: bytes,
    target: bytes,
    headers: Iterable[Header],
    body: bytes = b"",
    *,
    version: bytes = b"HTTP/1.1",
) -> bytes:
    """Return a request; its length is added, unless the headers have one."""
    given = list(headers)
    names = {name.lower() for name, _ in given}
    if body and not names & {b"content-length", b"transfer-encoding"}:
        given.append((b"Content-Length", str(len(body)).encode()))
    lines = b"".join(name + b": " + value + b"\r\n" for name, value in given)
    return method + b" " + target + b" " + version + b"\r\n" + lines + b"\r\n" + body


def exchange(address: tuple[str, int], request: RawRequest, patience_seconds: float) -> RawAnswer:
    """Send a request on a connection of its own, and return what comes back.

    Raises:
        ConnectionRefusedError: Nothing listens there.
    """
    started = time.monotonic()
    wait_seconds = patience_seconds if request.is_whole else _BRIEF_SECONDS
    with socket.create_connection(address, patience_seconds) as client:
        received, is_silent = _converse(client, request.data, wait_seconds)
    seconds = time.monotonic() - started
    return RawAnswer(received, seconds, is_silent=is_silent and request.is_whole)


def _converse(client: socket.socket, data: bytes, wait_seconds: float) -> tuple[bytes, bool]:
    received = bytearray()
    try:
        client.sendall(data)
        client.settimeout(wait_seconds)
        while chunk := client.recv(_CHUNK_BYTES):
            received += chunk
            if _EVENTS in bytes(received[:4096]).lower():
                client.settimeout(_BRIEF_SECONDS)
            if len(received) > _MOST_ANSWER_BYTES:
                break
    except TimeoutError:
        return bytes(received), not received
    except ConnectionError:  # it refuses what is still being sent
        pass
    return bytes(received), False


def find_fault(answer: RawAnswer, sent: bytes, forbidden: Mapping[str, bytes]) -> str:
    """Return what an answer shows of a fault of the server; empty if it shows none.

    Args:
        answer: The answer.
        sent: The request; what it holds, its answer may repeat.
        forbidden: What no answer may hold, by what it is.
    """
    if answer.is_silent and not sent.startswith(b"GET /mcp"):  # a stream of notices
        return "no answer"
    for name, secret in forbidden.items():
        if secret in answer.data and secret not in sent:
            before = answer.data[: answer.data.index(secret)]
            words = _WORDS.search(before)
            return f"the answer has {name} after {words and words[0]!r}"
    for status in answer.statuses:
        if status >= _SERVER_ERROR and status not in _TOLD_BUSY:
            return f"status {status}"
        if status in _TOLD_BUSY and b"retry-after:" not in answer.data.lower():
            return f"status {status} without Retry-After"
    return ""
