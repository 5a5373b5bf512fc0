"""Advisory file locks, and temporary folders that are locked while in use.

A lock is exclusive or shared, and released when its process dies.

Rule: after acquiring a lock, a process verifies the path. The file may have been
deleted meanwhile, and then the lock guards nothing.
"""

import errno
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO

from skills_mcp.files.durable import open_private, open_regular

# File locks have no queue: a process that looks less often than the others starves
# beside one that lets go of the lock only for a moment.
_POLL_SECONDS = 0.02

# A process that works shows life so often; one that was stopped (Ctrl-Z) does not.
_HEARTBEAT_SECONDS = 0.1
_STALE_SECONDS = 0.8

# How often the file of a lock may be deleted while a process waits for it.
_ATTEMPTS = 5


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


class FileLock:
    """A held lock; a child inheriting `handle` keeps it if this process dies."""

    def __init__(self, handle: IO[bytes]) -> None:
        self.handle = handle

    def release(self) -> None:
        with self.handle:
            # Closing is not enough: a child that is just being started has a copy.
            _unlock(self.handle)

    def __enter__(self) -> IO[bytes]:
        return self.handle

    def __exit__(self, *_: object) -> None:
        self.release()


def acquire_lock(
    path: Path,
    *,
    timeout_seconds: float = 0.0,
    wait: Callable[[float], bool] = _sleep,
) -> FileLock:
    """Acquire an exclusive lock on a file, opened for appending or created.

    `wait` sleeps between two attempts; true gives up.

    Raises:
        BlockingIOError: Timeout: another process holds it.
        OSError: The file cannot be opened, is repeatedly deleted (`ESTALE`), or its
        file
            system has no locks (`ENOLCK`).
    """
    deadline = time.monotonic() + timeout_seconds
    for _ in range(_ATTEMPTS):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            handle = open_private(path)
        except FileNotFoundError:
            continue  # the folder was deleted in between
        remaining = max(0.0, deadline - time.monotonic())
        try:
            lock_file(handle, timeout_seconds=remaining, wait=wait)
        except BaseException:
            handle.close()
            raise
        lock = FileLock(handle)
        if is_same_file(handle, path):
            return lock
        lock.release()
    raise OSError(errno.ESTALE, "The file of the lock is deleted again and again")


@contextmanager
def lock_heartbeat(lock: FileLock) -> Iterator[None]:
    ended = threading.Event()

    def beat() -> None:
        while not ended.is_set():
            with suppress(OSError):
                os.utime(lock.handle.fileno())
            ended.wait(_HEARTBEAT_SECONDS)

    thread = threading.Thread(target=beat, name="life", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class StaleLockDetector:
    """A `wait` for `acquire_lock` giving up on a stopped holder."""

    def __init__(self, path: Path, silent_seconds: float = _STALE_SECONDS) -> None:
        self._path = path
        self._silent_seconds = silent_seconds
        self._seen: int | None = None
        self._moved_at = time.monotonic()

        self.is_stale = False
        """Whether the holder had shown no life for too long at the last look."""

    def __call__(self, seconds: float) -> bool:
        time.sleep(seconds)
        return self.check_holder()

    def check_holder(self) -> bool:
        now = time.monotonic()
        with suppress(OSError):
            if (changed := self._path.stat().st_mtime_ns) != self._seen:
                self._seen, self._moved_at = changed, now
        self.is_stale = now - self._moved_at > self._silent_seconds
        return self.is_stale


def lock_file(
    handle: IO[bytes],
    *,
    is_shared: bool = False,
    timeout_seconds: float = 0.0,
    wait: Callable[[float], bool] = _sleep,
) -> None:
    """Lock an open file until it is closed; see `acquire_lock`.

    Raises:
        BlockingIOError: Timeout: another process holds it.
        OSError: The file system has no locks (`ENOLCK`).
    """
    deadline = time.monotonic() + timeout_seconds
    while not _try_lock(handle, is_shared=is_shared):
        if time.monotonic() >= deadline or wait(_POLL_SECONDS):
            raise BlockingIOError(errno.EAGAIN, "Another process holds the lock")


def is_same_file(handle: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle.fileno()), path.lstat())
    except OSError:
        return False


if sys.platform == "win32":

    def _try_lock(handle: IO[bytes], *, is_shared: bool) -> bool:
        import portalocker
        from portalocker import LockFlags

        kind = LockFlags.SHARED if is_shared else LockFlags.EXCLUSIVE
        try:
            portalocker.lock(handle, kind | LockFlags.NON_BLOCKING)
        except portalocker.AlreadyLocked:
            return False
        except portalocker.LockException as error:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK)) from error
        return True

    def _unlock(handle: IO[bytes]) -> None:
        import portalocker

        portalocker.unlock(handle)

else:  # portalocker does the same, and reads the metadata of packages at its import
    import fcntl

    def _try_lock(handle: IO[bytes], *, is_shared: bool) -> bool:
        kind = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
        try:
            fcntl.flock(handle, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK)) from error
        return True

    def _unlock(handle: IO[bytes]) -> None:
        fcntl.flock(handle, fcntl.LOCK_UN)


LOCK_FILE = "lock"

# A folder is made and then locked: in between it looks like one that was left behind.
_MIN_AGE_SECONDS = 60 * 60

_REMOVALS = 3  # a thread may still write into a folder that is removed

_gate = threading.Lock()
_in_use: set[Path] = set()


@contextmanager
def locked_temporary_folder(prefix: str, parent: str | None = None) -> Iterator[Path]:
    """Make a private folder, locked while in use, and remove it with the block.

    Without a `parent` it is in the system's temporary folder.

    A killed process leaves its folders behind, unlocked, and the next one removes them.
    Blocking.

    Raises:
        OSError: The folder above it is full, missing or closed.
    """
    parent = parent or tempfile.gettempdir()
    remove_stale_folders(parent, prefix)
    # A process that has left its group may still write into it: then it stays.
    made = tempfile.TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True)
    folder = Path(made.name).resolve()
    with _gate:
        _in_use.add(folder)
    try:
        with made, acquire_lock(folder / LOCK_FILE):
            yield folder
    finally:  # not before it is removed: the process may end in between
        with _gate:
            _in_use.discard(folder)


def remove_own_temporary_folders() -> None:
    with _gate:
        folders = tuple(_in_use)
    for folder in folders:
        for _ in range(_REMOVALS):
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                break


@cache
def remove_stale_folders(parent: str, prefix: str) -> None:
    """Remove the folders of killed processes; once per process is enough."""
    for folder in Path(parent).glob(f"{prefix}*"):
        try:
            is_fresh = time.time() - folder.lstat().st_mtime < _MIN_AGE_SECONDS
            if is_fresh or folder.is_symlink():
                continue
            handle = open_regular(folder / LOCK_FILE, is_writing=True)
            if handle is None:
                continue
            with handle:
                lock_file(handle)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue  # in use, or the folder of another user
