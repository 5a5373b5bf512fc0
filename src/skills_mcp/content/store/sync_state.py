"""When a remote that has failed may be asked again; known to all processes."""

import random

from skills_mcp.content.source import LONGEST_PAUSE_SECONDS, Attempt
from skills_mcp.errors import AccessRefusedError, SyncError
from skills_mcp.processes import retry

# A network that is back after a moment is found at once.
_FIRST_PAUSE_SECONDS = 5.0

# Hosts lock accounts that send a wrong token again and again; a person has to act
# anyway.
_REFUSED_SECONDS = 5 * 60.0


def derive_success(now: float) -> Attempt:
    """Return what is remembered of a sync that went well.

    Args:
        now: In seconds since the epoch.
    """
    return Attempt(attempted_at=now)


def derive_failure(
    before: Attempt,
    error: SyncError,
    now: float,
    *,
    longest_seconds: float,
    randomness: random.Random,
) -> Attempt:
    """Return what is remembered of a sync that failed, and how long to wait.

    Args:
        before: What was remembered until now.
        error: Its code and message are kept, and what its host asks for.
        now: In seconds since the epoch.
        longest_seconds: The longest pause, unless the host asks for a longer one or
            refuses our token.
        randomness: Where the jitter comes from.
    """
    failures = before.failures + 1
    pause = retry.derive_pause(
        failures,
        first_seconds=_FIRST_PAUSE_SECONDS,
        longest_seconds=longest_seconds,
        asked_seconds=error.retry_after_seconds,
        randomness=randomness,
    )
    if isinstance(error, AccessRefusedError):
        pause = max(pause, _REFUSED_SECONDS)
    return Attempt(
        attempted_at=now,
        failures=failures,
        next_attempt_at=now + pause,
        error_code=error.code,
        error_message=str(error),
    )


def derive_longest_pause(interval_seconds: float | None) -> float:
    """Return how long a remote that fails is left alone at most.

    >>> derive_longest_pause(60.0), derive_longest_pause(None)
    (60.0, 900.0)
    """
    return min(interval_seconds or LONGEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)


def is_resting(attempt: Attempt, now: float) -> bool:
    """Return whether the remote is left alone for now, unless a user insists.

    >>> is_resting(Attempt(next_attempt_at=30), 29)
    True
    >>> is_resting(Attempt(next_attempt_at=30), 30)
    False
    """
    return retry.is_resting(attempt.next_attempt_at, now)
