"""Notifications of changes below folders, by the operating system.

On Linux by inotify, on macOS by FSEvents, on Windows by ReadDirectoryChangesW:
https://watchfiles.helpmanual.io
"""

import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from stat import S_ISDIR
from threading import Event

import anyio

logger = logging.getLogger(__name__)

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
    watch = _FolderWatch(find)
    try:
        while await anyio.to_thread.run_sync(watch.wait, abandon_on_cancel=True):
            yield
    finally:
        watch.stop()


class _FolderWatch:
    """A watch for a worker thread.  Blocking."""

    def __init__(self, find: Callable[[], Sequence[Path]]) -> None:
        self._find = find
        self._stopped = Event()
        self._changes = self._follow()

    def wait(self) -> bool:
        return next(self._changes, False)

    def stop(self) -> None:
        self._stopped.set()

    def _follow(self) -> Iterator[bool]:
        while not self._stopped.is_set():
            if folders := self._identify():
                try:
                    yield from self._watch_until_replaced(folders)
                except OSError as error:
                    logger.warning(_explain(error))
                    return
            else:
                yield True  # for what is gone
                while not self._identify() and not self._stopped.is_set():
                    self._stopped.wait(_POLL_MS / 1000)

    def _watch_until_replaced(self, folders: frozenset[_Identity]) -> Iterator[bool]:
        """Yield True at each change, until a folder is replaced."""
        from watchfiles import watch

        is_first = True
        for changes in watch(
            *(path for path, *_ in folders),
            debounce=_LONGEST_BURST_MS,
            step=_STEP_MS,
            rust_timeout=_POLL_MS,
            yield_on_timeout=True,
            stop_event=self._stopped,
            ignore_permission_denied=True,
        ):
            if changes or is_first:
                yield True
            is_first = False
            if self._identify() != folders:
                return

    def _identify(self) -> frozenset[_Identity]:
        return frozenset(filter(None, map(_identify, self._find())))


def _identify(folder: Path) -> _Identity | None:
    try:
        real = os.path.realpath(folder)
        found = Path(real).stat()
    except OSError:
        return None
    return (real, found.st_dev, found.st_ino) if S_ISDIR(found.st_mode) else None


def _explain(error: OSError) -> str:
    reason = f"Folders cannot be watched: {error}. An edit is served after"
    return (
        f"{reason} refresh_skills. On Linux, fs.inotify.max_user_watches may be too "
        "low; sync.watch: false turns watching off."
    )
