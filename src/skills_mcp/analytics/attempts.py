"""When a receiver may be asked again: all processes of a machine share it.

The state is a hint in a small file: without it events are sent too early, never lost.
"""

import hashlib
import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import uuid4

from skills_mcp.analytics.verdict import Meaning, Verdict
from skills_mcp.files.durable import read_regular, replace_text
from skills_mcp.files.locks import acquire_lock
from skills_mcp.processes.retry import MAX_PAUSE_SECONDS, derive_pause, is_resting

# As long as one round of requests may take; a window that was stopped in the middle of
# one keeps the others back no longer.
_CLAIM_SECONDS = 60.0

_FIRST_PAUSE_SECONDS = 60.0  # two intervals of the publisher
_LONGEST_PAUSE_SECONDS = 15 * 60.0  # a repaired receiver should not wait much longer


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
        self._file = directory / "attempts.json"
        self._clock = clock
        self._name = uuid4().hex
        self._own: _State | None = None  # what could not be written down

    def claim(self, endpoint: str) -> bool:
        """Tell whether a round of requests may begin now, by us.  Blocking.

        Nobody else begins one until it is over, or has taken too long.
        """
        try:
            lock = acquire_lock(self._directory / "attempts.lock")
        except BlockingIOError:
            return False  # another process is just beginning
        except OSError:
            return self._claim(endpoint)  # without a lock each process is on its own
        with lock:
            return self._claim(endpoint)

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
        """Return what is known; nothing, if it is about another receiver."""
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
    """Return what a file says; nothing, if that cannot be understood."""
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
