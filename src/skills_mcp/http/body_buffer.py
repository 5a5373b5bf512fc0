"""Buffering of request bodies."""

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skills_mcp.config import Http
from skills_mcp.http.admission import opens_stream
from skills_mcp.http.refusals import busy_response, draw_retry_seconds, error_response
from skills_mcp.server.callers import identify_client

# A request that opens a stream has a few headers and names; its body stays in memory.
_MAX_STREAM_BODY_BYTES = 65_536

_MEMORY_SHARE = 4  # of the memory, one client has at most a quarter

_CLOSE = {"Connection": "close"}

# Too many requests, unavailable, insufficient storage: it may succeed later.
_RETRYABLE = frozenset({429, 503, 507})


class BodyBufferMiddleware:
    """Middleware that reads the complete body before the request is handled.

    So slow senders do not block others. Each client has a bounded share of the memory
    for
    bodies.
    """

    def __init__(self, app: ASGIApp, *, http: Http) -> None:
        self._app = app
        self._http = http
        self._body_bytes: Counter[Hashable] = Counter()
        self._total_max_bytes = http.max_concurrent_requests * http.max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        is_small = opens_stream(scope)
        body = _Body(_MAX_STREAM_BODY_BYTES if is_small else self._http.max_body_bytes)
        trusted = self._http.trust_proxy_headers
        client = identify_client(scope, trust_proxy_headers=trusted)
        try:
            refusal = await self._read(body, headers, receive, client)
            if not body.is_abandoned:
                answer = refusal or self._app
                replayed = body.replayed_before(receive)
                await answer(scope, replayed, _with_retry_after(send))
        finally:
            self._release_body(body, client)

    async def _read(
        self, body: "_Body", headers: Headers, receive: Receive, client: Hashable
    ) -> Response | None:
        """Read the complete body; a response if it is rejected."""
        declared = headers.get("content-length", "")
        if declared.isdecimal() and int(declared[:20]) > body.max_bytes:
            return _too_large(body.max_bytes)
        with anyio.move_on_after(self._http.request_timeout_seconds) as timeout:
            while not body.is_complete:
                self._body_bytes[client] += body.add(await receive())
                if body.is_abandoned:
                    return None
                if len(body.content) > body.max_bytes:
                    return _too_large(body.max_bytes)
                if self._is_out_of_memory(client):
                    return busy_response()
        return _too_slow() if timeout.cancelled_caught else None

    def _is_out_of_memory(self, client: Hashable) -> bool:
        share = max(self._total_max_bytes // _MEMORY_SHARE, self._http.max_body_bytes)
        return self._body_bytes[client] > share or self._body_bytes.total() > self._total_max_bytes

    def _release_body(self, body: "_Body", client: Hashable) -> None:
        self._body_bytes[client] -= len(body.content)
        if not self._body_bytes[client]:
            del self._body_bytes[client]


@dataclass(slots=True)
class _Body:
    """Partially received body."""

    max_bytes: int
    content: bytes = b""
    is_complete: bool = False
    is_abandoned: bool = False

    def add(self, message: Message) -> int:
        if message["type"] != "http.request":
            self.is_abandoned = True
            return 0
        chunk = message.get("body", b"")
        # Most bodies come as one part, which is not copied.
        self.content = self.content + chunk if self.content else chunk
        self.is_complete = not message.get("more_body", False)
        return len(chunk)

    def replayed_before(self, receive: Receive) -> Receive:
        is_read = False

        async def replay() -> Message:
            nonlocal is_read
            if is_read:
                return await receive()
            is_read = True
            return {"type": "http.request", "body": self.content, "more_body": False}

        return replay


def _with_retry_after(send: Send) -> Send:
    """Add `Retry-After` to retryable errors."""

    async def complete(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] in _RETRYABLE:
            headers = MutableHeaders(raw=message["headers"])
            headers.setdefault("Retry-After", str(draw_retry_seconds()))
        await send(message)

    return complete


def _too_large(max_bytes: int) -> Response:
    return error_response(
        413,
        "REQUEST_TOO_LARGE",
        f"The request is larger than {max_bytes:,} bytes. Send a shorter one.",
    )


def _too_slow() -> Response:
    return error_response(
        408,
        "REQUEST_TOO_SLOW",
        "The request did not arrive in time. Send it again.",
        _CLOSE,  # its rest may still come
    )
