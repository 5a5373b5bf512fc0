"""Admission control: limits of bodies, running requests, open streams and sessions.

Admitted requests are answered. Others are rejected at once, or after a short wait, with
`Retry-After`. Each client, a principal or an address, has a fair share.
"""

import asyncio
import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Generic, TypeVar

import anyio
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skills_mcp.config import Http
from skills_mcp.http.error_responses import (
    busy_response,
    draw_retry_seconds,
    error_response,
    retry_response,
)
from skills_mcp.http.routes import BODY_KEY, MCP_PATH, WEBHOOK_PATH, on_response_start, opens_stream
from skills_mcp.server.callers import CLIENT_KEY, client_of, find_network

logger = logging.getLogger(__name__)

Item = TypeVar("Item", bound=Hashable)


@dataclass(slots=True)
class _Holding(Generic[Item]):
    """Items of one client, least recently used first."""

    unused: dict[Item, None] = field(default_factory=dict)
    """Never used since they were added."""
    used: dict[Item, None] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.unused) + len(self.used)

    def __iter__(self) -> Iterator[Item]:
        yield from self.unused
        yield from self.used


class FairShares(Generic[Item]):
    """Bounded set of items with owners, in max-min fair shares.

    Clients may use idle capacity. At the limit, the client with the most items loses
    one to a client with fewer (Bertsekas and Gallager, Data Networks, 6.5.2).

    Args:
        is_idle: Whether an item can be evicted.
        evicts_own: Whether the client with the most items evicts its own; otherwise it
            gets no more.
    """

    def __init__(
        self,
        capacity: int,
        is_idle: Callable[[Item], bool] = lambda _: True,
        *,
        evicts_own: bool = True,
    ) -> None:
        self.capacity = capacity
        self._is_idle = is_idle
        self._evicts_own = evicts_own
        self._holdings: dict[Hashable, _Holding[Item]] = {}
        self._owners: dict[Item, Hashable] = {}

    def __len__(self) -> int:
        return len(self._owners)

    @property
    def is_full(self) -> bool:
        return len(self) >= self.capacity

    def add(self, item: Item, client: Hashable) -> None:
        """Add an item, even beyond the capacity: `evict` makes room first."""
        self._owners[item] = client
        self._holdings.setdefault(client, _Holding()).unused[item] = None

    def use(self, item: Item, client: Hashable) -> None:
        """Mark an item as most recently used; the client becomes its owner."""
        if item in self._owners:
            self.remove(item)
            self._owners[item] = client
            self._holdings.setdefault(client, _Holding()).used[item] = None

    def remove(self, item: Item) -> None:
        if item not in self._owners:
            return
        client = self._owners.pop(item)
        holding = self._holdings[client]
        holding.unused.pop(item, None)
        holding.used.pop(item, None)
        if not holding:
            del self._holdings[client]

    def evict(self, client: Hashable) -> Item | None:
        """Evict an item of the client with the most: never used ones first, then LRU.

        Returns:
            The item; None if no other client has more, and none of its own is idle.
        """
        own = len(self._holdings.get(client, ()))
        largest_first = sorted(
            self._holdings, key=lambda owner: len(self._holdings[owner]), reverse=True
        )
        for other in largest_first:
            if other == client and not self._evicts_own:
                return None
            if other != client and len(self._holdings[other]) <= own:
                continue
            item = next(filter(self._is_idle, self._holdings[other]), None)
            if item is not None:
                self.remove(item)
                return item
        return None


# Longer than a burst of a thousand calls takes, and shorter than any client waits.
_MAX_WAIT_SECONDS = 10.0

# More calls of one client would only share the same core, and delay those of others.
_CALL_SHARE = 4
_MIN_CALLS = 8


