"""Publishes spooled events: to the operator's endpoint, or to the own database.

The only HTTP of analytics.

An event leaves the spool only when the receiver has accepted it, or refused it for its
content. File work runs on threads, never on the event loop.
"""

import hashlib
import json
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum, auto
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from uuid import uuid4

import anyio
import anyio.to_thread

from skills_mcp.config import Analytics
from skills_mcp.config.values import SAFE_ADDRESS, is_loopback
from skills_mcp.errors import EventStoreError
from skills_mcp.events.heartbeat import HeartbeatTimer
from skills_mcp.events.received_event import InvalidEventError, ReceivedEvent, parse_received
from skills_mcp.events.spool import MAX_BATCH_EVENTS, EventLine, Outbox, Segment
from skills_mcp.files.durable import read_regular, write_text_atomically
from skills_mcp.files.locks import acquire_lock
from skills_mcp.processes.retry import (
    MAX_PAUSE_SECONDS,
    derive_backoff,
    is_backing_off,
    parse_retry_after,
)

if TYPE_CHECKING:  # imported late: nothing is sent before the first answer
    import httpx

    from skills_mcp.events.collector.event_store import EventStore

# As long as one round of requests may take. A process that was stopped in the middle of
# a round keeps the others back no longer.
_ROUND_SECONDS = 60.0

_FIRST_PAUSE_SECONDS = 60.0  # two intervals of the publisher
_MAX_PAUSE = 15 * 60.0  # a repaired receiver should not wait much longer


class DeliveryStatus(Enum):
    ACCEPTED = auto()
    REFUSED = auto()
    """At least one event will never be accepted."""
    TOO_LARGE = auto()
    RETRY = auto()
    UNAUTHORIZED = auto()
    """401 or 403: an operator has to give permission first."""
    NO_RECEIVER = auto()
    """Another program answers there: the address has to be corrected first."""


_LASTING = {DeliveryStatus.UNAUTHORIZED, DeliveryStatus.NO_RECEIVER}
"""They do not pass by themselves."""


class DeliveryResult(NamedTuple):
    status: DeliveryStatus
    reason: str
    retry_after_seconds: float | None = None


_STATUSES: Mapping[int, DeliveryStatus] = {
    HTTPStatus.UNAUTHORIZED: DeliveryStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN: DeliveryStatus.UNAUTHORIZED,
    HTTPStatus.NOT_FOUND: DeliveryStatus.NO_RECEIVER,
    HTTPStatus.METHOD_NOT_ALLOWED: DeliveryStatus.NO_RECEIVER,
    HTTPStatus.REQUEST_TIMEOUT: DeliveryStatus.RETRY,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: DeliveryStatus.TOO_LARGE,
    HTTPStatus.TOO_EARLY: DeliveryStatus.RETRY,
    HTTPStatus.TOO_MANY_REQUESTS: DeliveryStatus.RETRY,
}
_STATUS_CLASSES = {2: DeliveryStatus.ACCEPTED, 4: DeliveryStatus.REFUSED}
"""By the first digit of the status."""

_REDIRECTS = 3


