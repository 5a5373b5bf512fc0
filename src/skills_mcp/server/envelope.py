"""The JSON-RPC message that a client sends: understood, or refused with the reason.

Rule: a request whose id can be read gets an answer with that id, because its client
waits for it. Responses and notifications never get one, so no two programs can answer
each other without end.
"""

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
_STRING_OR_BRACKET = re.compile(
    r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', flags=re.DOTALL
)

RequestId = str | int | float | None
"""What an answer names its request by; None where that cannot be read."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer to what is no message of MCP.

    Args:
        id: Of the request, also one that MCP does not allow, such as 1.5.
        code: A code of JSON-RPC.
        reason: Says what to send instead.
    """

    id: RequestId
    code: int
    reason: str

    def as_json(self) -> str:
        """Return one line of JSON."""
        error = {"code": self.code, "message": self.reason}
        return json.dumps({"jsonrpc": "2.0", "id": self.id, "error": error})


def parse_message(text: str | bytes) -> JSONRPCMessage | Iterator[Refusal]:
    """Return the message, or the refusals to answer with, which may be none."""
    try:
        sent = from_json(text)
    except ValueError as error:
        if _PARSER_TOO_DEEP in str(error):
            return _refuse_deep(text)
        return iter([Refusal(None, PARSE_ERROR, _NOT_JSON)])
    try:
        message = jsonrpc_message_adapter.validate_python(sent, by_name=False)
    except ValidationError:
        return _refuse(sent)
    # The SDK takes a request for a notification if its id has a wrong type.
    if isinstance(message, JSONRPCNotification) and "id" in sent:
        return _refuse(sent)
    return message


def _refuse_deep(text: str | bytes) -> Iterator[Refusal]:
    """Refuse what is nested too deeply; its id is read from a flat copy."""
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    try:
        sent = from_json(_flatten(text))
    except ValueError:
        yield Refusal(None, PARSE_ERROR, _NOT_JSON)
        return
    if isinstance(sent, list) or _awaits_answer(sent):
        yield Refusal(_read_id(sent), INVALID_REQUEST, _TOO_DEEP)


def _flatten(text: str) -> str:
    """Return an object or an array in which each nested one is null."""
    kept: list[str] = []
    depth = start = 0
    for token in _STRING_OR_BRACKET.finditer(text):
        if token[0] in "[{":
            if depth == 1:
                kept += text[start : token.start()], "null"
            depth += 1
        elif token[0] in "]}":
            depth -= 1
            if depth == 1:
                start = token.end()
    return "".join([*kept, text[start:]])


def _refuse(sent: Any) -> Iterator[Refusal]:
    """Yield one answer to a message, and one to each request of a batch.

    A client that has sent a batch waits for each of its ids.  A batch without an id
    that can be read is answered once.
    """
    if isinstance(sent, list):
        waiting = [each for each in sent if _awaits_answer(each)]
        ids = [each for each in map(_read_id, waiting) if each is not None]
        for each in ids:
            yield Refusal(each, INVALID_REQUEST, _BATCH)
        if not ids and (waiting or not sent):
            yield Refusal(None, INVALID_REQUEST, _BATCH)
    elif _awaits_answer(sent):
        yield Refusal(_read_id(sent), *_find_fault(sent))


def _awaits_answer(sent: Any) -> bool:
    """Whether it is neither a response nor a notification."""
    if not isinstance(sent, dict):
        return True
    if "method" in sent:
        return "id" in sent
    return "result" not in sent and "error" not in sent


def _read_id(sent: Any) -> RequestId:
    """Return the id, if it is a text or a number: those can be sent back unchanged."""
    given = sent.get("id") if isinstance(sent, dict) else None
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        return None
    return None if isinstance(given, float) and not math.isfinite(given) else given


def _find_fault(sent: Any) -> tuple[int, str]:
    """Return the code and the reason of what is no message."""
    if not isinstance(sent, dict):
        return INVALID_REQUEST, "A message is a JSON object."
    if sent.get("jsonrpc") != "2.0":
        return INVALID_REQUEST, 'A message has "jsonrpc": "2.0".'
    if not isinstance(sent.get("method"), str):
        return INVALID_REQUEST, "A request has a method, which is a string."
    given = sent.get("id")
    if isinstance(given, bool) or not isinstance(given, str | int):
        return INVALID_REQUEST, "The id of a request is a string or an integer."
    return INVALID_PARAMS, "The params of a request are an object."
