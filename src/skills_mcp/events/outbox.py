"""Folders of events on this machine: spool, archive, dead letters."""

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import IO, Any

from skills_mcp.events.spool import (
    MAX_FILE_BYTES,
    EventLine,
    Segment,
    Spool,
    read_event_lines,
)
from skills_mcp.files.durable import append_line, open_regular
from skills_mcp.files.locks import FileLock, acquire_lock

logger = logging.getLogger(__name__)

SPOOL = "spool"

DEAD_LETTERS = "dead-letters"

ARCHIVE = "archive"

# In the order in which an event moves: one that moves during reading is met later.
_FOLDERS = (SPOOL, DEAD_LETTERS, ARCHIVE)

# A year of a busy developer.
_MAX_ARCHIVE_BYTES = 64 * 1024 * 1024
_MAX_ARCHIVE_FILE_BYTES = 4 * 1024 * 1024

# Enough to see what a receiver refuses. Four files: the newest three quarters stay.
_MAX_DEAD_LETTER_BYTES = 1024 * 1024
_MAX_DEAD_LETTER_FILE_BYTES = 256 * 1024

# A writer holds the lock for as long as it takes to write the events of one request.
_LOCK_SECONDS = 2.0


class Outbox:
    """The folders of events in `~/.skills-mcp`.  All methods block.

    Accepted events move from the spool to the archive, refused ones to the dead
    letters.
    """

    def __init__(self, home: Path) -> None:
        self.spool = Spool(home / SPOOL)
        self._archive = EventArchive(
            home / ARCHIVE,
            max_bytes=_MAX_ARCHIVE_BYTES,
            max_file_bytes=_MAX_ARCHIVE_FILE_BYTES,
        )
        self._dead_letters = EventArchive(
            home / DEAD_LETTERS,
            max_bytes=_MAX_DEAD_LETTER_BYTES,
            max_file_bytes=_MAX_DEAD_LETTER_FILE_BYTES,
        )

    def settle(
        self,
        segment: Segment,
        accepted: Sequence[EventLine],
        refused: Sequence[EventLine],
        keep_days: int,
    ) -> None:
        """Move accepted and refused events.

        After a crash in between, some are sent again.
        """
        if segment.lines and not accepted and not refused:
            return
        settled = set(map(id, (*accepted, *refused)))
        rest = [line for line in segment.lines if id(line) not in settled]
        try:
            if keep_days:
                _archive(self._archive, accepted)
            _archive(self._dead_letters, refused)
            self.spool.delete(segment, rest)
        except OSError as error:
            logger.warning("Events are sent again later: %s", error)

    def archive_all(self, keep_days: int) -> None:
        """Archive all events for lack of a receiver, unless the archive keeps 0 days."""
        if self.spool.is_empty or not keep_days:
            return
        self.spool.rotate()
        try:
            for segment in self.spool.claim_segments():
                self._archive.append(segment.lines)
                self.spool.delete(segment)
        except OSError as error:
            logger.warning("Events stay in the spool: %s", error)

    def prune(self, keep_days: int) -> None:
        self._archive.prune(keep_days)
        self._dead_letters.prune(max(1, keep_days))


class EventArchive:
    """Settled events in daily files, bounded in age and size.

    All processes append to the same file, in turn. Beyond `max_bytes` of all files
    together
    the oldest are deleted; at `max_file_bytes` a new file is begun.
    """

    def __init__(self, directory: Path, *, max_bytes: int, max_file_bytes: int) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._max_file_bytes = max_file_bytes

    def append(self, lines: Iterable[EventLine]) -> None:
        """Append events.  Blocking.

        Raises:
            OSError: The disk does not take them.
        """
        data = b"".join(line.raw + b"\n" for line in lines)
        if not data:
            return
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._delete_oldest(len(data))
        with self._open_file() as handle:
            append_line(handle, _missing_line_end(handle) + data)

    def _open_file(self) -> FileLock:
        """Lock the file to append to; the next one if its holder was stopped."""
        path = self._choose_file()
        try:
            return acquire_lock(path, timeout_seconds=_LOCK_SECONDS)
        except BlockingIOError:
            day, _, number = path.stem.rpartition("-")
            following = path.with_name(_file_name(day, int(number) + 1))
            return acquire_lock(following, timeout_seconds=_LOCK_SECONDS)

    def prune(self, keep_days: int) -> None:
        """Delete files of `keep_days` ago and earlier.  Blocking."""
        today = datetime.now(UTC).date()
        for path in self._files():
            day = _parse_day(path)
            if day and day <= today - timedelta(days=keep_days):
                with suppress(OSError):
                    path.unlink()

    def _files(self) -> list[Path]:
        return sorted(self._directory.glob("*.jsonl"))

    def _choose_file(self) -> Path:
        """The newest file of today, unless it is full."""
        day = datetime.now(UTC).date().isoformat()
        number = 0
        for path in self._directory.glob(f"{day}-*.jsonl"):
            with suppress(ValueError):
                number = max(number, int(path.stem.removeprefix(f"{day}-")))
        newest = self._directory / _file_name(day, number)
        if _file_size(newest) < self._max_file_bytes:
            return newest
        return self._directory / _file_name(day, number + 1)

    def _delete_oldest(self, more_bytes: int) -> None:
        files = self._files()
        total = sum(map(_file_size, files)) + more_bytes
        for path in files:
            if total <= self._max_bytes:
                return
            total -= _file_size(path)
            with suppress(OSError):
                path.unlink()


class LocalEvents:
    """All events in `~/.skills-mcp`, unsent or settled, for reading."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.skipped = 0
        """Lines that are not events, and files that cannot be read, up to now."""

    def events(self) -> Iterator[Mapping[str, Any]]:
        """Iterate over the events in no particular order, without duplicates.

        Blocking.

        Servers may go on writing and sending meanwhile.
        """
        seen: set[str] = set()
        for event in self._read_folders():
            event_id = event.get("event_id")
            if isinstance(event_id, str):
                if event_id in seen:
                    continue
                seen.add(event_id)
            yield event

    def _read_folders(self) -> Iterator[Mapping[str, Any]]:
        for name in _FOLDERS:
            for path in sorted((self._home / name).glob("*.jsonl")):
                yield from self._read_file(path)

    def _read_file(self, path: Path) -> Iterator[Mapping[str, Any]]:
        try:
            handle = open_regular(path, max_bytes=MAX_FILE_BYTES)
        except FileNotFoundError:
            return  # it has moved on, and is read there
        except OSError:
            handle = None
        if handle is None:
            self.skipped += 1
            return
        with handle:
            for line in read_event_lines(handle):
                if line is None:
                    self.skipped += 1
                else:
                    yield line.event


def _archive(archive: EventArchive, lines: Sequence[EventLine]) -> None:
    """Append settled events, or log their loss: sending them again would not help."""
    try:
        archive.append(lines)
    except OSError as error:
        logger.warning("Events were not kept: %d, %s", len(lines), error)


def _missing_line_end(handle: IO[bytes]) -> bytes:
    """A line end if the last line was cut off, or it would spoil the next one."""
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


def _file_size(path: Path) -> int:
    with suppress(OSError):
        return path.lstat().st_size
    return 0
