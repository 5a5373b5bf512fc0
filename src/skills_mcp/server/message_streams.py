"""Line-based MCP transport."""

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from anyio.to_thread import run_sync
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, JSONRPCMessage

from skills_mcp.server.envelope import RpcError, parse_message
from skills_mcp.server.wire import MAX_LINE_BYTES, Wire

logger = logging.getLogger(__name__)

_TOO_LONG = RpcError(
    None,
    INVALID_REQUEST,
    f"The message is longer than {MAX_LINE_BYTES:,} bytes. Send a shorter one.",
)

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]


@asynccontextmanager
async def message_streams(wire: Wire) -> AsyncIterator[tuple[Incoming, Outgoing]]:
    """Message streams for the SDK; invalid lines are answered here.

    The SDK's `stdio_server` drops invalid lines, so clients wait forever, and buffers
    lines
    of any length.
    """
    # Without a buffer: a client that does not read keeps us from reading.
    received, incoming = anyio.create_memory_object_stream[SessionMessage | Exception]()
    outgoing, answers = anyio.create_memory_object_stream[SessionMessage]()
    lines = _Lines(wire)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, lines, received)
        tasks.start_soon(_write, lines, answers)
        yield incoming, outgoing


@dataclass(frozen=True, slots=True)
class _Lines:
    """Wire with serialised writes of two tasks."""

    wire: Wire
    _writing: anyio.Lock = field(default_factory=anyio.Lock)

    async def read(self) -> JSONRPCMessage | Iterator[RpcError] | None:
        """Next message, or the errors for an invalid line; None at the end."""
        return await run_sync(self._read)

    async def write(self, line: str) -> None:
        async with self._writing:
            await run_sync(self._write, line)

    def _read(self) -> JSONRPCMessage | Iterator[RpcError] | None:
        line = self.wire.reading.readline()
        if line is None:
            return iter([_TOO_LONG])
        if not line:
            return None
        return iter(()) if line.isspace() else parse_message(line)

    def _write(self, line: str) -> None:
        self.wire.writing.write(line + "\n")
        self.wire.writing.flush()


async def _read(lines: _Lines, received: ObjectSendStream[SessionMessage | Exception]) -> None:
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


async def _write(lines: _Lines, answers: ObjectReceiveStream[SessionMessage]) -> None:
    async with answers:
        async for answer in answers:
            # As the SDK writes it: what was not set is not sent.
            message = answer.message
            await lines.write(message.model_dump_json(by_alias=True, exclude_unset=True))
