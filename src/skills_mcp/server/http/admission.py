"""Admission control: how many requests are answered at once, and in which order.

Rule: an admitted request is answered. The others are refused at once, or after a short
wait, with the time of the next attempt. Each client has a fair share: a client is the
caller, or the address of one without sign-in.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import anyio
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skills_mcp.config import Http
from skills_mcp.server.callers import identify_client
from skills_mcp.server.http.closing import run_until
from skills_mcp.server.http.protected_resource import PATH
from skills_mcp.server.http.refusals import busy
from skills_mcp.server.http.shares import Shares

# Longer than a burst of a thousand calls takes, and shorter than any client waits.
_MAX_WAIT_SECONDS = 10.0

# More calls of one client would only share the same core, and delay those of others.
_SHARE = 4
_MIN_CALLS = 8


class Admission:
    """Admits as many requests as the settings allow, behind the sign-in.

    Streams that only wait for notices count apart as soon as they are open.

    Args:
        http: The settings.
    """

    def __init__(self, http: Http) -> None:
        self._trust_proxy_headers = http.trust_proxy_headers
        self._calls = CallQueue(http.max_concurrent_requests, http.max_waiting_requests)
        self._streams: Shares[anyio.Event] = Shares(
            http.max_streams, displaces_own=False
        )

    def in_front_of(self, app: ASGIApp) -> ASGIApp:
        """Middleware of one application; all of them share the bounds."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            trusted = self._trust_proxy_headers
            client = identify_client(scope, trust_proxy_headers=trusted)
            channel = _Channel(receive)
            async with self._calls.admitted(client, channel.gone) as place:
                if place is None:
                    await busy()(scope, channel.receive, send)
                elif opens_stream(scope, Headers(scope=scope)):
                    opened = _leaving(place, send)
                    stream = (scope, channel.receive, opened)
                    await self._answer_stream(app, client, *stream)
                else:
                    await app(scope, channel.receive, send)

        return answer

    async def _answer_stream(
        self, app: ASGIApp, client: Hashable, scope: Scope, receive: Receive, send: Send
    ) -> None:
        if self._streams.is_full:
            displaced = self._streams.displace(client)
            if displaced is None:
                await busy()(scope, receive, send)
                return
            displaced.set()
        ending = anyio.Event()
        self._streams.add(ending, client)
        try:
            await run_until(ending, app, scope, receive, send)
        finally:
            self._streams.remove(ending)


