"""Events on disk until somebody has accepted them (001 §10.4).

Each process appends to a segment of its own, the moment an event happens, and
holds a lock on it. A sender takes only segments that nobody holds: its own after
`rotate()`, and those of processes that have ended. So an event is never lost
with a process, and never sent by two.
"""

import errno
import logging
import os
import threading
import time
import uuid
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any

from skills_mcp.analytics.lines import (
    MAX_FILE_BYTES,
    MAX_LINE_BYTES,
    Line,
    is_plain,
    read_lines,
)
from skills_mcp.files.durable import NEW_PREFIX, append, open_private, open_regular
from skills_mcp.files.locks import lock_file

logger = logging.getLogger(__name__)

MAX_BATCH_EVENTS = 500
"""As many as one request has; no segment of ours needs two."""

DEFAULT_MAX_BYTES = 10 * 1024 * 1024

# Small enough for one request, large enough that a day of work is a few files.
_MAX_SEGMENT_BYTES = 256 * 1024

# As many windows as somebody has open. Each may fill its segment before the next look
# at what all of them have, so that much room is left.
_WINDOWS = 10
_SEGMENTS = 4 * _WINDOWS  # what the bound holds; a quarter of it is that room

# A sender leaves an empty segment alone for so long: it has nothing to send, and to
# lock it would take it from its writer.
_NEW_SECONDS = 60.0

_DROPPED = ".dropped"
_NEW = ".new"
_STALE_SECONDS = 60 * 60.0  # nobody takes that long to write a segment
_NAME_LENGTH = 40  # of a name; what was divided again and again gets no longer one


@dataclass(frozen=True, slots=True)
class Segment:
    """Events that this process alone may send now."""

    path: Path
    lines: tuple[Line, ...]
    skipped: int
    """Lines that are no events."""
    handle: IO[bytes]

    @property
    def events(self) -> tuple[dict[str, Any], ...]:
        """What happened."""
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
        """Write one event down; tell whether that began a segment.

        Args:
            line: The event, as JSON.
            max_bytes: What all segments together may have; see `drop_oldest`.

        Raises:
            OSError: The disk does not take it, or it is longer than `MAX_LINE_BYTES`.
        """
        data = line.encode("utf-8", "replace") + b"\n"  # half a surrogate pair: "?"
        if len(data) > MAX_LINE_BYTES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))  # nobody reads it
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
        """Whether there is nothing to send, by whichever process.  Blocking."""
        return next(self.directory.glob("*.jsonl"), None) is None

    def rotate(self) -> None:
        """Finish the segment of this process, so that it can be sent."""
        with self._guard:
            self._finish()

    def take(self) -> Generator[Segment, None, None]:
        """Iterate over what can be sent, oldest first.  Blocking.

        A segment that is not removed before the next one is asked for stays.
        """
        self._sweep()
        for path in sorted(self.directory.glob("*.jsonl")):
            if not _is_just_made(path):
                yield from _locked(path)

    def remove(self, segment: Segment, rest: Sequence[Line] = ()) -> None:
        """Forget a segment that was taken, apart from what is still to be sent.

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
        """Make room; yield how many events that costs, before they are gone.  Blocking.

        Nothing is yielded if nothing has to go. Segments in use are left alone, but
        the room that they may still take is counted.
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
        """Take the oldest segments out of the spool that there is no room for."""
        room = max_bytes - _WINDOWS * _segment_bytes(max_bytes)
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
        """Delete what a process was killed over."""
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


def _locked(path: Path) -> Iterator[Segment]:
    """Yield a segment, if there is one that nobody else holds."""
    with suppress(OSError):
        handle = open_regular(path, max_bytes=MAX_FILE_BYTES, is_writing=True)
        if handle is None:
            logger.debug("%s is none of our segments", path.name)
            return
        with closing(handle):
            lock_file(handle)
            # Look again: another sender may have finished it meanwhile.
            if path.exists():
                yield _read(handle, path)


def _read(handle: IO[bytes], path: Path) -> Segment:
    """Return all whole lines; one that is broken never blocks the others."""
    found = list(read_lines(handle))
    lines = tuple(line for line in found if line)
    skipped = len(found) - len(lines)
    if skipped:
        logger.warning("%s: lines that are no events: %d", path.name, skipped)
    return Segment(path, lines, skipped, handle)


def _delete(segment: Segment) -> None:
    try:
        segment.path.unlink(missing_ok=True)
    except PermissionError:  # Windows keeps what is open
        segment.handle.close()
        segment.path.unlink(missing_ok=True)


def _count(segment: Segment) -> int:
    """Return how many events are lost with a segment, with those it told to be lost."""
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
            if is_plain(status):
                yield path, status.st_size


def _segment_bytes(max_bytes: int) -> int:
    return min(_MAX_SEGMENT_BYTES, max_bytes // _SEGMENTS)


def _is_just_made(path: Path) -> bool:
    """Whether the writer of a segment may be about to lock it."""
    with suppress(OSError):
        status = path.stat()
        return status.st_size == 0 and time.time() - status.st_mtime < _NEW_SECONDS
    return True


def _unique() -> str:
    return uuid.uuid4().hex[:8]
