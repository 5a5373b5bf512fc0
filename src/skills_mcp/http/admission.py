"""Admission control: limits of bodies, running requests and open streams.

Admitted requests are answered. Others are rejected at once, or after a short wait, with
`Retry-After`. Each client, a principal or an address, has a fair share.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial

import anyio
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skills_mcp.config import Http
from skills_mcp.http.closing import run_until
from skills_mcp.http.fair_shares import FairShares
from skills_mcp.http.protected_resource import MCP_PATH
from skills_mcp.http.refusals import busy_response
from skills_mcp.server.callers import identify_client

# Longer than a burst of a thousand calls takes, and shorter than any client waits.
_MAX_WAIT_SECONDS = 10.0

# More calls of one client would only share the same core, and delay those of others.
_CALL_SHARE = 4
_MIN_CALLS = 8


class AdmissionControl:
    """Limits concurrent requests as configured, behind authentication.

    Open notification streams have a limit of their own.
    """

    def __init__(self, http: Http) -> None:
        self._trust_proxy_headers = http.trust_proxy_headers
        self._calls = FairCallQueue(http.max_concurrent_requests, http.max_waiting_requests)
        self._streams: FairShares[anyio.Event] = FairShares(http.max_streams, evicts_own=False)

    def wrap(self, app: ASGIApp) -> ASGIApp:
        """Wrap an application; all wrapped ones share the limits."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            trusted = self._trust_proxy_headers
            client = identify_client(scope, trust_proxy_headers=trusted)
            channel = _Channel(receive)
            slot = await self._calls.acquire(client, channel.is_closed)
            if slot is None:
                await busy_response()(scope, channel.receive, send)
                return
            try:
                if opens_stream(scope):
                    opened = _release_on_response(slot, send)
                    stream = (scope, channel.receive, opened)
                    await self._answer_stream(app, client, *stream)
                else:
                    await app(scope, channel.receive, send)
            finally:
                slot.release()

        return answer

    async def _answer_stream(
        self, app: ASGIApp, client: Hashable, scope: Scope, receive: Receive, send: Send
    ) -> None:
        if self._streams.is_full:
            displaced = self._streams.evict(client)
            if displaced is None:
                await busy_response()(scope, receive, send)
                return
            displaced.set()
        ending = anyio.Event()
        self._streams.add(ending, client)
        try:
            await run_until(ending, app, scope, receive, send)
        finally:
            self._streams.remove(ending)


