"""Back-off with jitter, and `Retry-After`.  Pure.

- A host's `Retry-After` is honoured.
- Otherwise the pause is drawn between 0 and a limit doubling with every consecutive
  failure (full jitter), so that machines do not retry in step.
- No pause is shorter than a second or longer than an hour, even if a host asks for it.

Retry libraries (stamina, tenacity) do not fit: the state is in a file shared by all
processes of a machine, so the result is the next pause and not a loop.
"""

import math
import random
import re
from datetime import UTC, datetime

MIN_PAUSE_SECONDS = 1.0

# A header may say anything. A time that is further away was written by a wrong clock.
MAX_PAUSE_SECONDS = 60 * 60.0

# 2**20 times a second is twelve days: more than any limit, and no overflow.
_MAX_DOUBLINGS = 20

RANDOMNESS = random.Random()  # noqa: S311 - spreads load, guards nothing


def derive_backoff(
    failures: int,
    *,
    first_seconds: float,
    longest_seconds: float,
    retry_after_seconds: float | None = None,
    randomness: random.Random = RANDOMNESS,
) -> float:
    """Seconds to wait; a host's `Retry-After` precedes the drawn pause."""
    if retry_after_seconds is None or math.isnan(retry_after_seconds):
        doublings = min(max(failures - 1, 0), _MAX_DOUBLINGS)
        limit = min(longest_seconds, first_seconds * 2**doublings)
        retry_after_seconds = randomness.uniform(0, limit)
    return min(max(retry_after_seconds, MIN_PAUSE_SECONDS), MAX_PAUSE_SECONDS)


def is_backing_off(next_attempt_at: float, now: float) -> bool:
    """Whether the next attempt is ahead; a pause beyond the limit is a wrong clock's.

    >>> is_backing_off(30, 29), is_backing_off(30, 30), is_backing_off(1e9, 29)
    (True, False, False)
    """
    return 0 < next_attempt_at - now <= MAX_PAUSE_SECONDS


def parse_retry_after(text: str | None, now: datetime) -> float | None:
    """Seconds of a `Retry-After` header, clamped to an hour; None if invalid.

    Whole seconds or a date (RFC 9110, section 10.2.3), relative to `now`.

    >>> parse_retry_after("120", datetime.now(UTC))
    120.0
    """
    text = (text or "").strip()
    if re.fullmatch(r"[0-9]{1,20}", text):
        return clamp_pause(float(text))
    moment = parse_http_date(text)
    return None if moment is None else clamp_pause((moment - now).total_seconds())


def parse_http_date(text: str) -> datetime | None:
    """Date of an HTTP header, with a time zone; None if invalid."""
    from email.utils import parsedate_to_datetime  # late: slow to import

    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError, OverflowError):
        return None
    # -0000 names no zone, but RFC 9110 has no other than UTC.
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def clamp_pause(seconds: float) -> float:
    return min(max(seconds, 0.0), MAX_PAUSE_SECONDS)
