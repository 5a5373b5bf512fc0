"""When a receiver may be asked again: known to all windows, so that they do not storm.

The state is a hint in a small file: without it events are sent too early, never lost.
A library that repeats calls would not do: what has to be remembered outlives the call
and the process, and belongs to all of them.
"""

import hashlib
import json
import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import uuid4

import portalocker

from skills_mcp.analytics.lines import open_plain
from skills_mcp.analytics.verdict import LONGEST_WAIT_SECONDS, Meaning, Verdict

# As long as one round of requests may take; a window that was stopped in the middle of
# one keeps the others back no longer.
_CLAIM_SECONDS = 60.0

_FIRST_PAUSE_SECONDS = 30.0  # one interval of the publisher (001 §10.3)
_LONGEST_PAUSE_SECONDS = 15 * 60.0  # a repaired receiver should not wait much longer
_MOST_DOUBLINGS = 16  # far beyond the longest pause

_EXCLUSIVE = portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    endpoint: str = ""
    """A digest: another receiver has another state, and addresses may be secret."""
    failures: int = 0
    next_attempt_at: float = 0.0
    """In seconds since the epoch."""
    claimed_by: str = ""


class Attempts:
    """What all windows know about one receiver.

    Args:
        directory: Keeps the file.
        clock: Seconds since the epoch.
    """

    def __init__(self, directory: Path, clock: Callable[[], float] = time.time) -> None:
        self._directory = directory
        self._clock = clock
        self._name = uuid4().hex
        self._own: _State | None = None  # what could not be written down

    def claim(self, endpoint: str) -> bool:
        """Tell whether a round of requests may begin now, by us.  Blocking.

        Nobody else begins one until it is over, or has taken too long.
        """
        try:
            with self._locked():
                return self._claim(endpoint)
        except portalocker.LockException:
            return False  # somebody else is just beginning
        except OSError:
            return self._claim(endpoint)  # no lock can be had: each for himself

    def settle(self, endpoint: str, verdict: Verdict | None) -> float:
        """Say how a round ended, and return the pause until the next.  Blocking.

        Args:
            endpoint: Who was asked.
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
        # Nothing is forbidden for longer: the clock was wrong, or it is again.
        is_future = now < state.next_attempt_at <= now + LONGEST_WAIT_SECONDS
        if is_future and not is_ours:
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
        """Return what is known; nothing, if it is about another receiver."""
        state = self._own or _read(self._directory / "attempts.json")
        return state if state.endpoint == _digest(endpoint) else _State()

    def _save(self, state: _State) -> None:
        new = self._directory / f"attempts-{self._name}.new"
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            new.write_text(json.dumps(asdict(state)), encoding="utf-8")
            new.replace(self._directory / "attempts.json")
        except OSError:
            self._own = state
            with suppress(OSError):
                new.unlink(missing_ok=True)
        else:
            self._own = None

    def _locked(self) -> portalocker.Lock:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        return portalocker.Lock(
            self._directory / "attempts.lock",
            "a",
            flags=_EXCLUSIVE,
            timeout=0,
            fail_when_locked=True,
        )


def _choose_pause(verdict: Verdict, failures: int) -> float:
    """Return how many seconds to wait: any up to twice as many each time (full jitter).

    Windows that fail together would otherwise come back together.
    """
    if verdict.meaning is Meaning.CLOSED:
        return LONGEST_WAIT_SECONDS
    doubled = _FIRST_PAUSE_SECONDS * 2 ** min(failures, _MOST_DOUBLINGS)
    chosen = random.uniform(0, min(doubled, _LONGEST_PAUSE_SECONDS))  # noqa: S311 - seconds
    return max(chosen, verdict.wait_seconds)


def _read(path: Path) -> _State:
    """Return what a file says; nothing, if that cannot be understood."""
    with suppress(
        OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError
    ):
        handle = open_plain(path)
        if handle:
            with handle:
                found = json.loads(handle.read())
            return _State(
                endpoint=str(found["endpoint"]),
                failures=int(found["failures"]),
                next_attempt_at=float(found["next_attempt_at"]),
                claimed_by=str(found["claimed_by"]),
            )
    return _State()


def _digest(endpoint: str) -> str:
    return hashlib.sha256(endpoint.encode("utf-8", "replace")).hexdigest()[:16]
