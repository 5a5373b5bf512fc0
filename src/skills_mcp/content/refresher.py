"""Background syncs, one at a time: by timer, on request, after an edit.

Rule 1: nothing happens before `wake()`, so that the first answer is not delayed.
Rule 2: a sync belongs to the refresher, not to the request: if one client cancels, the
other waiters for the same sync still get its result.
Rule 3: a refresh joins another running refresh, but not the timer's sync, which may
have queried the remote before the announced change.
"""

import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from stat import S_ISDIR
from threading import Event

import anyio
from anyio.abc import TaskGroup

from skills_mcp.content.mounts import Mounts
from skills_mcp.content.source import (
    SHUTTING_DOWN,
    CommitCheck,
    Content,
    Freshness,
    ShutdownError,
    SyncAttempt,
    derive_failure,
    derive_longest_pause,
)
from skills_mcp.errors import ContentUnavailableError, SkillsError, SyncError
from skills_mcp.processes.memory import translate_out_of_memory
from skills_mcp.processes.retry import RANDOMNESS

logger = logging.getLogger(__name__)

# Ten per cent more or less: windows that were opened together drift apart.
_JITTER = 0.1

# How soon a window serves what another one, or `skills-mcp rollback`, has published.
# Polling the clock also notices that a laptop has slept: no timer runs meanwhile.
_POLL_SECONDS = 5.0

# A window that opens does not fetch again what was fetched this recently.
_RECENT_SECONDS = 30.0

# A retry after this pause mostly reads this machine only: each remote has a longer
# back-off of its own, which all windows share. So a new folder is found soon.
_LONGEST_PAUSE_SECONDS = 60.0

SyncWork = Callable[[], Content | None]


class _SharedSync:
    """A running sync with any number of waiters."""

    def __init__(self, work: SyncWork, *, is_urgent: bool) -> None:
        self.work = work
        self.is_urgent = is_urgent
        """Whether it asks the remote even during the pause after a failure."""
        self.done = anyio.Event()
        self.error: SkillsError | None = None


