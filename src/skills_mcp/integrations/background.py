"""What keeps the skills of another program fresh: an event loop on a daemon thread.

A program that forgets to close the skills still ends, and so do its scripts.
"""

import atexit
import logging
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, suppress
from threading import Lock, Thread
from typing import Literal, TypeVar

import anyio.to_thread
from anyio.from_thread import BlockingPortal, start_blocking_portal

from skills_mcp.bootstrap import Application
from skills_mcp.errors import ContentUnavailableError, SkillsError

logger = logging.getLogger(__name__)

# A library prints nothing by itself; the program decides what becomes of a log.
logging.getLogger("skills_mcp").addHandler(logging.NullHandler())

_LAST_PUBLISH_SECONDS = 1.0

_Result = TypeVar("_Result")


class Session:
    """What is open, for all who look at it; the last one to go closes it."""

    def __init__(self, application: Application, wait_seconds: float) -> None:
        self.background = Background(application, wait_seconds)
        forgotten = weakref.finalize(self, _close_aside, self.background)
        forgotten.atexit = False  # the background has a way of its own


def _close_aside(background: "Background") -> None:
    # The garbage is collected on any thread, also on one that must not wait.
    Thread(target=background.close, daemon=True).start()


_State = Literal["new", "open", "closed"]


class Background:
    """The event loop that keeps the content fresh, on a daemon thread."""

    def __init__(self, application: Application, wait_seconds: float) -> None:
        self.library = application.library
        self._publisher = application.publisher
        self._wait_seconds = wait_seconds
        self._lock = Lock()
        self._state: _State = "new"
        self._running: AbstractContextManager[BlockingPortal] | None = None
        self._portal: BlockingPortal | None = None

    def open(self) -> None:
        """Load the content, and keep it fresh. Again, it does nothing.

        Raises:
            SyncError: The first content cannot be had.
            ContentUnavailableError: It has not come in time.
        """
        with self._lock:
            if self._state == "open":
                return
            if self._state == "closed":
                raise _not_open("are closed")
            self._running = start_blocking_portal(name="skills-mcp")
            self._portal = portal = self._running.__enter__()
            self._state = "open"
        atexit.register(self.close)
        for work in (self.library.run, self._publisher.run):
            portal.start_task_soon(_run_logged, work)
        try:
            take_result(portal.start_task_soon(self._load))
        except BaseException:
            self.close()
            raise

    async def _load(self) -> None:
        self.library.wake()
        try:
            await self.library.wait_until_ready(self._wait_seconds)
        except ContentUnavailableError:
            raise await anyio.to_thread.run_sync(self._explain) from None

    def _explain(self) -> SkillsError:
        """Return why there is no content: the failure of a source, or the time."""
        for state in self.library.states():
            if state.error:
                return state.error
        step = self.library.sync_step
        return ContentUnavailableError(
            f"{self.library.source_name}: the first content has not come in "
            f"{self._wait_seconds:g} s{f' ({step})' if step else ''}. Open it again "
            "with a larger wait_seconds: what has been fetched is kept"
        )

    def require_open(self) -> BlockingPortal:
        """Return the way to the event loop.

        Raises:
            ContentUnavailableError: The skills are not open.
        """
        if self._portal is None or self._state != "open":
            raise _not_open("are closed" if self._state == "closed" else "are not open")
        return self._portal

    def start(
        self, function: Callable[..., Awaitable[_Result]], *args: object
    ) -> Future[_Result]:
        """Start work in the background; cancelling the future cancels it."""
        return self.require_open().start_task_soon(function, *args)

    def close(self) -> None:
        """End all of it. Again, it does nothing."""
        with self._lock:
            running, portal = self._running, self._portal
            was_open, self._state = self._state == "open", "closed"
        if not was_open or running is None or portal is None:
            return
        atexit.unregister(self.close)
        self.library.close()
        with suppress(Exception):  # events that are not sent now are sent later
            last = portal.start_task_soon(self._publisher.publish)
            last.result(_LAST_PUBLISH_SECONDS)
        with suppress(RuntimeError):
            portal.call(portal.stop, True)  # noqa: FBT003 - the portal's signature
        running.__exit__(None, None, None)


async def _run_logged(work: Callable[[], Awaitable[None]]) -> None:
    try:
        await work()
    except Exception:
        logger.exception("The background work of the skills has ended")


def take_result(future: Future[_Result]) -> _Result:
    """Return the result of what was started.  Blocking.

    Raises:
        ContentUnavailableError: The skills were closed meanwhile.
    """
    try:
        return future.result()
    except CancelledError:
        raise _not_open("were closed") from None


def _not_open(state: str) -> ContentUnavailableError:
    return ContentUnavailableError(
        f"These skills {state}. Use them inside of `async with skills_mcp.open(…) as "
        "skills:` or `with skills_mcp.open_sync(…) as skills:`, or call open() first."
    )
