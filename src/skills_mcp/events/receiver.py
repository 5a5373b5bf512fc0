"""Responses of the event receiver, and the back-off shared by all processes."""

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import Enum, auto
from http import HTTPStatus
from pathlib import Path
from uuid import uuid4

from skills_mcp.files.durable import read_regular, write_text_atomically
from skills_mcp.files.locks import acquire_lock
from skills_mcp.processes.retry import (
    MAX_PAUSE_SECONDS,
    derive_backoff,
    is_backing_off,
    parse_retry_after,
)

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


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    status: DeliveryStatus
    reason: str
    retry_after_seconds: float | None = None


_STATUSES: Mapping[int, DeliveryStatus] = {
    HTTPStatus.UNAUTHORIZED: DeliveryStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN: DeliveryStatus.UNAUTHORIZED,
    HTTPStatus.REQUEST_TIMEOUT: DeliveryStatus.RETRY,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: DeliveryStatus.TOO_LARGE,
    HTTPStatus.TOO_EARLY: DeliveryStatus.RETRY,
    HTTPStatus.TOO_MANY_REQUESTS: DeliveryStatus.RETRY,
}
_STATUS_CLASSES = {2: DeliveryStatus.ACCEPTED, 4: DeliveryStatus.REFUSED}
"""By the first digit of the status."""

_REDIRECTS = 3


def classify_response(status: int, retry_after: str | None, now: datetime) -> DeliveryResult:
    """Classify an HTTP response.

    `retry_after` is the raw header; `now` has a time zone.
    """
    delivery = _STATUSES.get(status) or _STATUS_CLASSES.get(status // 100, DeliveryStatus.RETRY)
    reason = _describe_status(status)
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
            )
        )
        return pause

    def _claim(self, endpoint: str) -> bool:
        state, now = self._load(endpoint), self._clock()
        is_ours = state.claimed_by == self._name
        if is_backing_off(state.next_attempt_at, now) and not is_ours:
            return False
        self._save(
            _BackoffState(
                endpoint=_digest(endpoint),
                failures=state.failures,
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
    if verdict.status is DeliveryStatus.UNAUTHORIZED:
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
        )
    return _BackoffState()


def _digest(endpoint: str) -> str:
    return hashlib.sha256(endpoint.encode("utf-8", "replace")).hexdigest()[:16]


def _describe_status(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
