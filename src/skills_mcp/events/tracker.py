"""Records events as they happen, without delaying or failing an answer."""

import json
import logging
import threading
import uuid
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal

from skills_mcp.config import Analytics
from skills_mcp.events.privacy import Privacy
from skills_mcp.events.spool import DEFAULT_MAX_BYTES, Spool
from skills_mcp.text.rendering import render_time

EventType = Literal[
    "no_match",
    "ambiguous",
    "skill_served",
    "asset_served",
    "script_executed",
    "skill_feedback",
    "skill_evaluated",
    "refresh",
    "events_dropped",
]


ACTING_AGENT: ContextVar[str] = ContextVar("acting_agent", default="")
"""Name of the agent whose request is answered; empty for a person."""


def render_event(  # noqa: PLR0913, PLR0917 - the fields of an event
    kind: str,
    moment: datetime,
    server_id: str,
    data: Mapping[str, Any],
    event_id: str,
    content_commit: str | None = None,
) -> dict[str, Any]:
    """The fields of an event as they are sent; without a commit, it is left out."""
    fields = {
        "type": kind,
        "timestamp": render_time(moment),
        "server_id": server_id,
        "data": dict(data),
        "event_id": event_id,
    }
    return fields if content_commit is None else {**fields, "content_commit": content_commit}


def compose_event_line(
    kind: str,
    server_id: str,
    data: Mapping[str, Any],
    content_commit: str | None = None,
    moment: datetime | None = None,
) -> str:
    """A new event in one line of JSON, of this moment by default."""
    moment = moment or datetime.now(UTC)
    fields = render_event(kind, moment, server_id, data, uuid.uuid4().hex, content_commit)
    return json.dumps(fields, ensure_ascii=False)


logger = logging.getLogger(__name__)

EventObserver = Callable[[EventType, Mapping[str, Any]], None]
"""Called with the type and data of each event, on any thread."""


class Tracker:
    """Records the events of the library.

    `rules` is called for every event; nothing is written while `enabled` is false.
    """

    def __init__(
        self,
        spool: Spool,
        rules: Callable[[], Analytics],
        privacy: Privacy,
        *,
        max_spool_bytes: int = DEFAULT_MAX_BYTES,
    ) -> None:
        self._spool = spool
        self._max_spool_bytes = max_spool_bytes
        self._rules = rules
        self._privacy = privacy
        self._lock = threading.Lock()
        self._failed_writes = 0
        self._has_dropped = False
        self._observers: list[EventObserver] = []

    def observe(self, observer: EventObserver) -> None:
        """Call an observer for each event, even while none is written.

        Observers only count: the rules of analytics do not hold for them.
        """
        self._observers.append(observer)

    def track(self, kind: EventType, *, content_commit: str | None = None, **data: Any) -> None:
        """Write an event; when this returns, the event survives the process.

        If the disk is full, the event is lost, and the answer is not affected. Text of
        an agent in another field than `context` and `comment` has to be a
        `privacy.UserText`.
        """
        for observe in self._observers:
            observe(kind, data)
        rules = self._rules()
        if not rules.enabled:
            return
        try:
            if self._append(kind, data, content_commit, rules):
                self._enforce_limit(rules)
        except OSError as error:
            self._record_failed_write(kind, error)
        else:
            if self._failed_writes:
                self._report_failed_writes(rules)

    def _append(
        self,
        kind: EventType,
        data: Mapping[str, Any],
        content_commit: str | None,
        rules: Analytics,
    ) -> bool:
        fields = self._privacy.redact_fields(data, rules)
        if rules.group:
            fields["group"] = rules.group
        if agent := ACTING_AGENT.get():
            fields["agent"] = self._privacy.agent_pseudonym(agent, rules)
        line = compose_event_line(kind, self._privacy.user_pseudonym(rules), fields, content_commit)
        return self._spool.append(line, self._max_spool_bytes)

    def _enforce_limit(self, rules: Analytics) -> None:
        """Dropped events are counted before they are deleted."""
        for count in self._spool.drop_oldest(self._max_spool_bytes):
            if not self._has_dropped:
                logger.warning(
                    "More events wait to be sent than fit into %d bytes: the oldest are "
                    "dropped, now %d, and counted in events_dropped",
                    *(self._max_spool_bytes, count),
                )
            self._has_dropped = True
            self._count_dropped(count, "limit", rules)

    def _record_failed_write(self, kind: EventType, error: OSError) -> None:
        with self._lock:
            self._failed_writes += 1
            is_first = self._failed_writes == 1
        if is_first:
            logger.warning(
                "An event of type %s was not written, and no other will be until the "
                "disk accepts them: %s",
                kind,
                error,
            )

    def _report_failed_writes(self, rules: Analytics) -> None:
        with self._lock:
            count, self._failed_writes = self._failed_writes, 0
        if not count:
            return  # another thread has counted them
        try:
            self._count_dropped(count, "disk", rules)
        except OSError:
            with self._lock:
                self._failed_writes += count
        else:
            logger.warning("Events are written again; lost: %d", count)

    def _count_dropped(self, count: int, reason: str, rules: Analytics) -> None:
        self._append("events_dropped", {"count": count, "reason": reason}, None, rules)
