"""Endpoint for events of other servers: tokens of senders, quotas and storage."""

import hmac
import json
import logging
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from skills_mcp.config import Config, Http
from skills_mcp.errors import EventStoreError, EventStoreFullError
from skills_mcp.events.collector.event_store import EventStore
from skills_mcp.events.heartbeat import Heartbeat, is_heartbeat, parse_heartbeat
from skills_mcp.events.received_event import (
    InvalidEventError,
    ReceivedEvent,
    parse_received,
)
from skills_mcp.events.spool import reject_constant
from skills_mcp.http.error_responses import error_response, retry_response
from skills_mcp.http.metrics import Metrics
from skills_mcp.http.secret_file import SecretFile, find_secret_file
from skills_mcp.server.callers import client_of
from skills_mcp.skills.model import escape_unprintable


class IngestTokens(SecretFile):
    """Tokens of `events.ingest_token_file`, without an identity provider."""

    setting = "events.ingest_token_file"
    purpose = "a token for the senders of events"
    refused = "No event is taken with a token"

    def find(self, token: str) -> int:
        """Line number of a token, from 1; 0 if unknown. Constant time."""
        sent = token.encode()
        # A list, not `any` over a generator: each one is compared.
        matches = [hmac.compare_digest(sent, secret.encode()) for secret in self.current()]
        return matches.index(True) + 1 if token and any(matches) else 0


logger = logging.getLogger(__name__)

_MINUTE_SECONDS, _DAY_SECONDS = 60.0, 86_400.0

# A quota of a day lasts for half an hour at least: machines that come back from a day
# without the server deliver in minutes, and a flood is seen before it has spent all.
_MINUTES_OF_A_DAY = 32

# One of them leaves half of it to all others.
_SENDERS_AT_QUOTA = 2

# A few megabytes. A sender beyond them begins anew; the quota of all still holds.
_MAX_SENDERS = 10_000

# A sender over its quota comes again for hours; the log says so once in an hour.
_LOG_SECONDS = 60 * 60.0


@dataclass(frozen=True, slots=True)
class QuotaExceeded:
    limit: str
    retry_after_seconds: float


@dataclass(slots=True)
class _Bucket:
    """State of one quota: limits per minute and per day."""

    arrivals: list[float] = field(default_factory=lambda: [0.0, 0.0])
    logged_at: float = float("-inf")


class EventQuota:
    """Rate limiter for bytes of events, in memory, per process. Thread-safe.

    Generic cell rate algorithm (GCRA, ITU-T I.371, annex A): one theoretical arrival
    time replaces a leaky bucket. A request of any size conforms while this time is at
    most the tolerance ahead of now. So each request fits eventually, and a quota is
    exceeded by at most one request.

    Quotas refill evenly. After a silent day, a sender has the quota of a day.
    """

    def __init__(
        self,
        sender_bytes_per_day: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sender_bytes = sender_bytes_per_day
        self._clock = clock
        self._guard = threading.Lock()
        self._total = _Bucket()
        self._senders: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, sender: str, size_bytes: int) -> QuotaExceeded | None:
        with self._guard:
            now, bucket = self._clock(), self._find(sender)
            if seconds := _seconds_until_conforming(bucket, now):
                exceeded = QuotaExceeded("events.sender_bytes_per_day", seconds)
                self._log(bucket, sender, exceeded, now)
                return exceeded
            if seconds := _seconds_until_conforming(self._total, now):
                limit = "twice events.sender_bytes_per_day, for all senders together,"
                exceeded = QuotaExceeded(limit, seconds)
                self._log(self._total, "all senders", exceeded, now)
                return exceeded
            self._charge(sender, size_bytes, now)
            return None

    def charge(self, sender: str, size_bytes: int) -> None:
        """Charge costs beyond the body; a negative size is a refund."""
        with self._guard:
            self._charge(sender, size_bytes, self._clock())

    def __len__(self) -> int:
        return len(self._senders)

    def _find(self, sender: str) -> _Bucket:
        bucket = self._senders.setdefault(sender, _Bucket())
        self._senders.move_to_end(sender)
        if len(self._senders) > _MAX_SENDERS:
            self._senders.popitem(last=False)
        return bucket

    def _charge(self, sender: str, size_bytes: int, now: float) -> None:
        _advance(self._find(sender), size_bytes / self._sender_bytes, now)
        _advance(self._total, size_bytes / self._sender_bytes / _SENDERS_AT_QUOTA, now)

    def _log(self, bucket: _Bucket, sender: str, exceeded: QuotaExceeded, now: float) -> None:
        if now - bucket.logged_at < _LOG_SECONDS:
            return
        bucket.logged_at = now
        logger.warning(
            "Events of %s are refused for the next %.0f s and stay with their senders: "
            "they are more than %s allows",
            sender,
            exceeded.retry_after_seconds,
            exceeded.limit,
        )


_TOLERANCES = (_MINUTE_SECONDS, _DAY_SECONDS)

# The seconds that a whole quota takes at the rate of each limit.
_INTERVALS = (_MINUTE_SECONDS * _MINUTES_OF_A_DAY, _DAY_SECONDS)


