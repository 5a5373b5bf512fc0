"""OAuth scopes required by HTTP requests."""

import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.types import Message, Receive, Scope

from skills_mcp.server.core_tools import CORE_TOOLS
from skills_mcp.skills.principal import EVENTS, READ, REPORT, UPLOAD, Principal

_TOOL_SCOPES = {tool.name: tool.scope for tool in CORE_TOOLS if tool.scope != READ}

_MCP_SCOPES = {READ, *_TOOL_SCOPES.values()}


class MissingScopeError(Exception):
    """The caller lacks a required scope."""

    def __init__(self, scope: str) -> None:
        super().__init__(f"The request needs the scope {scope}")
        self.scope = scope


async def check_scopes(
    scope: Scope, receive: Receive, principal: Principal, max_body_bytes: int
) -> Receive:
    """Authorise a request; a receive channel for the rest.

    The called tool comes from the body: the header is unverified until the SDK compares
    both.

    Raises:
        MissingScopeError: The caller lacks a scope.
    """
    needed_first = required_scopes(scope)
    for required in needed_first:
        if not principal.may(required):
            raise MissingScopeError(required)
    if needed_first != (READ,):
        return receive
    if scope["method"] != "POST" or principal.scopes.issuperset(_MCP_SCOPES):
        return receive
    body, replay = await _read_body(receive, max_body_bytes)
    needed = _TOOL_SCOPES.get(_parse_tool(body), READ)
    if not principal.may(needed):
        raise MissingScopeError(needed)
    return replay


def required_scopes(scope: Scope) -> tuple[str, ...]:
    """Scopes required by the path."""
    match scope["path"]:
        case "/events":
            return (EVENTS,)
        case "/api/skills/upload-install":
            return (UPLOAD,)
        case "/report" | "/api/report":
            return READ, REPORT
        # The form itself says what a person lacks.
        case "/add" if scope["method"] == "POST":
            return READ, UPLOAD
        case path if path.startswith("/add/"):
            return READ, UPLOAD
        case _:
            return (READ,)


async def _read_body(
    receive: Receive, max_bytes: int
) -> tuple[bytes, Callable[[], Awaitable[Message]]]:
    """Body of a request, and a channel to replay it.

    Overlong bodies are read up to the limit only; a later layer rejects them.
    """
    messages: deque[Message] = deque()
    body = bytearray()
    while True:
        messages.append(message := await receive())
        body += message.get("body", b"")
        is_last = message["type"] != "http.request" or not message.get("more_body")
        if is_last or len(body) > max_bytes:
            break

    async def again() -> Message:
        return messages.popleft() if messages else await receive()

    return bytes(body), again


def _parse_tool(body: bytes) -> str:
    """Called tool of a message; empty if none.

    The server checks again on dispatch, so a message parsed differently there runs
    nothing.
    """
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(message, Mapping) or message.get("method") != "tools/call":
        return ""
    parameters: Any = message.get("params")
    name = parameters.get("name") if isinstance(parameters, Mapping) else ""
    return name if isinstance(name, str) else ""
