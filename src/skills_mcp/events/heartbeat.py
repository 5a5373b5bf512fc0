"""What a server says of itself now and again: which commit it serves, and how well.

Rule: it names no person, no path of a machine and no secret.
"""

import json
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal, TypeGuard, get_args

from skills_mcp.events.received_event import (
    MOST_NAME,
    InvalidEventError,
    parse_moment,
)
from skills_mcp.text.rendering import render_time

HEARTBEAT = "heartbeat"
"""The type of a heartbeat among events."""

Transport = Literal["stdio", "http"]

_TRANSPORTS: Mapping[str, Transport] = {each: each for each in get_args(Transport)}

_MOST_SOURCES = 100  # of one server; the configuration of a large one names a dozen
_MOST_AGE_SECONDS = 100 * 365 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedSource:
    """One source of a server, as it is served at a moment."""

    mount: str
    """Where its skills appear in the tree; empty at the top."""
    repository: str
    """The host and the path of a repository; empty for a folder."""
    commit: str | None
    """None for a folder, which has no commits, and before the first sync."""
    age_seconds: float | None
    """The time since the last successful sync; None for a folder."""
    last_error: str | None
    """The code of the error of the last sync; None if it succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """One report of one server about itself."""

    server_id: str
    """A pseudonym of the server, which is that of no person."""
    happened_at: datetime
    version: str
    transport: Transport
    sources: tuple[ServedSource, ...]

    def to_json(self) -> str:
        """Return it in one line, as it is sent among events."""
        fields = {
            "type": HEARTBEAT,
            "timestamp": render_time(self.happened_at),
            "server_id": self.server_id,
            "data": {
                "version": self.version,
                "transport": self.transport,
                "sources": [asdict(each) for each in self.sources],
            },
            "event_id": uuid.uuid4().hex,
        }
        return json.dumps(fields, ensure_ascii=False)


class Pulse:
    """When a server reports about itself: soon after its start, then now and again.

    Args:
        read: Returns the report; None while there is nothing to say. Blocking.
        interval_seconds: Between two reports.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        read: Callable[[], Heartbeat | None],
        interval_seconds: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._told_at = float("-inf")

    @property
    def is_due(self) -> bool:
        """Whether the next report is to be made."""
        return self._clock() - self._told_at >= self._interval_seconds()

    def read(self) -> Heartbeat | None:
        """Return the report, if it is due and there is one.  Blocking."""
        return self._read() if self.is_due else None

    def settle(self) -> None:
        """Note that the report has arrived."""
        self._told_at = self._clock()

    def stop(self) -> None:
        """Make no more reports: the receiver does not take them."""
        self._told_at = float("inf")


def is_heartbeat(raw: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether something that was received says that it is a heartbeat."""
    return isinstance(raw, Mapping) and bool(raw.get("type") == HEARTBEAT)


def parse_heartbeat(raw: Mapping[str, Any]) -> Heartbeat:
    """Return a heartbeat that was received.

    Raises:
        InvalidEventError: It is none; the message says why.
    """
    moment, data = parse_moment(raw.get("timestamp")), raw.get("data")
    if moment is None:
        raise InvalidEventError("its timestamp is no time")
    if not isinstance(data, Mapping):
        raise InvalidEventError("its data is no JSON object")
    transport = _TRANSPORTS.get(_parse_text(data, "transport"))
    if transport is None:
        raise InvalidEventError(f"its transport is none of {', '.join(_TRANSPORTS)}")
    server_id = _parse_text(raw, "server_id")
    if not server_id:
        raise InvalidEventError("it has no server_id")
    return Heartbeat(
        server_id=server_id,
        happened_at=moment,
        version=_parse_text(data, "version"),
        transport=transport,
        sources=parse_sources(data.get("sources")),
    )


def parse_sources(value: object) -> tuple[ServedSource, ...]:
    """Return the sources of a heartbeat.

    Raises:
        InvalidEventError: They are none, or too many.
    """
    if not isinstance(value, list) or len(value) > _MOST_SOURCES:
        raise InvalidEventError(f"its sources are no list of at most {_MOST_SOURCES}")
    return tuple(map(_parse_source, value))


def _parse_source(value: object) -> ServedSource:
    if not isinstance(value, Mapping):
        raise InvalidEventError("one of its sources is no JSON object")
    return ServedSource(
        mount=_parse_text(value, "mount"),
        repository=_parse_text(value, "repository"),
        commit=_parse_text(value, "commit") or None,
        age_seconds=_parse_age(value.get("age_seconds")),
        last_error=_parse_text(value, "last_error") or None,
    )


def _parse_text(fields: Mapping[str, Any], name: str) -> str:
    """Return a text in one line; empty if there is none.

    Raises:
        InvalidEventError: It is too long, or has other characters.
    """
    value = fields.get(name)
    if not isinstance(value, str):
        return ""
    if len(value) > MOST_NAME or not value.isprintable():
        raise InvalidEventError(
            f"its {name} is no line of at most {MOST_NAME} characters"
        )
    return value


def _parse_age(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= _MOST_AGE_SECONDS else None