def _seconds_until_conforming(bucket: _Bucket, now: float) -> float:
    """Seconds until a request conforms to both limits."""
    limits = zip(bucket.arrivals, _TOLERANCES, strict=True)
    return max(0.0, *(arrival - tolerance - now for arrival, tolerance in limits))


def _advance(bucket: _Bucket, share: float, now: float) -> None:
    bucket.arrivals = [
        max(arrival, now) + share * interval
        for arrival, interval in zip(bucket.arrivals, _INTERVALS, strict=True)
    ]


MAX_EVENTS = 1000
"""Maximum events per request; our own servers send half."""

# As many as there are connections to the database; as many again may wait. The others
# come later, so that a slow database never keeps MCP from being answered.
_MAX_WORKING = 5
_MAX_IN_FLIGHT = 2 * _MAX_WORKING

# After a failure the database is not asked again for so long.
_BACKOFF_SECONDS = 2.0

# An event of a few bytes takes as many of the disk, with its key and its indexes.
_ROW_BYTES = 300

# Machines that were refused together do not come back together.
_RETRY_AFTER_SECONDS = (5, 30)

# An operator makes room on a disk in minutes at best.
_FULL_RETRY_AFTER_SECONDS = (60, 300)

_JSON = "application/json"
_CHALLENGE = 'Bearer realm="skills-mcp"'


class EventsEndpoint:
    """Endpoint for events: authentication, quotas, back-off, storage.

    Args:
        tokens: Tokens for senders without identity provider; None: none.
    """

    def __init__(  # noqa: PLR0913 - each of them is a part of the intake
        self,
        store: EventStore,
        metrics: Metrics,
        http: Http,
        quota: EventQuota,
        *,
        tokens: IngestTokens | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._http = http
        self._quota = quota
        self._tokens = tokens
        self._clock = clock
        self._threads = anyio.CapacityLimiter(_MAX_WORKING)
        self._in_flight = 0
        self._rests_until = float("-inf")

    async def authenticate(self, headers: Headers) -> ASGIApp | None:
        """Handler or error response; None: fall through to OAuth."""
        if self._tokens is None:
            return None
        credentials = headers.getlist("authorization")
        scheme, _, token = (credentials[0] if len(credentials) == 1 else "").partition(" ")
        token = token.strip() if scheme.lower() == "bearer" else ""
        find = partial(self._tokens.find, token)
        if line := await anyio.to_thread.run_sync(find):
            return partial(self, sender=f"token {line} of {IngestTokens.setting}")
        return None if self._http.auth.issuer else _token_challenge(token)

    async def __call__(
        self, scope: Scope, receive: Receive, send: Send, *, sender: str = ""
    ) -> None:
        answer = await self.answer(Request(scope, receive), sender or _name_sender(scope))
        await answer(scope, receive, send)

    async def answer(self, request: Request, sender: str) -> Response:
        """Store the events of a request; counts of new and known ones."""
        if fault := _check_media_type(request):
            return fault
        if self._in_flight >= _MAX_IN_FLIGHT or self._clock() < self._rests_until:
            return _unavailable("takes other events just now")
        body = await request.body()  # `BodyBuffer` has read it
        if exceeded := self._quota.take(sender, len(body)):
            self._metrics.refused_requests.labels("quota").inc()
            return _over_quota(exceeded)
        self._in_flight += 1
        try:
            take = partial(self._take, body, sender)
            return await anyio.to_thread.run_sync(take, limiter=self._threads)
        except EventStoreError as error:
            # The sender comes again with the same events until they are stored.
            self._quota.charge(sender, -len(body))
            if isinstance(error, EventStoreFullError):
                self._metrics.refused_requests.labels("disk").inc()
                return _disk_full()
            self._rest(error)
            return _unavailable("cannot store events just now")
        finally:
            self._in_flight -= 1

    def _take(self, body: bytes, sender: str) -> Response:
        """Store the events of a body. Blocking."""
        self._store.require_space()  # before the work of parsing
        try:
            received, beats = _parse_body(body)
        except _RefusedBodyError as refused:
            self._metrics.refused_requests.labels("invalid").inc()
            self._metrics.events.labels("refused").inc(refused.number)
            return refused.answer
        done = self._store.store(received, beats)
        rows = len(received) + len(beats)
        self._quota.charge(sender, max(0, rows * _ROW_BYTES - len(body)))
        self._metrics.stored_bytes.inc(len(body))
        self._metrics.events.labels("stored").inc(done.stored)
        self._metrics.events.labels("known").inc(done.duplicates)
        return JSONResponse({"stored": done.stored, "known": done.duplicates})

    def _rest(self, error: EventStoreError) -> None:
        """Back off from the database; only the first failure is logged."""
        self._metrics.store_failures.inc()
        now = self._clock()
        if now >= self._rests_until:
            logger.error("Events are not taken, and senders come again: %s", error)
        self._rests_until = now + _BACKOFF_SECONDS


@dataclass(frozen=True, slots=True)
class IngestTokenMiddleware:
    """Middleware for senders with ingest tokens, ahead of sign-in.

    Other requests fall through to `app`, or are rejected if tokens are the only way.
    """

    app: ASGIApp
    events: EventsEndpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = await self.events.authenticate(Headers(scope=scope))
        await (answer or self.app)(scope, receive, send)


def open_events_endpoint(
    store: EventStore,
    config: Config,
    metrics: Metrics,
    clock: Callable[[], float] = time.monotonic,
) -> EventsEndpoint:
    """Create the endpoint of a server.

    Raises:
        ConfigError: The token file cannot be used.
    """
    tokens = None
    if named := config.events.ingest_token_file:
        tokens = IngestTokens(find_secret_file(IngestTokens.setting, named))
        tokens.load()
    quota = EventQuota(config.events.sender_bytes_per_day, clock)
    return EventsEndpoint(store, metrics, config.http, quota, tokens=tokens, clock=clock)


class _RefusedBodyError(Exception):
    """Invalid or oversized body."""

    def __init__(self, status: int, code: str, message: str, number: int = 1) -> None:
        super().__init__(message)
        self.number = number
        self.answer = error_response(status, code, f"{message} Nothing of it was stored.")


def _parse_body(body: bytes) -> tuple[Sequence[ReceivedEvent], Sequence[Heartbeat]]:
    received: list[ReceivedEvent] = []
    beats: list[Heartbeat] = []
    raw_events = _parse_list(body)
    for number, raw in enumerate(raw_events):
        try:
            if is_heartbeat(raw):
                beats.append(parse_heartbeat(raw))
            else:
                received.append(parse_received(raw))
        except InvalidEventError as error:
            raise _RefusedBodyError(
                400,
                "EVENT_INVALID",
                f"events[{number}]{_quote_id(raw)} is no event: {error}.",
                len(raw_events),
            ) from None
    return received, beats


def _parse_list(body: bytes) -> list[Any]:
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=reject_constant)
    except (ValueError, RecursionError):
        value = None
    raw_events = value.get("events") if isinstance(value, Mapping) else None
    if not isinstance(raw_events, list):
        raise _RefusedBodyError(
            400,
            "EVENTS_INVALID",
            'The body is no JSON object with a list of events: {"events": [...]}.',
        )
    if len(raw_events) > MAX_EVENTS:
        raise _RefusedBodyError(
            413,
            "TOO_MANY_EVENTS",
            f"The request has {len(raw_events):,} events. Send at most {MAX_EVENTS:,}.",
            len(raw_events),
        )
    return raw_events


