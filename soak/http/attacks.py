"""What one greedy client does to a shared server, as a program of its own.

    python -m soak.http.attacks KIND URL TOKEN SECONDS

It shares no process with the clients whose answers are measured.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from itertools import count
from urllib.parse import urlsplit

from benchmarks.http_client import call, request

Attack = Callable[[str, Mapping[str, str], float], Awaitable[None]]

_TASK = {"context": "add a login form to the React application"}
_CONNECTIONS = 200
_IDLE_CONNECTIONS = 6_000  # more than the server takes with its default settings
_GONE_SECONDS = 0.05
_NUMBERS = count()

_INITIALIZE = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "greedy", "version": "1"},
        },
    }
).encode()


async def calls(url: str, headers: Mapping[str, str], end: float) -> None:
    """Call a tool again and again on many connections."""
    await _on_many(url, lambda: call(url, "get_skill", _TASK, headers), end)


async def strangers(url: str, _: Mapping[str, str], end: float) -> None:
    """Call a tool without a valid token on many connections."""
    await _on_many(url, lambda: call(url, "get_skill", _TASK, _forged()), end)


async def sessions(url: str, headers: Mapping[str, str], end: float) -> None:
    """Open sessions of the older protocol, and never end one."""
    await _on_many(url, lambda: _raw(url, "POST", headers, _INITIALIZE), end)


async def abandoned(url: str, headers: Mapping[str, str], end: float) -> None:
    """Send calls with costly patterns, and go away before the answer."""

    def send() -> bytes:
        patterns = ",".join(f"**/**/{next(_NUMBERS)}*/**/x*" for _ in range(30))
        return call(url, "get_skill", _TASK, {**headers, "X-Skills-Scope": patterns})

    await _on_many(url, send, end, leaves=True)


async def pages(url: str, headers: Mapping[str, str], end: float) -> None:
    """Ask for the index of a random part of the skills, and go away."""

    def send() -> bytes:
        target = f"/.well-known/agent-skills/index.json?scope=*{next(_NUMBERS)}*,**"
        return _raw(url, "GET", headers, b"", target)

    await _on_many(url, send, end, leaves=True)


async def streams(url: str, headers: Mapping[str, str], end: float) -> None:
    """Open streams, and keep them open."""
    listen = request(
        url,
        "subscriptions/listen",
        {"notifications": {"toolsListChanged": True}},
        headers,
    )
    await _hold(url, listen, end)


async def idle(url: str, _: Mapping[str, str], end: float) -> None:
    """Connect as often as possible, and say nothing."""
    await _hold(url, b"", end)


async def slow(url: str, _: Mapping[str, str], end: float) -> None:
    """Send the head of a request and a part of its body."""
    head = f"POST /mcp HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\n"
    await _hold(url, f"{head}Content-Length: 4000000\r\n\r\n{{".encode(), end)


async def churn(url: str, _: Mapping[str, str], end: float) -> None:
    """Connect, ask without a token, and close."""
    await asyncio.gather(*(_churn(url, end) for _ in range(_CONNECTIONS)), return_exceptions=True)


KINDS: Mapping[str, Attack] = {
    each.__name__: each
    for each in (
        *(calls, strangers, sessions, abandoned, pages),
        *(streams, idle, slow, churn),
    )
}


async def _on_many(
    url: str, send: Callable[[], bytes], end: float, *, leaves: bool = False
) -> None:
    work = (_repeat(url, send, end, leaves=leaves) for _ in range(_CONNECTIONS))
    await asyncio.gather(*work)


async def _repeat(url: str, send: Callable[[], bytes], end: float, *, leaves: bool) -> None:
    while time.monotonic() < end:
        with suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection(*_address(url))
            try:
                while time.monotonic() < end:
                    writer.write(send())
                    if leaves:
                        await asyncio.sleep(_GONE_SECONDS)
                        break
                    await _read_answer(reader)
            finally:
                writer.transport.abort()
        await asyncio.sleep(0)


async def _read_answer(reader: asyncio.StreamReader) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    lines = dict(line.partition(": ")[::2] for line in head.split("\r\n")[1:])
    if "content-length" in lines:
        await reader.readexactly(int(lines["content-length"]))
    elif "transfer-encoding" in lines:
        await reader.readuntil(b"0\r\n\r\n")
    if lines.get("connection") == "close":
        raise ConnectionError


async def _churn(url: str, end: float) -> None:
    while time.monotonic() < end:
        with suppress(OSError, asyncio.IncompleteReadError):
            _, writer = await asyncio.open_connection(*_address(url))
            writer.write(call(url, "get_skill", _TASK, _forged()))
            await writer.drain()
            writer.close()
        await asyncio.sleep(0)


async def _hold(url: str, sent: bytes, end: float) -> None:
    """Keep as many connections open as possible, each with the same start."""
    slots = asyncio.Semaphore(_CONNECTIONS)

    async def hold() -> None:
        while time.monotonic() < end:
            with suppress(OSError):
                async with slots:
                    reader, writer = await asyncio.open_connection(*_address(url))
                    writer.write(sent)
                    is_open = await _is_kept(reader, 5 if sent else _GONE_SECONDS)
                while is_open and await reader.read(65_536):
                    pass
                writer.transport.abort()

    await asyncio.gather(*(hold() for _ in range(_IDLE_CONNECTIONS)))


async def _is_kept(reader: asyncio.StreamReader, seconds: float) -> bool:
    """Whether the server has opened a stream, or says nothing for some time."""
    try:
        async with asyncio.timeout(seconds):
            return b" 200 " in await reader.readline()
    except TimeoutError:
        return True


def _forged() -> Mapping[str, str]:
    return {"Authorization": f"Bearer forged-{next(_NUMBERS)}"}


def _raw(
    url: str, method: str, headers: Mapping[str, str], body: bytes, target: str = "/mcp"
) -> bytes:
    fields = {
        "Host": urlsplit(url).netloc,
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **headers,
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode() + body


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or 80


async def _run(kind: str, url: str, token: str, seconds: float) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    end = asyncio.get_running_loop().time() + seconds
    sys.stdout.write("begins\n")
    sys.stdout.flush()
    with suppress(TimeoutError):
        async with asyncio.timeout_at(end + 5):
            await KINDS[kind](url, headers, end)


if __name__ == "__main__":
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(_run(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])))
