"""How much is taken on at once, so that load costs time and never memory.

Rule: a request that was admitted is answered.  The others are told at once, or after a
short wait, when to come again.
"""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skills_mcp.config import Http
from skills_mcp.server.http.protected_resource import PATH
from skills_mcp.server.http.refusals import refuse

# Longer than a burst of a thousand calls takes, and shorter than any client waits.
_MAX_WAIT_SECONDS = 10.0

# Clients that were refused together do not come back together.
_RETRY_AFTER_SECONDS = (1, 5)

# A request that opens a stream has a few headers and names; its body stays in memory.
_MAX_STREAM_BODY_BYTES = 65_536

_CLOSE = {"Connection": "close"}


class Admission:
    """Admits as many requests as the settings allow, each with a complete body.

    The body is read before the request counts, so a client that sends slowly keeps no
    other from being answered.  Streams that only wait for notices count apart.

    Args:
        app: What answers.
        http: The settings.
    """

    def __init__(self, app: ASGIApp, *, http: Http) -> None:
        self._app = app
        self._http = http
        self._calls = anyio.Semaphore(http.max_concurrent_requests, fast_acquire=True)
        self._open_streams = 0
        self._body_bytes = 0
        self._max_bytes_together = http.max_concurrent_requests * http.max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or refuse a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        is_stream = scope["path"] == PATH and _opens_stream(scope["method"], headers)
        body = _Body(_MAX_STREAM_BODY_BYTES if is_stream else self._http.max_body_bytes)
        try:
            refusal = await self._read(body, headers, receive)
            if body.is_abandoned:
                return
            async with self._admitted(is_stream=is_stream) as is_admitted:
                answer = refusal or (self._app if is_admitted else _busy())
                await answer(scope, body.replayed_before(receive), send)
        finally:
            self._body_bytes -= len(body.content)

    async def _read(
        self, body: "_Body", headers: Headers, receive: Receive
    ) -> Response | None:
        """Read the whole body, or return the reason to refuse it."""
        declared = headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > body.max_bytes:
            return _too_large(body.max_bytes)
        with anyio.move_on_after(self._http.request_timeout_seconds) as patience:
            while not body.is_complete:
                chunk = body.add(await receive())
                self._body_bytes += chunk
                if body.is_abandoned:
                    return None
                if len(body.content) > body.max_bytes:
                    return _too_large(body.max_bytes)
                if self._body_bytes > self._max_bytes_together:
                    return _busy()
        return _too_slow() if patience.cancelled_caught else None

    @asynccontextmanager
    async def _admitted(self, *, is_stream: bool) -> AsyncIterator[bool]:
        """Count a request while it is answered; false if there is no room for it."""
        if is_stream:
            self._open_streams += 1
            try:
                yield self._open_streams <= self._http.max_streams
            finally:
                self._open_streams -= 1
        elif await self._enter():
            try:
                yield True
            finally:
                self._calls.release()
        else:
            yield False

    async def _enter(self) -> bool:
        """Wait for room, if not too many wait already."""
        try:
            self._calls.acquire_nowait()
        except anyio.WouldBlock:
            waiting = self._calls.statistics().tasks_waiting
            if waiting >= self._http.max_waiting_requests:
                return False
            with anyio.move_on_after(_MAX_WAIT_SECONDS) as wait:
                await self._calls.acquire()
            return not wait.cancelled_caught
        return True


@dataclass(slots=True)
class _Body:
    """The body of a request, as far as it has come."""

    max_bytes: int
    content: bytes = b""
    is_complete: bool = False
    is_abandoned: bool = False
    """Whether the client has gone."""

    def add(self, message: Message) -> int:
        """Take the next part; return its size."""
        if message["type"] != "http.request":
            self.is_abandoned = True
            return 0
        chunk = message.get("body", b"")
        # Most bodies come as one part, which is not copied.
        self.content = self.content + chunk if self.content else chunk
        self.is_complete = not message.get("more_body", False)
        return len(chunk)

    def replayed_before(self, receive: Receive) -> Receive:
        """Return a channel with the body as one part, and then what comes after it."""
        is_read = False

        async def replay() -> Message:
            nonlocal is_read
            if is_read:
                return await receive()
            is_read = True
            return {"type": "http.request", "body": self.content, "more_body": False}

        return replay


def _opens_stream(method: str, headers: Headers) -> bool:
    """Whether a request opens a stream that only waits for notices.

    The SDK refuses a request of the newer version whose header names another method
    than its body; of the older versions it does not read that header.
    """
    if method != "POST":
        return method == "GET"
    is_modern = headers.get(MCP_PROTOCOL_VERSION_HEADER) in MODERN_PROTOCOL_VERSIONS
    return is_modern and headers.get("mcp-method") == "subscriptions/listen"


def _busy() -> Response:
    seconds = random.randint(*_RETRY_AFTER_SECONDS)  # noqa: S311 - spreads load
    return refuse(
        503,
        "SERVER_BUSY",
        f"The server is busy. Try again in {seconds} s.",
        {"Retry-After": str(seconds)},
    )


def _too_large(max_bytes: int) -> Response:
    return refuse(
        413,
        "REQUEST_TOO_LARGE",
        f"The request is larger than {max_bytes:,} bytes. Send a shorter one.",
    )


def _too_slow() -> Response:
    return refuse(
        408,
        "REQUEST_TOO_SLOW",
        "The request did not arrive in time. Send it again.",
        _CLOSE,  # its rest may still come
    )
