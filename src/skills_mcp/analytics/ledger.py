"""Events that are settled, sent or refused: kept for a while, within a bound.

A ledger is a folder of files that are named after the day on which they were written.
All windows append to the same file, in turn.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import IO

from skills_mcp.analytics.lines import Line
from skills_mcp.files.durable import append
from skills_mcp.files.locks import acquire_lock

# A writer holds the lock as long as it takes to write what one request has.
_LOCK_SECONDS = 2.0


class Ledger:
    """One such folder.

    Args:
        directory: The folder, made with the first event.
        max_bytes: What all files may have; the oldest go first.
        max_file_bytes: When the next file is begun.
    """

    def __init__(self, directory: Path, *, max_bytes: int, max_file_bytes: int) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._max_file_bytes = max_file_bytes

    def append(self, lines: Iterable[Line]) -> None:
        """Keep events.  Blocking.

        Raises:
            OSError: The disk does not take them.
        """
        data = b"".join(line.raw + b"\n" for line in lines)
        if not data:
            return
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._make_room(len(data))
        path = self._choose_file()
        with acquire_lock(path, timeout_seconds=_LOCK_SECONDS) as handle:
            append(handle, _mend(handle) + data)

    def prune(self, keep_days: int) -> None:
        """Forget what was kept for that many days.  Blocking."""
        today = datetime.now(UTC).date()
        for path in self._files():
            day = _parse_day(path)
            if day and day <= today - timedelta(days=keep_days):
                with suppress(OSError):
                    path.unlink()

    def _files(self) -> list[Path]:
        return sorted(self._directory.glob("*.jsonl"))

    def _choose_file(self) -> Path:
        """Return the newest file of today, or the next one where that is full."""
        day = datetime.now(UTC).date().isoformat()
        number = 0
        for path in self._directory.glob(f"{day}-*.jsonl"):
            with suppress(ValueError):
                number = max(number, int(path.stem.removeprefix(f"{day}-")))
        newest = self._directory / _file_name(day, number)
        if _size(newest) < self._max_file_bytes:
            return newest
        return self._directory / _file_name(day, number + 1)

    def _make_room(self, more_bytes: int) -> None:
        files = self._files()
        total = sum(map(_size, files)) + more_bytes
        for path in files:
            if total <= self._max_bytes:
                return
            total -= _size(path)
            with suppress(OSError):
                path.unlink()


def _mend(handle: IO[bytes]) -> bytes:
    """Return what ends a line that was cut off, so that it costs no other."""
    end = handle.seek(0, os.SEEK_END)
    if end == 0:
        return b""
    handle.seek(end - 1)
    return b"" if handle.read(1) == b"\n" else b"\n"


def _file_name(day: str, number: int) -> str:
    return f"{day}-{number:04d}.jsonl"


def _parse_day(path: Path) -> date | None:
    with suppress(ValueError):
        return date.fromisoformat(path.name[:10])
    return None


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.lstat().st_size
    return 0
