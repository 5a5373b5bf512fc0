"""Routes of the MCP port, and predicates over its requests."""

from collections.abc import Callable

from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.types import Message, Scope, Send

from skills_mcp.http.server_card import PUBLIC_PATHS
from skills_mcp.skills.access import EVENTS, READ

MCP_PATH = "/mcp"

EVENTS_PATH = "/events"

WEBHOOK_PATH = "/hooks/git"

WELL_KNOWN = "/.well-known/oauth-protected-resource"

ROUTES = {
    MCP_PATH: READ,
    EVENTS_PATH: EVENTS,
    WEBHOOK_PATH: READ,
    WELL_KNOWN: READ,
    f"{WELL_KNOWN}{MCP_PATH}": READ,
    **dict.fromkeys(PUBLIC_PATHS, READ),
}
"""Paths for programs, and the scope behind sign-in; metrics have no other paths."""

BODY_KEY = "skills_mcp.body"
"""Key of the complete body in the ASGI scope."""


def opens_stream(scope: Scope) -> bool:
    """Whether a request opens a notification stream.

    Since 2026-07-28 the SDK rejects a method header in conflict with the body; with
    older versions it ignores the header.
    """
    if scope["path"] != MCP_PATH:
        return False
    if scope["method"] != "POST":
        return bool(scope["method"] == "GET")
    headers = Headers(scope=scope)
    is_modern = headers.get(MCP_PROTOCOL_VERSION_HEADER) in MODERN_PROTOCOL_VERSIONS
    return is_modern and headers.get("mcp-method") == "subscriptions/listen"


def seeks_mcp(scope: Scope) -> bool:
    """Whether a client of MCP asks at a wrong path: no page takes or sends such bodies."""
    if scope["path"] in ROUTES or scope["path"].startswith("/api/"):
        return False
    headers = Headers(scope=scope)
    is_json = headers.get("content-type", "").lower().startswith("application/json")
    is_message = scope["method"] == "POST" and is_json
    return is_message or "text/event-stream" in headers.get("accept", "")


def on_response_start(send: Send, hook: Callable[[Message], None]) -> Send:
    """Call a hook with the start of a response; it may change the headers."""

    async def forward(message: Message) -> None:
        if message["type"] == "http.response.start":
            hook(message)
        await send(message)

    return forward
