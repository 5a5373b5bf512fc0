"""When a remote that has failed may be asked again; all windows of a machine share it.

Rule: full jitter. Machines that lost the same host at the same moment come back to it
at moments that have nothing to do with each other.
"""

import math
import random

from skills_mcp.content.source import LONGEST_PAUSE_SECONDS, Attempt
from skills_mcp.errors import AccessRefusedError, SyncError

# A network that is back after a blink is found at once.
_BASE_SECONDS = 5.0
_SHORTEST_SECONDS = 1.0
# Hosts lock accounts that send a wrong token again and again; a person has to act
# anyway.
_REFUSED_SECONDS = 5 * 60.0
# Of a host's own wish, too: a header may say anything.
_LONGEST_SECONDS = 60 * 60.0
# 2**20 times the base is twelve days: more than every cap, and no overflow.
_MOST_DOUBLINGS = 20


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
    pause = _find_wish(error)
    if pause is None:
        doublings = min(failures - 1, _MOST_DOUBLINGS)
        largest = min(longest_seconds, _BASE_SECONDS * 2**doublings)
        pause = randomness.uniform(0, largest)
    shortest = _SHORTEST_SECONDS
    if isinstance(error, AccessRefusedError):
        shortest = _REFUSED_SECONDS
    return Attempt(
        attempted_at=now,
        failures=failures,
        next_attempt_at=now + min(max(pause, shortest), _LONGEST_SECONDS),
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
    """Whether the remote is left alone for now, unless somebody insists.

    A pause that is longer than any that we make was written while the clock was
    wrong; it proves nothing.

    >>> is_resting(Attempt(next_attempt_at=30), 29)
    True
    >>> is_resting(Attempt(next_attempt_at=30), 30)
    False
    >>> is_resting(Attempt(next_attempt_at=1e9), 29)
    False
    """
    return 0 < attempt.next_attempt_at - now <= _LONGEST_SECONDS


def _find_wish(error: SyncError) -> float | None:
    """Return for how long the host has asked to be left alone, if that makes sense."""
    wish = error.retry_after_seconds
    return None if wish is None or math.isnan(wish) else wish
