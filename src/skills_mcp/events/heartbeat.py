"""Heartbeats of servers; they name no person, no path of a machine and no secret."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal, TypeGuard, get_args

from skills_mcp.events.received_event import (
    MAX_FIELD_LENGTH,
    InvalidEventError,
    parse_utc,
)
from skills_mcp.events.tracker import compose_event_line

HEARTBEAT = "heartbeat"

Transport = Literal["stdio", "http"]

_TRANSPORTS: Mapping[str, Transport] = {
    transport_name: transport_name for transport_name in get_args(Transport)
}

_MAX_SOURCES = 100  # of one server; the configuration of a large one names a dozen
_MAX_SKILLS = 10_000_000  # more than limits.max_files allows a source
_MAX_AGE_SECONDS = 100 * 365 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedSource:
    mount: str
    """Where its skills appear in the tree; empty at the top."""
    repository: str
    """Host and path; empty for a folder."""
    commit: str | None
    """None for a folder, and before the first sync."""
    age_seconds: float | None
    """Since the last successful sync; None for a folder."""
    last_error: str | None
    """Error code of the last sync; None after a success."""
    lost_skills: int | None = None
    """Number of skills that one change removed lately; None without such a loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A report of a server about itself."""

    server_id: str
    """A pseudonym, never of a person."""
    happened_at: datetime
    version: str
    transport: Transport
    sources: tuple[ServedSource, ...]

    def to_json(self) -> str:
        data = {
            "version": self.version,
            "transport": self.transport,
            "sources": [asdict(source) for source in self.sources],
        }
        return compose_event_line(HEARTBEAT, self.server_id, data, moment=self.happened_at)


class HeartbeatTimer:
    """Schedules heartbeats: one soon after the start, then one per interval.

    `read` blocks, and returns None before the first content.
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
        self._sent_at = float("-inf")

    @property
    def is_due(self) -> bool:
        return self._clock() - self._sent_at >= self._interval_seconds()

    def read(self) -> Heartbeat | None:
        """The heartbeat, if one is due.  Blocking."""
        return self._read() if self.is_due else None

    def mark_sent(self) -> None:
        """Start the next interval: the heartbeat has arrived."""
        self._sent_at = self._clock()

    def stop(self) -> None:
        """Make no more heartbeats: the receiver refuses them."""
        self._sent_at = float("inf")


def is_heartbeat(raw: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(raw, Mapping) and bool(raw.get("type") == HEARTBEAT)


def parse_heartbeat(raw: Mapping[str, Any]) -> Heartbeat:
    """Parse a received heartbeat.

    Raises:
        InvalidEventError: It is invalid; the message says why.
    """
    moment, data = parse_utc(raw.get("timestamp")), raw.get("data")
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
    """Parse the sources of a heartbeat.

    Raises:
        InvalidEventError: They are invalid, or too many.
    """
    if not isinstance(value, list) or len(value) > _MAX_SOURCES:
        raise InvalidEventError(f"its sources are no list of at most {_MAX_SOURCES}")
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
        lost_skills=_parse_count(value.get("lost_skills")),
    )


def _parse_text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        return ""
    if len(value) > MAX_FIELD_LENGTH or not value.isprintable():
        raise InvalidEventError(f"its {name} is no line of at most {MAX_FIELD_LENGTH} characters")
    return value


def _parse_age(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= _MAX_AGE_SECONDS else None


def _parse_count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 < value <= _MAX_SKILLS else None


def name_commits(sources: Iterable[ServedSource]) -> dict[str, str]:
    """The repository, or else the mount, of each served commit."""
    return {source.commit: source.repository or source.mount for source in sources if source.commit}
