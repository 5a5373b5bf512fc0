"""Admission control: how many requests are answered at once, and in which order.

Rule: an admitted request is answered. The others are refused at once, or after a short
wait, with the time of the next attempt. Each client has a fair share: a client is the
caller, or the address of one without sign-in.
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
from skills_mcp.http.protected_resource import PATH
from skills_mcp.http.refusals import busy
from skills_mcp.server.callers import identify_client

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
        self._streams: FairShares[anyio.Event] = FairShares(
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
            place = await self._calls.enter(client, channel.is_closed)
            if place is None:
                await busy()(scope, channel.receive, send)
                return
            try:
                if opens_stream(scope):
                    opened = _leaving(place, send)
                    stream = (scope, channel.receive, opened)
                    await self._answer_stream(app, client, *stream)
                else:
                    await app(scope, channel.receive, send)
            finally:
                place.leave()

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

    async def enter(
        self, client: Hashable, is_closed: Callable[[], bool]
    ) -> "Place | None":
        """Wait for a place among the running calls; None if the call is refused.

        Args:
            client: Whose call it is.
            is_closed: Whether the client has gone: its call takes no place.
        """
        if self._has_room(client):
            self._running[client] += 1
            return Place(partial(self._leave, client))
        if self._waiting >= self._max_waiting and not self._drop_for(client):
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
        return Place(partial(self._leave, client)) if waiter.is_admitted else None

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
        """Start the first call of a client that still waits for its answer."""
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

    __slots__ = ("_leave",)

    def __init__(self, leave: Callable[[], None]) -> None:
        self._leave: Callable[[], None] | None = leave

    def leave(self) -> None:
        """Make room for the next call; idempotent."""
        if self._leave:
            leave, self._leave = self._leave, None
            leave()


@dataclass(slots=True, eq=False)
class _Waiter:
    """A call that waits."""

    is_closed: Callable[[], bool]
    is_admitted: bool = False
    _decided: "asyncio.Future[None]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    async def wait(self) -> None:
        """Wait for the decision, or for the end of the patience.

        A cancel scope of anyio takes a hundredth of a call, and most calls of a crowd
        wait.
        """
        loop = asyncio.get_running_loop()
        patience = loop.call_later(_MAX_WAIT_SECONDS, self.decide)
        try:
            await self._decided
        finally:
            patience.cancel()

    def decide(self) -> None:
        """End the waiting; idempotent."""
        if not self._decided.done():
            self._decided.set_result(None)


class _Channel:
    """The channel of a request, which can be polled before it is read."""

    __slots__ = ("_read_ahead", "_receive")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._read_ahead: list[Message] = []

    def is_closed(self) -> bool:
        """Whether the client has gone, without waiting for what it sends."""
        while (message := _poll(self._receive)) is not None:
            self._read_ahead.append(message)
            if message["type"] == "http.disconnect":
                return True
        return False

    async def receive(self) -> Message:
        """Next message of the request."""
        return self._read_ahead.pop(0) if self._read_ahead else await self._receive()


def _poll(receive: Receive) -> Message | None:
    """Message that is there already; None if there is none yet.

    A task that waits for it would cost a tenth of a call.
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
    """Whether a request opens a stream that only waits for notices.

    The SDK refuses a request of the newer version whose header names another method
    than its body; of the older versions it does not read that header.
    """
    if scope["path"] != PATH:
        return False
    if scope["method"] != "POST":
        return bool(scope["method"] == "GET")
    headers = Headers(scope=scope)
    is_modern = headers.get(MCP_PROTOCOL_VERSION_HEADER) in MODERN_PROTOCOL_VERSIONS
    return is_modern and headers.get("mcp-method") == "subscriptions/listen"


def _leaving(place: Place, send: Send) -> Send:
    """Give up the place among the calls as soon as the response begins."""

    async def leave(message: Message) -> None:
        place.leave()
        await send(message)

    return leave
