"""The lock that all writers of a store share."""

import errno
import os
import shutil
from pathlib import Path

from skills_mcp.errors import SyncError
from skills_mcp.files.durable import open_up
from skills_mcp.files.locks import FileLock, acquire_lock


def acquire(directory: Path, timeout_seconds: float) -> FileLock:
    """Make the folder of a store if need be, and take its lock.

    Raises:
        SyncError: Another process held it for the whole time, or no process can have
            it.
        OSError: The folder cannot be written.
    """
    path = directory / "sync.lock"
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    open_up(directory)
    _make_way(path)
    try:
        return acquire_lock(path, timeout_seconds=timeout_seconds)
    except BlockingIOError as error:
        raise SyncError(
            f"another sync has been running for {timeout_seconds:.0f} seconds; "
            "what it publishes is picked up at the next refresh"
        ) from error
    except OSError as error:
        if error.errno == errno.ENOLCK:
            raise SyncError(
                f"the file system of {directory} has no file locks. Set "
                "SKILLS_MCP_HOME to a folder on a local disk"
            ) from error
        if error.errno == errno.ESTALE:
            raise SyncError(
                f"{directory} is deleted again and again. Set SKILLS_MCP_HOME to a "
                "folder that no other program deletes"
            ) from error
        raise


def _make_way(path: Path) -> None:
    """Make sure that the lock is a file, or can be made one."""
    if path.is_symlink() or (path.exists() and not (path.is_file() or path.is_dir())):
        raise SyncError(f"{path} is no plain file, as a lock has to be: delete it")
    if path.is_dir():
        # Never a file: another writer may have healed it already, and hold the lock.
        shutil.rmtree(path, ignore_errors=True)
    elif path.exists() and not os.access(path, os.W_OK):
        path.chmod(0o600)
