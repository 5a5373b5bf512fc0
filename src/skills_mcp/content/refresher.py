"""Keeps the content fresh in the background, one sync at a time (001 §9.3 to §9.5).

Rule 1: nothing happens before `wake()`, so that the first answer is not delayed.
Rule 2: a sync belongs to the refresher, not to the request that asked for it: a
client that cancels does not take it away from others who wait for the same one.
Rule 3: a refresh does not take the timer's sync for an answer, which may have asked the
remote before the change that it is about; it joins another refresh (DESIGN §3.11).
"""

import logging
import random
import time
from collections.abc import Callable

import anyio
from anyio.abc import TaskGroup

from skills_mcp.content.mounts import Mounts
from skills_mcp.content.source import Accept, Attempt, Content, Demand
from skills_mcp.content.store.attempts import derive_failure, derive_longest_pause
from skills_mcp.errors import ContentUnavailableError, SkillsError, SyncError

logger = logging.getLogger(__name__)

# Ten per cent either way: windows that were opened together drift apart.
_JITTER = 0.1

# How soon a window serves what another one, or `skills-mcp rollback`, has published.
# It also notices by the clock that a laptop has slept: no timer runs meanwhile.
_LOOK_SECONDS = 5.0

# What was fetched so lately need not be fetched again because a window opens.
_JUST_NOW_SECONDS = 30.0

# What failed is looked at again on this machine only: a remote has a pause of its own,
# which all windows share. So a folder that somebody creates is found soon.
_LONGEST_PAUSE_SECONDS = 60.0

_RANDOMNESS = random.Random()  # noqa: S311 - spreads load, guards nothing

Bring = Callable[[], Content | None]
"""Brings content; blocking. None says that there is nothing to load."""


class _Flight:
    """One sync, and everybody who waits for it."""

    def __init__(self, bring: Bring, *, is_urgent: bool) -> None:
        self.bring = bring
        self.is_urgent = is_urgent
        """Whether it asks the remote, whatever is known already."""
        self.landed = anyio.Event()
        self.error: SkillsError | None = None


class Refresher:
    """Runs syncs on a worker thread and hands what they bring to `load`.

    A sync that some sources failed in is loaded, too, and then fails: what arrived
    is served, and the timer comes back early.

    Args:
        mounts: Where the content comes from.
        load: Takes content over; blocking. It may raise a `SkillsError`.
        accept: Reads a commit before it is published; blocking, see `Accept`.
        interval_minutes: Read at every look; None switches the timer off.
        look_seconds: How often to look whether there is something to do.
        clock: The time, in seconds since the epoch.
    """

    def __init__(  # noqa: PLR0913 - the last two are for tests
        self,
        mounts: Mounts,
        load: Callable[[Content], None],
        accept: Accept,
        interval_minutes: Callable[[], float | None],
        *,
        look_seconds: float = _LOOK_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._mounts = mounts
        self._load = load
        self._accept = accept
        self._interval_minutes = interval_minutes
        self._look_seconds = look_seconds
        self._clock = clock
        self._jitter = _RANDOMNESS.uniform(1 - _JITTER, 1 + _JITTER)
        self._woken = anyio.Event()
        self._started = anyio.Event()
        self._settled = anyio.Event()
        self._has_content = False
        self._attempt = Attempt()
        self._told = ""
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
        """Sync now, or join the refresh that is running (DESIGN §3.11).

        Raises:
            SyncError: The newest content of some source could not be had.
        """
        self.wake()
        await self._started.wait()
        while (flight := self._flight) and not flight.is_urgent:
            # It may have asked the remote before the change that this is about.
            await flight.landed.wait()
        demand = Demand(
            self._clock(),
            is_urgent=True,
            longest_pause_seconds=derive_longest_pause(self._pause_seconds()),
        )
        flight = self._take_off(
            lambda: self._mounts.sync(demand, self._accept), is_urgent=True
        )
        await flight.landed.wait()
        if flight.error:
            raise flight.error

    def _take_off(self, bring: Bring, *, is_urgent: bool = False) -> _Flight:
        """Return the flight that is under way, or begin one."""
        if self._flight is None:
            self._flight = _Flight(bring, is_urgent=is_urgent)
            self._require_tasks().start_soon(self._fly, self._flight)
        return self._flight

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
        newest = Demand(
            self._clock() - _JUST_NOW_SECONDS,
            longest_pause_seconds=derive_longest_pause(self._pause_seconds()),
        )
        first = self._take_off(lambda: self._mounts.sync(newest, self._accept))
        await first.landed.wait()
        while True:
            await anyio.sleep(self._look_seconds)
            try:
                bring = await anyio.to_thread.run_sync(
                    self._choose, abandon_on_cancel=True
                )
            except Exception:
                logger.exception("Cannot look whether there is something to do")
                continue
            if bring:
                await self._take_off(bring).landed.wait()

    def _choose(self) -> Bring | None:
        """Return what it is time for, if it is time for anything."""
        if self._mounts.has_news():
            return self._mounts.read_news
        pause_seconds = self._pause_seconds()
        if not self._is_due(pause_seconds):
            return None
        return lambda: self._mounts.sync_due(pause_seconds, self._accept)

    def _pause_seconds(self) -> float | None:
        minutes = self._interval_minutes()
        return minutes * 60 * self._jitter if minutes else None

    def _is_due(self, pause_seconds: float | None) -> bool:
        now = self._clock()
        if self._attempt.failures:
            # Not every failure is remembered by its source: a folder has no memory,
            # and on a full disk there is none.
            remaining = self._attempt.next_attempt_at - now
            return not 0 < remaining <= _LONGEST_PAUSE_SECONDS
        return self._mounts.next_sync_at(pause_seconds) <= now

    async def _fly(self, flight: _Flight) -> None:
        try:
            content = await anyio.to_thread.run_sync(
                flight.bring, abandon_on_cancel=True
            )
            if content is None:
                return
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
            self._told = str(flight.error)  # which is no news to anybody
            raise
        finally:
            self._remember(flight.error)
            self._flight = None
            self._settled.set()
            flight.landed.set()

    def _remember(self, error: SkillsError | None) -> None:
        self._last_error = error
        told, self._told = self._told, str(error or "")
        if error and self._told != told:
            logger.warning("Sync failed: %s", error)  # 001 §13
        if error is None:
            self._attempt = Attempt()
            return
        self._attempt = derive_failure(
            self._attempt,
            SyncError(str(error)),
            self._clock(),
            longest_seconds=_LONGEST_PAUSE_SECONDS,
            randomness=_RANDOMNESS,
        )

    def _settle(self) -> None:
        self._has_content = True
        self._settled.set()
