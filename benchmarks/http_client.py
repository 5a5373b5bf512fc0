"""A client without any SDK: requests over connections that are kept, and their times.

It costs a fraction of the server, so one process is enough for a thousand of them.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from urllib.parse import urlsplit

from benchmarks.pipe_client import META

PROTOCOL_VERSION = "2026-07-28"
_NUMBERS = count(1)


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one request."""

    status: int
    headers: str
    body: bytes

    def result(self) -> dict[str, Any]:
        """Return the result of a call that was answered."""
        parsed: dict[str, Any] = json.loads(self.body)
        if self.status != 200 or "result" not in parsed:  # noqa: PLR2004 - OK
            raise SystemExit(f"a call failed: {self.status} {self.body[:500]!r}")
        return dict(parsed["result"])


@dataclass(slots=True)
class Load:
    """What many clients have seen."""

    seconds: list[float] = field(default_factory=list)
    """The times of the answers."""
    refused: int = 0
    """Announced: 503 with `Retry-After`."""
    failures: Counter[str] = field(default_factory=Counter)

    @property
    def answered(self) -> int:
        """The number of requests with an answer."""
        return len(self.seconds)

    def milliseconds(self, share: float) -> float:
        """Return the time that a share of the answers did not exceed."""
        every = sorted(self.seconds)
        return 1000 * every[min(int(len(every) * share), len(every) - 1)]


def request(
    url: str,
    method: str,
    params: Mapping[str, Any],
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """Return a request of the newer version of the protocol."""
    parts = urlsplit(url)
    message = {
        "jsonrpc": "2.0",
        "id": next(_NUMBERS),
        "method": method,
        "params": {**params, "_meta": META},
    }
    body = json.dumps(message).encode()
    named = {"Mcp-Name": str(params["name"])} if "name" in params else {}
    head = {
        "Host": parts.netloc,
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "MCP-Protocol-Version": PROTOCOL_VERSION,
        "Mcp-Method": method,
        **named,
        **(headers or {}),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    return f"POST {parts.path} HTTP/1.1\r\n{lines}\r\n".encode() + body


def call(
    url: str,
    tool: str,
    arguments: Mapping[str, Any],
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """Return the request that calls a tool."""
    params = {"name": tool, "arguments": dict(arguments)}
    return request(url, "tools/call", params, headers)


def get(url: str, target: str) -> bytes:
    """Return the request of a page.

    Args:
        url: Any address of the server.
        target: The path and the query.
    """
    host = urlsplit(url).netloc
    return f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()


class HttpClient:
    """One connection, which is kept."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname or "", parts.port or 80)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def open(self) -> None:
        """Connect."""
        self._streams = await asyncio.open_connection(*self._address)

    async def ask(self, sent: bytes) -> Reply:
        """Send a request and return its answer."""
        if self._streams is None:
            await self.open()
        assert self._streams is not None  # noqa: S101 - opened above
        reader, writer = self._streams
        writer.write(sent)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        fields = dict(_fields(head))
        body = await reader.readexactly(int(fields.get("content-length", 0)))
        if fields.get("connection") == "close":
            self.close()
        return Reply(int(head.split(" ", 2)[1]), head, body)

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        if self._streams:
            self._streams[1].close()
            self._streams = None


def _fields(head: str) -> Iterator[tuple[str, str]]:
    for line in head.split("\r\n")[1:]:
        name, _, value = line.partition(":")
        yield name.lower(), value.strip()


async def ask_together(
    url: str, requests: list[bytes], *, clients: int, together: bool = False
) -> Load:
    """Send all requests over so many connections, each one after the other.

    Args:
        url: Of the server.
        requests: Each is sent once.
        clients: The number of connections.
        together: Whether all are connected before the first request.
    """
    load, waiting = Load(), iter(requests)
    connections = [HttpClient(url) for _ in range(clients)]
    if together:
        await asyncio.gather(*(each.open() for each in connections))
    await asyncio.gather(*(_work(each, waiting, load) for each in connections))
    for each in connections:
        each.close()
    return load


async def _work(client: HttpClient, waiting: Iterator[bytes], load: Load) -> None:
    for sent in waiting:
        started = time.perf_counter()
        try:
            reply = await client.ask(sent)
        except (OSError, EOFError, asyncio.LimitOverrunError) as error:
            load.failures[type(error).__name__] += 1
            client.close()
            continue
        if reply.status == 200:  # noqa: PLR2004 - OK
            load.seconds.append(time.perf_counter() - started)
        elif reply.status == 503 and "retry-after:" in reply.headers.lower():  # noqa: PLR2004
            load.refused += 1
        else:
            load.failures[str(reply.status)] += 1
