"""The server of all windows: a session for each, over one library and its background work.

A session has what a process of its own would have: a server with the state of its
client, an environment and a working directory for scripts, and a log.
"""

import asyncio
import json
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_types import JSONRPCMessage

from skills_mcp.about import __version__
from skills_mcp.server.app import SkillsServer, create_server
from skills_mcp.server.parts import (
    ServerPart,
    Serving,
    Window,
    exit_process,
    list_background_work,
    run_or_shut_down,
    stop_serving,
    watch_signals,
)
from skills_mcp.server.stdio import RpcError, message_streams, parse_line
from skills_mcp.server.windows.command_client import (
    DECLINED,
    ENDED,
    HEADER_BYTES,
    WORKING,
    WORKING_SECONDS,
)
from skills_mcp.server.windows.rendezvous import (
    ACCEPTED,
    MAX_GREETING_BYTES,
    PROTOCOL,
    Rendezvous,
    read_inode,
    read_peer_user,
)
from skills_mcp.server.windows.window_log import ServerLog, WindowLog
from skills_mcp.server.wire import MAX_LINE_BYTES, decode_line

logger = logging.getLogger(__name__)

_Context = ServerRequestContext[Any, Any]

_READ_BYTES = 2**18
_HEADER_BYTES = 100
_GREETING_SECONDS = 5.0
_LAST_CALLS_SECONDS = 1.0  # as on standard input
_FIRST_WINDOW_SECONDS = 30.0  # the forwarder that has started us may have been killed
_MINUTE_SECONDS = 60.0

# One runs, and the others wait a second for it.
_MAX_COMMANDS = 4

# A window without a server that it can find serves by itself meanwhile.
_PLACE_CHECK_SECONDS = 20.0

# Longer messages are parsed in a thread, so that other windows do not wait for it.
_LONG_LINE_BYTES = 2**16


