"""Background maintenance of the event database."""

import logging
import random
from collections.abc import Callable, Iterator

import anyio
import anyio.to_thread

from skills_mcp.errors import EventStoreError
from skills_mcp.events.collector.event_store import EventStore

logger = logging.getLogger(__name__)

# A day is the finest step of the retention.
_MAINTENANCE_SECONDS = 60 * 60.0

# Replicas that were started together do not delete together.
_JITTER = 0.2

# Between two short transactions, so that what is being stored goes first.
_STEP_PAUSE_SECONDS = 0.05

_FIRST_RETRY_SECONDS = 30.0


async def repeat_hourly(
    open_steps: Callable[[], Iterator[object]],
    pause_seconds: float = _STEP_PAUSE_SECONDS,
) -> None:
    """Run maintenance of the database each hour until cancelled.

    Args:
        open_steps: Opens the steps of a round; each is short, and blocks.
        pause_seconds: Between two steps.
    """
    while True:
        seconds = _MAINTENANCE_SECONDS
        try:
            await run_steps(open_steps, pause_seconds)
        except EventStoreError as error:
            logger.error("Events cannot be stored now: %s", error)  # noqa: TRY400
            seconds = _FIRST_RETRY_SECONDS
        except Exception:
            logger.exception("The upkeep of the database of events has failed")
        await anyio.sleep(seconds * (1 + random.random() * _JITTER))  # noqa: S311


async def run_steps(
    open_steps: Callable[[], Iterator[object]],
    pause_seconds: float = _STEP_PAUSE_SECONDS,
) -> None:
    """Run one round on worker threads, with a pause after each step.

    Raises:
        EventStoreError: The database cannot be used.
    """
    steps = await anyio.to_thread.run_sync(open_steps)
    while True:
        if await anyio.to_thread.run_sync(next, steps, None) is None:
            return
        await anyio.sleep(pause_seconds)


def prune_events(store: EventStore, retention_days: Callable[[], int]) -> Iterator[int]:
    """Delete what is older than the retention, some rows with each step.

    Raises:
        EventStoreError: The database cannot be used.
    """
    total, days = 0, retention_days()
    while count := store.prune(days):
        total += count
        yield count
    if total:
        logger.info("Events older than the retention were deleted: %d", total)
