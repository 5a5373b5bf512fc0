"""Log of a server for several windows: each line goes where it belongs.

What a window has caused goes to the standard error of that window; what the server does
by itself to all of them, and to one file, which is rotated.
"""

import io
import os
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from threading import Lock
from typing import TextIO, cast

from skills_mcp.server.windows.rendezvous import read_inode

MAX_FILE_BYTES = 2**20
"""Then the file is renamed, and the file before it deleted: two are kept."""

_MAX_REPEATED = 200
"""Lines before the connection of a window: what was read, and what was wrong with it."""

_PRIVATE = 0o600


class WindowLog:
    """Standard error of one window; lines are dropped while its pipe is full."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        # A thread that logs must not write to what has the same number a moment later.
        self._lock = Lock()
        if descriptor >= 0:
            os.set_blocking(descriptor, False)

    def write(self, text: str) -> None:
        with self._lock:
            if self._descriptor >= 0:
                with suppress(OSError):  # full, or the window is gone
                    os.write(self._descriptor, text.encode(errors="replace"))

    def close(self) -> None:
        with self._lock:
            descriptor, self._descriptor = self._descriptor, -1
            if descriptor >= 0:
                os.close(descriptor)


_current: ContextVar[WindowLog] = ContextVar("window")


class ServerLog(io.TextIOBase):
    """Standard error of the server, shared by its windows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._windows: list[WindowLog] = []
        self._begin: deque[str] = deque(maxlen=_MAX_REPEATED)
        self._descriptor = -1
        self._inode = 0  # of no file
        self._lock = Lock()

    def take_streams(self) -> None:
        """Take the place of standard output and standard error.

        What goes past Python, such as the last words of a library, goes to the file.
        """
        sys.stdout = sys.stderr = cast("TextIO", self)
        with suppress(OSError):
            self._open()
            for stream in (1, 2):
                os.dup2(self._descriptor, stream)

    @contextmanager
    def attached(self, window: WindowLog) -> Iterator[None]:
        """Log to a window: lines of this block, and of the background meanwhile."""
        for text in tuple(self._begin):  # other threads append
            window.write(text)
        self._windows.append(window)
        token = _current.set(window)
        try:
            yield
        finally:
            _current.reset(token)
            self._windows.remove(window)
            window.close()

    @contextmanager
    def muted(self) -> Iterator[None]:
        """Log to the file only: lines of this block concern no window."""
        token = _current.set(WindowLog(-1))
        try:
            yield
        finally:
            _current.reset(token)

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        window = _current.get(None)
        if window is None:
            self._begin.append(text)
        for each in (window,) if window else tuple(self._windows):
            each.write(text)
        with self._lock, suppress(OSError):  # the disk is full, and windows have the line
            self._append(text.encode(errors="replace"))
        return len(text)

    def _append(self, line: bytes) -> None:
        """Append to the file, which other servers of this user rotate, too."""
        if self._inode != read_inode(os.fspath(self._path)):
            self._open()
        if os.lseek(self._descriptor, 0, os.SEEK_END) > MAX_FILE_BYTES:
            self._path.replace(self._path.with_suffix(".log.1"))
            self._open()
        os.write(self._descriptor, line)

    def _open(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self._path, flags, _PRIVATE)
        self._inode = os.fstat(self._descriptor).st_ino
