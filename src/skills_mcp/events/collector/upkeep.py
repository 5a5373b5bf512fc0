"""What keeps the database of events in order while a server runs."""

import logging
import random
from collections.abc import Callable, Iterator
from functools import partial

import anyio
import anyio.to_thread

from skills_mcp.errors import EventStoreError
from skills_mcp.events.collector.event_store import EventStore

logger = logging.getLogger(__name__)

# A day is the finest step of the retention.
_INTERVAL_SECONDS = 60 * 60.0

# Replicas that were started together do not delete together.
_JITTER = 0.2

# Between two short transactions, so that what is being stored goes first.
_PAUSE_SECONDS = 0.05

_FIRST_RETRY_SECONDS = 30.0


class Upkeep:
    """Makes the tables, deletes old events, and counts new ones for the report.

    Args:
        store: The database.
        retention_days: Read before each round.
        keep_days: Counts the events of one day with each step.  Blocking.
        pause_seconds: Between two deletions, and between two days, of one round.
    """

    def __init__(
        self,
        store: EventStore,
        retention_days: Callable[[], int],
        keep_days: Callable[[EventStore], Iterator[object]],
        *,
        pause_seconds: float = _PAUSE_SECONDS,
    ) -> None:
        self._store = store
        self._retention_days = retention_days
        self._keep_days = keep_days
        self._pause_seconds = pause_seconds

    async def run(self) -> None:
        """Keep the database in order until cancelled."""
        while True:
            seconds = _INTERVAL_SECONDS
            try:
                await self.prune()
                await self.keep_days()
            except EventStoreError as error:
                logger.error("Events cannot be stored now: %s", error)  # noqa: TRY400
                seconds = _FIRST_RETRY_SECONDS
            except Exception:
                logger.exception("The upkeep of the database of events has failed")
            await anyio.sleep(seconds * (1 + random.random() * _JITTER))  # noqa: S311

    async def prune(self) -> int:
        """Delete what is too old; return how many events that were.

        Raises:
            EventStoreError: The database cannot be used.
        """
        total = 0
        prune = partial(self._store.prune, self._retention_days())
        while count := await anyio.to_thread.run_sync(prune):
            total += count
            await anyio.sleep(self._pause_seconds)
        if total:
            logger.info("Events older than the retention were deleted: %d", total)
        return total

    async def keep_days(self) -> None:
        """Keep the figures of days with new events, so that a page need not count.

        Raises:
            EventStoreError: The database cannot be used.
        """
        days = self._keep_days(self._store)
        while True:
            if await anyio.to_thread.run_sync(next, days, None) is None:
                return
            await anyio.sleep(self._pause_seconds)
