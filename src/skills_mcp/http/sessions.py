"""Limit of protocol sessions, with fair shares.

The SDK stores sessions of the handshake era. It rejects new ones at its limit and
expires idle ones only after half an hour, so one client could lock out all others.
"""

import logging
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skills_mcp.http.admission import FairShares
from skills_mcp.http.error_responses import retry_response
from skills_mcp.http.protected_resource import MCP_PATH
from skills_mcp.server.callers import identify_client

logger = logging.getLogger(__name__)

MAX_SESSIONS = 4_096
"""Equal to the default number of streams: older clients open one per session.

With the SDK's 10,000, a full garbage collection stops the server for a second. Evicted
clients only have to initialise again.
"""

_RETRY_AFTER_SECONDS = (5, 5)

_VERSION_HEADER = MCP_PROTOCOL_VERSION_HEADER.lower().encode()
_ID_HEADER = MCP_SESSION_ID_HEADER.lower().encode()
_FIRST_FAULT = 400


@dataclass(slots=True, eq=False)
class _Session:
    """A session, with the data to end it on behalf of its owner."""

    owner: dict[str, Any]
    """Entries of the ASGI scope by which the SDK recognises the owner."""
    session_id: str = ""
    """Empty until the session is open."""
    requests: int = 1
    """Requests in flight, including streams and the opening request."""


class SessionLimitMiddleware:
    """Middleware that evicts idle sessions in favour of new ones.

    Args:
        app: Endpoint of the SDK, with at least this limit.
        trust_proxy_headers: Use the last address of `X-Forwarded-For`.
    """

    def __init__(self, app: ASGIApp, capacity: int, *, trust_proxy_headers: bool) -> None:
        self._app = app
        self._trust_proxy_headers = trust_proxy_headers
        self._shares: FairShares[_Session] = FairShares(
            capacity, lambda session: not session.requests
        )
        self._known: dict[str, _Session] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        session_id = headers.get(MCP_SESSION_ID_HEADER)
        if session_id is not None:
            await self._answer_in(session_id, scope, receive, send)
        elif scope["method"] == "POST" and _is_handshake_era(headers):
            await self._open(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _answer_in(self, session_id: str, scope: Scope, receive: Receive, send: Send) -> None:
        session = self._known.get(session_id)
        if session is None:
            await self._app(scope, receive, send)
            return
        answer = _RecordedResponse(send)
        session.requests += 1
        try:
            await self._app(scope, receive, answer.send)
        finally:
            session.requests -= 1
        if not answer.is_success:  # the SDK refuses another caller
            return
        if scope["method"] == "DELETE":
            self._forget(session)
        else:
            self._shares.use(session, self._identify(scope))

    async def _open(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = self._identify(scope)
        evicted = self._shares.evict(client) if self._shares.is_full else None
        if self._shares.is_full:
            message = "As many sessions are in use as this server has. Try again in {seconds} s."
            refusal = retry_response(503, "TOO_MANY_SESSIONS", message, _RETRY_AFTER_SECONDS)
            await refusal(scope, receive, send)
            return
        session = _Session({"user": scope["user"]} if "user" in scope else {})
        self._shares.add(session, client)  # before another client takes the room
        answer = _RecordedResponse(send)
        try:
            if evicted:
                await self._end(evicted)
            await self._app(scope, receive, answer.send)
        finally:
            session.requests -= 1
            if answer.is_success and answer.session_id:
                session.session_id = answer.session_id
                self._known[session.session_id] = session
            else:
                self._forget(session)

    async def _end(self, session: _Session) -> None:
        """Send the DELETE request of the owner."""
        self._forget(session)
        logger.info("Ended an idle session, because other clients open sessions")
        scope: Scope = {
            "type": "http",
            "method": "DELETE",
            "path": MCP_PATH,
            "root_path": "",
            "query_string": b"",
            "headers": [
                (_ID_HEADER, session.session_id.encode()),
                (_VERSION_HEADER, LATEST_HANDSHAKE_VERSION.encode()),
            ],
            **session.owner,
        }
        await self._app(scope, _receive_nothing, _discard)

    def _forget(self, session: _Session) -> None:
        self._shares.remove(session)
        self._known.pop(session.session_id, None)

    def _identify(self, scope: Scope) -> Hashable:
        return identify_client(scope, trust_proxy_headers=self._trust_proxy_headers)


class _RecordedResponse:
    """Records status and session id of a response."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._status = 0
        self.session_id = ""

    @property
    def is_success(self) -> bool:
        return 0 < self._status < _FIRST_FAULT

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self.session_id = Headers(raw=message["headers"]).get(MCP_SESSION_ID_HEADER, "")
        await self._send(message)


def _is_handshake_era(headers: Headers) -> bool:
    version = headers.get(MCP_PROTOCOL_VERSION_HEADER)
    return version is None or version in HANDSHAKE_PROTOCOL_VERSIONS


async def _receive_nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _discard(message: Message) -> None:
    del message
