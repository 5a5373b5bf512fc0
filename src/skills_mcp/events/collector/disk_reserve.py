"""The room that events leave on a disk, so that content is still fetched there."""

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
    """Read how many bytes the disk of a folder has left for this user.

    Raises:
        OSError: There is no such folder.
    """
    return shutil.disk_usage(folder).free


class DiskReserve:
    """Whether a disk has more room than a reserve; measured once a second at most.

    Args:
        folder: On that disk.
        reserve_bytes: What has to stay free.
        make_room: Called when less is free, before it is measured again.  Blocking.
        read_free_bytes: Measures the free bytes of the disk of a folder.
        clock: Seconds that never go back.
    """

    def __init__(
        self,
        folder: Path,
        reserve_bytes: int,
        *,
        make_room: Callable[[], None] = lambda: None,
        read_free_bytes: Callable[[Path], int] = read_free_bytes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._reserve_bytes = reserve_bytes
        self._make_room = make_room
        self._read_free_bytes = read_free_bytes
        self._clock = clock
        self._measuring = threading.Lock()
        self._measured_at = float("-inf")
        self._has_room = True

    def has_room(self) -> bool:
        """Whether more may be written.  Blocking.

        Raises:
            OSError: The disk cannot be measured.
        """
        if not self._measuring.acquire(blocking=False):
            return self._has_room  # another thread measures it
        try:
            if self._clock() - self._measured_at >= _FRESH_SECONDS:
                self._measure()
                self._measured_at = self._clock()
            return self._has_room
        finally:
            self._measuring.release()

    def _measure(self) -> None:
        free = self._read_free_bytes(self._folder)
        if free < self._reserve_bytes:
            self._make_room()
            free = self._read_free_bytes(self._folder)
        had_room, self._has_room = self._has_room, free >= self._reserve_bytes
        if had_room and not self._has_room:
            logger.error(
                "The disk of %s has %d bytes left, fewer than events.reserve_bytes "
                "(%d): events are refused and stay with their senders. Make room, or "
                "set events.retention_days lower and rewrite the file with VACUUM",
                *(self._folder, free, self._reserve_bytes),
            )
        if self._has_room and not had_room:
            logger.warning("The disk of %s has room again for events", self._folder)
