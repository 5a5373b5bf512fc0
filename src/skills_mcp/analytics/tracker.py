"""Writes events down as they happen; never in the way of an answer (001 §10.1)."""

import logging
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from skills_mcp.analytics.events import Event, EventType, new_event_id
from skills_mcp.analytics.privacy import Privacy
from skills_mcp.analytics.spool import Spool
from skills_mcp.config import Analytics

logger = logging.getLogger(__name__)


class Tracker:
    """Takes events from the library.

    Args:
        spool: Where they are written down.
        rules: Read for every event; a no-op while `enabled` is false.
        privacy: Takes out what the rules do not want written down.
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

    def track(
        self, kind: EventType, *, content_commit: str | None = None, **data: Any
    ) -> None:
        """Write an event down; when this returns, it outlives the process.

        A disk that is full costs the event, not the answer.

        Args:
            kind: What happened.
            content_commit: The commit of what was served.
            data: The fields of 001 §10.2, as they are; what an agent has written in
                another field than `context` and `comment` is a `privacy.Text`.
        """
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
                self._tell_refused(rules)

    def _append(
        self,
        kind: EventType,
        data: Mapping[str, Any],
        content_commit: str | None,
        rules: Analytics,
    ) -> bool:
        event = Event(
            type=kind,
            timestamp=datetime.now(UTC),
            server_id=self._privacy.name(rules),
            data=self._privacy.hide(data, rules),
            event_id=new_event_id(),
            content_commit=content_commit,
        )
        return self._spool.append(event.to_json(), rules.max_spool_bytes)

    def _make_room(self, rules: Analytics) -> None:
        """Keep the bound. What is dropped is told before it is gone."""
        for count in self._spool.drop_oldest(rules.max_spool_bytes):
            if not self._has_dropped:
                logger.warning(
                    "More events wait than analytics.max_spool_bytes allows: the "
                    "oldest are dropped, now %d, and counted in events_dropped",
                    count,
                )
            self._has_dropped = True
            self._tell_dropped(count, "limit", rules)

    def _refuse(self, kind: EventType, error: OSError) -> None:
        with self._guard:
            self._refused += 1
            is_first = self._refused == 1
        if is_first:
            logger.warning(
                "An event of type %s was not written, nor will others be until the "
                "disk takes them: %s",
                kind,
                error,
            )

    def _tell_refused(self, rules: Analytics) -> None:
        with self._guard:
            count, self._refused = self._refused, 0
        if not count:
            return  # another thread has told it
        try:
            self._tell_dropped(count, "disk", rules)
        except OSError:
            with self._guard:
                self._refused += count
        else:
            logger.warning("Events are written again; not written were: %d", count)

    def _tell_dropped(self, count: int, reason: str, rules: Analytics) -> None:
        data = {"count": count, "reason": reason}
        self._append("events_dropped", data, None, rules)
