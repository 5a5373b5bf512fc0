"""TCP connections: limits and timeouts.

uvicorn has no timeout for request headers or for clients that stop reading. At the
limit, an idle connection of the client with the most is closed.
"""

import asyncio
import logging
import select
import socket
import struct

import h11
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from skills_mcp.config import Http
from skills_mcp.http.admission import FairShares
from skills_mcp.http.error_responses import retry_response
from skills_mcp.server.callers import derive_network, identify_client

logger = logging.getLogger(__name__)

# What the process opens besides: files of skills, Git, the other port, and the
# connections that are refused.
_SPARE_FILES = 384

# Connections of clients that are told to come again; one more is only closed.
_SPARE_CONNECTIONS = 128

# The value of SO_LINGER (socket(7)): on, and for 0 seconds.
_RESET_AT_CLOSE = struct.pack("ii", 1, 0)

# Linux tells it beside data that are not read yet; without it, they are read first.
_POLL_HANGUP: int | None = getattr(select, "POLLRDHUP", None)

# With fewer, a client that closes its end right after a short request (`nc -N`) is
# answered: nothing else has to be saved.
_FLOOD_CONNECTIONS = 16


class Connection(H11Protocol):
    """HTTP connection with timeouts for slow clients.

    A timer runs while the client sends a request head or body, or has to read a
    response;
    none runs while the application works.
    """

    patience_seconds: float
    shares: "FairShares[Connection]"

    _awaited_state: object = None
    _sending: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """No complete request awaits its response."""
        is_answering = self.conn.our_state in {h11.SEND_RESPONSE, h11.SEND_BODY}
        return not is_answering or self.conn.their_state is h11.SEND_BODY

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection; at the limit it only gets a 503."""
        super().connection_made(transport)
        # A reply that waits in memory counts, however short it is.
        transport.set_write_buffer_limits(high=0)
        client = derive_network(self.client[0]) if self.client else ""
        displaced = self.shares.evict(client) if self.shares.is_full else None
        if displaced:
            displaced.abort("other clients connect")
        excess = len(self.connections) - self.shares.capacity
        if excess > _SPARE_CONNECTIONS:
            transport.abort()
        elif self.shares.is_full:
            self.app = _refuse_connection
        else:
            self.shares.add(self, client)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        if self._is_half_closed():
            self.transport.abort()
            return
        super().data_received(data)
        self._start_timer()

    def _is_half_closed(self) -> bool:
        """Whether the client has already closed its end, during a flood.

        asyncio closes such a connection soon, so no response longer than a moment would
        arrive.
        Dropping it saves three quarters of the work.
        """
        if _POLL_HANGUP is None or len(self.connections) < _FLOOD_CONNECTIONS:
            return False
        poller = select.poll()
        poller.register(self.transport.get_extra_info("socket"), _POLL_HANGUP)
        return any(events & _POLL_HANGUP for _, events in poller.poll(0))

    def _start_timer(self) -> None:
        """Start the timer for the next part of the request, unless it runs."""
        owed = self.conn.their_state
        if owed is self._awaited_state:
            return
        self._awaited_state = owed
        if self._sending:
            self._sending.cancel()
        if owed is h11.IDLE:
            self._sending = self.loop.call_later(self.patience_seconds, self._time_out)
        elif owed is h11.SEND_BODY:
            # The application is the first to give up, with an answer.
            self._sending = self.loop.call_later(2 * self.patience_seconds, self._time_out)

    def on_response_complete(self) -> None:
        """Stop the timer: `timeout_keep_alive` governs idle connections."""
        self.shares.use(self, identify_client(self.scope, trust_proxy_headers=False))
        super().on_response_complete()
        if self.conn.their_state is h11.IDLE:
            self._awaited_state = None
            if self._sending:
                self._sending.cancel()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._reading:
            self._reading.cancel()

    def _watch_reader(self) -> None:
        unread_bytes = self.transport.get_write_buffer_size()
        self._reading = self.loop.call_later(
            self.patience_seconds, self._check_reader, unread_bytes
        )

    def _check_reader(self, unread_bytes: int) -> None:
        if self.transport.get_write_buffer_size() < unread_bytes:
            self._watch_reader()
        else:
            self._time_out()

    def _time_out(self) -> None:
        self.abort("the client was too slow")

    def abort(self, reason: str) -> None:
        logger.info("Closed a connection: %s", reason)
        # With a reset: what the kernel still has to send would keep the connection
        # half open for as long as the client reads nothing.
        self.transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE
        )
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.shares.remove(self)
        super().connection_lost(exc)
        for clock in (self._sending, self._reading):
            if clock:
                clock.cancel()


def create_connection_class(patience_seconds: float, max_connections: int) -> type[Connection]:
    shares = FairShares[Connection](max_connections, lambda connection: connection.is_idle)
    bounds = {"patience_seconds": patience_seconds, "shares": shares}
    return type("BoundedConnection", (Connection,), bounds)


def raise_open_files_limit(http: Http) -> int:
    """Raise the limit of open files as far as needed and permitted.

    Returns:
        Possible number of connections.
    """
    calls = http.max_concurrent_requests + http.max_waiting_requests
    connections = http.max_streams + calls
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return connections
    needed = connections + _SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return connections
    is_enough = hard == resource.RLIM_INFINITY or hard >= needed
    permitted = needed if is_enough else hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (permitted, hard))
    if not is_enough:
        logger.warning(
            "Only %s files may be open at once (ulimit -n), so clients beyond %s "
            "connections are refused. Set the limit to %s (systemd: LimitNOFILE=).",
            *(f"{hard:,}", f"{hard - _SPARE_FILES:,}", f"{needed:,}"),
        )
    return max(permitted - _SPARE_FILES, 1)


async def _refuse_connection(scope: Scope, receive: Receive, send: Send) -> None:
    message = "The server has as many connections as it takes. Try again in {seconds} s."
    close = {"Connection": "close"}
    answer = retry_response(503, "TOO_MANY_CONNECTIONS", message, (5, 5), close)
    await answer(scope, receive, send)
