"""Validation of events, the same for files and for requests."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from skills_mcp.events.spool import MAX_LINE_BYTES
from skills_mcp.events.tracker import EventType

# An event without these data is useless.
_REQUIRED_DATA: Mapping[EventType, tuple[str, ...]] = {
    "no_match": (),
    "ambiguous": (),
    "skill_served": ("skill_path",),
    "asset_served": ("skill_path",),
    "script_executed": ("skill_path", "file"),
    "skill_feedback": ("skill_path",),
    "skill_evaluated": ("skill_path",),
    "refresh": (),
    "events_dropped": (),
}

EVENT_TYPES: Mapping[str, EventType] = {kind: kind for kind in _REQUIRED_DATA}

MAX_FIELD_LENGTH = 200
"""Maximum characters of a path, name or keyword; real ones are shorter."""

_DIGEST_DIGITS = 40

# A clock may be wrong by years. A report looks at each day between the first event and
# the last, so they are at most a century apart.
_YEARS = range(2000, 2101)

# Our own events need 4. The JSON functions of SQLite read 1,000, and one event that is
# deeper would fail every count of skills from then on.
_MAX_DEPTH = 32

# What no text of a database holds: the null character, and half a surrogate pair.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class InvalidEventError(ValueError):
    """An invalid event; the message says why."""


class ValidatedEvent(NamedTuple):
    kind: EventType
    moment: datetime
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedEvent:
    event_id: str
    kind: EventType
    happened_at: datetime
    """In UTC, as all moments here."""
    server_id: str
    content_commit: str | None
    data: Mapping[str, Any]


def validate_event(raw: object) -> ValidatedEvent:
    """Validate the common fields of an event, and the data its type requires.

    Raises:
        InvalidEventError: It is invalid.
    """
    if not isinstance(raw, Mapping):
        raise InvalidEventError("it is no JSON object")
    name, data = raw.get("type"), raw.get("data")
    kind = EVENT_TYPES.get(name) if isinstance(name, str) else None
    if kind is None:
        raise InvalidEventError(f"its type is none of {', '.join(EVENT_TYPES)}")
    moment = parse_utc(raw.get("timestamp"))
    if moment is None:
        raise InvalidEventError("its timestamp is no time, such as 2026-02-18T14:30:00.000Z")
    if not isinstance(data, Mapping):
        raise InvalidEventError("its data is no JSON object")
    missing = [field for field in _REQUIRED_DATA[kind] if not _has_text(data.get(field))]
    if missing:
        raise InvalidEventError(f"its data has no {' and no '.join(missing)}")
    return ValidatedEvent(kind, moment, data)


def parse_utc(value: object) -> datetime | None:
    """Parse an ISO 8601 time into UTC; None if it is invalid or its year is far away.

    A time without a zone is in UTC.
    """
    # `fromisoformat` skips a null character at the end, and any one between date and
    # time.
    if not isinstance(value, str) or not value.isascii() or not value.isprintable():
        return None
    try:
        parsed = datetime.fromisoformat(value)
        moment = parsed.astimezone(UTC) if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
    return moment if moment.year in _YEARS else None


def parse_received(raw: object) -> ReceivedEvent:
    """Validate an event for storage.

    Without an `event_id` it gets a hash of its content, so that a repetition is
    recognised.

    Raises:
        InvalidEventError: It is invalid, or too large.
    """
    text, event = _normalize(raw)
    checked = validate_event(event)
    event_id, server_id, commit = (
        _parse_name(event, name) for name in ("event_id", "server_id", "content_commit")
    )
    return ReceivedEvent(
        event_id=event_id or f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_DIGITS]}",
        kind=checked.kind,
        happened_at=checked.moment,
        server_id=server_id,
        content_commit=commit or None,
        data=checked.data,
    )


def _normalize(raw: object) -> tuple[str, Any]:
    """Replace characters no database holds; return the JSON text and the value."""
    event = _replace_unstorable(raw)
    try:
        text = json.dumps(event, sort_keys=True, allow_nan=False)
    except ValueError:
        raise InvalidEventError("it has a number that JSON does not have") from None
    if len(text) > MAX_LINE_BYTES:
        raise InvalidEventError(f"it is larger than {MAX_LINE_BYTES:,} bytes")
    return text, event


def _replace_unstorable(value: object, depth: int = 0) -> Any:
    if isinstance(value, str):
        return _UNSTORABLE.sub(_REPLACEMENT, value)
    if not isinstance(value, Mapping | list):
        return value
    if depth >= _MAX_DEPTH:
        raise InvalidEventError("it is nested too deeply")
    if isinstance(value, list):
        return [_replace_unstorable(item, depth + 1) for item in value]
    return {
        _replace_unstorable(name): _replace_unstorable(inner, depth + 1)
        for name, inner in value.items()
    }


def _parse_name(event: Mapping[str, Any], field: str) -> str:
    value = event.get(field)
    if not isinstance(value, str):
        return ""
    if len(value) > MAX_FIELD_LENGTH:
        raise InvalidEventError(f"its {field} is longer than {MAX_FIELD_LENGTH} characters")
    return value


def _has_text(value: object) -> bool:
    return isinstance(value, str) and bool(value[: MAX_FIELD_LENGTH + 1].strip())