CommandWork = Callable[
    [Sequence[str], Mapping[str, str], Path | None, Callable[[bytes, bytes], None]], int | None
]
"""Runs a command with its words, variables and folder; see `CommandRunner`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    """What a forwarder or a command says when it connects."""

    kind: str
    process_id: int = 0
    folder: Path | None = None
    words: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    log: int = -1


@dataclass(eq=False, slots=True, kw_only=True)
class _Window:
    process_id: int
    opened_at: float
    client: str = ""

    def describe(self) -> dict[str, object]:
        seconds = round(time.monotonic() - self.opened_at)
        return {"pid": self.process_id, "client": self.client, "seconds": seconds}


class WindowServer:
    """Serves the windows of a place until the last one has left it."""

    def __init__(  # noqa: PLR0913 - what a server serves, and where
        self,
        serving: Serving,
        parts: Sequence[ServerPart],
        rendezvous: Rendezvous,
        claim: int,
        *,
        log: ServerLog,
        run_command: CommandWork,
    ) -> None:
        self._serving = serving
        self._parts = parts
        self._run_command = run_command
        self._command_threads = anyio.CapacityLimiter(_MAX_COMMANDS)
        self._answered = 0
        self._rendezvous = rendezvous
        self._claim = claim
        self._log = log
        self._windows: set[_Window] = set()
        self._started_at = time.monotonic()
        self._installation = read_installation()
        self._has_retired = False
        self._shutdown = anyio.Event()
        self._changed = anyio.Event()
        self._own_middleware = tuple(serving.server.middleware)

    async def run(self) -> None:
        """Serve until shutdown; then the process exits."""
        serving = self._serving
        for part in self._parts:
            await part.open()
        listener = self._rendezvous.listen()
        socket_inode = read_inode(self._rendezvous.address)
        works: tuple[Callable[[], Awaitable[object]], ...] = (
            partial(watch_signals, self._shutdown),
            *list_background_work(serving, self._parts),
            self._end_without_windows,
            partial(self._watch_rendezvous, socket_inode),
        )
        async with anyio.create_task_group() as tasks:
            for work in works:
                tasks.start_soon(run_or_shut_down, work, self._shutdown)
            windows = anyio.CancelScope()
            tasks.start_soon(self._accept, listener, windows)
            await self._shutdown.wait()
            self._retire()
            listener.close()
            windows.cancel()
            with anyio.move_on_after(_LAST_CALLS_SECONDS):
                while self._windows:  # noqa: ASYNC110 - no event tells
                    await anyio.sleep(0.01)
            await stop_serving(serving, self._parts, self._shutdown)
            exit_process()

    async def _end_without_windows(self) -> None:
        minutes = self._serving.library.config.share.linger_minutes
        seconds: float = _FIRST_WINDOW_SECONDS
        while True:
            with anyio.move_on_after(None if self._windows else seconds) as waiting:
                await self._changed.wait()
            if waiting.cancelled_caught or self._has_nothing_left():
                logger.info("Ending, as no window is left")
                self._shutdown.set()
                return
            self._changed = anyio.Event()
            seconds = minutes * _MINUTE_SECONDS

    async def _watch_rendezvous(self, inode: int) -> None:
        """Retire if the socket is gone, as a folder of temporary files is cleaned up."""
        while read_inode(self._rendezvous.address) == inode:  # noqa: ASYNC110 - no event tells
            await anyio.sleep(_PLACE_CHECK_SECONDS)
        self._retire()
        self._changed.set()

    def _has_nothing_left(self) -> bool:
        if self._windows:
            return False
        minutes = self._serving.library.config.share.linger_minutes
        return self._has_retired or not minutes or read_installation() != self._installation

    def _retire(self) -> None:
        """Leave the place to another server; the windows of this one stay."""
        if not self._has_retired:
            self._has_retired = True
            self._rendezvous.leave(self._claim)

    # Connections

    async def _accept(self, listener: socket.socket, scope: anyio.CancelScope) -> None:
        loop = asyncio.get_running_loop()
        with scope:
            async with anyio.create_task_group() as tasks:
                while True:
                    try:
                        connection, _ = await loop.sock_accept(listener)
                    except OSError as error:  # of file descriptors, there are only so many
                        logger.warning("No window can connect: %s", error)
                        await anyio.sleep(1)
                        continue
                    tasks.start_soon(self._answer, connection)

    async def _answer(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(0)
            try:
                if read_peer_user(connection) != os.getuid():
                    return
                with anyio.fail_after(_GREETING_SECONDS):
                    greeting = await _receive_greeting(connection)
                await self._respond(connection, greeting)
            except (OSError, ValueError, TimeoutError) as error:
                logger.debug("A connection has failed: %s", error)
            except Exception:
                logger.exception("A window ends because of an unexpected error")

    async def _respond(self, connection: socket.socket, greeting: Greeting) -> None:
        loop = asyncio.get_running_loop()
        match greeting.kind:
            case "list":
                found = await anyio.to_thread.run_sync(self._describe)
                await loop.sock_sendall(connection, json.dumps(found).encode())
            case "stop":
                logger.info("Ending on skills-mcp stop")
                self._retire()
                self._shutdown.set()
                await loop.sock_sendall(connection, ACCEPTED)
            case "window" | "resume":
                await self._open_window(connection, greeting)
            case "command":
                if not self._has_retired and read_installation() == self._installation:
                    with self._log.muted():
                        await self._answer_command(connection, greeting)
            case _:
                raise ValueError(f"{greeting.kind} is no kind of a greeting")

    async def _open_window(self, connection: socket.socket, greeting: Greeting) -> None:
        log = WindowLog(greeting.log)
        if self._has_retired or read_installation() != self._installation:
            log.close()
            self._retire()  # modules of two versions would be mixed
            self._changed.set()
            return
        window = _Window(process_id=greeting.process_id, opened_at=time.monotonic())
        self._windows.add(window)
        self._changed.set()
        try:
            with self._log.attached(log):
                await asyncio.get_running_loop().sock_sendall(connection, ACCEPTED)
                await self._serve(connection, greeting, window)
        finally:
            self._windows.discard(window)
            self._changed.set()

    async def _serve(self, connection: socket.socket, greeting: Greeting, window: _Window) -> None:
        library = self._serving.library.for_window(greeting.environment, greeting.folder)
        server = create_server(library)
        session = _Session(server, window, is_resumed=greeting.kind == "resume")
        server.middleware[1:1] = [session.observe, self._measure]
        lines = _SocketLines(connection)
        opened = Window(
            library=library,
            process_id=greeting.process_id,
            folder=greeting.folder,
            environment=greeting.environment,
        )
        closing = [part.open_window(opened) for part in self._parts]
        scope = anyio.CancelScope()
        try:
            with scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_cancel_late, lines, scope)
                    async with message_streams(lines) as (read, write):
                        options = server.create_initialization_options()
                        await server.run(read, write, options)
                        logger.info("The client has closed the connection")
                    scope.cancel()
        finally:
            server.close()
            library.close_runs()
            for close in closing:
                close()

    async def _answer_command(self, connection: socket.socket, greeting: Greeting) -> None:
        """Run a command, and send its output and exit code."""
        loop = asyncio.get_running_loop()
        frames: asyncio.Queue[bytes] = asyncio.Queue()

        def send(kind: bytes, data: bytes) -> None:
            frame = kind + len(data).to_bytes(HEADER_BYTES - 1, "big") + data
            loop.call_soon_threadsafe(frames.put_nowait, frame)

        async def work() -> None:
            exit_code = await anyio.to_thread.run_sync(
                partial(
                    self._run_command,
                    greeting.words,
                    greeting.environment,
                    greeting.folder,
                    send,
                ),
                abandon_on_cancel=True,
                limiter=self._command_threads,
            )
            self._answered += exit_code is not None
            send(DECLINED if exit_code is None else ENDED, str(exit_code).encode())

        await loop.sock_sendall(connection, ACCEPTED)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work)
            kind = WORKING
            while kind not in {ENDED, DECLINED}:
                frame = WORKING + bytes(HEADER_BYTES - 1)
                with anyio.move_on_after(WORKING_SECONDS):
                    frame = await frames.get()
                await loop.sock_sendall(connection, frame)
                kind = frame[:1]

    async def _measure(self, ctx: _Context, call_next: CallNext) -> HandlerResult:
        """Middleware that parts have added to the server, which no client uses itself."""
        added = (
            each for each in self._serving.server.middleware if each not in self._own_middleware
        )
        for middleware in reversed([*added]):
            call_next = partial(middleware, call_next=call_next)
        return await call_next(ctx)

    def _describe(self) -> dict[str, object]:
        from skills_mcp.processes.memory import read_memory

        states = self._serving.library.view().states()
        windows = sorted(self._windows, key=lambda window: window.opened_at)
        return {
            "pid": os.getpid(),
            "version": __version__,
            "seconds": round(time.monotonic() - self._started_at),
            "windows": [window.describe() for window in windows],
            "commands": self._answered,
            "memory": read_memory(),
            "commits": [state.commit for state in states if state.commit],
        }


class _Session:
    """Middleware that knows the window of a server."""

    def __init__(self, server: SkillsServer, window: _Window, *, is_resumed: bool) -> None:
        self._server = server
        self._window = window
        self._is_resumed = is_resumed

    async def observe(self, ctx: _Context, call_next: CallNext) -> HandlerResult:
        """Record the client; notify one that may have missed a change."""
        if not self._window.client and (client := ctx.session.client_params):
            self._window.client = client.client_info.name
        if self._is_resumed and ctx.method == "subscriptions/listen":
            # Once the subscription has been acknowledged.
            asyncio.get_running_loop().call_soon(self._server.announce)
        result = await call_next(ctx)
        if self._is_resumed and ctx.method == "notifications/initialized":
            self._server.announce()
        return result


class _SocketLines:
    """Lines of a window, without a thread: there may be more windows than threads."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = bytearray()
        self._is_overlong = False
        self._writing = anyio.Lock()
        self.ended = anyio.Event()

    async def read(self) -> JSONRPCMessage | Iterator[RpcError] | None:
        line = await self._read_line()
        if line is None or len(line) < _LONG_LINE_BYTES:
            return parse_line(None if line is None else decode_line(line))
        return await anyio.to_thread.run_sync(lambda: parse_line(decode_line(line)))

    async def write(self, line: str) -> None:
        async with self._writing:
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(self._connection, f"{line}\n".encode())

    async def _read_line(self) -> bytes | None:
        """Next line; empty at the end, None for an overlong one."""
        loop = asyncio.get_running_loop()
        start = 0
        while True:
            end = self._buffer.find(b"\n", start) + 1
            if end:
                line = bytes(self._buffer[:end])
                del self._buffer[:end]
                was_overlong, self._is_overlong = self._is_overlong, False
                return None if was_overlong or len(line) > MAX_LINE_BYTES else line
            start = len(self._buffer)
            if start > MAX_LINE_BYTES:
                self._is_overlong = True
                self._buffer.clear()
                start = 0
            try:
                data = await loop.sock_recv(self._connection, _READ_BYTES)
            except ConnectionError:
                data = b""
            if not data:
                self.ended.set()
                return b""
            self._buffer += data


