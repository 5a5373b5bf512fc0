"""Free disk space reserved for content."""

import logging
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

logger = logging.getLogger(__name__)

# The fastest flood that was measured writes 15 MB in that time, and in the write-ahead
# log as much again; the default reserve is a thousand.
_FRESH_SECONDS = 1.0


def read_free_bytes(folder: Path) -> int:
    """Free bytes for this user on the disk of a folder.

    Raises:
        OSError: There is no such folder.
    """
    return shutil.disk_usage(folder).free


class DiskReserve:
    """Checks free disk space, reserved for content, at most once a second.

    Below the reserve, `free_space` is called before a second measurement.
    """

    def __init__(
        self,
        folder: Path,
        reserve_bytes: int,
        *,
        free_space: Callable[[], None] = lambda: None,
        read_free_bytes: Callable[[Path], int] = read_free_bytes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._reserve_bytes = reserve_bytes
        self._free_space = free_space
        self._read_free_bytes = read_free_bytes
        self._clock = clock
        self._measuring = threading.Lock()
        self._measured_at = float("-inf")
        self._has_space = True

    def has_space(self) -> bool:
        """Whether more may be written.  Blocking.

        Raises:
            OSError: The disk cannot be measured.
        """
        if not self._measuring.acquire(blocking=False):
            return self._has_space  # another thread measures it
        try:
            if self._clock() - self._measured_at >= _FRESH_SECONDS:
                self._measure()
                self._measured_at = self._clock()
            return self._has_space
        finally:
            self._measuring.release()

    def _measure(self) -> None:
        free = self._read_free_bytes(self._folder)
        if free < self._reserve_bytes:
            self._free_space()
            free = self._read_free_bytes(self._folder)
        had_space, self._has_space = self._has_space, free >= self._reserve_bytes
        if had_space and not self._has_space:
            logger.error(
                "The disk of %s has %d bytes left, fewer than events.reserve_bytes "
                "(%d): events are refused and stay with their senders. Make room, or "
                "set events.retention_days lower and rewrite the file with VACUUM",
                *(self._folder, free, self._reserve_bytes),
            )
        if self._has_space and not had_space:
            logger.warning("The disk of %s has room again for events", self._folder)
