"""`POST /events`: takes the events of other servers, and says which are stored.

Rule: an answer of 200 is given after the database has committed all of a request. Every
other answer means that nothing of it is stored, or that it is known when it comes
again.
"""

import json
import logging
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
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
from skills_mcp.http.event_quota import EventQuota, QuotaExceeded
from skills_mcp.http.ingest_tokens import IngestTokens
from skills_mcp.http.metrics import Metrics
from skills_mcp.http.protected_resource import EVENTS_PATH
from skills_mcp.http.refusals import refuse
from skills_mcp.http.secret_file import find_secret_file
from skills_mcp.server.callers import identify_client
from skills_mcp.skills.model import printable

logger = logging.getLogger(__name__)

MAX_EVENTS = 1000
"""The most events of one request; our own servers send half of it."""

# As many as there are connections to the database; as many again may wait. The others
# come later, so that a slow database never keeps MCP from being answered.
_MAX_WORKING = 5
_MAX_TAKEN = 2 * _MAX_WORKING

# After a failure the database is not asked again for so long.
_REST_SECONDS = 2.0

# An event of a few bytes takes as many of the disk, with its key and its indexes.
_ROW_BYTES = 300

# Machines that were refused together do not come back together.
_RETRY_AFTER_SECONDS = (5, 30)

# An operator makes room on a disk in minutes at best.
_FULL_RETRY_AFTER_SECONDS = (60, 300)

_JSON = "application/json"
_CHALLENGE = 'Bearer realm="skills-mcp"'


