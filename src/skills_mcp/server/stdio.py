"""Server on standard input and output, from start to shutdown.

There is one shutdown with three triggers: end of input, a signal, or the death of the
parent process. Calls and child processes are stopped. Events are on disk already;
publishing them gets one second.
"""

import json
import logging
import math
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from anyio.to_thread import run_sync
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
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

from skills_mcp.server.parts import (
    ServerPart,
    Serving,
    exit_process,
    list_background_work,
    run_or_shut_down,
    stop_serving,
    watch_signals,
)
from skills_mcp.server.wire import MAX_LINE_BYTES, Wire, escape_separators

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


logger = logging.getLogger(__name__)

_TOO_LONG = RpcError(
    None,
    INVALID_REQUEST,
    f"The message is longer than {MAX_LINE_BYTES:,} bytes. Send a shorter one.",
)

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]


class Lines(Protocol):
    """Messages of a client as lines, each end with its own way to wait."""

    async def read(self) -> JSONRPCMessage | Iterator[RpcError] | None:
        """Next message, or the errors for an invalid line; None at the end."""

    async def write(self, line: str) -> None:
        """Send a line; concurrent calls do not mix."""


def parse_line(line: str | None) -> JSONRPCMessage | Iterator[RpcError] | None:
    """Parse a line: None for an overlong one, "" at the end."""
    if line is None:
        return iter([_TOO_LONG])
    if not line:
        return None
    return iter(()) if line.isspace() else parse_message(line)


@asynccontextmanager
async def message_streams(lines: Lines) -> AsyncIterator[tuple[Incoming, Outgoing]]:
    """Message streams for the SDK; invalid lines are answered here.

    The SDK's `stdio_server` drops invalid lines, so clients wait forever, and buffers
    lines of any length.
    """
    # Without a buffer: a client that does not read keeps us from reading.
    received, incoming = anyio.create_memory_object_stream[SessionMessage | Exception]()
    outgoing, answers = anyio.create_memory_object_stream[SessionMessage]()
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_read, lines, received)
            tasks.start_soon(_write, lines, answers)
            yield incoming, outgoing
    except* ConnectionError:
        logger.info("The client has ended before its last answer")


@dataclass(frozen=True, slots=True)
class _Lines:
    """Wire with serialised writes of two tasks."""

    wire: Wire
    _writing: anyio.Lock = field(default_factory=anyio.Lock)

    async def read(self) -> JSONRPCMessage | Iterator[RpcError] | None:
        return await run_sync(self._read)

    async def write(self, line: str) -> None:
        async with self._writing:
            await run_sync(self._write, line)

    def _read(self) -> JSONRPCMessage | Iterator[RpcError] | None:
        return parse_line(self.wire.reading.readline())

    def _write(self, line: str) -> None:
        self.wire.writing.write(line + "\n")
        self.wire.writing.flush()


async def _read(lines: Lines, received: ObjectSendStream[SessionMessage | Exception]) -> None:
    """Forward messages until end of input; reject invalid ones."""
    async with received:
        while (message := await lines.read()) is not None:
            if not isinstance(message, Iterator):
                try:
                    await received.send(SessionMessage(message))
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    return  # the server has ended
                continue
            for refusal in message:
                logger.warning("Refused a message: %s", refusal.reason)
                await lines.write(refusal.as_json())


async def _write(lines: Lines, answers: ObjectReceiveStream[SessionMessage]) -> None:
    async with answers:
        async for answer in answers:
            # As the SDK writes it: what was not set is not sent.
            line = answer.message.model_dump_json(by_alias=True, exclude_unset=True)
            await lines.write(escape_separators(line))


_Work = Callable[[], Awaitable[object]]

_LAST_CALLS_SECONDS = 1.0
_PARENT_CHECK_SECONDS = 1.0


async def serve_stdio(serving: Serving, wire: Wire, parts: Sequence[ServerPart] = ()) -> None:
    """Serve until shutdown, then stop everything."""
    for part in parts:
        await part.open()
    works = tuple(list_background_work(serving, parts))
    async with _served(serving.server, wire, works) as shutdown:
        await stop_serving(serving, parts, shutdown)
        exit_process()


async def serve_unconfigured(server: Server[Any], wire: Wire, exit_code: int) -> None:
    """Serve until shutdown, then exit with this code."""
    async with _served(server, wire):
        exit_process(exit_code)


@asynccontextmanager
async def _served(
    server: Server[Any], wire: Wire, works: Sequence[_Work] = ()
) -> AsyncIterator[anyio.Event]:
    """Serve along with other tasks until shutdown; the block must call `exit_process`.

    The process exits without joining its threads: one thread blocks uninterruptibly in
    a read of standard input.
    """
    shutdown, answered = anyio.Event(), anyio.Event()
    serving = anyio.CancelScope()
    all_works: tuple[_Work, ...] = (
        partial(watch_signals, shutdown),
        partial(_watch_parent, shutdown),
        *works,
        partial(_serve, server, wire, serving, shutdown, answered),
    )
    async with anyio.create_task_group() as tasks:
        for work in all_works:
            tasks.start_soon(run_or_shut_down, work, shutdown)
        await shutdown.wait()
        # A script that is just being started is known only to its own call.
        serving.cancel()
        with anyio.move_on_after(_LAST_CALLS_SECONDS):
            await answered.wait()
        yield shutdown


async def _serve(
    server: Server[Any],
    wire: Wire,
    serving: anyio.CancelScope,
    shutdown: anyio.Event,
    answered: anyio.Event,
) -> None:
    with serving:
        async with message_streams(_Lines(wire)) as (read, write):
            try:
                await server.run(read, write, server.create_initialization_options())
                logger.info("The client has closed the connection")
            finally:
                # Not after the block: it waits for the end of our input, which
                # may never come when a client only stops reading.
                shutdown.set()
                answered.set()


async def _watch_parent(shutdown: anyio.Event) -> None:
    """Shut down after the death of the parent, even if the input stays open."""
    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110 - no event tells
        await anyio.sleep(_PARENT_CHECK_SECONDS)
    logger.info("The parent process is gone")
    shutdown.set()
