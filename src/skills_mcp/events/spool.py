"""Events on disk until a receiver has accepted them: segments of JSON lines.

Each process appends to a segment of its own, the moment an event happens, and holds a
lock on it. A sender takes only segments that no other process holds: its own after
`rotate()`, and those of processes that have ended. So an event is never lost with a
process, and never sent by two.
"""

import errno
import json
import logging
import os
import stat
import threading
import time
import uuid
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any

from skills_mcp.files.durable import NEW_PREFIX, append, open_private, open_regular
from skills_mcp.files.locks import lock_file

logger = logging.getLogger(__name__)

MAX_LINE_BYTES = 256 * 1024
"""Longer lines are not our events: the longest task has 10,000 characters."""

MAX_FILE_BYTES = 8 * 1024 * 1024
"""Larger files are not ours; reading one could take for ever."""

MAX_BATCH_EVENTS = 500
"""The most events of one request, and so of one segment."""

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

_DROPPED = ".dropped"
_NEW = ".new"
_STALE_SECONDS = 60 * 60.0  # writing a segment never takes that long
_NAME_LENGTH = 40  # a segment that is divided again and again keeps a short name


@dataclass(frozen=True, slots=True)
class Line:
    """One event, as it stands in a file."""

    raw: bytes
    """Valid JSON in UTF-8, without the end of the line."""
    event: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Segment:
    """Events that this process alone may send now."""

    path: Path
    lines: tuple[Line, ...]
    skipped: int
    """Lines that are not events."""
    handle: IO[bytes]

    @property
    def events(self) -> tuple[dict[str, Any], ...]:
        """The events of the lines."""
        return tuple(line.event for line in self.lines)


