"""Publishes the server's own events to its own database, without a request."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import anyio.to_thread

from skills_mcp.errors import EventStoreError
from skills_mcp.events.collector.event_store import EventStore
from skills_mcp.events.publisher import Publisher
from skills_mcp.events.received_event import (
    InvalidEventError,
    ReceivedEvent,
    parse_received,
)
from skills_mcp.events.spool import EventLine

logger = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class DatabasePublisher(Publisher):
    """Moves the events of this server from its spool into its database.

    With an `analytics.endpoint`, they are sent there instead.
    """

    store: EventStore
    _is_failing: bool = field(default=False, init=False)

    async def publish(self) -> int:
        """Store all pending events; return their number."""
        rules = self.rules()
        if rules.endpoint:
            return await super().publish()
        await anyio.to_thread.run_sync(partial(self.outbox.prune, rules.keep_days))
        if rules.heartbeats:
            await anyio.to_thread.run_sync(self._store_heartbeat, abandon_on_cancel=True)
        if not rules.enabled:
            return 0
        return await anyio.to_thread.run_sync(self._store_segments, abandon_on_cancel=True)

    def _store_heartbeat(self) -> None:
        if self.heartbeat_timer is None or (beat := self.heartbeat_timer.read()) is None:
            return
        try:
            self.store.store((), (beat,))
            self.heartbeat_timer.mark_sent()
        except EventStoreError as error:
            logger.debug("A heartbeat was not stored: %s", error)

    def _store_segments(self) -> int:
        if self.outbox.spool.is_empty:
            return 0
        self.outbox.spool.rotate()
        count = 0
        try:
            for segment in self.outbox.spool.claim_segments():
                received, accepted, refused = _parse_lines(segment.lines)
                self.store.store(received)
                # They are in the database: the archive would hold them twice.
                self.outbox.settle(segment, accepted, refused, keep_days=0)
                count += len(accepted)
        except EventStoreError as error:
            if not self._is_failing:
                logger.warning("Events of this server wait on its disk: %s", error)
            self._is_failing = True
        else:
            self._is_failing = False
        return count


def _parse_lines(
    lines: Sequence[EventLine],
) -> tuple[list[ReceivedEvent], list[EventLine], list[EventLine]]:
    """Split lines into parsed events, their lines, and invalid lines."""
    received: list[ReceivedEvent] = []
    accepted: list[EventLine] = []
    refused: list[EventLine] = []
    for line in lines:
        try:
            received.append(parse_received(line.event))
            accepted.append(line)
        except InvalidEventError as error:
            logger.warning("An event cannot be stored: %s", error)
            refused.append(line)
    return received, accepted, refused
