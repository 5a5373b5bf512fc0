"""What a receiver's answer means for the events it was sent (001 §10.3).  Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from http import HTTPStatus

from skills_mcp.processes.retry import parse_retry_after


class Meaning(Enum):
    """What to do with events."""

    ACCEPTED = auto()
    REFUSED = auto()
    """One of them, or all of them, will never be accepted as they are."""
    TOO_LARGE = auto()
    """They will not be accepted together."""
    LATER = auto()
    """They may well be accepted some time later."""
    CLOSED = auto()
    """They will be when somebody has given permission."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a receiver has said, or that nothing came of it."""

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
"""What the others mean, by their first digit."""

_REDIRECTS = 3


def decide(status: int, retry_after: str | None, now: datetime) -> Verdict:
    """Return what a status of HTTP means, and what the receiver asks for.

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
        reason += "; the receiver takes no events from here until somebody permits it"
    asked = retry_after if meaning is Meaning.LATER else None
    return Verdict(meaning, reason, parse_retry_after(asked, now))


def _describe(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
