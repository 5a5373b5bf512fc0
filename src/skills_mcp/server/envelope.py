"""JSON-RPC messages from clients."""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    JSONRPCMessage,
    JSONRPCNotification,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from pydantic_core import from_json

_NOT_JSON = "Parse error: this is no valid JSON."
_BATCH = "MCP has no batches. Send each message by itself."
_TOO_DEEP = "The message is nested too deeply. Send flatter arguments."

# What pydantic's parser says beyond 200 levels.
_PARSER_TOO_DEEP = "recursion limit"

# A string, whose end may be missing, or a bracket.  Possessive: no backtracking.
_STRING_OR_BRACKET = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', flags=re.DOTALL)

RequestId = str | int | float | None


@dataclass(frozen=True, slots=True)
class RpcError:
    """JSON-RPC error response to an invalid message.

    Args:
        id: Of the request, even one forbidden by MCP, such as 1.5.
        reason: Correct usage, for the sender.
    """

    id: RequestId
    code: int
    reason: str

    def as_json(self) -> str:
        error = {"code": self.code, "message": self.reason}
        return json.dumps({"jsonrpc": "2.0", "id": self.id, "error": error})


def parse_message(text: str | bytes) -> JSONRPCMessage | Iterator[RpcError]:
    """Parse a message; error responses (perhaps none) if it is invalid.

    A request with a readable id gets a response with this id, because its client waits.
    Responses and notifications never get one, so two programs cannot answer each other
    endlessly.
    """
    try:
        sent = from_json(text)
    except ValueError as error:
        if _PARSER_TOO_DEEP in str(error):
            return _reject_deep(text)
        return iter([RpcError(None, PARSE_ERROR, _NOT_JSON)])
    try:
        message = jsonrpc_message_adapter.validate_python(sent, by_name=False)
    except ValidationError:
        return _reject(sent)
    # The SDK takes a request for a notification if its id has a wrong type.
    if isinstance(message, JSONRPCNotification) and "id" in sent:
        return _reject(sent)
    return message


def _reject_deep(text: str | bytes) -> Iterator[RpcError]:
    """Reject excessive nesting; the id comes from a flattened copy."""
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    try:
        sent = from_json(_flatten(text))
    except ValueError:
        yield RpcError(None, PARSE_ERROR, _NOT_JSON)
        return
    if isinstance(sent, list) or _expects_response(sent):
        yield RpcError(_read_id(sent), INVALID_REQUEST, _TOO_DEEP)


def _flatten(text: str) -> str:
    pieces: list[str] = []
    depth = start = 0
    for token in _STRING_OR_BRACKET.finditer(text):
        if token[0] in "[{":
            if depth == 1:
                pieces += text[start : token.start()], "null"
            depth += 1
        elif token[0] in "]}":
            depth -= 1
            if depth == 1:
                start = token.end()
    return "".join([*pieces, text[start:]])


def _reject(sent: Any) -> Iterator[RpcError]:
    """One error response per message, or per request of a batch.

    The sender of a batch waits for each id. A batch without a readable id is answered
    once.
    """
    if isinstance(sent, list):
        waiting = [item for item in sent if _expects_response(item)]
        ids = [item for item in map(_read_id, waiting) if item is not None]
        for item in ids:
            yield RpcError(item, INVALID_REQUEST, _BATCH)
        if not ids and (waiting or not sent):
            yield RpcError(None, INVALID_REQUEST, _BATCH)
    elif _expects_response(sent):
        yield RpcError(_read_id(sent), *_diagnose(sent))


def _expects_response(sent: Any) -> bool:
    """Neither a response nor a notification."""
    if not isinstance(sent, dict):
        return True
    if "method" in sent:
        return "id" in sent
    return "result" not in sent and "error" not in sent


def _read_id(sent: Any) -> RequestId:
    """String or finite number, the ids that can be echoed unchanged."""
    request_id = sent.get("id") if isinstance(sent, dict) else None
    if isinstance(request_id, bool) or not isinstance(request_id, str | int | float):
        return None
    return None if isinstance(request_id, float) and not math.isfinite(request_id) else request_id


def _diagnose(sent: Any) -> tuple[int, str]:
    if not isinstance(sent, dict):
        return INVALID_REQUEST, "A message is a JSON object."
    if sent.get("jsonrpc") != "2.0":
        return INVALID_REQUEST, 'A message has "jsonrpc": "2.0".'
    if not isinstance(sent.get("method"), str):
        return INVALID_REQUEST, "A request has a method, which is a string."
    request_id = sent.get("id")
    if isinstance(request_id, bool) or not isinstance(request_id, str | int):
        return INVALID_REQUEST, "The id of a request is a string or an integer."
    return INVALID_PARAMS, "The params of a request are an object."