class Refresher:
    """Runs syncs on a worker thread and loads their content.

    If some sources fail, the content of the others is loaded, and the timer retries
    early. `interval_minutes` is called at every poll; None switches the timer off.
    """

    def __init__(  # noqa: PLR0913 - the last two are for tests
        self,
        mounts: Mounts,
        load: Callable[[Content], None],
        accept: CommitCheck,
        interval_minutes: Callable[[], float | None],
        *,
        is_loaded: Callable[[], bool],
        poll_seconds: float = _POLL_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._mounts = mounts
        self._load = load
        self._accept = accept
        self._interval_minutes = interval_minutes
        self._is_loaded = is_loaded
        self.is_watching = True
        self._poll_seconds = poll_seconds
        self._clock = clock
        self._jitter = RANDOMNESS.uniform(1 - _JITTER, 1 + _JITTER)
        self._woken = anyio.Event()
        self._started = anyio.Event()
        self._settled = anyio.Event()
        self._opened = anyio.Event()
        self._attempt = SyncAttempt()
        self._running: _SharedSync | None = None
        self._tasks: TaskGroup | None = None

    def wake(self) -> None:
        """Start the work; idempotent."""
        self._woken.set()

    async def run(self) -> None:
        """Serve the published content, then sync when due, until cancelled."""
        await self._woken.wait()
        # Before any sync: two loads at once could end with the older content.
        await self._open_published()
        if self._mounts.mode == "git":  # folders are read by the first sync
            self._opened.set()
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            self._started.set()
            try:
                await self._sync_for_ever()
            finally:  # another run has tasks of its own, and starts later
                self._started = anyio.Event()

    async def wait_until_ready(self, timeout_seconds: float) -> None:
        """Wait for content, and start the work.

        Raises:
            ContentUnavailableError: The first sync has failed, or takes too long.
        """
        if self._is_loaded():
            return
        self.wake()
        with anyio.move_on_after(timeout_seconds):
            await self._settled.wait()
        if not self._is_loaded():
            raise ContentUnavailableError(self._explain_absence())

    async def wait_for_stored(self, timeout_seconds: float) -> None:
        """Wait for the content of this machine, up to a timeout, without network."""
        if self._is_loaded():
            return
        self.wake()
        with anyio.move_on_after(timeout_seconds):
            await self._opened.wait()

    def _explain_absence(self) -> str:
        if self._attempt.failures:
            return (
                f"There are no skills yet: {self._attempt.error_message.rstrip('.')}. Go on "
                "without them, or call refresh_skills to try again."
            )
        step = f" ({self._mounts.doing})" if self._mounts.doing else ""
        return (
            f"There are no skills yet: the first sync of {self._mounts.name} is still "
            f"running{step}. Call again in a moment, or go on without them."
        )

    async def wait_for_published(self) -> None:
        """Wait until the content on disk is served, if there is any."""
        self.wake()
        await self._started.wait()

    async def refresh(self) -> None:
        """Sync now, or join the running refresh.

        Raises:
            SyncError: A source's newest content is unavailable.
        """
        await self.wait_for_published()
        while (running := self._running) and not running.is_urgent:
            # It may have asked the remote before the change that this is about.
            await running.done.wait()
        freshness = Freshness(
            self._clock(),
            is_urgent=True,
            longest_pause_seconds=derive_longest_pause(self._pause_seconds()),
        )
        sync = self._join(lambda: self._mounts.sync(freshness, self._accept), is_urgent=True)
        await sync.done.wait()
        if sync.error:
            raise sync.error

    def _join(self, work: SyncWork, *, is_urgent: bool = False) -> _SharedSync:
        if self._running is None:
            self._running = _SharedSync(work, is_urgent=is_urgent)
            self._require_tasks().start_soon(self._sync, self._running)
        return self._running

    def _require_tasks(self) -> TaskGroup:
        assert self._tasks is not None, "run() sets it before it sets _started"  # noqa: S101
        return self._tasks

    async def _open_published(self) -> None:
        try:
            if await self._load_content(self._mounts.open_published) is None:
                return
        except SkillsError as error:
            logger.warning("Cannot serve %s: %s", self._mounts.name, error)
        except Exception:
            logger.exception("Cannot serve the cache; the first sync may repair it")
        else:
            self._settled.set()

    async def _load_content(self, work: SyncWork) -> Content | None:
        with translate_out_of_memory():
            content = await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
            if content:
                await anyio.to_thread.run_sync(self._load, content, abandon_on_cancel=True)
        return content

    async def _sync_for_ever(self) -> None:
        newest = Freshness(
            self._clock() - _RECENT_SECONDS,
            longest_pause_seconds=derive_longest_pause(self._pause_seconds()),
        )
        first = self._join(lambda: self._mounts.sync(newest, self._accept))
        await first.done.wait()
        if self.is_watching and self._mounts.find_folders():
            self._require_tasks().start_soon(self._watch_folders)
        while True:
            await anyio.sleep(self._poll_seconds)
            try:
                work = await anyio.to_thread.run_sync(self._find_work, abandon_on_cancel=True)
            except Exception:
                logger.exception("Cannot find out whether a sync is due")
                continue
            if work:
                await self._join(work).done.wait()

    async def _watch_folders(self) -> None:
        async for _ in watch_folders(self._mounts.find_folders):
            while running := self._running:  # it may have read before the change
                await running.done.wait()
            await self._join(self._sync_due).done.wait()

    def _sync_due(self) -> Content:
        return self._mounts.sync_due(self._pause_seconds(), self._accept)

    def _find_work(self) -> SyncWork | None:
        if self._mounts.has_update():
            return self._mounts.open_update
        if self._mounts.is_check_due():
            return self._mounts.check
        return self._sync_due if self._is_due(self._pause_seconds()) else None

    def _pause_seconds(self) -> float | None:
        minutes = self._interval_minutes()
        return minutes * 60 * self._jitter if minutes else None

    def _is_due(self, pause_seconds: float | None) -> bool:
        now = self._clock()
        if self._attempt.failures:
            # Not every failure is on the disk: a folder has no state file, and a full
            # disk has no room for one.
            remaining = self._attempt.next_attempt_at - now
            return not 0 < remaining <= _LONGEST_PAUSE_SECONDS
        return self._mounts.next_sync_at(pause_seconds) <= now

    async def _sync(self, sync: _SharedSync) -> None:
        try:
            if content := await self._load_content(sync.work):
                sync.error = content.error
        except SkillsError as error:
            sync.error = error
        except Exception:
            logger.exception("Sync failed unexpectedly")
            sync.error = SyncError("an unexpected error, see the server's log")
        except anyio.get_cancelled_exc_class():
            sync.error = ShutdownError(SHUTTING_DOWN)
            raise
        finally:
            self._record_result(sync.error)
            self._running = None
            self._settled.set()
            self._opened.set()
            sync.done.set()

    def _record_result(self, error: SkillsError | None) -> None:
        if isinstance(error, ShutdownError):
            return
        if error is None:
            self._attempt = SyncAttempt()
            return
        if str(error) != self._attempt.error_message:
            logger.warning("Sync failed: %s", error)  # 001 §13
        failure, now = SyncError(str(error)), self._clock()
        self._attempt = derive_failure(
            self._attempt, failure, now, longest_seconds=_LONGEST_PAUSE_SECONDS
        )


# An editor writes a file in several steps; a checkout writes thousands of files.
_STEP_MS = 100
_LONGEST_BURST_MS = 500

# How soon a folder is noticed that was made, replaced or taken away.
_POLL_MS = 500

_Identity = tuple[str, int, int]


async def watch_folders(find: Callable[[], Sequence[Path]]) -> AsyncIterator[None]:
    """Yield at once and after potential changes below folders, until cancelled.

    A folder may come, go, or be replaced meanwhile. If folders cannot be watched, a
    warning is logged once, and the iteration ends.
    """
    stopped = Event()
    changes = _follow(find, stopped)
    try:
        while await anyio.to_thread.run_sync(next, changes, None, abandon_on_cancel=True):
            yield
    finally:
        stopped.set()


def _follow(find: Callable[[], Sequence[Path]], stopped: Event) -> Iterator[bool]:
    """Yield True at each change, until `stopped`.  Blocking."""
    while not stopped.is_set():
        if folders := _identify_all(find()):
            try:
                yield from _watch_until_replaced(folders, find, stopped)
            except (OSError, RuntimeError) as error:  # watchfiles raises either
                logger.warning(_explain(error))
                return
        else:
            yield True  # for what is gone
            while not _identify_all(find()) and not stopped.is_set():
                stopped.wait(_POLL_MS / 1000)


def _watch_until_replaced(
    folders: frozenset[_Identity], find: Callable[[], Sequence[Path]], stopped: Event
) -> Iterator[bool]:
    from watchfiles import watch  # late: the first answer does not wait for it

    is_first = True
    for changes in watch(
        *(path for path, *_ in folders),
        debounce=_LONGEST_BURST_MS,
        step=_STEP_MS,
        rust_timeout=_POLL_MS,
        yield_on_timeout=True,
        stop_event=stopped,
        ignore_permission_denied=True,
    ):
        if changes or is_first:
            yield True
        is_first = False
        if _identify_all(find()) != folders:
            return


def _identify_all(folders: Sequence[Path]) -> frozenset[_Identity]:
    return frozenset(filter(None, map(_identify, folders)))


def _identify(folder: Path) -> _Identity | None:
    try:
        real = os.path.realpath(folder)
        found = Path(real).stat()
    except OSError:
        return None
    return (real, found.st_dev, found.st_ino) if S_ISDIR(found.st_mode) else None


def _explain(error: Exception) -> str:
    return (
        f"Folders cannot be watched: {error}. An edit is served after refresh_skills. On Linux, "
        "fs.inotify.max_user_watches may be too low."
    )
