"""Leases: a commit's folder is not deleted while a process reads it.

A reader holds a shared lock on the lease file of a commit; deletion needs the exclusive
lock. The operating system releases a lock when its process dies.

Rule: after locking, the file is checked again. It may have been deleted between opening
and locking, and then the lock guards nothing.
"""

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from skills_mcp.files.durable import GUARDED_FLAGS, RESOURCE_ERRORS, delete_tree
from skills_mcp.files.locks import is_same_file, lock_file

_KNOWS_EFFECTIVE_IDS = os.access in os.supports_effective_ids

# A process that deletes holds a lease no longer than this.
_RETRY_SECONDS = 0.01


Lease = Callable[[], object]


def acquire_lease(path: Path, exists: Callable[[], bool]) -> Lease | None:
    """Lock a lease for reading; None if it was deleted meanwhile, or is unavailable.

    A read-only cache without a lease file is read unlocked, safe as long as its owner
    leaves it alone.

    Raises:
        OSError: There are too many open files.
    """
    try:
        handle = _open_lease(path)
    except OSError as error:
        if error.errno in RESOURCE_ERRORS:
            raise
        return None if _is_writable(path.parent) else lambda: None
    # In this order: if the lease file is still there after we have locked it, the
    # snapshot that it guards cannot have been deleted since.
    if _try_lock(handle, is_shared=True) and exists() and is_same_file(handle, path):
        return handle.close
    handle.close()
    time.sleep(_RETRY_SECONDS)
    return None


@contextmanager
def exclusive_lease(path: Path) -> Iterator[bool]:
    """Lock a lease exclusively, with the writers' lock; False if it has readers."""
    try:
        delete_irregular_lease(path)
        handle = _open_lease(path)
    except OSError:
        yield False
        return
    with handle:
        yield _try_lock(handle, is_shared=False)


def delete_irregular_lease(path: Path) -> None:
    """Delete anything but a file at a lease's path, with the writers' lock."""
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(path.lstat().st_mode):
            delete_tree(path)


def _open_lease(path: Path) -> IO[bytes]:
    try:
        return _create_lease(path)
    except PermissionError:
        with suppress(OSError):
            path.chmod(0o644)  # ours, but without permission
            return _create_lease(path)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
    return os.fdopen(os.open(path, os.O_RDONLY | GUARDED_FLAGS), "rb")


def _create_lease(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | GUARDED_FLAGS, 0o644), "rb")


def _try_lock(handle: IO[bytes], *, is_shared: bool) -> bool:
    try:
        lock_file(handle, is_shared=is_shared)
    except OSError:
        return False
    return True


def _is_writable(directory: Path) -> bool:
    return os.access(directory, os.W_OK, effective_ids=_KNOWS_EFFECTIVE_IDS)
