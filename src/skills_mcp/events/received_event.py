"""What an event has to be before it is counted or stored, and why another is none.

Rule: a file of events and a request with events are read by the same rules.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from skills_mcp.events.spool import MAX_LINE_BYTES
from skills_mcp.events.tracker import EventType

# An event without these data is useless.
_NEEDED: Mapping[EventType, tuple[str, ...]] = {
    "no_match": (),
    "ambiguous": (),
    "skill_served": ("skill_path",),
    "asset_served": ("skill_path",),
    "script_executed": ("skill_path", "file"),
    "skill_feedback": ("skill_path",),
    "refresh": (),
    "events_dropped": (),
}

EVENT_TYPES: Mapping[str, EventType] = {kind: kind for kind in _NEEDED}
"""The types of events, by their names."""

MOST_NAME = 200
"""Characters of a path, a name or a keyword; real ones are shorter."""

_DIGEST_DIGITS = 40

# A clock may be wrong by years. A report looks at each day between the first event and
# the last, so they are at most a century apart.
_YEARS = range(2000, 2101)

# Our own events need 4. The JSON functions of SQLite read 1,000, and one event that is
# deeper would fail every count of skills from then on.
_MOST_DEPTH = 32

# What no text of a database holds: the null character, and half a surrogate pair.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_STANDS_FOR_IT = "\N{REPLACEMENT CHARACTER}"


class InvalidEventError(ValueError):
    """What was received is no event; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class CheckedEvent:
    """The fields that every event has."""

    kind: EventType
    moment: datetime
    """In UTC."""
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedEvent:
    """An event that has been checked, as it is stored."""

    event_id: str
    kind: EventType
    happened_at: datetime
    """In UTC."""
    server_id: str
    content_commit: str | None
    data: Mapping[str, Any]


def check_event(raw: object) -> CheckedEvent:
    """Check the fields that every event has, and those that its type needs.

    Raises:
        InvalidEventError: It is no event.

    >>> check_event({"type": "refresh", "timestamp": "2026-02-18", "data": {}}).kind
    'refresh'
    """
    if not isinstance(raw, Mapping):
        raise InvalidEventError("it is no JSON object")
    name, data = raw.get("type"), raw.get("data")
    kind = EVENT_TYPES.get(name) if isinstance(name, str) else None
    if kind is None:
        raise InvalidEventError(f"its type is none of {', '.join(EVENT_TYPES)}")
    moment = parse_moment(raw.get("timestamp"))
    if moment is None:
        raise InvalidEventError(
            "its timestamp is no time, such as 2026-02-18T14:30:00.000Z"
        )
    if not isinstance(data, Mapping):
        raise InvalidEventError("its data is no JSON object")
    missing = [each for each in _NEEDED[kind] if not _has_text(data.get(each))]
    if missing:
        raise InvalidEventError(f"its data has no {' and no '.join(missing)}")
    return CheckedEvent(kind, moment, data)


def parse_moment(value: object) -> datetime | None:
    """Parse a time into UTC; None for anything else, or a year that is far away.

    A time without a zone is in UTC.
    """
    # `fromisoformat` skips a null character at the end, and any one between date and
    # time.
    if not isinstance(value, str) or not value.isascii() or not value.isprintable():
        return None
    try:
        given = datetime.fromisoformat(value)
        moment = given.astimezone(UTC) if given.tzinfo else given.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
    return moment if moment.year in _YEARS else None


def parse_received(raw: object) -> ReceivedEvent:
    """Parse an event as it is stored.

    One without an `event_id` gets one that is derived from all of it, so that it is
    recognised when it comes again.

    Raises:
        InvalidEventError: It is none, or larger than an event may be.
    """
    text, event = _clean(raw)
    checked = check_event(event)
    event_id, server_id, commit = (
        _parse_name(event, name) for name in ("event_id", "server_id", "content_commit")
    )
    return ReceivedEvent(
        event_id=event_id or f"sha256:{_digest(text)}",
        kind=checked.kind,
        happened_at=checked.moment,
        server_id=server_id,
        content_commit=commit or None,
        data=checked.data,
    )


def _clean(raw: object) -> tuple[str, Any]:
    """Render an event as JSON and as a value that a database can hold.

    Raises:
        InvalidEventError: It is nested too deeply, too large, or holds no number.
    """
    event = _without_unstorable(raw)
    try:
        text = json.dumps(event, sort_keys=True, allow_nan=False)
    except ValueError:
        raise InvalidEventError("it has a number that JSON does not have") from None
    if len(text) > MAX_LINE_BYTES:
        raise InvalidEventError(f"it is larger than {MAX_LINE_BYTES:,} bytes")
    return text, event


def _without_unstorable(value: object, depth: int = 0) -> Any:
    if isinstance(value, str):
        return _UNSTORABLE.sub(_STANDS_FOR_IT, value)
    if not isinstance(value, Mapping | list):
        return value
    if depth >= _MOST_DEPTH:
        raise InvalidEventError("it is nested too deeply")
    if isinstance(value, list):
        return [_without_unstorable(each, depth + 1) for each in value]
    return {
        _without_unstorable(name): _without_unstorable(inner, depth + 1)
        for name, inner in value.items()
    }


def _parse_name(event: Mapping[str, Any], field: str) -> str:
    """Return a name of an event; empty if there is none.

    Raises:
        InvalidEventError: It is longer than a name.
    """
    value = event.get(field)
    if not isinstance(value, str):
        return ""
    if len(value) > MOST_NAME:
        raise InvalidEventError(f"its {field} is longer than {MOST_NAME} characters")
    return value


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_DIGITS]


def _has_text(value: object) -> bool:
    """Whether a report has something to show of a value."""
    return isinstance(value, str) and bool(value[: MOST_NAME + 1].strip())