async def _cancel_late(lines: _SocketLines, scope: anyio.CancelScope) -> None:
    """Cancel the calls of a window that has ended, after a moment for their last words."""
    await lines.ended.wait()
    await anyio.sleep(_LAST_CALLS_SECONDS)
    scope.cancel()


async def _receive_greeting(connection: socket.socket) -> Greeting:
    """Receive the greeting of a connection.

    Raises:
        ValueError: It is no greeting of this version.
        OSError: The connection has failed.
    """
    data, logs = await _receive(connection, max_descriptors=1)
    try:
        while b"\n" not in data and len(data) < _HEADER_BYTES:
            data += (await _receive(connection))[0]
        header, _, body = data.partition(b"\n")
        kind, length = _parse_header(header)
        while len(body) < length:
            body += (await _receive(connection))[0]
        return _parse_greeting(kind, body, logs[0] if logs else -1)
    except BaseException:
        for descriptor in logs:
            os.close(descriptor)
        raise


def _parse_header(header: bytes) -> tuple[str, int]:
    program, version, kind, length = header.split(b" ")
    if (program, version) != (b"skills-mcp", PROTOCOL) or int(length) > MAX_GREETING_BYTES:
        raise ValueError("no greeting of this version")
    return kind.decode(), int(length)


async def _receive(
    connection: socket.socket, *, max_descriptors: int = 0
) -> tuple[bytes, list[int]]:
    """Next bytes, and the descriptors that come with them."""
    await anyio.wait_readable(connection)
    data, descriptors, _, _ = socket.recv_fds(connection, _READ_BYTES, max_descriptors)
    if not data:
        raise ConnectionResetError("it has ended before its greeting")
    return data, descriptors


def _parse_greeting(kind: str, body: bytes, log: int) -> Greeting:
    if kind not in {"window", "resume", "command"}:
        return Greeting(kind=kind, log=log)
    number, folder, count, *rest = map(os.fsdecode, body.split(b"\0"))
    variables = (text.partition("=") for text in rest[int(count) :])
    return Greeting(
        kind=kind,
        process_id=int(number),
        words=rest[: int(count)],
        folder=Path(folder).resolve() if folder else None,
        environment={name: value for name, _, value in variables},
        log=log,
    )


def read_installation() -> tuple[int, int]:
    """Number and newest change of the files of this program."""
    package = Path(__file__).parents[2]
    newest = count = 0
    for folder, _, names in os.walk(package):
        for name in names:
            if name.endswith(".py"):
                with suppress(OSError):
                    count += 1
                    # os.path: there are hundreds, and each window waits for them.
                    newest = max(newest, os.stat(f"{folder}/{name}").st_mtime_ns)  # noqa: PTH116 - as above
    return count, newest