class AdmissionControl:
    """Limits concurrent requests as configured, behind authentication.

    Open notification streams have a limit of their own, and end at shutdown.
    """

    def __init__(self, http: Http, shutdown: anyio.Event) -> None:
        self._shutdown = shutdown
        self._calls = FairCallQueue(http.max_concurrent_requests, http.max_waiting_requests)
        self._streams: FairShares[anyio.Event] = FairShares(http.max_streams, evicts_own=False)

    def wrap(self, app: ASGIApp) -> ASGIApp:
        """Wrap an application; all wrapped ones share the limits."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            client = client_of(scope)
            channel = _Channel(receive)
            slot = await self._calls.acquire(client, channel.is_closed)
            if slot is None:
                await busy_response()(scope, channel.receive, send)
                return
            with slot:
                if opens_stream(scope):
                    opened = on_response_start(send, lambda _: slot.close())
                    stream = (scope, channel.receive, opened)
                    await self._answer_stream(app, client, *stream)
                else:
                    await app(scope, channel.receive, send)

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
        # `end_streams` of the server ends the others, with a last message.
        stops = (ending, self._shutdown) if scope["method"] == "GET" else (ending,)
        try:
            await _run_until(stops, app, scope, receive, send)
        finally:
            self._streams.remove(ending)


async def _run_until(
    stops: Iterable[anyio.Event], app: ASGIApp, scope: Scope, receive: Receive, send: Send
) -> None:
    """Run an application until an event, then end the response body regularly.

    Clients see the end of the body, not a broken connection.
    """
    is_open = False

    async def note(message: Message) -> None:
        nonlocal is_open
        is_body = message["type"] == "http.response.body"
        is_open = not is_body or message.get("more_body", False)
        await send(message)

    async def cancel_after(stop: anyio.Event, answering: anyio.CancelScope) -> None:
        await stop.wait()
        answering.cancel()

    async with anyio.create_task_group() as tasks:
        for stop in stops:
            tasks.start_soon(cancel_after, stop, tasks.cancel_scope)
        await app(scope, receive, note)
        tasks.cancel_scope.cancel()
    if is_open:
        await send({"type": "http.response.body", "body": b""})


class FairCallQueue:
    """Bounded queue of calls, fair between clients (round robin).

    No client runs more than its share. On overflow, the longest queue loses its last
    call (longest queue drop: McKenney, Stochastic Fairness Queueing, 1990).
    """

    def __init__(self, max_running: int, max_waiting: int) -> None:
        self._max_running = max_running
        self._max_waiting = max_waiting
        self._share = min(max_running, max(_MIN_CALLS, max_running // _CALL_SHARE))
        self._running: Counter[Hashable] = Counter()
        self._queues: OrderedDict[Hashable, deque[_Waiter]] = OrderedDict()
        """The waiting calls of each client; the client whose turn it is comes first."""
        self._waiting = 0

    async def acquire(self, client: Hashable, is_closed: Callable[[], bool]) -> ExitStack | None:
        """Wait for a slot, which is left when it is closed; None if the call is rejected.

        `is_closed` tells whether the client has disconnected: such a call takes no
        slot.
        """
        if self._has_room(client):
            self._running[client] += 1
            return self._slot(client)
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
        return self._slot(client) if waiter.is_admitted else None

    def _slot(self, client: Hashable) -> ExitStack:
        slot = ExitStack()  # closed at the start of a stream, it is left once
        slot.callback(self._leave, client)
        return slot

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


# A request that opens a stream has a few headers and names; its body stays in memory.
_MAX_STREAM_BODY_BYTES = 65_536

_MEMORY_SHARE = 4  # of the memory, one client has at most a quarter

# As much as GitHub sends.
_MAX_DELIVERY_BYTES = 25 * 2**20

_CLOSE = {"Connection": "close"}

# Too many requests, unavailable, insufficient storage: it may succeed later.
_RETRYABLE = frozenset({429, 503, 507})


class BodyBufferMiddleware:
    """Middleware that reads the complete body before the request is handled.

    So slow senders do not block others. Each client has a bounded share of the memory
    for bodies. The guards behind it find the body under `BODY_KEY`, and the client.
    """

    def __init__(self, app: ASGIApp, *, http: Http) -> None:
        self._app = app
        self._http = http
        self._body_bytes: Counter[Hashable] = Counter()
        self._total_max_bytes = http.max_concurrent_requests * http.max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        body = _Body(self._find_max_bytes(scope))
        trusted = self._http.trust_proxy_headers
        client = scope[CLIENT_KEY] = find_network(scope, trust_proxy_headers=trusted)
        try:
            refusal = await self._read(body, headers, receive, client)
            if refusal and refusal.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
                logger.info(
                    "Refused a request to %.200r: its body is larger than %s bytes; "
                    "http.max_body_bytes sets the limit",
                    *(scope["path"], f"{body.max_bytes:,}"),
                )
            if not body.is_abandoned:
                answer = refusal or self._app
                scope[BODY_KEY] = body.content
                await answer(scope, body.replayed_before(receive), _with_retry_after(send))
        finally:
            self._release_body(body, client)

    def _find_max_bytes(self, scope: Scope) -> int:
        if opens_stream(scope):
            return _MAX_STREAM_BODY_BYTES
        usual = self._http.max_body_bytes
        if scope["path"] == WEBHOOK_PATH and self._http.webhook_secret_file:
            return max(usual, min(_MAX_DELIVERY_BYTES, self._total_max_bytes // _MEMORY_SHARE))
        return usual

    async def _read(
        self, body: "_Body", headers: Headers, receive: Receive, client: Hashable
    ) -> Response | None:
        """Read the complete body; a response if it is rejected."""
        declared = headers.get("content-length", "")
        if declared.isdecimal() and int(declared[:20]) > body.max_bytes:
            return _too_large(body.max_bytes)
        with anyio.move_on_after(self._http.request_timeout_seconds) as timeout:
            while not body.is_complete:
                self._body_bytes[client] += body.add(await receive())
                if body.is_abandoned:
                    return None
                if len(body.content) > body.max_bytes:
                    return _too_large(body.max_bytes)
                if self._is_out_of_memory(client):
                    return busy_response()
        return _too_slow() if timeout.cancelled_caught else None

    def _is_out_of_memory(self, client: Hashable) -> bool:
        share = max(self._total_max_bytes // _MEMORY_SHARE, self._http.max_body_bytes)
        return self._body_bytes[client] > share or self._body_bytes.total() > self._total_max_bytes

    def _release_body(self, body: "_Body", client: Hashable) -> None:
        self._body_bytes[client] -= len(body.content)
        if not self._body_bytes[client]:
            del self._body_bytes[client]


@dataclass(slots=True)
class _Body:
    """Partially received body."""

    max_bytes: int
    content: bytes = b""
    is_complete: bool = False
    is_abandoned: bool = False

    def add(self, message: Message) -> int:
        if message["type"] != "http.request":
            self.is_abandoned = True
            return 0
        chunk = message.get("body", b"")
        # Most bodies come as one part, which is not copied.
        self.content = self.content + chunk if self.content else chunk
        self.is_complete = not message.get("more_body", False)
        return len(chunk)

    def replayed_before(self, receive: Receive) -> Receive:
        is_read = False

        async def replay() -> Message:
            nonlocal is_read
            if is_read:
                return await receive()
            is_read = True
            return {"type": "http.request", "body": self.content, "more_body": False}

        return replay


def _with_retry_after(send: Send) -> Send:
    """Add `Retry-After` to retryable errors."""

    def complete(message: Message) -> None:
        if message["status"] in _RETRYABLE:
            headers = MutableHeaders(raw=message["headers"])
            headers.setdefault("Retry-After", str(draw_retry_seconds()))

    return on_response_start(send, complete)


def _too_large(max_bytes: int) -> Response:
    return error_response(
        413,
        "REQUEST_TOO_LARGE",
        f"The request is larger than {max_bytes:,} bytes. Send a shorter one, or ask the operator "
        "for a higher http.max_body_bytes.",
    )


def _too_slow() -> Response:
    return error_response(
        408,
        "REQUEST_TOO_SLOW",
        "The request did not arrive in time. Send it again.",
        _CLOSE,  # its rest may still come
    )


MAX_SESSIONS = 4_096
"""The SDK stores sessions of the handshake era. It rejects new ones at its limit and
expires idle ones only after half an hour, so one client could lock out all others.

