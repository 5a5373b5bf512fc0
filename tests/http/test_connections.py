"""Real connections of clients that send or read slowly, or are too many."""

import asyncio
import logging
import resource
import select
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio
import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from skills_mcp.config import Http
from skills_mcp.http import http_server
from skills_mcp.http.admission import BodyBufferMiddleware
from skills_mcp.http.http_server import create_connection_class, raise_open_files_limit
from tests.support import PATIENCE_SECONDS

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n"
LARGE = b"x" * 30_000_000  # more than the buffers of both kernels

SOON = 0.05  # until a client that is slow is cut off
NEVER = 3600.0


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def listening(
    app: ASGIApp, *, patience_seconds: float = SOON, max_connections: int = 100
) -> AsyncIterator[tuple[str, int]]:
    """Serve an application until the block ends; return its address."""
    kind = create_connection_class(patience_seconds, max_connections)
    with socket.create_server(("127.0.0.1", 0)) as port:
        server = _Server(uvicorn.Config(app, http=kind, log_config=None, lifespan="off"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [port])
            yield port.getsockname()
            server.should_exit = True


async def wait_for_longer_than_the_patience(address: tuple[str, int]) -> None:
    """Wait until a client that came after all others, and says nothing, is cut off."""
    async with await anyio.connect_tcp(*address) as client:
        assert await read_to_the_end(client) == b""


async def connect(
    address: tuple[str, int], own_address: str | None = None
) -> anyio.abc.SocketStream:
    return await anyio.connect_tcp(*address, local_host=own_address)


async def read_to_the_end(client: anyio.abc.SocketStream) -> bytes:
    """Return what the server sends before it closes the connection."""
    received = b""
    with anyio.fail_after(PATIENCE_SECONDS):
        try:
            while chunk := await client.receive():
                received += chunk
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return received
    return received


answer = BodyBufferMiddleware(PlainTextResponse("done"), http=Http())


@pytest.mark.parametrize(
    "sent",
    [b"", b"GE", GET[:-2], GET[:-2] + b"X-More: 1\r\n", POST, POST + b"123"],
    ids=["nothing", "a method", "no end", "one more header", "no body", "less body"],
)
async def test_a_client_that_does_not_go_on_is_cut_off(sent: bytes) -> None:
    async with listening(answer) as address, await connect(address) as client:
        if sent:
            await client.send(sent)

        assert await read_to_the_end(client) == b""


async def test_a_byte_now_and_then_gives_a_client_no_more_time() -> None:
    ended: list[str] = []

    async def note(name: str, client: anyio.abc.SocketStream) -> None:
        await read_to_the_end(client)
        ended.append(name)

    async with (
        listening(answer) as address,
        await connect(address) as early,
        await connect(address) as late,
        anyio.create_task_group() as tasks,
    ):
        await early.send(b"GET")
        tasks.start_soon(note, "early", early)
        tasks.start_soon(note, "late", late)

    assert ended == ["early", "late"]


async def test_the_second_request_of_a_connection_has_to_arrive_soon_too() -> None:
    async with listening(answer) as address, await connect(address) as client:
        await client.send(GET)
        assert (await client.receive()).endswith(b"done")
        await client.send(GET[:-2])

        assert await read_to_the_end(client) == b""


async def test_a_connection_may_pause_between_two_requests() -> None:
    async with listening(answer) as address, await connect(address) as client:
        for _ in range(2):
            await client.send(GET)
            assert (await client.receive()).endswith(b"done")
            await wait_for_longer_than_the_patience(address)


async def test_an_answer_may_take_longer_than_a_request() -> None:
    may_answer = anyio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await Request(scope, receive).body()
        await may_answer.wait()
        await PlainTextResponse("done")(scope, receive, send)

    async with listening(slow) as address, await connect(address) as client:
        await client.send(POST + b"1234")
        await wait_for_longer_than_the_patience(address)
        may_answer.set()

        assert (await client.receive()).endswith(b"done")


async def test_a_client_that_reads_nothing_gets_a_reset() -> None:
    """An end in order would wait behind what the client does not read."""
    is_reset = select.POLLERR | select.POLLHUP

    async with listening(PlainTextResponse(LARGE)) as address:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.connect(address)
            client.sendall(GET)
            poller = select.poll()
            poller.register(client, is_reset)
            found = await anyio.to_thread.run_sync(poller.poll, PATIENCE_SECONDS * 1000)

    assert found


async def test_a_client_that_reads_no_further_is_cut_off() -> None:
    ended = anyio.Event()

    async def send_much(_: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": []}
        await send(start)
        await send({"type": "http.response.body", "body": LARGE, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        assert (await receive())["type"] == "http.disconnect"
        ended.set()

    async with listening(send_much) as address, await connect(address) as client:
        await client.send(GET)

        with anyio.fail_after(PATIENCE_SECONDS):
            await ended.wait()


class _SlowReader(asyncio.Transport):
    """A transport whose client reads a byte between two looks, and then no more."""

    def __init__(self, unread_bytes: int, client: socket.socket) -> None:
        super().__init__({"socket": client})
        self.unread_bytes = unread_bytes
        self.aborted = anyio.Event()

    def get_write_buffer_size(self) -> int:
        self.unread_bytes = max(self.unread_bytes - 1, 1)
        return self.unread_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert (high, low) == (0, None)

    def close(self) -> None:
        pass

    def abort(self) -> None:
        self.aborted.set()


async def test_a_client_that_reads_slowly_is_cut_off_when_it_stops() -> None:
    config = uvicorn.Config(answer, log_config=None)
    connection = create_connection_class(0.001, 1)(config, uvicorn.server.ServerState(), {})
    with socket.socket() as client:
        reader = _SlowReader(5, client)
        connection.connection_made(reader)
        connection.data_received(GET)

        connection.pause_writing()
        with anyio.fail_after(PATIENCE_SECONDS):
            await reader.aborted.wait()
        connection.connection_lost(None)

    assert reader.unread_bytes == 1


async def test_one_connection_too_many_is_told_when_to_come_again() -> None:
    may_answer = anyio.Event()

    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        await may_answer.wait()
        await PlainTextResponse("done")(scope, receive, send)

    async with (
        listening(wait, patience_seconds=NEVER, max_connections=2) as address,
        await connect(address) as first,
        await connect(address) as second,
    ):
        for client in (first, second):
            await client.send(GET)
        await anyio.wait_all_tasks_blocked()

        async with await connect(address) as third:
            await third.send(GET)
            refused = await read_to_the_end(third)

        may_answer.set()
        assert (await first.receive()).startswith(b"HTTP/1.1 200")
        assert (await second.receive()).startswith(b"HTTP/1.1 200")

    assert refused.startswith(b"HTTP/1.1 503")
    assert b"retry-after: 5" in refused.lower()
    assert b"TOO_MANY_CONNECTIONS" in refused


async def test_an_idle_connection_makes_room_for_a_new_one() -> None:
    async with (
        listening(answer, patience_seconds=NEVER, max_connections=2) as address,
        await connect(address) as served,
    ):
        await served.send(GET)
        assert (await served.receive()).startswith(b"HTTP/1.1 200")
        async with await connect(address) as silent, await connect(address) as third:
            assert await read_to_the_end(silent) == b""

            for client in (served, third):
                await client.send(GET)
                assert (await client.receive()).startswith(b"HTTP/1.1 200")


def has_other_loopback_addresses() -> bool:
    try:
        socket.create_server(("127.0.0.2", 0)).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_other_loopback_addresses(), reason="macOS has one loopback address")
async def test_the_address_with_the_most_connections_gives_one_up() -> None:
    async with (
        listening(answer, patience_seconds=NEVER, max_connections=3) as address,
        await connect(address, "127.0.0.2") as alone,
        await connect(address) as first,
        await connect(address) as second,
        await connect(address, "127.0.0.3") as newcomer,
    ):
        assert await read_to_the_end(first) == b""

        for client in (alone, second, newcomer):
            await client.send(GET)
            assert (await client.receive()).startswith(b"HTTP/1.1 200")


@pytest.mark.skipif(
    not hasattr(select, "POLLRDHUP"), reason="only Linux tells before data are read"
)
async def test_in_a_flood_the_request_of_a_client_that_has_gone_is_not_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    async def count(scope: Scope, receive: Receive, send: Send) -> None:
        asked.append(scope["path"])
        await answer(scope, receive, send)

    async def ask_and_go(path: bytes) -> None:
        with socket.create_connection(address) as client:
            client.sendall(GET.replace(b"GET /", b"GET /" + path))

    async with listening(count, patience_seconds=NEVER) as address:
        monkeypatch.setattr(http_server, "_FLOOD_CONNECTIONS", 1)
        await ask_and_go(b"gone")
        async with await connect(address) as client:
            await client.send(GET)
            assert (await client.receive()).startswith(b"HTTP/1.1 200")
        monkeypatch.setattr(http_server, "_FLOOD_CONNECTIONS", 9)
        await ask_and_go(b"alone")
        async with await connect(address) as client:
            await client.send(GET)
            assert (await client.receive()).startswith(b"HTTP/1.1 200")

    assert asked == ["/", "/alone", "/"]


async def test_half_a_request_keeps_no_connection_open() -> None:
    async with (
        listening(answer, patience_seconds=NEVER, max_connections=1) as address,
        await connect(address) as slow,
    ):
        await slow.send(POST + b"12")
        await anyio.wait_all_tasks_blocked()

        async with await connect(address) as other:
            assert await read_to_the_end(slow) == b""
            await other.send(GET)
            assert (await other.receive()).startswith(b"HTTP/1.1 200")


async def test_a_client_that_leaves_is_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with listening(answer) as address:
        for sent in (b"", b"GE", GET, POST, POST + b"1234"):
            async with await connect(address) as client:
                if sent:
                    await client.send(sent)
        async with await connect(address) as last:
            await last.send(GET)
            assert (await last.receive()).endswith(b"done")

    levels = {r.levelno for r in caplog.records}
    assert not levels or max(levels) < logging.WARNING


def test_this_process_may_open_the_files_that_the_bounds_need() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1024), hard))

        possible = raise_open_files_limit(Http().model_copy(update={"max_streams": 2000}))

        assert possible == 2000 + 64 + 1024
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > possible
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_limit_that_is_too_low_is_named(caplog: pytest.LogCaptureFixture) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        pytest.skip("this system has no limit of open files")

    possible = raise_open_files_limit(Http().model_copy(update={"max_streams": hard}))

    assert possible < hard
    assert "LimitNOFILE" in caplog.text