class Spool:
    """A folder of segments, one JSON object per line."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._own: IO[bytes] | None = None
        self._own_events = 0
        self._own_bytes = 0
        self._guard = threading.Lock()  # events also happen on worker threads

    def append(self, line: str, max_bytes: int = DEFAULT_MAX_BYTES) -> bool:
        """Write an event; return whether it is the first of a new segment.

        Args:
            line: The event, as JSON.
            max_bytes: How large all segments together may be; see `drop_oldest`.

        Raises:
            OSError: The disk does not take it, or it is longer than `MAX_LINE_BYTES`.
        """
        data = line.encode("utf-8", "replace") + b"\n"  # half a surrogate pair: "?"
        if len(data) > MAX_LINE_BYTES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))  # it is never read
        with self._guard:
            if self._is_full(len(data), max_bytes):
                self._finish()
            is_new = self._own is None
            if self._own is None:
                self._own = self._open_segment()
            try:
                append(self._own, data)
            except OSError:
                self._finish()  # nothing may be appended to half a line
                raise
            self._own_events += 1
            self._own_bytes += len(data)
            return is_new

    @property
    def is_empty(self) -> bool:
        """Whether no process has anything to send.  Blocking."""
        return next(self.directory.glob("*.jsonl"), None) is None

    def count_events(self) -> int:
        """Return how many events of all processes are to be sent.  Blocking."""
        return sum(map(_count_lines, self.directory.glob("*.jsonl")))

    def rotate(self) -> None:
        """Finish the segment of this process, so that it can be sent."""
        with self._guard:
            self._finish()

    def take(self) -> Generator[Segment, None, None]:
        """Iterate over the segments that can be sent, oldest first.  Blocking.

        A segment that is not removed before the next one is asked for stays.
        """
        self._sweep()
        for path in sorted(self.directory.glob("*.jsonl")):
            if not _is_just_made(path):
                yield from _locked(path)

    def remove(self, segment: Segment, rest: Sequence[Line] = ()) -> None:
        """Delete a segment that was taken, except for what is still to be sent.

        Raises:
            OSError: There is no room to keep the rest; the segment is as it was.
        """
        if rest:
            stem = segment.path.stem[:_NAME_LENGTH]  # keeps its place in the order
            new = segment.path.with_name(f"{stem}-{_unique()}{_NEW}")
            data = b"".join(line.raw + b"\n" for line in rest)
            with open_private(new, is_new=True) as handle:
                append(handle, data)
            new.rename(new.with_suffix(".jsonl"))
        _delete(segment)

    def drop_oldest(self, max_bytes: int) -> Iterator[int]:
        """Make room; yield how many events are dropped, before they are.  Blocking.

        Nothing is yielded if no event has to be dropped. Segments in use stay, and the
        room that they may still take is counted.
        """
        self._mark(max_bytes)
        dropped = []
        for path in sorted(self.directory.glob(f"*{_DROPPED}")):
            held = _locked(path)
            if segment := next(held, None):
                dropped.append((segment, held))
        if count := sum(_count(segment) for segment, _ in dropped):
            yield count
        for segment, _ in dropped:
            _delete(segment)

    def _mark(self, max_bytes: int) -> None:
        """Take the oldest segments out of the spool, until the others fit."""
        room = max_bytes - _PROCESSES * _segment_bytes(max_bytes)
        sizes = dict(_sizes(self.directory))
        total = sum(sizes.values())
        for path in sorted(sizes):
            if total <= room:
                return
            for segment in _locked(path):
                with suppress(OSError):
                    segment.path.rename(segment.path.with_suffix(_DROPPED))
                    total -= sizes[path]

    def _sweep(self) -> None:
        """Delete files that a killed process has left unfinished."""
        unfinished = (f"*{_NEW}", f"{NEW_PREFIX}*")
        for path in chain.from_iterable(map(self.directory.glob, unfinished)):
            with suppress(OSError):
                if time.time() - path.lstat().st_mtime > _STALE_SECONDS:
                    path.unlink()

    def _is_full(self, more_bytes: int, max_bytes: int) -> bool:
        return self._own_events >= MAX_BATCH_EVENTS or (
            self._own_events > 0
            and self._own_bytes + more_bytes > _segment_bytes(max_bytes)
        )

    def _finish(self) -> None:
        if self._own is not None:
            self._own.close()
        self._own, self._own_events, self._own_bytes = None, 0, 0

    def _open_segment(self) -> IO[bytes]:
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self.directory / f"{time.time_ns():020d}-{os.getpid()}-{_unique()}.jsonl"
        handle = open_private(path, is_new=True)
        try:
            lock_file(handle)
        except OSError:
            handle.close()
            path.unlink(missing_ok=True)  # each event would leave one behind
            raise
        return handle


def read_lines(handle: IO[bytes]) -> Iterator[Line | None]:
    """Iterate over the events of a file; None stands for a line that is not one.

    A line that was cut off or is garbage never hides the others, and a line that is too
    long is not held in memory.
    """
    for raw in split_lines(handle, MAX_LINE_BYTES):
        yield raw if raw is None else parse_line(raw)


def split_lines(handle: IO[bytes], most_bytes: int) -> Iterator[bytes | None]:
    """Iterate over the lines of a file that are not blank, without line ends.

    None stands for a longer line, which is never held in memory.
    """
    while data := handle.readline(most_bytes + 1):
        if len(data) > most_bytes:
            while data and not data.endswith(b"\n"):
                data = handle.readline(most_bytes)
            yield None
        elif raw := data.strip():
            yield raw


def parse_line(raw: bytes) -> Line | None:
    """Return the event of a line; None if it is not a JSON object."""
    try:
        event = json.loads(raw.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return Line(raw, event) if isinstance(event, dict) else None


def _locked(path: Path) -> Iterator[Segment]:
    """Yield a segment, if it is one and no other process holds it."""
    with suppress(OSError):
        handle = open_regular(path, max_bytes=MAX_FILE_BYTES, is_writing=True)
        if handle is None:
            logger.debug("%s is not a segment of ours", path.name)
            return
        with closing(handle):
            lock_file(handle)
            # Look again: another sender may have finished it meanwhile.
            if path.exists():
                yield _read(handle, path)


def _read(handle: IO[bytes], path: Path) -> Segment:
    """Return all valid lines; a broken one never blocks the others."""
    found = list(read_lines(handle))
    lines = tuple(line for line in found if line)
    skipped = len(found) - len(lines)
    if skipped:
        logger.warning("%s: lines that are not events: %d", path.name, skipped)
    return Segment(path, lines, skipped, handle)


def _delete(segment: Segment) -> None:
    try:
        segment.path.unlink(missing_ok=True)
    except PermissionError:  # Windows keeps what is open
        segment.handle.close()
        segment.path.unlink(missing_ok=True)


def _count(segment: Segment) -> int:
    """Return how many events a segment stands for, dropped ones included."""
    return sum(map(_weigh, segment.events))


def _weigh(event: dict[str, Any]) -> int:
    if event.get("type") != "events_dropped":
        return 1
    count = event.get("data", {}).get("count")
    return count if isinstance(count, int) else 1


def _sizes(directory: Path) -> Iterator[tuple[Path, int]]:
    for path in directory.glob("*.jsonl"):
        with suppress(OSError):
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) and status.st_size <= MAX_FILE_BYTES:
                yield path, status.st_size


def _count_lines(path: Path) -> int:
    """Return how many lines a segment has; a sender may remove it meanwhile."""
    with suppress(OSError):
        if handle := open_regular(path, max_bytes=MAX_FILE_BYTES):
            with handle:
                return sum(1 for _ in handle)
    return 0


def _segment_bytes(max_bytes: int) -> int:
    return min(_MAX_SEGMENT_BYTES, max_bytes // _SEGMENTS)


def _is_just_made(path: Path) -> bool:
    """Whether a segment is so new that its writer may not have locked it yet."""
    with suppress(OSError):
        status = path.stat()
        return status.st_size == 0 and time.time() - status.st_mtime < _NEW_SECONDS
    return True


def _unique() -> str:
    return uuid.uuid4().hex[:8]


def _refuse(constant: str) -> None:
    """Refuse `NaN`, which is not JSON and could not be posted."""
    raise ValueError(constant)