Equal to the default number of streams: older clients open one per session.

With the SDK's 10,000, a full garbage collection stops the server for a second. Evicted
clients only have to initialise again.
"""

_SESSION_RETRY_SECONDS = (5, 5)

_VERSION_HEADER = MCP_PROTOCOL_VERSION_HEADER.lower().encode()
_ID_HEADER = MCP_SESSION_ID_HEADER.lower().encode()


@dataclass(slots=True, eq=False)
class _Session:
    """A session, with the data to end it on behalf of its owner."""

    owner: dict[str, Any]
    """Entries of the ASGI scope by which the SDK recognises the owner."""
    session_id: str = ""
    """Empty until the session is open."""
    requests: int = 1
    """Requests in flight, including streams and the opening request."""


def _on_response_end(send: Send, hook: Callable[[], None]) -> Send:
    """Call a hook before the last part of a response: its client may come again at once."""

    async def forward(message: Message) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body"):
            hook()
        await send(message)

    return forward


class SessionLimitMiddleware:
    """Middleware that evicts idle sessions in favour of new ones.

    Args:
        app: Endpoint of the SDK, with at least this limit.
    """

    def __init__(self, app: ASGIApp, capacity: int) -> None:
        self._app = app
        self._shares: FairShares[_Session] = FairShares(
            capacity, lambda session: not session.requests
        )
        self._known: dict[str, _Session] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        session_id = headers.get(MCP_SESSION_ID_HEADER)
        if session_id is not None:
            await self._answer_in(session_id, scope, receive, send)
        elif scope["method"] == "POST" and _is_handshake_era(headers):
            await self._open(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _answer_in(self, session_id: str, scope: Scope, receive: Receive, send: Send) -> None:
        session = self._known.get(session_id)
        if session is None:
            await self._app(scope, receive, send)
            return
        answer = _RecordedStart()
        session.requests += 1

        def finish() -> None:
            session.requests -= 1
            if not answer.is_success:  # the SDK refuses another caller
                return
            if scope["method"] == "DELETE":
                self._forget(session)
            else:
                self._shares.use(session, client_of(scope))

        with ExitStack() as request:
            request.callback(finish)
            recording = on_response_start(send, answer.record)
            await self._app(scope, receive, _on_response_end(recording, request.close))

    async def _open(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = client_of(scope)
        evicted = self._shares.evict(client) if self._shares.is_full else None
        if self._shares.is_full:
            message = "As many sessions are in use as this server has. Try again in {seconds} s."
            refusal = retry_response(503, "TOO_MANY_SESSIONS", message, _SESSION_RETRY_SECONDS)
            await refusal(scope, receive, send)
            return
        session = _Session({"user": scope["user"]} if "user" in scope else {})
        self._shares.add(session, client)  # before another client takes the room
        answer = _RecordedStart()

        def finish() -> None:
            session.requests -= 1
            if answer.is_success and answer.session_id:
                session.session_id = answer.session_id
                self._known[session.session_id] = session
            else:
                self._forget(session)

        with ExitStack() as request:
            request.callback(finish)
            if evicted:
                await self._end(evicted)
            recording = on_response_start(send, answer.record)
            await self._app(scope, receive, _on_response_end(recording, request.close))

    async def _end(self, session: _Session) -> None:
        """Send the DELETE request of the owner."""
        self._forget(session)
        logger.info("Ended an idle session, because other clients open sessions")
        scope: Scope = {
            "type": "http",
            "method": "DELETE",
            "path": MCP_PATH,
            "root_path": "",
            "query_string": b"",
            "headers": [
                (_ID_HEADER, session.session_id.encode()),
                (_VERSION_HEADER, LATEST_HANDSHAKE_VERSION.encode()),
            ],
            **session.owner,
        }
        await self._app(scope, _receive_nothing, _discard)

    def _forget(self, session: _Session) -> None:
        self._shares.remove(session)
        self._known.pop(session.session_id, None)


@dataclass(slots=True)
class _RecordedStart:
    """Status and session id of a response."""

    status: int = 0
    session_id: str = ""

    @property
    def is_success(self) -> bool:
        return 0 < self.status < HTTPStatus.BAD_REQUEST

    def record(self, message: Message) -> None:
        self.status = message["status"]
        self.session_id = Headers(raw=message["headers"]).get(MCP_SESSION_ID_HEADER, "")


def _is_handshake_era(headers: Headers) -> bool:
    version = headers.get(MCP_PROTOCOL_VERSION_HEADER)
    return version is None or version in HANDSHAKE_PROTOCOL_VERSIONS


async def _receive_nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _discard(_message: Message) -> None:
    pass
