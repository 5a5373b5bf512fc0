"""Event loop on a daemon thread, refreshing the skills of another program.

A program without a call of `close` still ends, and so do its scripts.
"""

import atexit
import logging
import os
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, suppress
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Literal, TypeVar

import anyio.to_thread
from anyio.from_thread import BlockingPortal, start_blocking_portal

from skills_mcp.bootstrap import Application
from skills_mcp.errors import ContentUnavailableError, SkillsError
from skills_mcp.library import SkillChanges
from skills_mcp.skills.access import Access

logger = logging.getLogger(__name__)

# A library prints nothing by itself; the program decides what becomes of a log.
logging.getLogger("skills_mcp").addHandler(logging.NullHandler())

_FINAL_PUBLISH_SECONDS = 1.0

_Result = TypeVar("_Result")


class Session:
    """Shared state of all views; closed with the owner, or by the garbage collector."""

    def __init__(self, application: Application, wait_seconds: float) -> None:
        self.background = BackgroundLoop(application, wait_seconds)
        self._finalizer = weakref.finalize(self, _close_on_new_thread, self.background)
        self._finalizer.atexit = False  # the background has a way of its own

    def open(self) -> None:
        """Load the content and keep it fresh.

        Idempotent. Raises as `BackgroundLoop.open`.
        """
        try:
            self.background.open()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        # The finalizer would keep the background, and an error of it, for ever.
        self._finalizer.detach()
        self.background.close()


def _close_on_new_thread(background: "BackgroundLoop") -> None:
    # The garbage is collected on any thread, also on one that must not wait.
    Thread(target=background.close, daemon=True).start()


class Subscription:
    """Delivers changes in order to one callback, on its own daemon thread.

    Loading never waits for a callback, so a callback may refresh.
    """

    def __init__(
        self, callback: Callable[[SkillChanges], None], on_end: Callable[[], None]
    ) -> None:
        self._waiting: SimpleQueue[SkillChanges | None] = SimpleQueue()
        self._callback = callback
        self._on_end = on_end
        Thread(target=self._run, name="skills-mcp-watch", daemon=True).start()

    def deliver(self, changes: SkillChanges) -> None:
        self._waiting.put(changes)

    def end(self) -> None:
        self._waiting.put(None)

    def _run(self) -> None:
        while (changes := self._waiting.get()) is not None:
            try:
                self._callback(changes)
            except Exception:
                logger.exception("A callback of `watch` has failed")
        self._on_end()


_State = Literal["new", "open", "closed"]


class BackgroundLoop:
    def __init__(self, application: Application, wait_seconds: float) -> None:
        self.library = application.library
        self._publisher = application.publisher
        self._wait_seconds = wait_seconds
        self._opening = Lock()
        self._lock = Lock()
        self._state: _State = "new"
        self._process = 0
        self._running: AbstractContextManager[BlockingPortal] | None = None
        self._portal: BlockingPortal | None = None
        self._subscriptions: set[Subscription] = set()

    def open(self) -> None:
        """Load the content and keep it fresh; idempotent, also concurrently.

        Raises:
            SyncError: The first content cannot be loaded.
            ContentUnavailableError: It has not come in time.
        """
        with self._opening:
            if self._state == "open":
                self.require_open()
                return
            portal = self._start()
            try:
                wait_for_result(portal.start_task_soon(self._load))
            except BaseException:
                self.close()
                raise

    def _start(self) -> BlockingPortal:
        with self._lock:
            if self._state == "closed":
                raise _not_open_error("are closed", _OPEN_NEW)
            self._running = start_blocking_portal(name="skills-mcp")
            self._portal = portal = self._running.__enter__()
            self._process = os.getpid()
            self._state = "open"
        atexit.register(self.close)
        for work in (self.library.refresher.run, self._publisher.run):
            portal.start_task_soon(_run_logged, work)
        return portal

    async def _load(self) -> None:
        self.library.refresher.wake()
        try:
            await self.library.refresher.wait_until_ready(self._wait_seconds)
        except ContentUnavailableError:
            raise await anyio.to_thread.run_sync(self._explain_missing_content) from None

    def _explain_missing_content(self) -> SkillsError:
        if self._state == "closed":
            return _not_open_error("were closed", _OPEN_NEW)
        for state in self.library.view().states():
            if state.error:
                return state.error
        step = self.library.mounts.doing
        return ContentUnavailableError(
            f"{self.library.mounts.name}: the first content has not come in "
            f"{self._wait_seconds:g} s{f' ({step})' if step else ''}. Call "
            "skills_mcp.open or open_sync again with a larger wait_seconds: what has "
            "been fetched is kept"
        )

    def require_open(self) -> BlockingPortal:
        """Portal to the event loop.

        Raises:
            ContentUnavailableError: The skills are not open.
        """
        if self._state == "new" or self._portal is None:
            raise _not_open_error("are not open", _OPEN_FIRST)
        if self._state == "closed":
            raise _not_open_error("are closed", _OPEN_NEW)
        if self._process != os.getpid():
            raise _not_open_error("were opened in another process", _OPEN_NEW)
        return self._portal

    def watch(
        self,
        access: Access,
        callback: Callable[[SkillChanges], None],
        on_end: Callable[[], None],
    ) -> Callable[[], None]:
        """Call back after each change, on a new thread; the result unsubscribes.

        Raises:
            ContentUnavailableError: The skills are not open.
        """
        self.require_open()
        subscription = Subscription(callback, on_end)
        unsubscribe = self.library.watch_changes(subscription.deliver, access)
        with self._lock:
            self._subscriptions.add(subscription)
            is_closed = self._state == "closed"

        def end() -> None:
            unsubscribe()
            self._subscriptions.discard(subscription)
            subscription.end()

        if is_closed:
            end()
        return end

    def start(self, function: Callable[..., Awaitable[_Result]], *args: object) -> Future[_Result]:
        """Start a coroutine in the background; cancelling the future cancels it."""
        return self.require_open().start_task_soon(function, *args)

    def close(self) -> None:
        with self._lock:
            running, portal = self._running, self._portal
            was_open, self._state = self._state == "open", "closed"
            subscriptions = tuple(self._subscriptions)
        is_elsewhere = self._process != os.getpid()  # that process closes it
        if not was_open or running is None or portal is None or is_elsewhere:
            return
        atexit.unregister(self.close)
        for subscription in subscriptions:
            subscription.end()
        self.library.close()
        with suppress(Exception):  # events that are not sent now are sent later
            last = portal.start_task_soon(self._publisher.publish)
            last.result(_FINAL_PUBLISH_SECONDS)
        with suppress(RuntimeError):
            portal.call(portal.stop, True)  # noqa: FBT003 - the portal's signature
        running.__exit__(None, None, None)


async def _run_logged(work: Callable[[], Awaitable[None]]) -> None:
    try:
        await work()
    except Exception:
        logger.exception("The background work of the skills has ended")


def wait_for_result(future: Future[_Result]) -> _Result:
    """Wait for a result.  Blocking.

    Raises:
        ContentUnavailableError: The skills were closed meanwhile.
    """
    try:
        return future.result()
    except CancelledError:
        raise _not_open_error("were closed", _OPEN_NEW) from None


_OPEN_NEW = "Open new ones with skills_mcp.open(…) or skills_mcp.open_sync(…)."
_OPEN_FIRST = (
    "Use them inside of `async with skills_mcp.open(…) as skills:` or `with "
    "skills_mcp.open_sync(…) as skills:`, or call open() first."
)


def _not_open_error(state: str, advice: str) -> ContentUnavailableError:
    return ContentUnavailableError(f"These skills {state}. {advice}")
