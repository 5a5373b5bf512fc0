"""Writes events down as they happen; never in the way of an answer (001 §10.1)."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from skills_mcp.analytics.events import Event, EventType, new_event_id
from skills_mcp.analytics.spool import Spool
from skills_mcp.config import Analytics

logger = logging.getLogger(__name__)


class Tracker:
    """Takes events from the library.

    Args:
        spool: Where they are written down.
        rules: Read for every event; a no-op while `enabled` is false.
        server_id: Who is counting.
    """

    def __init__(
        self, spool: Spool, rules: Callable[[], Analytics], server_id: str
    ) -> None:
        self._spool = spool
        self._rules = rules
        self._server_id = server_id

    def track(self, kind: EventType, **data: Any) -> None:
        """Write an event down. A disk that is full costs the event, not the answer."""
        if not self._rules().enabled:
            return
        event = Event(
            type=kind,
            timestamp=datetime.now(UTC),
            server_id=self._server_id,
            data=data,
            event_id=new_event_id(),
        )
        try:
            self._spool.append(event.to_json())
        except OSError as error:
            logger.warning("An event of type %s was not written: %s", kind, error)