def classify_response(
    status: int, retry_after: str | None, now: datetime, content_type: str = ""
) -> DeliveryResult:
    """Classify an HTTP response.

    `retry_after` and `content_type` are the raw headers; `now` has a time zone.
    """
    delivery = _STATUSES.get(status) or _STATUS_CLASSES.get(status // 100, DeliveryStatus.RETRY)
    reason = _describe_status(status)
    if delivery is DeliveryStatus.ACCEPTED and content_type.lower().startswith("text/html"):
        delivery, reason = DeliveryStatus.NO_RECEIVER, f"{reason} with a page (text/html)"
    if delivery is DeliveryStatus.NO_RECEIVER:
        reason += (
            "; analytics.endpoint is no receiver of events. That of a server of skills-mcp is "
            "its address and /events"
        )
    if status // 100 == _REDIRECTS:
        reason += "; no redirect is followed: set analytics.endpoint to where it leads"
    if delivery is DeliveryStatus.UNAUTHORIZED:
        reason += "; the operator of the receiver has to permit events from here"
    header = retry_after if delivery is DeliveryStatus.RETRY else None
    return DeliveryResult(delivery, reason, parse_retry_after(header, now))


@dataclass(frozen=True, slots=True, kw_only=True)
class _BackoffState:
    endpoint: str = ""
    """A digest, because an address may hold a secret."""
    failures: int = 0
    next_attempt_at: float = 0.0
    claimed_by: str = ""
    reason: str = ""
    is_lasting: bool = False


class DeliveryFailure(NamedTuple):
    """The failed last round of requests."""

    reason: str
    failures: int
    """Rounds in sequence."""
    next_attempt_at: datetime
    is_lasting: bool
    """Whether an operator has to change a setting first."""


# A process holds the lock for as long as it takes to read and write a small file.
_LOCK_SECONDS = 2.0


class SharedBackoff:
    """Back-off of a receiver, shared by all processes of a machine through a small file.

    The file is a hint: without it events are sent too early, never lost. `clock` gives
    seconds since the epoch.
    """

    def __init__(self, directory: Path, clock: Callable[[], float] = time.time) -> None:
        self._directory = directory
        self._file = directory / "attempts.json"
        self._clock = clock
        self._name = uuid4().hex
        self._unsaved: _BackoffState | None = None  # what could not be written down

    def claim(self, endpoint: str) -> bool:
        """Claim a round of requests for this process, until it is over or takes too long.

        Blocking.
        """
        try:
            path = self._directory / "attempts.lock"
            lock = acquire_lock(path, timeout_seconds=_LOCK_SECONDS)
        except OSError:
            # Without a lock each process is on its own: the disk has none, or a process
            # that holds it was stopped.
            return self._claim(endpoint)
        with lock:
            return self._claim(endpoint)

    def record(self, endpoint: str, verdict: DeliveryResult | None) -> float:
        """Record a round, without a verdict a success; return the pause.  Blocking."""
        before = self._load(endpoint)
        failures = before.failures + 1 if verdict else 0
        pause = _choose_pause(verdict, failures) if verdict else 0.0
        self._save(
            _BackoffState(
                endpoint=_digest(endpoint),
                failures=failures,
                next_attempt_at=self._clock() + pause if verdict else 0.0,
                reason=verdict.reason if verdict else "",
                is_lasting=verdict is not None and verdict.status in _LASTING,
            )
        )
        return pause

    def find_failure(self, endpoint: str) -> DeliveryFailure | None:
        """The failed last round; None after a success.  Blocking."""
        state = self._load(endpoint)
        if not state.reason:
            return None
        moment = datetime.fromtimestamp(state.next_attempt_at, UTC)
        return DeliveryFailure(state.reason, state.failures, moment, state.is_lasting)

    def _claim(self, endpoint: str) -> bool:
        state, now = self._load(endpoint), self._clock()
        is_ours = state.claimed_by == self._name
        if is_backing_off(state.next_attempt_at, now) and not is_ours:
            return False
        self._save(
            replace(
                state,
                endpoint=_digest(endpoint),
                next_attempt_at=now + _ROUND_SECONDS,
                claimed_by=self._name,
            )
        )
        return True

    def _load(self, endpoint: str) -> _BackoffState:
        state = self._unsaved or _load_state(self._file)
        return state if state.endpoint == _digest(endpoint) else _BackoffState()

    def _save(self, state: _BackoffState) -> None:
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_text_atomically(self._file, json.dumps(asdict(state)))
        except OSError:
            self._unsaved = state
        else:
            self._unsaved = None


def _choose_pause(verdict: DeliveryResult, failures: int) -> float:
    if verdict.status in _LASTING:
        return MAX_PAUSE_SECONDS
    return derive_backoff(
        failures,
        first_seconds=_FIRST_PAUSE_SECONDS,
        longest_seconds=_MAX_PAUSE,
        retry_after_seconds=verdict.retry_after_seconds,
    )


def _load_state(path: Path) -> _BackoffState:
    with suppress(OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        found = json.loads(read_regular(path) or b"{}")
        return _BackoffState(
            endpoint=str(found["endpoint"]),
            failures=int(found["failures"]),
            next_attempt_at=float(found["next_attempt_at"]),
            claimed_by=str(found["claimed_by"]),
            reason=str(found.get("reason", "")),
            is_lasting=bool(found.get("is_lasting")),
        )
    return _BackoffState()


def _digest(endpoint: str) -> str:
    return hashlib.sha256(endpoint.encode("utf-8", "replace")).hexdigest()[:16]


def _describe_status(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 30.0
TIMEOUT_SECONDS = 5.0
_CONNECT_SECONDS = 2.0

MAX_BATCH_BYTES = 475_000
"""Accepted by common event receivers."""

_KEY_DIGITS = 32

# The text of an answer is not used. A little of it is read, so that the connection can
# be used again.
_MAX_ANSWER_BYTES = 4096
_ANSWER_SECONDS = 0.5

# One bad event among 500 is found with 18 requests. A receiver that refuses all events
# is not asked about each of them.
_MAX_DIVISIONS = 64

_Result = TypeVar("_Result")


@dataclass(slots=True)
class _Round:
    client: "httpx.AsyncClient"
    endpoint: str
    divisions: int = _MAX_DIVISIONS
    sent: int = 0
    ended_by: DeliveryResult | None = None


@dataclass(slots=True)
class _SegmentResult:
    accepted: list[EventLine] = field(default_factory=list)
    refused: list[EventLine] = field(default_factory=list)


@dataclass(eq=False, repr=False)
class Publisher:
    """Sends events at least once, in batches, with back-off.

    `rules`, `is_offline` and `read_token` (on a thread; it may return an empty text)
    are called before every round. Without an endpoint events are only archived.
    `transport` replaces the network in tests.
    """

    outbox: Outbox
    """Where the events are."""
    rules: Callable[[], Analytics]
    _: KW_ONLY
    is_offline: Callable[[], bool] = lambda: False
    read_token: Callable[[str], str] = lambda _: ""
    heartbeat_timer: HeartbeatTimer | None = None
    transport: "httpx.AsyncBaseTransport | None" = None
    interval_seconds: float = INTERVAL_SECONDS

    def __post_init__(self) -> None:
        self._backoff = SharedBackoff(self.outbox.spool.directory)

    async def run(self) -> None:
        while True:
            await anyio.sleep(self.interval_seconds)
            try:
                await self.publish()
            except Exception:
                logger.exception("Publishing failed")

    async def publish(self) -> int:
        """Send all pending events, cancellable without a loss.

        Return the number of accepted ones.
        """
        rules = self.rules()
        # Also while nothing is counted: older events are not kept longer.
        await _run_in_thread(lambda: self.outbox.prune(rules.keep_days))
        if not rules.enabled:
            return 0
        if not rules.endpoint:
            await _run_in_thread(lambda: self.outbox.archive_all(rules.keep_days))
            return 0
        if self.is_offline():
            return 0
        if not is_safe_endpoint(rules.endpoint):
            logger.error(
                "analytics.endpoint is not https:// and not on this machine, or holds "
                "a password: nothing is sent there"
            )
            return 0
        if not await _run_in_thread(lambda: self._claim_round(rules)):
            return 0
        return await self._send_all(rules)

    def find_failure(self) -> DeliveryFailure | None:
        """The failed last round of requests of this machine.  Blocking."""
        rules = self.rules()
        is_sending = rules.enabled and bool(rules.endpoint)
        return self._backoff.find_failure(rules.endpoint) if is_sending else None

    def _claim_round(self, rules: Analytics) -> bool:
        without_heartbeat = self.heartbeat_timer is None or not self.heartbeat_timer.is_due
        if self.outbox.spool.is_empty and without_heartbeat:
            return False
        if not self._backoff.claim(rules.endpoint):
            return False
        self.outbox.spool.rotate()
        return True

    async def _send_all(self, rules: Analytics) -> int:
        opened = await _run_in_thread(lambda: self._connect(rules.endpoint))
        if isinstance(opened, DeliveryResult):
            await _run_in_thread(lambda: self._record_round(rules.endpoint, opened))
            return 0
        segments = self.outbox.spool.claim_segments()
        try:
            async with opened as client:
                current = _Round(client, rules.endpoint)
                while current.ended_by is None:
                    segment = await _run_in_thread(lambda: next(segments, None))
                    if segment is None:
                        break
                    await self._send(segment, current, rules.keep_days)
                await self._send_heartbeat(current)
        finally:
            with suppress(ValueError):  # an abandoned thread still runs in it
                segments.close()
        await _run_in_thread(lambda: self._record_round(rules.endpoint, current.ended_by))
        return current.sent

    async def _send_heartbeat(self, current: _Round) -> None:
        """Send a heartbeat, if one is due; it is never spooled."""
        timer = self.heartbeat_timer
        if timer is None or current.ended_by:
            return
        if (beat := await _run_in_thread(timer.read)) is None:
            return
        line = EventLine(beat.to_json().encode(), {})
        verdict = await _post(current.client, current.endpoint, [line])
        match verdict.status:
            case DeliveryStatus.ACCEPTED:
                timer.mark_sent()
            case DeliveryStatus.REFUSED | DeliveryStatus.TOO_LARGE:
                logger.info("The receiver takes no heartbeats: %s", verdict.reason)
                timer.stop()
            case _:
                current.ended_by = verdict

    def _record_round(self, endpoint: str, ended_by: DeliveryResult | None) -> None:
        pause = self._backoff.record(endpoint, ended_by)
        if ended_by:
            logger.warning(
                "Events were not sent and stay on this machine. The next attempt is in "
                "%.0f seconds at the earliest: %s",
                pause,
                ended_by.reason,
            )

    async def _send(self, segment: Segment, current: _Round, keep_days: int) -> None:
        result = _SegmentResult()
        for lines in split_batches(segment.lines):
            await self._send_batch(lines, current, result)
        current.sent += len(result.accepted)
        await _run_in_thread(
            lambda: self.outbox.settle(segment, result.accepted, result.refused, keep_days)
        )

    async def _send_batch(
        self, lines: Sequence[EventLine], current: _Round, result: _SegmentResult
    ) -> None:
        """Send a batch; on a refusal, bisect to find the refused events."""
        if current.ended_by:
            return
        verdict = await _post(current.client, current.endpoint, lines)
        match verdict.status:
            case DeliveryStatus.ACCEPTED:
                result.accepted += lines
            case DeliveryStatus.RETRY | DeliveryStatus.UNAUTHORIZED | DeliveryStatus.NO_RECEIVER:
                current.ended_by = verdict
            case DeliveryStatus.TOO_LARGE if len(lines) > 1:
                await self._send_halves(lines, current, result)
            case DeliveryStatus.REFUSED if len(lines) > 1 and current.divisions:
                current.divisions -= 1
                await self._send_halves(lines, current, result)
            case _:
                logger.warning("Events refused: %d, by %s", len(lines), verdict.reason)
                result.refused += lines

    async def _send_halves(
        self, lines: Sequence[EventLine], current: _Round, result: _SegmentResult
    ) -> None:
        middle = len(lines) // 2
        await self._send_batch(lines[:middle], current, result)
        await self._send_batch(lines[middle:], current, result)

    def _connect(self, endpoint: str) -> "httpx.AsyncClient | DeliveryResult":
        """Open a client, or say why there can be none.

        Blocking: certificates are read.
        """
        import httpx

        try:
            return self._open_client(httpx.URL(endpoint), self.read_token(endpoint))
        except (httpx.InvalidURL, ImportError, OSError, ValueError) as error:
            return DeliveryResult(
                DeliveryStatus.RETRY,
                "analytics.endpoint, or the proxy or the certificates that the "
                f"environment names, cannot be used: {_error_line(error)}",
            )

    def _open_client(self, address: "httpx.URL", token: str) -> "httpx.AsyncClient":
        import httpx

        is_local = is_loopback(address.host)
        return httpx.AsyncClient(
            timeout=httpx.Timeout(TIMEOUT_SECONDS, connect=_CONNECT_SECONDS),
            transport=self.transport,
            headers={"Authorization": f"Bearer {token}"} if token else None,
            mounts={f"all://{address.netloc.decode()}": None} if is_local else None,
            follow_redirects=False,
        )


@dataclass(eq=False, repr=False)
class DatabasePublisher(Publisher):
    """Moves the events of this server from its spool into its database.

    With an `analytics.endpoint`, they are sent there instead.
    """

    store: "EventStore"
    _is_failing: bool = field(default=False, init=False)

    async def publish(self) -> int:
        """Store all pending events; return their number."""
        rules = self.rules()
        if rules.endpoint:
            return await super().publish()
        await _run_in_thread(lambda: self.outbox.prune(rules.keep_days))
        await _run_in_thread(self._store_heartbeat)
        if not rules.enabled:
            return 0
        return await _run_in_thread(self._store_segments)

    def _store_heartbeat(self) -> None:
        if self.heartbeat_timer is None or (beat := self.heartbeat_timer.read()) is None:
            return
        try:
            self.store.store((), (beat,))
            self.heartbeat_timer.mark_sent()
        except EventStoreError as error:
            logger.debug("A heartbeat was not stored: %s", error)

    def _store_segments(self) -> int:
        if self.outbox.spool.is_empty:
            return 0
        self.outbox.spool.rotate()
        count = 0
        try:
            for segment in self.outbox.spool.claim_segments():
                received, accepted, refused = _parse_lines(segment.lines)
                self.store.store(received)
                # They are in the database: the archive would hold them twice.
                self.outbox.settle(segment, accepted, refused, keep_days=0)
                count += len(accepted)
        except EventStoreError as error:
            if not self._is_failing:
                logger.warning("Events of this server wait on its disk: %s", error)
            self._is_failing = True
        else:
            self._is_failing = False
        return count


def _parse_lines(
    lines: Sequence[EventLine],
) -> tuple[list[ReceivedEvent], list[EventLine], list[EventLine]]:
    """Split lines into parsed events, their lines, and invalid lines."""
    received: list[ReceivedEvent] = []
    accepted: list[EventLine] = []
    refused: list[EventLine] = []
    for line in lines:
        try:
            received.append(parse_received(line.event))
            accepted.append(line)
        except InvalidEventError as error:
            logger.warning("An event cannot be stored: %s", error)
            refused.append(line)
    return received, accepted, refused


def split_batches(lines: Sequence[EventLine]) -> Iterator[Sequence[EventLine]]:
    """Split events into requests; an oversized event goes alone, up to the receiver."""
    begin = size = 0
    for number, line in enumerate(lines):
        more = len(line.raw) + 1
        if number > begin and (size + more > MAX_BATCH_BYTES or number - begin >= MAX_BATCH_EVENTS):
            yield lines[begin:number]
            begin, size = number, 0
        size += more
    if lines:
        yield lines[begin:]


def compose_body(lines: Sequence[EventLine]) -> bytes:
    """The request body: the events byte for byte as they were written."""
    return b'{"events": [%s]}' % b",".join(line.raw for line in lines)


def derive_idempotency_key(lines: Sequence[EventLine]) -> str:
    """A hash of the events: a receiver recognises a repetition."""
    digest = hashlib.sha256(b"\n".join(line.raw for line in lines))
    return digest.hexdigest()[:_KEY_DIGITS]


def is_safe_endpoint(endpoint: str) -> bool:
    """Whether events may be sent there: https, or loopback."""
    return bool(endpoint) and re.fullmatch(SAFE_ADDRESS, endpoint) is not None


async def _post(
    client: "httpx.AsyncClient", endpoint: str, lines: Sequence[EventLine]
) -> DeliveryResult:
    import httpx

    headers = {
        "Content-Type": "application/json",
        "Idempotency-Key": derive_idempotency_key(lines),
    }
    try:
        with anyio.fail_after(TIMEOUT_SECONDS):
            async with client.stream(
                "POST", endpoint, content=compose_body(lines), headers=headers
            ) as response:
                verdict = classify_response(
                    response.status_code,
                    response.headers.get("Retry-After"),
                    datetime.now(UTC),
                    response.headers.get("Content-Type", ""),
                )
                await _read_start(response)
    except TimeoutError:
        return DeliveryResult(
            DeliveryStatus.RETRY, f"no answer within {TIMEOUT_SECONDS:.0f} seconds"
        )
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
        return DeliveryResult(DeliveryStatus.RETRY, _error_line(error))
    return verdict


async def _read_start(response: "httpx.Response") -> None:
    """Read the beginning of the body, to reuse the connection."""
    import httpx

    read = 0
    with suppress(httpx.HTTPError, httpx.StreamError):
        with anyio.move_on_after(_ANSWER_SECONDS):
            async for part in response.aiter_raw():
                read += len(part)
                if read > _MAX_ANSWER_BYTES:
                    return


async def _run_in_thread(work: Callable[[], _Result]) -> _Result:
    """On a thread abandoned on cancellation: the end of the process does not wait."""
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)


def _error_line(error: Exception) -> str:
    """One line about an error; some of httpx have an empty message."""
    return " ".join(str(error).split()) or type(error).__name__
