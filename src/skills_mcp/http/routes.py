"""Routes of the MCP port, and predicates over its requests.

Rule: Server Card and AI Catalog, by which clients find the server (SEP-2127), are public,
so they tell no more than name, version and address.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from skills_mcp.about import __version__
from skills_mcp.config.values import is_loopback
from skills_mcp.http.error_responses import error_response
from skills_mcp.skills.access import EVENTS, READ

CARD_PATHS = ("/mcp/server-card", "/server-card")

# The first one is that of the newest text of SEP-2127, and the other of an older one.
CATALOG_PATHS = ("/.well-known/ai-catalog.json", "/.well-known/mcp/catalog.json")

PUBLIC_PATHS = frozenset({*CARD_PATHS, *CATALOG_PATHS})
"""Documents for everyone."""

_SCHEMA = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
_CARD_TYPE = "application/mcp-server-card+json"
_CATALOG_TYPE = "application/ai-catalog+json"
_NAME = "skills-mcp"
_TITLE = "Skills of this organisation"
_DESCRIPTION = "Engineering knowledge of an organisation, kept in Git, for coding agents"

_HEADERS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET",
    "Access-Control-Allow-Headers": "Content-Type, If-None-Match",
    "Access-Control-Expose-Headers": "ETag",
    "Cache-Control": "public, max-age=3600",
}


Locate: TypeAlias = Callable[[Scope], str]
"""URL of the MCP endpoint, as the client of a request reaches it."""


def card_routes(locate: Locate) -> list[Route]:
    return [
        *(Route(path, _Document(locate, _CARD_TYPE, describe_server)) for path in CARD_PATHS),
        *(
            Route(path, _Document(locate, _CATALOG_TYPE, describe_catalog))
            for path in CATALOG_PATHS
        ),
    ]


@dataclass(frozen=True, slots=True)
class _Document:
    """ASGI application of one of the two documents."""

    _locate: Locate
    _media_type: str
    _describe: Callable[[str], Mapping[str, Any]]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (refuse_method(scope) or self._respond(scope))(scope, receive, send)

    def _respond(self, scope: Scope) -> Response:
        data = json.dumps(self._describe(self._locate(scope)), indent=2).encode()
        return tagged_response(scope, data, self._media_type, _HEADERS)


def describe_server(url: str) -> Mapping[str, Any]:
    """Server Card of the endpoint at a URL."""
    remote = {
        "type": "streamable-http",
        "url": url,
        "supportedProtocolVersions": list(KNOWN_PROTOCOL_VERSIONS),
    }
    return {
        "$schema": _SCHEMA,
        "name": f"{'.'.join(_reverse_domain(url))}/{_NAME}",
        "version": __version__,
        "title": _TITLE,
        "description": _DESCRIPTION,
        "remotes": [remote],
    }


def describe_catalog(url: str) -> Mapping[str, Any]:
    publisher = ".".join(reversed(_reverse_domain(url)))
    entry = {
        "identifier": f"urn:air:{publisher}:mcp:{_NAME}",
        "type": _CARD_TYPE,
        "url": f"{url}/server-card",
    }
    return {"specVersion": "1.0", "entries": [entry]}


def _reverse_domain(url: str) -> Sequence[str]:
    host = urlsplit(url).hostname or ""
    return ["localhost"] if is_loopback(host) else host.replace(":", "-").split(".")[::-1]


def refuse_method(scope: Scope) -> Response | None:
    """405, unless the method is GET or HEAD."""
    if scope["method"] in {"GET", "HEAD"}:
        return None
    message, allowed = "This address is for GET.", {"Allow": "GET, HEAD"}
    return error_response(405, "METHOD_NOT_ALLOWED", message, allowed)


def tagged_response(
    scope: Scope, data: bytes, media_type: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Response with an ETag; 304 if the client has it already (RFC 9110)."""
    tag = f'"{sha256(data).hexdigest()}"'
    tagged = {**(headers or {}), "ETag": tag}
    known = Headers(scope=scope).get("if-none-match", "").split(",")
    if not {"*", tag}.isdisjoint(each.strip().removeprefix("W/") for each in known):
        return Response(status_code=304, headers=tagged)
    return Response(data, media_type=media_type, headers=tagged)


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
