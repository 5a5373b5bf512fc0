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

from skills_mcp.analytics.spool import MAX_LINE_BYTES
from skills_mcp.analytics.tracker import EventType

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

# What no text of a database holds: the null character, and half a surrogate pair.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_STANDS_FOR_IT = "\N{REPLACEMENT CHARACTER}"


class InvalidEventError(ValueError):
    """What was received is no event; the message says what is wrong with it."""


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


def find_fault(raw: object) -> str:
    """Return why something is no event; empty if it is one.

    >>> find_fault({"type": "refresh", "timestamp": "yesterday", "data": {}})
    'its timestamp is no time, such as 2026-02-18T14:30:00.000Z'
    """
    if not isinstance(raw, Mapping):
        return "it is no JSON object"
    name, data = raw.get("type"), raw.get("data")
    kind = EVENT_TYPES.get(name) if isinstance(name, str) else None
    if kind is None:
        return f"its type is none of {', '.join(EVENT_TYPES)}"
    if parse_moment(raw.get("timestamp")) is None:
        return "its timestamp is no time, such as 2026-02-18T14:30:00.000Z"
    if not isinstance(data, Mapping):
        return "its data is no JSON object"
    missing = [each for each in _NEEDED[kind] if not _has_text(data.get(each))]
    return f"its data has no {' and no '.join(missing)}" if missing else ""


def parse_moment(value: object) -> datetime | None:
    """Return a time in UTC; a time without a zone is in UTC."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def parse_received(raw: object) -> ReceivedEvent:
    """Return an event as it is stored.

    One without an `event_id` gets one that is derived from all of it, so that it is
    recognised when it comes again.

    Raises:
        InvalidEventError: It is none, or larger than an event may be.
    """
    if fault := find_fault(raw):
        raise InvalidEventError(fault)
    text, event = _clean(raw)
    event_id, server_id, commit = (
        _parse_name(event, name) for name in ("event_id", "server_id", "content_commit")
    )
    moment = parse_moment(event["timestamp"])
    assert moment is not None, "find_fault has looked"  # noqa: S101
    return ReceivedEvent(
        event_id=event_id or f"sha256:{_digest(text)}",
        kind=EVENT_TYPES[event["type"]],
        happened_at=moment,
        server_id=server_id,
        content_commit=commit or None,
        data=event["data"],
    )


def _clean(raw: object) -> tuple[str, Any]:
    """Return an event as JSON and as a value, which a database can hold.

    Raises:
        InvalidEventError: It is nested too deeply, too large, or holds no number.
    """
    try:
        event = _without_unstorable(raw)
        text = json.dumps(event, sort_keys=True, allow_nan=False)
    except RecursionError:
        raise InvalidEventError("it is nested too deeply") from None
    except ValueError:
        raise InvalidEventError("it has a number that JSON does not have") from None
    if len(text) > MAX_LINE_BYTES:
        raise InvalidEventError(f"it is larger than {MAX_LINE_BYTES:,} bytes")
    return text, event


def _without_unstorable(value: object) -> Any:
    if isinstance(value, str):
        return _UNSTORABLE.sub(_STANDS_FOR_IT, value)
    if isinstance(value, Mapping):
        return {
            _without_unstorable(name): _without_unstorable(inner)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_without_unstorable(each) for each in value]
    return value


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
