"""The events of the server that has the database: kept in it without a request."""

import logging
from collections.abc import Callable, Sequence
from functools import partial

import anyio.to_thread

from skills_mcp.config import Analytics
from skills_mcp.errors import EventStoreError
from skills_mcp.events.collector.event_store import EventStore
from skills_mcp.events.heartbeat import Pulse
from skills_mcp.events.outbox import Outbox
from skills_mcp.events.publisher import Publisher
from skills_mcp.events.received_event import (
    InvalidEventError,
    ReceivedEvent,
    parse_received,
)
from skills_mcp.events.spool import Line

logger = logging.getLogger(__name__)


class OwnEvents(Publisher):
    """Moves the events of this server from its spool into its database.

    If there is an `analytics.endpoint`, they are sent there instead.

    Args:
        outbox: Where the events are.
        rules: Read before every round.
        store: The database.
        is_offline: Read before every round; nothing is sent while it is true.
        read_token: Returns the token for an endpoint.
        pulse: Has the reports of this server about itself; None for no reports.
    """

    def __init__(  # noqa: PLR0913 - each of them is something that bootstrap wires
        self,
        outbox: Outbox,
        rules: Callable[[], Analytics],
        store: EventStore,
        *,
        is_offline: Callable[[], bool] = lambda: False,
        read_token: Callable[[str], str] = lambda _: "",
        pulse: Pulse | None = None,
    ) -> None:
        super().__init__(
            outbox, rules, is_offline=is_offline, read_token=read_token, pulse=pulse
        )
        self._store = store
        self._is_failing = False

    async def publish(self) -> int:
        """Store everything that waits; return how many events were stored."""
        rules = self._rules()
        if rules.endpoint:
            return await super().publish()
        await anyio.to_thread.run_sync(partial(self.outbox.prune, rules.keep_days))
        if rules.heartbeats:
            await anyio.to_thread.run_sync(self._report_here, abandon_on_cancel=True)
        if not rules.enabled:
            return 0
        return await anyio.to_thread.run_sync(self._store_all, abandon_on_cancel=True)

    def _report_here(self) -> None:
        """Keep what this server says of itself.  Blocking."""
        if self._pulse is None or (beat := self._pulse.read()) is None:
            return
        try:
            self._store.store_heartbeat(beat)
            self._pulse.settle()
        except EventStoreError as error:
            logger.debug("A heartbeat was not stored: %s", error)

    def _store_all(self) -> int:
        if self.outbox.spool.is_empty:
            return 0
        self.outbox.spool.rotate()
        count = 0
        try:
            for segment in self.outbox.spool.take():
                received, accepted, refused = _sort(segment.lines)
                self._store.store(received)
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


def _sort(
    lines: Sequence[Line],
) -> tuple[list[ReceivedEvent], list[Line], list[Line]]:
    """Return the events of some lines, those lines, and the others."""
    received: list[ReceivedEvent] = []
    accepted: list[Line] = []
    refused: list[Line] = []
    for line in lines:
        try:
            received.append(parse_received(line.event))
            accepted.append(line)
        except InvalidEventError as error:
            logger.warning("An event cannot be stored: %s", error)
            refused.append(line)
    return received, accepted, refused
