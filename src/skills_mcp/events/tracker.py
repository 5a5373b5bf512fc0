"""Events, written as they happen, without delaying or failing an answer."""

import json
import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from skills_mcp.config import Analytics
from skills_mcp.events.privacy import Privacy
from skills_mcp.events.spool import Spool
from skills_mcp.text.rendering import render_time

EventType = Literal[
    "no_match",
    "ambiguous",
    "skill_served",
    "asset_served",
    "script_executed",
    "skill_feedback",
    "refresh",
    "events_dropped",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened, with the fields that every event has."""

    type: EventType
    timestamp: datetime
    server_id: str
    data: Mapping[str, Any]
    event_id: str
    """Unique, so that a receiver can tell a repetition from a second event."""
    content_commit: str | None = None
    """The commit that was served; None for a folder, which has no commits."""

    def to_json(self) -> str:
        """Return the event as one line."""
        fields = {
            "type": self.type,
            "timestamp": render_time(self.timestamp),
            "server_id": self.server_id,
            "data": dict(self.data),
            "event_id": self.event_id,
        }
        if self.content_commit is not None:
            fields["content_commit"] = self.content_commit
        return json.dumps(fields, ensure_ascii=False)


def new_event_id() -> str:
    """Return an identifier that no other event has."""
    return uuid.uuid4().hex


logger = logging.getLogger(__name__)

Observer = Callable[[EventType, Mapping[str, Any]], None]
"""Is told what happens and the fields of the event.  Called on any thread."""


class Tracker:
    """Takes events from the library.

    Args:
        spool: Where events are written.
        rules: Read for every event; nothing is written while `enabled` is false.
        privacy: Takes out what the rules do not allow to be written.
    """

    def __init__(
        self, spool: Spool, rules: Callable[[], Analytics], privacy: Privacy
    ) -> None:
        self._spool = spool
        self._rules = rules
        self._privacy = privacy
        self._guard = threading.Lock()
        self._refused = 0
        self._has_dropped = False
        self._observers: list[Observer] = []

    def observe(self, observer: Observer) -> None:
        """Tell an observer of each event, also while none is written.

        It counts what happens, and keeps and repeats nothing of the fields: the rules
        of analytics do not hold for it.
        """
        self._observers.append(observer)

    def track(
        self, kind: EventType, *, content_commit: str | None = None, **data: Any
    ) -> None:
        """Write an event; when this returns, the event survives the process.

        If the disk is full, the event is lost, and the answer is not affected.

        Args:
            kind: What happened.
            content_commit: The commit of what was served.
            data: The fields of the type; text of an agent in another field than
                `context` and `comment` is a `privacy.Text`.
        """
        for observe in self._observers:
            observe(kind, data)
        rules = self._rules()
        if not rules.enabled:
            return
        try:
            if self._append(kind, data, content_commit, rules):
                self._make_room(rules)
        except OSError as error:
            self._refuse(kind, error)
        else:
            if self._refused:
                self._count_refused(rules)

    def _append(
        self,
        kind: EventType,
        data: Mapping[str, Any],
        content_commit: str | None,
        rules: Analytics,
    ) -> bool:
        hidden = self._privacy.hide(data, rules)
        event = Event(
            type=kind,
            timestamp=datetime.now(UTC),
            server_id=self._privacy.name(rules),
            data={**hidden, "group": rules.group} if rules.group else hidden,
            event_id=new_event_id(),
            content_commit=content_commit,
        )
        return self._spool.append(event.to_json(), rules.max_spool_bytes)

    def _make_room(self, rules: Analytics) -> None:
        """Keep the bound. Dropped events are counted before they are deleted."""
        for count in self._spool.drop_oldest(rules.max_spool_bytes):
            if not self._has_dropped:
                logger.warning(
                    "More events wait than analytics.max_spool_bytes allows: the "
                    "oldest are dropped, now %d, and counted in events_dropped",
                    count,
                )
            self._has_dropped = True
            self._count_dropped(count, "limit", rules)

    def _refuse(self, kind: EventType, error: OSError) -> None:
        with self._guard:
            self._refused += 1
            is_first = self._refused == 1
        if is_first:
            logger.warning(
                "An event of type %s was not written, and no other will be until the "
                "disk accepts them: %s",
                kind,
                error,
            )

    def _count_refused(self, rules: Analytics) -> None:
        with self._guard:
            count, self._refused = self._refused, 0
        if not count:
            return  # another thread has counted them
        try:
            self._count_dropped(count, "disk", rules)
        except OSError:
            with self._guard:
                self._refused += count
        else:
            logger.warning("Events are written again; lost: %d", count)

    def _count_dropped(self, count: int, reason: str, rules: Analytics) -> None:
        data = {"count": count, "reason": reason}
        self._append("events_dropped", data, None, rules)