class FairCallQueue:
    """Bounded queue of calls, fair between clients (round robin).

    No client runs more than its share. On overflow, the longest queue loses its last
    call
    (longest queue drop: McKenney, Stochastic Fairness Queueing, 1990).
    """

    def __init__(self, max_running: int, max_waiting: int) -> None:
        self._max_running = max_running
        self._max_waiting = max_waiting
        self._share = min(max_running, max(_MIN_CALLS, max_running // _CALL_SHARE))
        self._running: Counter[Hashable] = Counter()
        self._queues: OrderedDict[Hashable, deque[_Waiter]] = OrderedDict()
        """The waiting calls of each client; the client whose turn it is comes first."""
        self._waiting = 0

    async def acquire(self, client: Hashable, is_closed: Callable[[], bool]) -> "Slot | None":
        """Wait for a slot; None if the call is rejected.

        `is_closed` tells whether the client has disconnected: such a call takes no
        slot.
        """
        if self._has_room(client):
            self._running[client] += 1
            return Slot(partial(self._leave, client))
        if self._waiting >= self._max_waiting and not self._drop_from_longest(client):
            return None
        waiter = _Waiter(is_closed)
        self._queues.setdefault(client, deque()).append(waiter)
        self._waiting += 1
        try:
            await waiter.wait()
        except BaseException:
            if waiter.is_admitted:
                self._leave(client)
            raise
        finally:
            self._forget(client, waiter)
        return Slot(partial(self._leave, client)) if waiter.is_admitted else None

    def _has_room(self, client: Hashable) -> bool:
        return self._running.total() < self._max_running and self._running[client] < self._share

    def _drop_from_longest(self, client: Hashable) -> bool:
        """Reject the last call of the longest queue, unless it is the client's own."""
        if not self._queues:
            return False
        longest = max(self._queues, key=lambda owner: len(self._queues[owner]))
        if len(self._queues[longest]) <= len(self._queues.get(client, ())) + 1:
            return False
        waiter = self._queues[longest][-1]
        self._forget(longest, waiter)
        waiter.decide()
        return True

    def _leave(self, client: Hashable) -> None:
        self._running[client] -= 1
        if not self._running[client]:
            del self._running[client]
        for other in tuple(self._queues):
            if self._has_room(other) and self._start_next(other):
                return

    def _start_next(self, client: Hashable) -> bool:
        is_started = False
        while not is_started and (queue := self._queues.get(client)):
            waiter = queue[0]
            self._forget(client, waiter)
            is_started = waiter.is_admitted = not waiter.is_closed()
            waiter.decide()
        if is_started:
            self._running[client] += 1
        if client in self._queues:
            self._queues.move_to_end(client)
        return is_started

    def _forget(self, client: Hashable, waiter: "_Waiter") -> None:
        queue = self._queues.get(client)
        if queue is None or waiter not in queue:
            return
        queue.remove(waiter)
        self._waiting -= 1
        if not queue:
            del self._queues[client]


class Slot:
    """Slot of a running call in a `FairCallQueue`."""

    __slots__ = ("_leave",)

    def __init__(self, leave: Callable[[], None]) -> None:
        self._leave: Callable[[], None] | None = leave

    def release(self) -> None:
        if self._leave:
            leave, self._leave = self._leave, None
            leave()


@dataclass(slots=True, eq=False)
class _Waiter:
    is_closed: Callable[[], bool]
    is_admitted: bool = False
    _decided: "asyncio.Future[None]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    async def wait(self) -> None:
        """Wait for admission, rejection or the timeout.

        A cancel scope of anyio costs a hundredth of a call, and under load most calls
        wait.
        """
        loop = asyncio.get_running_loop()
        timeout = loop.call_later(_MAX_WAIT_SECONDS, self.decide)
        try:
            await self._decided
        finally:
            timeout.cancel()

    def decide(self) -> None:
        if not self._decided.done():
            self._decided.set_result(None)


class _Channel:
    """ASGI receive channel with look-ahead."""

    __slots__ = ("_read_ahead", "_receive")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._read_ahead: list[Message] = []

    def is_closed(self) -> bool:
        """Poll for a disconnect, without blocking."""
        while (message := _poll(self._receive)) is not None:
            self._read_ahead.append(message)
            if message["type"] == "http.disconnect":
                return True
        return False

    async def receive(self) -> Message:
        return self._read_ahead.pop(0) if self._read_ahead else await self._receive()


def _poll(receive: Receive) -> Message | None:
    """Next available message; None if there is none yet.

    A task would cost a tenth of a call.
    """
    waiting = receive().__await__()
    try:
        next(waiting)
    except StopIteration as received:
        message: Message = received.value
        return message
    finally:
        close = getattr(waiting, "close", None)
        if close:
            close()
    return None


def opens_stream(scope: Scope) -> bool:
    """Whether a request opens a notification stream.

    Since 2026-07-28 the SDK rejects a method header in conflict with the body; with
    older
    versions it ignores the header.
    """
    if scope["path"] != MCP_PATH:
        return False
    if scope["method"] != "POST":
        return bool(scope["method"] == "GET")
    headers = Headers(scope=scope)
    is_modern = headers.get(MCP_PROTOCOL_VERSION_HEADER) in MODERN_PROTOCOL_VERSIONS
    return is_modern and headers.get("mcp-method") == "subscriptions/listen"


def _release_on_response(slot: Slot, send: Send) -> Send:
    async def leave(message: Message) -> None:
        slot.release()
        await send(message)

    return leave
