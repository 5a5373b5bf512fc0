"""Events on disk: the spool, the archive and the dead letters.

Each process appends to a segment of its own and holds a lock on it. A sender takes only
unlocked segments: its own after `rotate()`, and those of ended processes. So an event is
never lost with a process, and never sent by two.
"""

import errno
import json
import logging
import os
import stat
import threading
import time
import uuid
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, date, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple

from skills_mcp.files.durable import NEW_PREFIX, append_line, open_private, open_regular
from skills_mcp.files.locks import FileLock, acquire_lock, lock_file

logger = logging.getLogger(__name__)

MAX_LINE_BYTES = 256 * 1024
"""Longer lines are not our events: the longest task has 10,000 characters."""

MAX_FILE_BYTES = 8 * 1024 * 1024
"""Larger files are not ours; reading one could take for ever."""

MAX_BATCH_EVENTS = 500

# Of one machine: 20,000 events, as many as an agent makes in a hundred days of work.
DEFAULT_MAX_BYTES = 10 * 1024 * 1024

# Small enough for one request, large enough that a day of work is a few files.
_MAX_SEGMENT_BYTES = 256 * 1024

# As many processes as a user has windows open. Each may fill its segment before the
# size of all segments is looked at again, so that much room is left.
_PROCESSES = 10
_SEGMENTS = 4 * _PROCESSES  # what the bound holds; a quarter of it is that room

# A sender leaves an empty segment alone for so long: it has nothing to send, and
# locking it would take it from its writer.
_NEW_SECONDS = 60.0

# A writer holds the lock for as long as it takes to write the events of one request.
_LOCK_SECONDS = 2.0

_DROPPED = ".dropped"
_NEW = ".new"
_STALE_SECONDS = 60 * 60.0  # writing a segment never takes that long
_NAME_LENGTH = 40  # a segment that is divided again and again keeps a short name


class EventLine(NamedTuple):
    raw: bytes
    """Valid JSON in UTF-8, without the line end."""
    event: dict[str, Any]


class Segment(NamedTuple):
    """A locked file of events: only this process may send them now."""

    path: Path
    lines: tuple[EventLine, ...]
    skipped: int
    handle: IO[bytes]

    @property
    def events(self) -> tuple[dict[str, Any], ...]:
        return tuple(line.event for line in self.lines)


class Spool:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._segment: FileLock | None = None
        self._segment_events = 0
        self._segment_bytes = 0
        self._lock = threading.Lock()  # events also happen on worker threads

    def append(self, line: str, max_bytes: int = DEFAULT_MAX_BYTES) -> bool:
        """Write an event; return whether it is the first of a new segment.

        `max_bytes` bounds the size of a segment; see `drop_oldest`.

        Raises:
            OSError: The disk does not take it, or it is longer than `MAX_LINE_BYTES`.
        """
        data = line.encode("utf-8", "replace") + b"\n"  # half a surrogate pair: "?"
        if len(data) > MAX_LINE_BYTES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))  # it is never read
        with self._lock:
            if self._is_full(len(data), max_bytes):
                self._close_segment()
            is_new = self._segment is None
            if self._segment is None:
                self._segment = self._open_segment()
            try:
                append_line(self._segment.handle, data)
            except OSError:
                self._close_segment()  # nothing may be appended to half a line
                raise
            self._segment_events += 1
            self._segment_bytes += len(data)
            return is_new

    @property
    def is_empty(self) -> bool:
        """Whether no process has an event to send.  Blocking."""
        return next(self.directory.glob("*.jsonl"), None) is None

    def count_events(self) -> int:
        """Count the unsent events of all processes.  Blocking."""
        return sum(map(_count_lines, self.directory.glob("*.jsonl")))

    def rotate(self) -> None:
        with self._lock:
            self._close_segment()

    def claim_segments(self) -> Generator[Segment, None, None]:
        """Lock and yield the sendable segments, oldest first, until the next step.

        Blocking.
        """
        self._delete_stale()
        for path in sorted(self.directory.glob("*.jsonl")):
            if not _is_fresh(path):
                yield from _lock_segment(path)

    def delete(self, segment: Segment, unsent: Sequence[EventLine] = ()) -> None:
        """Delete a segment, except for its unsent lines.

        Raises:
            OSError: The disk has no space for the unsent lines; the segment is
                unchanged.
        """
        if unsent:
            stem = segment.path.stem[:_NAME_LENGTH]  # keeps its place in the order
            new = segment.path.with_name(f"{stem}-{_random_suffix()}{_NEW}")
            data = b"".join(line.raw + b"\n" for line in unsent)
            with open_private(new, is_new=True) as handle:
                append_line(handle, data)
            new.rename(new.with_suffix(".jsonl"))
        _delete_segment(segment)

    def drop_oldest(self, max_bytes: int) -> Iterator[int]:
        """Enforce the limit.

        Yield the number of dropped events before deleting them. Blocking.

        Segments in use stay, and count with the size they may still reach.
        """
        self._mark_oldest(max_bytes)
        dropped = []
        for path in sorted(self.directory.glob(f"*{_DROPPED}")):
            locked = _lock_segment(path)
            if segment := next(locked, None):
                dropped.append((segment, locked))
        if count := sum(_event_count(line) for segment, _ in dropped for line in segment.events):
            yield count
        for segment, _ in dropped:
            _delete_segment(segment)

    def _mark_oldest(self, max_bytes: int) -> None:
        capacity = max_bytes - _PROCESSES * _segment_bytes(max_bytes)
        sizes = dict(_segment_sizes(self.directory))
        total = sum(sizes.values())
        for path in sorted(sizes):
            if total <= capacity:
                return
            for segment in _lock_segment(path):
                with suppress(OSError):
                    segment.path.rename(segment.path.with_suffix(_DROPPED))
                    total -= sizes[path]

    def _delete_stale(self) -> None:
        unfinished = (f"*{_NEW}", f"{NEW_PREFIX}*")
        for path in chain.from_iterable(map(self.directory.glob, unfinished)):
            with suppress(OSError):
                if time.time() - path.lstat().st_mtime > _STALE_SECONDS:
                    path.unlink()

    def _is_full(self, more_bytes: int, max_bytes: int) -> bool:
        return self._segment_events >= MAX_BATCH_EVENTS or (
            self._segment_events > 0
            and self._segment_bytes + more_bytes > _segment_bytes(max_bytes)
        )

    def _close_segment(self) -> None:
        if self._segment is not None:
            self._segment.release()
        self._segment, self._segment_events, self._segment_bytes = None, 0, 0

    def _open_segment(self) -> FileLock:
        name = f"{time.time_ns():020d}-{os.getpid()}-{_random_suffix()}.jsonl"
        path = self.directory / name
        try:
            return acquire_lock(path, timeout_seconds=_LOCK_SECONDS)
        except OSError:
            path.unlink(missing_ok=True)  # each event would leave one behind
            raise


