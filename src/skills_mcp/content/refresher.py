"""Keeps the content fresh in the background, one sync at a time (001 §9.3 to §9.5).

Rule 1: nothing happens before `wake()`, so that the first answer is not delayed.
Rule 2: a sync belongs to the refresher, not to the request that asked for it: a
client that cancels does not take it away from others who wait for the same one.
"""

import logging
import random
from collections.abc import Callable

import anyio
from anyio.abc import TaskGroup

from skills_mcp.content.mounts import Mounts
from skills_mcp.content.source import Content
from skills_mcp.errors import ContentUnavailableError, SkillsError, SyncError

logger = logging.getLogger(__name__)

# Ten per cent either way: windows that were opened together drift apart.
_JITTER = 0.1
_RETRY_BASE_SECONDS = 5.0
_TIMER_OFF_SECONDS = 60.0  # until we look whether it is on again


class _Flight:
    """One sync, and everybody who waits for it."""

    def __init__(self) -> None:
        self.landed = anyio.Event()
        self.error: SkillsError | None = None


class Refresher:
    """Runs syncs on a worker thread and hands what they bring to `load`.

    A sync that some sources failed in is loaded, too, and then fails: what arrived
    is served, and the timer comes back early.

    Args:
        mounts: Where the content comes from.
        load: Takes content over; blocking. It may raise a `SkillsError`.
        interval_minutes: Read before every pause; None switches the timer off.
    """

    def __init__(
        self,
        mounts: Mounts,
        load: Callable[[Content], None],
        interval_minutes: Callable[[], float | None],
    ) -> None:
        self._mounts = mounts
        self._load = load
        self._interval_minutes = interval_minutes
        self._woken = anyio.Event()
        self._started = anyio.Event()
        self._settled = anyio.Event()
        self._has_content = False
        self._flight: _Flight | None = None
        self._last_error: SkillsError | None = None
        self._tasks: TaskGroup | None = None

    def wake(self) -> None:
        """Let the work begin. Calling it again does nothing."""
        self._woken.set()

    async def run(self) -> None:
        """Serve what is here, then sync now and again, until cancelled."""
        await self._woken.wait()
        # Before any sync: two loads at once could end with the older content.
        await self._open_published()
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            self._started.set()
            await self._sync_for_ever()

    async def wait_until_ready(self, timeout_seconds: float) -> None:
        """Return as soon as there is content.

        Raises:
            ContentUnavailableError: There is none after `timeout_seconds`, or the
                first sync has failed.
        """
        if self._has_content:
            return
        self.wake()
        with anyio.move_on_after(timeout_seconds):
            await self._settled.wait()
        if not self._has_content:
            running = f"the first sync of {self._mounts.name} is still running"
            reason = str(self._last_error or running)
            raise ContentUnavailableError(
                f"There are no skills yet: {reason.rstrip('.')}. Go on without them, "
                "or call refresh_skills to try again now."
            )

    async def refresh(self) -> None:
        """Sync now, or join the sync that is running.

        Raises:
            SyncError: The newest content of some source could not be had.
        """
        self.wake()
        await self._started.wait()
        flight = self._flight
        if flight is None:
            flight = self._flight = _Flight()
            self._require_tasks().start_soon(self._fly, flight)
        await flight.landed.wait()
        if flight.error:
            raise flight.error

    def _require_tasks(self) -> TaskGroup:
        assert self._tasks is not None, "run() sets it before it sets _started"  # noqa: S101
        return self._tasks

    async def _open_published(self) -> None:
        """Serve the last good content before asking for anything newer."""
        try:
            content = await anyio.to_thread.run_sync(self._mounts.published)
            if content is None:
                return
            await anyio.to_thread.run_sync(self._load, content, abandon_on_cancel=True)
        except SkillsError as error:
            logger.warning("Cannot serve %s: %s", self._mounts.name, error)
        except Exception:
            logger.exception("Cannot serve what is here; the first sync may heal it")
        else:
            self._settle()

    async def _sync_for_ever(self) -> None:
        failures = 0
        while True:
            try:
                await self.refresh()
            except SkillsError as error:
                # 001 §13: a warning, and the next interval tries again.
                logger.warning("Sync failed: %s", error)
                failures += 1
            else:
                failures = 0
            await self._pause(failures)

    async def _pause(self, failures: int) -> None:
        """Return when it is time again; a refresh may switch the timer on or off."""
        while True:
            seconds = _pause_seconds(self._interval_minutes(), failures)
            await anyio.sleep(seconds or _TIMER_OFF_SECONDS)
            if seconds:
                return

    async def _fly(self, flight: _Flight) -> None:
        try:
            content = await anyio.to_thread.run_sync(
                self._mounts.sync, abandon_on_cancel=True
            )
            await anyio.to_thread.run_sync(self._load, content, abandon_on_cancel=True)
            self._settle()
            flight.error = content.error
        except SkillsError as error:
            flight.error = error
        except Exception:
            logger.exception("Sync failed unexpectedly")
            flight.error = SyncError("an unexpected error, see the server's log")
        except anyio.get_cancelled_exc_class():
            flight.error = SyncError("the server is ending")
            raise
        finally:
            self._last_error = flight.error
            self._flight = None
            self._settled.set()
            flight.landed.set()

    def _settle(self) -> None:
        self._has_content = True
        self._settled.set()


def _pause_seconds(interval_minutes: float | None, failures: int) -> float | None:
    """Return how long to wait: the interval, or less after a failure (full jitter)."""
    if interval_minutes is None and not failures:
        return None
    interval = (interval_minutes or 15) * 60
    if failures:
        longest = min(interval, _RETRY_BASE_SECONDS * 2 ** min(failures, 10))
        return random.uniform(1, longest)  # noqa: S311 - spreads load, guards nothing
    return interval * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311
