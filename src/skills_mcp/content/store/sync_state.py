"""When a remote that has failed may be asked again; all processes share this state."""

import random

from skills_mcp.content.source import LONGEST_PAUSE_SECONDS, Attempt
from skills_mcp.errors import AccessRefusedError, SyncError
from skills_mcp.processes.retry import derive_pause

# A network that is back after a moment is found at once.
_FIRST_PAUSE_SECONDS = 5.0

# Hosts lock accounts that send a wrong token again and again; a person has to act
# anyway.
_REFUSED_SECONDS = 5 * 60.0


def derive_failure(
    before: Attempt,
    error: SyncError,
    now: float,
    *,
    longest_seconds: float,
    randomness: random.Random,
) -> Attempt:
    """Return the state after a failed sync, with the time of the next attempt.

    Args:
        before: The state until now.
        error: Its code and message are kept, and the pause that the host asks for.
        now: In seconds since the epoch.
        longest_seconds: The longest pause, unless the host asks for a longer one or
            refuses our token.
        randomness: The source of the jitter.
    """
    failures = before.failures + 1
    pause = derive_pause(
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
    """Return the longest pause after failures, by the timer's interval.

    >>> derive_longest_pause(60.0), derive_longest_pause(None)
    (60.0, 900.0)
    """
    return min(interval_seconds or LONGEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