def read_event_lines(handle: IO[bytes]) -> Iterator[EventLine | None]:
    """Parse the lines of a file; None stands for an invalid or overlong line."""
    for raw in split_lines(handle, MAX_LINE_BYTES):
        yield raw if raw is None else parse_event_line(raw)


def split_lines(handle: IO[bytes], max_bytes: int) -> Iterator[bytes | None]:
    """Split a file into non-blank lines.

    None stands for an overlong one, never held in memory.
    """
    while data := handle.readline(max_bytes + 1):
        if len(data) > max_bytes:
            while data and not data.endswith(b"\n"):
                data = handle.readline(max_bytes)
            yield None
        elif raw := data.strip():
            yield raw


def parse_event_line(raw: bytes) -> EventLine | None:
    try:
        event = json.loads(raw.decode("utf-8"), parse_constant=reject_constant)
    except (ValueError, RecursionError):
        return None
    return EventLine(raw, event) if isinstance(event, dict) else None


def _lock_segment(path: Path) -> Iterator[Segment]:
    """Yield a segment, unless another process has locked it."""
    with suppress(OSError):
        handle = open_regular(path, max_bytes=MAX_FILE_BYTES, is_writing=True)
        if handle is None:
            logger.debug("%s is not a segment of ours", path.name)
            return
        with closing(handle):
            lock_file(handle)
            # Look again: another sender may have finished it meanwhile.
            if path.exists():
                yield _read_segment(handle, path)


def _read_segment(handle: IO[bytes], path: Path) -> Segment:
    found = list(read_event_lines(handle))
    lines = tuple(line for line in found if line)
    skipped = len(found) - len(lines)
    if skipped:
        logger.warning("%s: lines that are not events: %d", path.name, skipped)
    return Segment(path, lines, skipped, handle)


def _delete_segment(segment: Segment) -> None:
    try:
        segment.path.unlink(missing_ok=True)
    except PermissionError:  # Windows keeps what is open
        segment.handle.close()
        segment.path.unlink(missing_ok=True)


def _event_count(event: dict[str, Any]) -> int:
    match event:
        case {"type": "events_dropped", "data": {"count": int(count)}}:
            return count
        case _:
            return 1


def _segment_sizes(directory: Path) -> Iterator[tuple[Path, int]]:
    for path in directory.glob("*.jsonl"):
        with suppress(OSError):
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) and 0 < status.st_size <= MAX_FILE_BYTES:
                yield path, status.st_size


def _count_lines(path: Path) -> int:
    with suppress(OSError):
        if handle := open_regular(path, max_bytes=MAX_FILE_BYTES):
            with handle:
                return sum(1 for _ in handle)
    return 0


def _segment_bytes(max_bytes: int) -> int:
    return min(_MAX_SEGMENT_BYTES, max_bytes // _SEGMENTS)


def _is_fresh(path: Path) -> bool:
    """Whether its writer may not have locked the segment yet."""
    with suppress(OSError):
        status = path.stat()
        return status.st_size == 0 and time.time() - status.st_mtime < _NEW_SECONDS
    return True


def _random_suffix() -> str:
    return uuid.uuid4().hex[:8]


def reject_constant(constant: str) -> None:
    """Refuse `NaN`: it is not JSON and could not be posted."""
    raise ValueError(constant)


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


class Outbox:
    """The folders of events in the state folder.  All methods block.

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
    together the oldest are deleted; at `max_file_bytes` a new file is begun.
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
    """All events in the state folder, unsent or settled, for reading."""

    def __init__(self, home: Path, settings: Path = Path("config.yaml")) -> None:
        self._home = home
        self.settings = settings
        """The file of settings in which recording is turned on."""
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
