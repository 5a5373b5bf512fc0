"""The receiver of events: what its answers mean, and when it may be asked again.

All processes of a machine share that time in a small file. It is a hint: without it
events are sent too early, never lost.
"""

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

from skills_mcp.files.durable import read_regular, replace_text
from skills_mcp.files.locks import acquire_lock
from skills_mcp.processes.retry import (
    MAX_PAUSE_SECONDS,
    derive_pause,
    is_resting,
    parse_retry_after,
)

# As long as one round of requests may take. A process that was stopped in the middle of
# a round keeps the others back no longer.
_CLAIM_SECONDS = 60.0

_FIRST_PAUSE_SECONDS = 60.0  # two intervals of the publisher
_LONGEST_PAUSE_SECONDS = 15 * 60.0  # a repaired receiver should not wait much longer


class Meaning(Enum):
    """What an answer means for the events that were sent."""

    ACCEPTED = auto()
    REFUSED = auto()
    """One of them, or all of them, will never be accepted."""
    TOO_LARGE = auto()
    """They will not be accepted together."""
    LATER = auto()
    """They may be accepted later."""
    CLOSED = auto()
    """They are accepted only after an operator has given permission."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a receiver has answered, or why there is no answer."""

    meaning: Meaning
    reason: str
    retry_after_seconds: float | None = None
    """When the receiver wants to be asked again; None if it does not say."""


_MEANINGS: Mapping[int, Meaning] = {
    HTTPStatus.UNAUTHORIZED: Meaning.CLOSED,
    HTTPStatus.FORBIDDEN: Meaning.CLOSED,
    HTTPStatus.REQUEST_TIMEOUT: Meaning.LATER,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: Meaning.TOO_LARGE,
    HTTPStatus.TOO_EARLY: Meaning.LATER,
    HTTPStatus.TOO_MANY_REQUESTS: Meaning.LATER,
}
_CLASSES = {2: Meaning.ACCEPTED, 4: Meaning.REFUSED}
"""What the other statuses mean, by their first digit."""

_REDIRECTS = 3


def decide(status: int, retry_after: str | None, now: datetime) -> Verdict:
    """Return what an HTTP status means, and when the receiver wants to be asked again.

    Args:
        status: The status.
        retry_after: The header of that name, as it was sent.
        now: With a time zone.
    """
    meaning = _MEANINGS.get(status) or _CLASSES.get(status // 100, Meaning.LATER)
    reason = _describe(status)
    if status // 100 == _REDIRECTS:
        reason += "; no redirect is followed: set analytics.endpoint to where it leads"
    if meaning is Meaning.CLOSED:
        reason += "; the operator of the receiver has to permit events from here"
    asked = retry_after if meaning is Meaning.LATER else None
    return Verdict(meaning, reason, parse_retry_after(asked, now))


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    endpoint: str = ""
    """A digest, because an address may hold a secret."""
    failures: int = 0
    next_attempt_at: float = 0.0
    """In seconds since the epoch."""
    claimed_by: str = ""


# A process holds the lock for as long as it takes to read and write a small file.
_LOCK_SECONDS = 2.0


class ReceiverState:
    """When a receiver may be asked again, shared by all processes.

    Args:
        directory: Keeps the file.
        clock: Seconds since the epoch.
    """

    def __init__(self, directory: Path, clock: Callable[[], float] = time.time) -> None:
        self._directory = directory
        self._file = directory / "attempts.json"
        self._clock = clock
        self._name = uuid4().hex
        self._own: _State | None = None  # what could not be written down

    def claim(self, endpoint: str) -> bool:
        """Return whether this process may begin a round of requests now.  Blocking.

        No other process begins one until it is over, or has taken too long.
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

    def settle(self, endpoint: str, verdict: Verdict | None) -> float:
        """Record how a round ended, and return the pause until the next.  Blocking.

        Args:
            endpoint: The address of the receiver.
            verdict: Why it was ended; None if all went well.
        """
        before = self._load(endpoint)
        failures = before.failures + 1 if verdict else 0
        pause = _choose_pause(verdict, failures) if verdict else 0.0
        self._save(
            _State(
                endpoint=_digest(endpoint),
                failures=failures,
                next_attempt_at=self._clock() + pause if verdict else 0.0,
            )
        )
        return pause

    def _claim(self, endpoint: str) -> bool:
        state, now = self._load(endpoint), self._clock()
        is_ours = state.claimed_by == self._name
        if is_resting(state.next_attempt_at, now) and not is_ours:
            return False
        self._save(
            _State(
                endpoint=_digest(endpoint),
                failures=state.failures,
                next_attempt_at=now + _CLAIM_SECONDS,
                claimed_by=self._name,
            )
        )
        return True

    def _load(self, endpoint: str) -> _State:
        """Return the state of this receiver; the default if there is none."""
        state = self._own or _load(self._file)
        return state if state.endpoint == _digest(endpoint) else _State()

    def _save(self, state: _State) -> None:
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_text(self._file, json.dumps(asdict(state)))
        except OSError:
            self._own = state
        else:
            self._own = None


def _choose_pause(verdict: Verdict, failures: int) -> float:
    if verdict.meaning is Meaning.CLOSED:
        return MAX_PAUSE_SECONDS
    return derive_pause(
        failures,
        first_seconds=_FIRST_PAUSE_SECONDS,
        longest_seconds=_LONGEST_PAUSE_SECONDS,
        asked_seconds=verdict.retry_after_seconds,
    )


def _load(path: Path) -> _State:
    """Return the state in a file; the default if it cannot be understood."""
    with suppress(
        OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError
    ):
        found = json.loads(read_regular(path) or b"{}")
        return _State(
            endpoint=str(found["endpoint"]),
            failures=int(found["failures"]),
            next_attempt_at=float(found["next_attempt_at"]),
            claimed_by=str(found["claimed_by"]),
        )
    return _State()


def _digest(endpoint: str) -> str:
    return hashlib.sha256(endpoint.encode("utf-8", "replace")).hexdigest()[:16]


def _describe(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
