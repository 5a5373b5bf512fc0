"""When to ask a host again: back-off with jitter, and what `Retry-After` says.  Pure.

One rule for each meaning, for content, events and embeddings alike:

- A host that says when to come back is asked then.
- Without that, a pause is drawn between 0 and a limit that doubles with every failure
  in a row (full jitter), so that machines that failed together come back apart.
- No pause is shorter than a second or longer than an hour, also if a host asks for it.

A library that repeats calls (stamina, tenacity) does not fit: content and events keep
their state in a file that all processes of a machine share. It outlives the call and
the process, so what is needed is the next pause and not a loop.
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

_RANDOMNESS = random.Random()  # noqa: S311 - spreads load, guards nothing


def derive_pause(
    failures: int,
    *,
    first_seconds: float,
    longest_seconds: float,
    asked_seconds: float | None = None,
    randomness: random.Random = _RANDOMNESS,
) -> float:
    """Return how many seconds to wait after some failures in a row.

    Args:
        failures: How many, the last one included.
        first_seconds: The limit of the pause after the first failure.
        longest_seconds: The limit after any number of failures.
        asked_seconds: What the host asks for; None if it does not say.
        randomness: Where the jitter comes from.
    """
    if asked_seconds is None or math.isnan(asked_seconds):
        doublings = min(max(failures - 1, 0), _MAX_DOUBLINGS)
        limit = min(longest_seconds, first_seconds * 2**doublings)
        asked_seconds = randomness.uniform(0, limit)
    return min(max(asked_seconds, MIN_PAUSE_SECONDS), MAX_PAUSE_SECONDS)


def is_resting(next_attempt_at: float, now: float) -> bool:
    """Return whether the time of the next attempt is still to come.

    A pause longer than any that is made here was written while the clock was wrong; it
    keeps nothing back.

    Args:
        next_attempt_at: In seconds since the epoch.
        now: In seconds since the epoch.

    >>> is_resting(30, 29), is_resting(30, 30), is_resting(1e9, 29)
    (True, False, False)
    """
    return 0 < next_attempt_at - now <= MAX_PAUSE_SECONDS


def parse_retry_after(text: str | None, now: datetime) -> float | None:
    """Return the seconds that a `Retry-After` header asks for, from 0 to an hour.

    None if there is no header, or if it is neither whole seconds nor a date (RFC 9110,
    section 10.2.3).

    Args:
        text: The value of the header.
        now: With a time zone; the `Date` of the reply, if there is one.

    >>> parse_retry_after("120", datetime.now(UTC))
    120.0
    """
    text = (text or "").strip()
    if re.fullmatch(r"[0-9]{1,20}", text):
        return limit_pause(float(text))
    moment = parse_http_date(text)
    return None if moment is None else limit_pause((moment - now).total_seconds())


def parse_http_date(text: str) -> datetime | None:
    """Return the date of an HTTP header, with a time zone; None if it is no date."""
    from email.utils import parsedate_to_datetime  # late: slow to import

    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError, OverflowError):
        return None
    # -0000 names no zone, but RFC 9110 has no other than UTC.
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def limit_pause(seconds: float) -> float:
    """Return a pause within the limits of what is honoured: 0 to an hour."""
    return min(max(seconds, 0.0), MAX_PAUSE_SECONDS)
