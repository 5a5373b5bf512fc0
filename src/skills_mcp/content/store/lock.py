"""The lock that all writers of a store share.

Rule: whoever has the lock looks again. Somebody may have deleted the whole store
while it was waited for, and then the lock guards nothing.
"""

import os
import shutil
import time
from pathlib import Path
from typing import IO

import portalocker

from skills_mcp.content.disk import open_up
from skills_mcp.errors import SyncError

# Each time, somebody has deleted the whole store while we waited.
_ATTEMPTS = 5

# Nobody queues for a file lock: who looks more seldom than others starves beside one
# who lets go of it only for a moment.
_LOOK_SECONDS = 0.02


def acquire(directory: Path, timeout_seconds: float) -> "portalocker.Lock[IO[bytes]]":
    """Make the folder of a store if need be, and take its lock.

    Raises:
        SyncError: Somebody else held it for the whole time, or nobody can have it.
        OSError: The folder cannot be written.
    """
    deadline = time.monotonic() + timeout_seconds
    path = directory / "sync.lock"
    for _ in range(_ATTEMPTS):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        open_up(directory)
        _make_way(path)
        remaining = max(0, deadline - time.monotonic())
        lock = portalocker.Lock(
            path, "ab", timeout=remaining, check_interval=_LOOK_SECONDS
        )
        if _try(lock, path, timeout_seconds):
            return lock
        lock.release()
    raise SyncError(
        f"somebody deletes {directory} again and again. Set SKILLS_MCP_HOME to a "
        "folder that is left alone"
    )


def _try(
    lock: "portalocker.Lock[IO[bytes]]", path: Path, timeout_seconds: float
) -> bool:
    """Wait for the lock; False if its file was deleted meanwhile."""
    try:
        handle = lock.acquire()
        return os.path.samestat(os.fstat(handle.fileno()), path.stat())
    except FileNotFoundError:
        return False
    except portalocker.AlreadyLocked as error:
        raise SyncError(
            f"another sync has been running for {timeout_seconds:.0f} seconds; "
            "what it publishes is picked up at the next refresh"
        ) from error
    except portalocker.LockException as error:
        raise SyncError(
            f"the file system of {path.parent} knows no locks. Set SKILLS_MCP_HOME to "
            "a folder on a local disk"
        ) from error


def _make_way(path: Path) -> None:
    """See that the lock is a file, or can be made one."""
    if path.is_symlink() or (path.exists() and not (path.is_file() or path.is_dir())):
        raise SyncError(f"{path} is no plain file, as a lock has to be: delete it")
    if path.is_dir():
        # Never a file: another writer may have healed it already, and hold the lock.
        shutil.rmtree(path, ignore_errors=True)
    elif path.exists() and not os.access(path, os.W_OK):
        path.chmod(0o600)
