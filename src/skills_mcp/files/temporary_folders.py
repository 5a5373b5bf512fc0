"""Private temporary folders, cleaned up after crashes.

Rule: a folder is locked while in use, and removed with its block or with the process. A
killed process leaves its folders behind, unlocked, and the next one removes them.
"""

import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from skills_mcp.files.durable import open_regular
from skills_mcp.files.locks import acquire_lock, lock_file

LOCK_FILE = "lock"

# A folder is made and then locked: in between it looks like one that was left behind.
_MIN_AGE_SECONDS = 60 * 60

_ATTEMPTS = 3  # a thread may still write into a folder that is removed

_gate = threading.Lock()
_in_use: set[Path] = set()


@contextmanager
def locked_temporary_folder(prefix: str) -> Iterator[Path]:
    """Make a folder, and remove it with the block.  Blocking.

    Raises:
        OSError: The system's temporary folder is full, missing or closed.
    """
    remove_stale_folders(tempfile.gettempdir(), prefix)
    # A process that has left its group may still write into it: then it stays.
    made = tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)
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
        for _ in range(_ATTEMPTS):
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
