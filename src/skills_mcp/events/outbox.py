"""The folders that events go through on this machine: spool, archive, dead letters.

An event waits in the spool. When the receiver has accepted it, it moves to the archive;
when the receiver refuses it for its content, it moves to the dead letters.
"""

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import IO, Any

from skills_mcp.events.spool import MAX_FILE_BYTES, Line, Segment, Spool, read_lines
from skills_mcp.files.durable import append, open_regular
from skills_mcp.files.locks import FileLock, acquire_lock

logger = logging.getLogger(__name__)

SPOOL = "spool"
"""The folder of events that wait to be sent."""

DEAD_LETTERS = "dead-letters"
"""The folder of events that a receiver has refused for their content."""

ARCHIVE = "archive"
"""The folder of events that were sent, and of all events if there is no receiver."""

# In the order in which an event moves: one that moves during reading is met later.
_FOLDERS = (SPOOL, DEAD_LETTERS, ARCHIVE)

# A year of a busy developer.
_MAX_ARCHIVE_BYTES = 64 * 1024 * 1024
_MAX_ARCHIVE_FILE_BYTES = 4 * 1024 * 1024

# Enough to see what a receiver refuses. Four files: the newest three quarters stay.
_MAX_DEAD_BYTES = 1024 * 1024
_MAX_DEAD_FILE_BYTES = 256 * 1024

# A writer holds the lock for as long as it takes to write the events of one request.
_LOCK_SECONDS = 2.0


class Outbox:
    """The three folders, to move events between them.  All methods block.

    Args:
        home: The folder of this program, `~/.skills-mcp`.
    """

    def __init__(self, home: Path) -> None:
        self.spool = Spool(home / SPOOL)
        self._archive = Ledger(
            home / ARCHIVE,
            max_bytes=_MAX_ARCHIVE_BYTES,
            max_file_bytes=_MAX_ARCHIVE_FILE_BYTES,
        )
        self._dead_letters = Ledger(
            home / DEAD_LETTERS,
            max_bytes=_MAX_DEAD_BYTES,
            max_file_bytes=_MAX_DEAD_FILE_BYTES,
        )

    def settle(
        self,
        segment: Segment,
        accepted: Sequence[Line],
        refused: Sequence[Line],
        keep_days: int,
    ) -> None:
        """Move events that a receiver has accepted or refused; the others stay.

        After a crash in between, some are sent again, with the same ids.
        """
        if segment.lines and not accepted and not refused:
            return
        settled = set(map(id, (*accepted, *refused)))
        rest = [line for line in segment.lines if id(line) not in settled]
        try:
            if keep_days:
                _keep(self._archive, accepted)
            _keep(self._dead_letters, refused)
            self.spool.remove(segment, rest)
        except OSError as error:
            logger.warning("Events are sent again later: %s", error)

    def keep_all(self, keep_days: int) -> None:
        """Move all events into the archive, because there is no receiver.

        With 0 days they stay, as the archive would delete them at once.
        """
        if self.spool.is_empty or not keep_days:
            return
        self.spool.rotate()
        try:
            for segment in self.spool.take():
                self._archive.append(segment.lines)
                self.spool.remove(segment)
        except OSError as error:
            logger.warning("Events stay in the spool: %s", error)

    def prune(self, keep_days: int) -> None:
        """Delete events that are older than the operator wants to keep them."""
        self._archive.prune(keep_days)
        self._dead_letters.prune(max(1, keep_days))


class Ledger:
    """A folder of settled events, kept for a while and within a bound.

    A file is named after the day on which it was written. All processes append to the
    same file, in turn.

    Args:
        directory: The folder, made with the first event.
        max_bytes: How large all files together may be; the oldest are deleted first.
        max_file_bytes: How large a file is when the next one is begun.
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
        with self._open_file() as handle:
            append(handle, _mend(handle) + data)

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
        """Delete events that were kept for that many days.  Blocking."""
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


class Record:
    """All events of this machine, queued or kept, for reading.

    Args:
        home: The folder of this program, `~/.skills-mcp`.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self.skipped = 0
        """Lines that are not events, and files that cannot be read, up to now."""

    def events(self) -> Iterator[Mapping[str, Any]]:
        """Iterate over the events, each once, in no particular order.  Blocking.

        Servers may go on writing and sending meanwhile.
        """
        seen: set[str] = set()
        for event in self._all():
            event_id = event.get("event_id")
            if isinstance(event_id, str):
                if event_id in seen:
                    continue
                seen.add(event_id)
            yield event

    def _all(self) -> Iterator[Mapping[str, Any]]:
        for name in _FOLDERS:
            for path in sorted((self._home / name).glob("*.jsonl")):
                yield from self._read(path)

    def _read(self, path: Path) -> Iterator[Mapping[str, Any]]:
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
            for line in read_lines(handle):
                if line is None:
                    self.skipped += 1
                else:
                    yield line.event


def _keep(ledger: Ledger, lines: Sequence[Line]) -> None:
    """Keep events that are settled, or lose them: sending them again would not help."""
    try:
        ledger.append(lines)
    except OSError as error:
        logger.warning("Events were not kept: %d, %s", len(lines), error)


def _mend(handle: IO[bytes]) -> bytes:
    """Return a line end if the last line was cut off, so that it spoils no other."""
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