def _quote_id(raw: object) -> str:
    event_id = raw.get("event_id") if isinstance(raw, Mapping) else None
    if isinstance(event_id, str) and event_id.isprintable() and len(event_id) <= 80:  # noqa: PLR2004 - a line
        return f" (event_id {event_id})"
    return ""


def _name_sender(scope: Scope) -> str:
    """Sender without an ingest token, for logs and quotas."""
    client = client_of(scope)
    if isinstance(client, tuple):
        issuer, subject = client
        return f"{escape_unprintable(subject)} of {escape_unprintable(issuer)}"
    return f"the address {client}"


def _check_media_type(request: Request) -> Response | None:
    if request.method != "POST":
        return error_response(
            405,
            "METHOD_NOT_ALLOWED",
            "This address takes events with POST.",
            {"Allow": "POST"},
        )
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if media == _JSON and coding == "identity":
        return None
    return error_response(
        415,
        "MEDIA_TYPE_NOT_SUPPORTED",
        f"Send events as {_JSON}, without a Content-Encoding.",
        {"Accept-Post": _JSON, "Accept-Encoding": "identity"},
    )


def _token_challenge(token: str) -> Response:
    error = ', error="invalid_token"' if token else ""
    return error_response(
        401,
        "INVALID_TOKEN" if token else "TOKEN_NEEDED",
        "Events need a token of events.ingest_token_file of this server, in the "
        "header Authorization: Bearer. A sender has it in analytics.token_file or in "
        "ANALYTICS_TOKEN.",
        {"WWW-Authenticate": f"{_CHALLENGE}{error}"},
    )


def _unavailable(reason: str) -> Response:
    message = f"The server {reason}. Keep the events, and send them again in {{seconds}} s."
    return retry_response(503, "EVENTS_UNAVAILABLE", message, _RETRY_AFTER_SECONDS)


def _over_quota(exceeded: QuotaExceeded) -> Response:
    wait = math.ceil(exceeded.retry_after_seconds)
    lower, upper = _RETRY_AFTER_SECONDS
    return retry_response(
        429,
        "EVENTS_QUOTA_EXCEEDED",
        f"These are more bytes of events than {exceeded.limit} of this server "
        "allows just now. Keep the events, and send them again in {seconds} s.",
        (wait + lower, wait + upper),
    )


def _disk_full() -> Response:
    return retry_response(
        507,
        "EVENTS_DISK_FULL",
        "The disk of this server has no room for events. Keep them, and send them "
        "again in {seconds} s.",
        _FULL_RETRY_AFTER_SECONDS,
    )
