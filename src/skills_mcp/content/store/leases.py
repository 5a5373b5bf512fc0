"""Leases: a snapshot is not deleted while a process reads it.

A reader locks the lease file of a commit, shared; to delete the snapshot, a process
needs the exclusive lock. The operating system releases a lock when its process dies.

Rule: a process that has taken a lock looks again. The file may have been deleted
between opening and locking it, and then the lock guards nothing.
"""

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from skills_mcp.files.durable import GUARDED_FLAGS, SCARCE, delete
from skills_mcp.files.locks import is_current, lock_file

_KNOWS_EFFECTIVE_IDS = os.access in os.supports_effective_ids

# A process that deletes holds a lease no longer than this.
_MOMENT_SECONDS = 0.01


Lease = Callable[[], object]
"""Releases a lease."""


def take(path: Path, is_there: Callable[[], bool]) -> Lease | None:
    """Lock a lease for reading; None if it was deleted meanwhile, or is not available.

    In a read-only cache an existing lease is enough. Without one there is no lock, and
    the snapshot is safe as long as the owner of the cache leaves it alone.

    Args:
        path: The lease.
        is_there: Tells whether the snapshot exists.

    Raises:
        OSError: There are too many open files.
    """
    try:
        handle = _open(path)
    except OSError as error:
        if error.errno in SCARCE:
            raise
        return None if _is_writable(path.parent) else lambda: None
    # In this order: if the lease file is still there after we have locked it, the
    # snapshot that it guards cannot have been deleted since.
    if _is_locked(handle, is_shared=True) and is_there() and is_current(handle, path):
        return handle.close
    handle.close()
    time.sleep(_MOMENT_SECONDS)
    return None


@contextmanager
def held_alone(path: Path) -> Iterator[bool]:
    """Lock a lease exclusively during the block; yield False if it has a reader.

    Call it only with the writers' lock held.
    """
    try:
        heal(path)
        handle = _open(path)
    except OSError:
        yield False
        return
    with handle:
        yield _is_locked(handle, is_shared=False)


def heal(path: Path) -> None:
    """Delete what stands in the place of a lease and is no regular file.

    Call it only with the writers' lock held.
    """
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(path.lstat().st_mode):
            delete(path)


def _open(path: Path) -> IO[bytes]:
    """Open a lease; make it if possible."""
    try:
        return _open_for_writing(path)
    except PermissionError:
        with suppress(OSError):
            path.chmod(0o644)  # ours, but without permission
            return _open_for_writing(path)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
    return os.fdopen(os.open(path, os.O_RDONLY | GUARDED_FLAGS), "rb")


def _open_for_writing(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | GUARDED_FLAGS, 0o644), "rb")


def _is_locked(handle: IO[bytes], *, is_shared: bool) -> bool:
    try:
        lock_file(handle, is_shared=is_shared)
    except OSError:
        return False
    return True


def _is_writable(directory: Path) -> bool:
    return os.access(directory, os.W_OK, effective_ids=_KNOWS_EFFECTIVE_IDS)
