"""Leases: while somebody reads a snapshot, nobody deletes it.

A reader locks the lease file of a commit, shared; who wants to delete the snapshot has
to lock it alone. The operating system gives a lock back when its process dies.

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

# For as long as somebody who deletes looks at a lease.
_MOMENT_SECONDS = 0.01


Lease = Callable[[], object]
"""Gives a lease back."""


def take(path: Path, is_there: Callable[[], bool]) -> Lease | None:
    """Lock a lease for reading; None if it was deleted meanwhile, or cannot be had.

    In a cache that is not ours to write an existing lease is enough, and without one
    the snapshot is as safe as whoever owns the cache leaves it.

    Args:
        path: The lease.
        is_there: Whether the snapshot is.

    Raises:
        OSError: There are too many open files.
    """
    try:
        handle = _open(path)
    except OSError as error:
        if error.errno in SCARCE:
            raise
        return None if _is_writable(path.parent) else lambda: None
    # In this order: as long as the file is there, nobody can have deleted what it
    # guards since we have locked it.
    if _is_locked(handle, is_shared=True) and is_there() and is_current(handle, path):
        return handle.close
    handle.close()
    time.sleep(_MOMENT_SECONDS)
    return None


@contextmanager
def held_alone(path: Path) -> Iterator[bool]:
    """Say whether nobody has the lease; nobody gets it while the block runs.

    Call it only with the lock of all writers held.
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
    """Delete what stands in the place of a lease and is no file.

    Call it only with the lock of all writers held.
    """
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(path.lstat().st_mode):
            delete(path)


def _open(path: Path) -> IO[bytes]:
    """Open a lease, and make it if that is possible."""
    try:
        return _open_for_writing(path)
    except PermissionError:
        with suppress(OSError):
            path.chmod(0o644)  # ours, but somebody has closed it
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
