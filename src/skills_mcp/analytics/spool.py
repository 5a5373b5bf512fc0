"""Events on disk until somebody has accepted them (001 §10.4).

Each process appends to a segment of its own, the moment an event happens, and
holds a lock on it. A sender takes only segments that nobody holds: its own after
`rotate()`, and those of processes that have ended. So an event is never lost
with a process, and never sent by two.
"""

import errno
import json
import logging
import os
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import portalocker

logger = logging.getLogger(__name__)

_EXCLUSIVE = portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING

# Small enough for one request, large enough that a day of work is a few files.
_MAX_SEGMENT_BYTES = 256 * 1024

# A sender leaves an empty segment alone for so long: it has nothing to send, and to
# lock it would take it from its writer.
_NEW_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Segment:
    """Events that this process alone may send now."""

    path: Path
    events: tuple[dict[str, Any], ...]
    handle: IO[bytes]


class Spool:
    """A folder of segments, one JSON object per line."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._own: IO[bytes] | None = None
        self._guard = threading.Lock()  # events also happen on worker threads

    def append(self, line: str) -> None:
        """Write one event down.

        Raises:
            OSError: The disk does not take it.
        """
        data = line.encode("utf-8", "replace") + b"\n"  # half a surrogate pair: "?"
        with self._guard:
            if self._own is None:
                self._own = self._open_segment()
            # One unbuffered write in append mode: the system has it when we return.
            if _write(self._own, data) < len(data):
                self._finish()  # nothing may be appended to half a line
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if self._own.tell() > _MAX_SEGMENT_BYTES:
                self._finish()

    def rotate(self) -> None:
        """Finish the segment of this process, so that it can be sent."""
        with self._guard:
            self._finish()

    def take(self) -> Iterator[Segment]:
        """Iterate over what can be sent, oldest first.

        A segment that is not removed before the next one is asked for stays.
        """
        for path in sorted(self._directory.glob("*.jsonl")):
            with suppress(OSError, portalocker.LockException):
                if _is_just_made(path):
                    continue
                with path.open("r+b") as handle:
                    portalocker.lock(handle, _EXCLUSIVE)
                    # Look again: another sender may have finished it meanwhile.
                    if path.exists():
                        yield Segment(path, tuple(_events(handle, path)), handle)

    def remove(self, segment: Segment) -> None:
        """Forget a segment that was accepted."""
        segment.path.unlink(missing_ok=True)

    def _finish(self) -> None:
        if self._own is not None:
            self._own.close()
            self._own = None

    def _open_segment(self) -> IO[bytes]:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        name = f"{time.time_ns():020d}-{os.getpid()}-{uuid.uuid4().hex[:8]}.jsonl"
        handle = (self._directory / name).open("ab", buffering=0)
        try:
            portalocker.lock(handle, _EXCLUSIVE)
        except portalocker.LockException as error:
            handle.close()
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK)) from error
        return handle


def _is_just_made(path: Path) -> bool:
    """Whether the writer of a segment may be about to lock it."""
    status = path.stat()
    return status.st_size == 0 and time.time() - status.st_mtime < _NEW_SECONDS


def _write(handle: IO[bytes], data: bytes) -> int:
    """Return how many bytes the disk took."""
    try:
        return handle.write(data)
    except OSError:
        return 0


def _events(handle: IO[bytes], path: Path) -> Iterator[dict[str, Any]]:
    """Iterate over whole lines; one that is broken never blocks the others."""
    for number, line in enumerate(handle, start=1):
        try:
            event = json.loads(line, parse_constant=_refuse)
        except (ValueError, RecursionError):
            logger.warning("%s:%d is no event and is skipped", path.name, number)
            continue
        if isinstance(event, dict):
            yield event


def _refuse(constant: str) -> None:
    """Take `NaN` for what it is: no JSON, and nothing that could be posted."""
    raise ValueError(constant)
