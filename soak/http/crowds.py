"""Crowds and slow clients over HTTP: the others are answered, and nothing is lost."""

import asyncio
import select
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.http_client import HttpClient, Load, ask_together, call, request
from soak.scenario import Figure, Scale, Scenario
from tests.http_server import HttpServer, served
from tests.support import PATIENCE_SECONDS

_TASK = {"context": "add a login form to the React application"}
_END_SECONDS = 10.0
_SMALL_BUFFER_BYTES = 4_096
_LONG = {**_TASK, "skill_path": "ui/react/auth"}
_PIPELINED = 1_000
"""Calls whose replies, of 10 KB, do not fit into the buffers of two sockets."""

_IMPATIENT = """
from skills_mcp.config.sections import Http
from skills_mcp.__main__ import main
Http.request_timeout_seconds = 5
main()
"""
"""Our program, which waits for slow clients for a sixth of the time."""

_FEW = """
from skills_mcp.config.sections import Http
from skills_mcp.__main__ import main
Http.max_concurrent_requests, Http.max_waiting_requests = 4, 8
main()
"""
"""Our program, which answers few at once."""


def crowd(_: Path, scale: Scale) -> Iterator[Figure]:
    """Let a thousand connections ask at once."""
    clients = scale.count(full=1_000, quick=200)
    with served() as server:
        load = _ask(server, clients * 3, clients)
        yield Figure.none(54, "errors in a crowd", load.failures.total(), clients * 3)
        yield Figure.every(54, "quiet log after it", int(_is_quiet(server)), 1)


def flood(_: Path, scale: Scale) -> Iterator[Figure]:
    """Ask for more than the bounds allow."""
    clients = scale.count(full=500, quick=100)
    with served(program=("-c", _FEW)) as server:
        load = _ask(server, clients * 4, clients)
        told = load.answered + load.refused
        yield Figure.every(54, "answered, or told when to come", told, clients * 4)
        yield Figure.every(54, "flood met the bound", min(load.refused, 1), 1)
        after = _ask(server, 20, 1)
        yield Figure.every(54, "answered after a flood", after.answered, 20)


def dawdle(_: Path, scale: Scale) -> Iterator[Figure]:
    """Send and read slowly, many at once, while another client works."""
    each = scale.count(full=100, quick=20)
    program = ("-m", "skills_mcp") if scale.is_full else ("-c", _IMPATIENT)
    with served(program=program) as server, ExitStack() as opened:
        whole = call(server.url, "get_skill", _TASK)
        head, body = whole.split(b"\r\n\r\n")
        slow = [_connect(opened, server, head) for _ in range(each)]
        slow += [_connect(opened, server, head + b"\r\n\r\n" + body[:9]) for _ in range(each)]
        reader = _connect(opened, server, b"", _SMALL_BUFFER_BYTES)
        with suppress(ConnectionError):  # it may be cut off while it still sends
            reader.sendall(call(server.url, "get_skill", _LONG) * _PIPELINED)
        load = _ask(server, 50, 4)
        yield Figure.every(54, "answered beside slow clients", load.answered, 50)
        cut = sum(map(_is_cut_off, slow))
        yield Figure.every(54, "slow senders cut off", cut, len(slow))
        cut = _is_reset(reader)
        yield Figure.every(54, "slow readers cut off", int(cut), 1)


def end(_: Path, scale: Scale) -> Iterator[Figure]:
    """End the server while streams are open and calls are answered."""
    rounds = scale.count(full=10, quick=2)
    lost, late, failed = 0, 0, 0
    for _round in range(rounds):
        with served() as server:
            seconds, answered = asyncio.run(_end_one(server))
            late += seconds > scale.bound(_END_SECONDS)
            lost += not answered
            failed += server.wait() != 0
    yield Figure.none(54, "accepted calls lost at the end", lost, rounds)
    yield Figure.none(54, "ends later than 10 s, with streams", late, rounds)
    yield Figure.none(54, "ends with an error", failed, rounds)


async def _end_one(server: HttpServer) -> tuple[float, bool]:
    """Return how long the end took, and whether the calls before it were answered."""
    listen = request(
        server.url,
        "subscriptions/listen",
        {"notifications": {"toolsListChanged": True}},
    )
    address = urlsplit(server.url)
    streams = []
    for _ in range(20):
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(listen)
        await reader.readuntil(b"\r\n\r\n")  # it is open
        streams.append((reader, writer))
    clients = [HttpClient(server.url) for _ in range(20)]
    await asyncio.gather(*(each.open() for each in clients))
    sent = [call(server.url, "get_skill", _TASK) for _ in clients]
    answers = [asyncio.ensure_future(c.ask(s)) for c, s in zip(clients, sent, strict=True)]
    first = await answers[0]  # so they have arrived: they are read in their order
    started = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    replies = await asyncio.gather(*answers, return_exceptions=True)
    await asyncio.to_thread(server.wait)
    for _reader, writer in streams:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
    for client in clients:
        client.close()
    await asyncio.sleep(0)  # until they are closed
    well = [r for r in replies if not isinstance(r, BaseException) and r.status == first.status]
    return time.monotonic() - started, len(well) == len(replies)


def _ask(server: HttpServer, requests: int, clients: int) -> Load:
    sent = [call(server.url, "get_skill", _TASK) for _ in range(requests)]
    return asyncio.run(ask_together(server.url, sent, clients=clients, together=True))


def _is_quiet(server: HttpServer) -> bool:
    return "Traceback" not in server.log


def _connect(
    opened: ExitStack, server: HttpServer, sent: bytes, buffer_bytes: int = 0
) -> socket.socket:
    address = urlsplit(server.url)
    client = opened.enter_context(socket.socket())
    if buffer_bytes:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    client.settimeout(PATIENCE_SECONDS)
    client.connect((address.hostname, address.port))
    client.sendall(sent)
    return client


def _is_cut_off(client: socket.socket) -> bool:
    """Whether the server ends a connection without an answer, or with 408."""
    received = _read_all(client)
    return not received or b" 408 " in received.partition(b"\r\n")[0]


def _is_reset(client: socket.socket) -> bool:
    """Whether the server breaks a connection of which nothing is read."""
    poller = select.poll()
    poller.register(client, select.POLLERR | select.POLLHUP)
    return bool(poller.poll(PATIENCE_SECONDS * 1000))


def _read_all(client: socket.socket) -> bytes:
    received = b""
    try:
        while chunk := client.recv(1 << 20):
            received += chunk
    except ConnectionError:
        pass
    return received


SCENARIOS: tuple[tuple[str, Scenario], ...] = (
    ("http-crowd", crowd),
    ("http-flood", flood),
    ("http-slow-clients", dawdle),
    ("http-end", end),
)
