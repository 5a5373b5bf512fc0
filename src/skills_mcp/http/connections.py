"""Connections: how many there are, and when the server closes one.

uvicorn waits for ever for the headers of a request, and for a client that reads no
further. When there are too many connections, an idle one of the client with the most
makes room.
"""

import asyncio
import logging
import select
import socket
import struct

import h11
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from skills_mcp.config import Http
from skills_mcp.http.fair_shares import FairShares
from skills_mcp.http.refusals import refuse
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
_PEER_CLOSED: int | None = getattr(select, "POLLRDHUP", None)

# With fewer, a client that closes its end right after a short request (`nc -N`) is
# answered: nothing else has to be saved.
_FLOOD_CONNECTIONS = 16


class Connection(H11Protocol):
    """Closes itself when the client owes something for too long.

    A client owes the head of a request as soon as it has connected or sent a part of
    it, then the body, and then it owes to read the answer.  While it is answered it
    owes nothing.
    """

    patience_seconds: float
    shares: "FairShares[Connection]"

    _owed: object = None
    _sending: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no complete request waits for the end of its answer."""
        is_answering = self.conn.our_state in {h11.SEND_RESPONSE, h11.SEND_BODY}
        return not is_answering or self.conn.their_state is h11.SEND_BODY

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection; without room it is only told to come again."""
        super().connection_made(transport)
        # A reply that waits in memory counts, however short it is.
        transport.set_write_buffer_limits(high=0)
        client = derive_network(self.client[0]) if self.client else ""
        displaced = self.shares.displace(client) if self.shares.is_full else None
        if displaced:
            displaced.abort("other clients connect")
        excess = len(self.connections) - self.shares.capacity
        if excess > _SPARE_CONNECTIONS:
            transport.abort()
        elif self.shares.is_full:
            self.app = _refuse_connection
        else:
            self.shares.add(self, client)
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Read what has come, and wait for what is still owed."""
        if self._has_closed():
            self.transport.abort()
            return
        super().data_received(data)
        self._expect()

    def _has_closed(self) -> bool:
        """Whether the client has closed its end already, in a flood of connections.

        No answer that takes longer than a moment would reach it: asyncio closes such a
        connection soon. To drop it saves three quarters of the work.
        """
        if _PEER_CLOSED is None or len(self.connections) < _FLOOD_CONNECTIONS:
            return False
        poller = select.poll()
        poller.register(self.transport.get_extra_info("socket"), _PEER_CLOSED)
        return any(events & _PEER_CLOSED for _, events in poller.poll(0))

    def _expect(self) -> None:
        """Start the clock of the next part of the request, unless it runs already."""
        owed = self.conn.their_state
        if owed is self._owed:
            return
        self._owed = owed
        if self._sending:
            self._sending.cancel()
        if owed is h11.IDLE:
            self._sending = self.loop.call_later(self.patience_seconds, self._hang_up)
        elif owed is h11.SEND_BODY:
            # The application is the first to give up, with an answer.
            self._sending = self.loop.call_later(
                2 * self.patience_seconds, self._hang_up
            )

    def on_response_complete(self) -> None:
        """Let the pause between two requests be that of `timeout_keep_alive`."""
        self.shares.use(self, identify_client(self.scope, trust_proxy_headers=False))
        super().on_response_complete()
        if self.conn.their_state is h11.IDLE:
            self._owed = None
            if self._sending:
                self._sending.cancel()

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        """Go on: the client has read everything."""
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
            self._hang_up()

    def _hang_up(self) -> None:
        self.abort("the client was too slow")

    def abort(self, reason: str) -> None:
        """Close the connection at once."""
        logger.info("Closed a connection: %s", reason)
        # With a reset: what the kernel still has to send would keep the connection
        # half open for as long as the client reads nothing.
        self.transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE
        )
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection and its clocks."""
        self.shares.remove(self)
        super().connection_lost(exc)
        for clock in (self._sending, self._reading):
            if clock:
                clock.cancel()


def bounded(patience_seconds: float, max_connections: int) -> type[Connection]:
    """Class of the connections of one port, with its bounds."""
    shares = FairShares[Connection](max_connections, lambda each: each.is_idle)
    bounds = {"patience_seconds": patience_seconds, "shares": shares}
    return type("BoundedConnection", (Connection,), bounds)


def open_files_for(http: Http) -> int:
    """Permit this process the files that its bounds need, or as many as there may be.

    Returns:
        The number of connections that are possible.
    """
    calls = http.max_concurrent_requests + http.max_waiting_requests
    connections = http.max_streams + calls
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return connections
    wanted = connections + _SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    is_enough = hard == resource.RLIM_INFINITY or hard >= wanted
    permitted = wanted if is_enough else hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (permitted, hard))
    if not is_enough:
        logger.warning(
            "Only %s files may be open at once (ulimit -n), so clients beyond %s "
            "connections are refused. Set the limit to %s (systemd: LimitNOFILE=), or "
            "lower http.max_streams.",
            *(f"{hard:,}", f"{hard - _SPARE_FILES:,}", f"{wanted:,}"),
        )
    return max(permitted - _SPARE_FILES, 1)


async def _refuse_connection(scope: Scope, receive: Receive, send: Send) -> None:
    answer: ASGIApp = refuse(
        503,
        "TOO_MANY_CONNECTIONS",
        "The server has as many connections as it takes. Try again in 5 s.",
        {"Retry-After": "5", "Connection": "close"},
    )
    await answer(scope, receive, send)
