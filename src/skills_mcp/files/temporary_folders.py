"""Temporary folders of this account alone, which outlive no process for long.

Rule: a folder is locked for as long as it is used, and removed with its block or with
the process. A process that is killed leaves its folders behind, unlocked, and the next
one removes them.
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

LOCK = "lock"
"""The file in each of them that is locked."""

# A folder is made and then locked: in between it looks like one that was left behind.
_FRESH_SECONDS = 60 * 60

_ATTEMPTS = 3  # a thread may still write into a folder that is removed

_gate = threading.Lock()
_used: set[Path] = set()


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Make a folder, and remove it with the block.  Blocking.

    Args:
        prefix: How its name begins, and those of the folders that were left behind.

    Raises:
        OSError: The system's temporary folder is full, missing or closed.
    """
    remove_left_behind(tempfile.gettempdir(), prefix)
    # A process that has left its group may still write into it: then it stays.
    made = tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)
    folder = Path(made.name).resolve()
    with _gate:
        _used.add(folder)
    try:
        with made, acquire_lock(folder / LOCK):
            yield folder
    finally:  # not before it is removed: the process may end in between
        with _gate:
            _used.discard(folder)


def remove_used_folders() -> None:
    """Remove the folders of this process, which is about to end."""
    with _gate:
        folders = tuple(_used)
    for folder in folders:
        for _ in range(_ATTEMPTS):
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                break


@cache
def remove_left_behind(parent: str, prefix: str) -> None:
    """Remove the folders of killed processes; once per process is enough."""
    for folder in Path(parent).glob(f"{prefix}*"):
        try:
            is_fresh = time.time() - folder.lstat().st_mtime < _FRESH_SECONDS
            if is_fresh or folder.is_symlink():
                continue
            handle = open_regular(folder / LOCK, is_writing=True)
            if handle is None:
                continue
            with handle:
                lock_file(handle)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue  # in use, or the folder of another user