class CallQueue:
    """Calls of all clients: some run, the others wait, and clients take turns.

    No client runs more than its share. When too many calls wait, the client with the
    most loses its last one (longest queue drop: McKenney, Stochastic Fairness
    Queueing, 1990).

    Args:
        max_running: The maximum number of calls at once.
        max_waiting: The maximum number of calls in the queue.
    """

    def __init__(self, max_running: int, max_waiting: int) -> None:
        self._max_running = max_running
        self._max_waiting = max_waiting
        self._share = min(max_running, max(_MIN_CALLS, max_running // _SHARE))
        self._running: Counter[Hashable] = Counter()
        self._queues: OrderedDict[Hashable, deque[_Waiter]] = OrderedDict()
        """The waiting calls of each client; the client whose turn it is comes first."""
        self._waiting = 0

    @asynccontextmanager
    async def admitted(
        self, client: Hashable, gone: Callable[[], Awaitable[None]]
    ) -> AsyncIterator["Place | None"]:
        """Hold a place among the running calls; None if the call is refused.

        Args:
            client: Whose call it is.
            gone: Waits until the client has gone: its call waits no longer.
        """
        if not await self._enter(client, gone):
            yield None
            return
        place = Place(partial(self._leave, client))
        try:
            yield place
        finally:
            place.leave()

    async def _enter(
        self, client: Hashable, gone: Callable[[], Awaitable[None]]
    ) -> bool:
        if self._has_room(client):
            self._running[client] += 1
            return True
        if self._waiting >= self._max_waiting and not self._drop_for(client):
            return False
        waiter = _Waiter()
        self._queues.setdefault(client, deque()).append(waiter)
        self._waiting += 1
        try:
            await waiter.wait(gone)
        except BaseException:
            if waiter.is_admitted:
                self._leave(client)
            raise
        finally:
            self._forget(client, waiter)
        return waiter.is_admitted

    def _has_room(self, client: Hashable) -> bool:
        return (
            self._running.total() < self._max_running
            and self._running[client] < self._share
        )

    def _drop_for(self, client: Hashable) -> bool:
        """Refuse the last call of the longest queue, unless that is the client's."""
        if not self._queues:
            return False
        longest = max(self._queues, key=lambda each: len(self._queues[each]))
        if len(self._queues[longest]) <= len(self._queues.get(client, ())) + 1:
            return False
        waiter = self._queues[longest][-1]
        self._forget(longest, waiter)
        waiter.decided.set()
        return True

    def _leave(self, client: Hashable) -> None:
        self._running[client] -= 1
        if not self._running[client]:
            del self._running[client]
        for other in tuple(self._queues):
            if self._has_room(other):
                self._start_next(other)
                return

    def _start_next(self, client: Hashable) -> None:
        waiter = self._queues[client][0]
        self._forget(client, waiter)
        if client in self._queues:
            self._queues.move_to_end(client)
        self._running[client] += 1
        waiter.is_admitted = True
        waiter.decided.set()

    def _forget(self, client: Hashable, waiter: "_Waiter") -> None:
        """Take a call out of its queue; idempotent."""
        queue = self._queues.get(client)
        if queue is None or waiter not in queue:
            return
        queue.remove(waiter)
        self._waiting -= 1
        if not queue:
            del self._queues[client]


class Place:
    """The place of a running call in a `CallQueue`."""

    def __init__(self, leave: Callable[[], None]) -> None:
        self._leave: Callable[[], None] | None = leave

    def leave(self) -> None:
        """Make room for the next call; idempotent."""
        if self._leave:
            # With the next round of the loop: a client whose calls end at once would
            # otherwise run all of them before another client is heard.
            asyncio.get_running_loop().call_soon(self._leave)
            self._leave = None


@dataclass(slots=True, eq=False)
class _Waiter:
    """A call that waits."""

    decided: anyio.Event = field(default_factory=anyio.Event)
    is_admitted: bool = False

    async def wait(self, gone: Callable[[], Awaitable[None]]) -> None:
        """Wait for the decision, for the client to go, or for the patience to end."""
        with anyio.move_on_after(_MAX_WAIT_SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_cancel_after, gone, tasks.cancel_scope)
                await self.decided.wait()
                tasks.cancel_scope.cancel()


async def _cancel_after(
    event: Callable[[], Awaitable[None]], waiting: anyio.CancelScope
) -> None:
    await event()
    waiting.cancel()


class _Channel:
    """The channel of a request, which can be listened to before it is read."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._read_ahead: deque[Message] = deque()

    async def gone(self) -> None:
        """Wait until the client has gone."""
        while not self._read_ahead or self._read_ahead[-1]["type"] == "http.request":
            self._read_ahead.append(await self._receive())

    async def receive(self) -> Message:
        """Next message of the request."""
        if self._read_ahead:
            return self._read_ahead.popleft()
        return await self._receive()


def opens_stream(scope: Scope, headers: Headers) -> bool:
    """Whether a request opens a stream that only waits for notices.

    The SDK refuses a request of the newer version whose header names another method
    than its body; of the older versions it does not read that header.
    """
    if scope["path"] != PATH:
        return False
    if scope["method"] != "POST":
        return bool(scope["method"] == "GET")
    is_modern = headers.get(MCP_PROTOCOL_VERSION_HEADER) in MODERN_PROTOCOL_VERSIONS
    return is_modern and headers.get("mcp-method") == "subscriptions/listen"


def _leaving(place: Place, send: Send) -> Send:
    """Give up the place among the calls as soon as the response begins."""

    async def leave(message: Message) -> None:
        place.leave()
        await send(message)

    return leave