class EventIntake:
    """Checks, bounds and stores what other servers send.

    Args:
        store: Where the events go.
        metrics: Counts them.
        http: The settings of the port.
        quota: What each sender, and all together, may have stored.
        tokens: What a sender without an identity provider has to know; None if there
            is no such token.
        clock: Seconds that never go back.
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
        self._taken = 0
        self._rests_until = float("-inf")

    def in_front_of(self, app: ASGIApp) -> ASGIApp:
        """Return an application that answers senders with a token of their own.

        All others go to `app`, which is the sign-in, or are refused if such a token is
        the only way.
        """

        async def choose(scope: Scope, receive: Receive, send: Send) -> None:
            if not _is_ours(scope):
                await app(scope, receive, send)
                return
            answer = await self._authenticate(Headers(scope=scope))
            await (answer or app)(scope, receive, send)

        return choose

    def behind_sign_in(self, app: ASGIApp) -> ASGIApp:
        """Return an application that answers senders who have signed in."""

        async def choose(scope: Scope, receive: Receive, send: Send) -> None:
            await (self._answer if _is_ours(scope) else app)(scope, receive, send)

        return choose

    async def _authenticate(self, headers: Headers) -> ASGIApp | None:
        """Return what answers a request; None if that is for the sign-in to say."""
        if self._tokens is None:
            return None
        given = headers.getlist("authorization")
        scheme, _, token = (given[0] if len(given) == 1 else "").partition(" ")
        token = token.strip() if scheme.lower() == "bearer" else ""
        find = partial(self._tokens.find, token)
        if line := await anyio.to_thread.run_sync(find):
            sender = f"token {line} of {IngestTokens.setting}"
            return partial(self._answer, sender=sender)
        return None if self._http.auth.issuer else _wrong_token(token)

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, *, sender: str = ""
    ) -> None:
        trusted = self._http.trust_proxy_headers
        sender = sender or _name_sender(scope, trust_proxy_headers=trusted)
        answer = await self.answer(Request(scope, receive), sender)
        await answer(scope, receive, send)

    async def answer(self, request: Request, sender: str) -> Response:
        """Store the events of a request, and say how many were new."""
        if fault := _find_form_fault(request):
            return fault
        if self._taken >= _MAX_TAKEN or self._clock() < self._rests_until:
            return _later("takes other events just now")
        body = await request.body()  # `BodyBuffer` has read it
        if exceeded := self._quota.take(sender, len(body)):
            self._metrics.count_refusal("quota")
            return _over_quota(exceeded)
        self._taken += 1
        try:
            take = partial(self._take, body, sender)
            return await anyio.to_thread.run_sync(take, limiter=self._threads)
        except EventStoreError as error:
            # The sender comes again with the same events until they are stored.
            self._quota.charge(sender, -len(body))
            if isinstance(error, EventStoreFullError):
                self._metrics.count_refusal("disk")
                return _disk_full()
            self._rest(error)
            return _later("cannot store events just now")
        finally:
            self._taken -= 1

    def _take(self, body: bytes, sender: str) -> Response:
        """Store what a body holds.  Blocking.

        Raises:
            EventStoreError: The database cannot be used.
        """
        self._store.require_room()  # before the work of parsing
        try:
            received, beats = _parse_body(body)
        except _RefusedBodyError as refused:
            self._metrics.count_refusal("invalid")
            self._metrics.count_events("refused", refused.number)
            return refused.answer
        done = self._store.store(received, beats)
        rows = len(received) + len(beats)
        self._quota.charge(sender, max(0, rows * _ROW_BYTES - len(body)))
        self._metrics.count_stored_bytes(len(body))
        self._metrics.count_events("stored", done.stored)
        self._metrics.count_events("known", done.known)
        return JSONResponse({"stored": done.stored, "known": done.known})

    def _rest(self, error: EventStoreError) -> None:
        """Leave the database alone for a while; the first of several is logged."""
        self._metrics.count_store_failure()
        now = self._clock()
        if now >= self._rests_until:
            logger.error("Events are not taken, and senders come again: %s", error)
        self._rests_until = now + _REST_SECONDS


def open_intake(
    store: EventStore,
    config: Config,
    metrics: Metrics,
    clock: Callable[[], float] = time.monotonic,
) -> EventIntake:
    """Return the intake of a server.

    Raises:
        ConfigError: The file of the tokens cannot be used.
    """
    tokens = None
    if named := config.events.ingest_token_file:
        tokens = IngestTokens(find_secret_file(IngestTokens.setting, named))
        tokens.load()
    events = config.events
    quota = EventQuota(events.sender_bytes_per_day, events.total_bytes_per_day, clock)
    return EventIntake(store, metrics, config.http, quota, tokens=tokens, clock=clock)


class _RefusedBodyError(Exception):
    """A request holds something that is no event, or too much."""

    def __init__(self, status: int, code: str, message: str, number: int = 1) -> None:
        super().__init__(message)
        self.number = number
        self.answer = refuse(status, code, f"{message} Nothing of it was stored.")


def _parse_body(body: bytes) -> tuple[Sequence[ReceivedEvent], Sequence[Heartbeat]]:
    received: list[ReceivedEvent] = []
    beats: list[Heartbeat] = []
    given = _parse_list(body)
    for number, raw in enumerate(given):
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
                len(given),
            ) from None
    return received, beats


def _parse_list(body: bytes) -> list[Any]:
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        value = None
    given = value.get("events") if isinstance(value, Mapping) else None
    if not isinstance(given, list):
        raise _RefusedBodyError(
            400,
            "EVENTS_INVALID",
            'The body is no JSON object with a list of events: {"events": [...]}.',
        )
    if len(given) > MAX_EVENTS:
        raise _RefusedBodyError(
            413,
            "TOO_MANY_EVENTS",
            f"The request has {len(given):,} events. Send at most {MAX_EVENTS:,}.",
            len(given),
        )
    return given


def _refuse_constant(constant: str) -> None:
    """Refuse `NaN`, which is not JSON."""
    raise ValueError(constant)


def _quote_id(raw: object) -> str:
    """Return the id of an event for a message; empty if it has none to show."""
    given = raw.get("event_id") if isinstance(raw, Mapping) else None
    if isinstance(given, str) and given.isprintable() and len(given) <= 80:  # noqa: PLR2004 - a line
        return f" (event_id {given})"
    return ""


def _name_sender(scope: Scope, *, trust_proxy_headers: bool) -> str:
    """Name of the sender of a request that has no token of the file."""
    client = identify_client(scope, trust_proxy_headers=trust_proxy_headers)
    if isinstance(client, tuple):
        issuer, subject = client
        return f"{printable(subject)} of {printable(issuer)}"
    return f"the address {client}"


def _is_ours(scope: Scope) -> bool:
    return bool(scope["type"] == "http" and scope["path"] == EVENTS_PATH)


def _find_form_fault(request: Request) -> Response | None:
    if request.method != "POST":
        return refuse(
            405,
            "METHOD_NOT_ALLOWED",
            "This address takes events with POST.",
            {"Allow": "POST"},
        )
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if media == _JSON and coding == "identity":
        return None
    return refuse(
        415,
        "MEDIA_TYPE_NOT_SUPPORTED",
        f"Send events as {_JSON}, without a Content-Encoding.",
        {"Accept-Post": _JSON, "Accept-Encoding": "identity"},
    )


def _wrong_token(token: str) -> Response:
    error = ', error="invalid_token"' if token else ""
    return refuse(
        401,
        "INVALID_TOKEN" if token else "TOKEN_NEEDED",
        "Events need a token of events.ingest_token_file of this server, in the "
        "header Authorization: Bearer. A sender has it in analytics.token_file or in "
        "ANALYTICS_TOKEN.",
        {"WWW-Authenticate": f"{_CHALLENGE}{error}"},
    )


def _later(reason: str) -> Response:
    seconds = random.randint(*_RETRY_AFTER_SECONDS)  # noqa: S311 - spreads load
    return refuse(
        503,
        "EVENTS_UNAVAILABLE",
        f"The server {reason}. Keep the events, and send them again in {seconds} s.",
        {"Retry-After": str(seconds)},
    )


def _over_quota(exceeded: QuotaExceeded) -> Response:
    wait = math.ceil(exceeded.retry_after_seconds)
    seconds = wait + random.randint(*_RETRY_AFTER_SECONDS)  # noqa: S311 - spreads load
    return refuse(
        429,
        "EVENTS_QUOTA_EXCEEDED",
        f"These are more bytes of events than events.{exceeded.name} of this server "
        f"allows just now. Keep the events, and send them again in {seconds} s.",
        {"Retry-After": str(seconds)},
    )


def _disk_full() -> Response:
    seconds = random.randint(*_FULL_RETRY_AFTER_SECONDS)  # noqa: S311 - spreads load
    return refuse(
        507,
        "EVENTS_DISK_FULL",
        "The disk of this server has no room for events. Keep them, and send them "
        f"again in {seconds} s.",
        {"Retry-After": str(seconds)},
    )
