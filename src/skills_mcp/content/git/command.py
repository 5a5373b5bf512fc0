"""Git commands: a running process, its output, limits and termination.

Rule: every wait for a pipe has a deadline.  A background helper of Git may hold it open
long after Git has ended.
"""

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

from skills_mcp.content.git.transcript import Transcript
from skills_mcp.errors import LimitExceededError
from skills_mcp.processes.group import Lifeline, kill_group

# How often the limits are checked.
_CHECK_SECONDS = 0.1

# After its group was killed a process that has left the group may hold a pipe.
_DRAIN_SECONDS = 1.0

_PIECE_BYTES = 64 * 1024

# For output that is read as a whole: file names, a commit, a version.
_MAX_OUTPUT_BYTES = 64 * 1024 * 1024

# Enough for a pack of the largest size that is allowed, and less than the memory of a
# laptop, which a decompression bomb would fill.
_MAX_ADDRESS_SPACE_BYTES = 4 * 1024 * 1024 * 1024


class GitProcess:
    """A Git process group; it ends with this process, even a killed one."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self._lifeline = Lifeline(process.pid)
        self.transcript = Transcript()
        self.printed = bytearray()
        self.has_timed_out = False
        """Whether it was killed at its deadline."""
        self._threads: list[threading.Thread] = []
        self._timer: threading.Timer | None = None
        self._drain(process.stderr, self.transcript.feed)

    @property
    def output(self) -> IO[bytes]:
        """Standard output, for streaming without `wait`."""
        if self.process.stdout is None:
            raise ValueError("started without a pipe")
        return self.process.stdout

    @property
    def has_exceeded_output(self) -> bool:
        return len(self.printed) > _MAX_OUTPUT_BYTES

    def wait(self, timeout_seconds: float, on_tick: Callable[[], object]) -> None:
        """Read all output until the process ends or reaches a limit."""
        deadline = time.monotonic() + timeout_seconds
        reader = self._drain(self.process.stdout, self._append_output)
        while self.process.poll() is None:
            # At the end of its output it ends at once, so the wait is short.
            reader.join(_CHECK_SECONDS)
            if not reader.is_alive():
                self._wait_briefly()
            on_tick()
            if time.monotonic() > deadline:
                self.has_timed_out = True
                return
            if self.has_exceeded_output:
                return

    def end_after(self, timeout_seconds: float) -> None:
        self._timer = threading.Timer(timeout_seconds, self._end_late)
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> None:
        """Kill the process group and close both pipes.

        Needed even after its end: its transport or a helper may hold the inherited
        lock.
        """
        if self._timer:
            self._timer.cancel()
        kill_group(self.process.pid)
        self._lifeline.close_shell()
        self.process.wait()
        for thread in self._threads:
            thread.join(_DRAIN_SECONDS)
        if not any(thread.is_alive() for thread in self._threads):
            self.transcript.finish()
            for pipe in filter(None, (self.process.stdout, self.process.stderr)):
                pipe.close()

    def _end_late(self) -> None:
        self.has_timed_out = True
        kill_group(self.process.pid)

    def _wait_briefly(self) -> None:
        try:
            self.process.wait(_CHECK_SECONDS)
        except subprocess.TimeoutExpired:
            return

    def _append_output(self, data: bytes) -> None:
        if self.has_exceeded_output:
            return
        self.printed += data

    def _drain(
        self, stream: IO[bytes] | None, consume: Callable[[bytes], object]
    ) -> threading.Thread:
        def read() -> None:
            while stream and (data := _read_some(stream)):
                consume(data)

        thread = threading.Thread(target=read, name="git-output", daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread


def _read_some(stream: IO[bytes]) -> bytes:
    """Read from a pipe without waiting for a full buffer."""
    read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
    return read(_PIECE_BYTES)


class CommandMonitor:
    """Progress and store growth of a running command."""

    def __init__(
        self,
        directory: Path,
        on_progress: Callable[[str, float], None] | None = None,
        max_growth_bytes: int | None = None,
    ) -> None:
        self._directory = directory
        self._on_progress = on_progress
        self._last_progress: tuple[str, float] | None = None
        self._before_bytes = measure_objects(directory) if max_growth_bytes else 0
        self._max_growth_bytes = max_growth_bytes

    def check(self, command: GitProcess) -> None:
        """Report progress and check the growth limit.

        Raises:
            LimitExceededError: The store has grown too much.
        """
        progress = command.transcript.progress
        if self._on_progress and progress and progress != self._last_progress:
            self._last_progress = progress
            self._on_progress(*progress)
        if self._max_growth_bytes is None:
            return
        growth_bytes = measure_objects(self._directory) - self._before_bytes
        if growth_bytes > self._max_growth_bytes:
            raise LimitExceededError(
                "the repository is larger than limits.max_download_bytes. Follow a "
                "smaller one, or raise that limit"
            )


def limit_memory(pid: int) -> None:
    """Limit the address space of a process, if the system supports it."""
    # Windows has no such module, macOS no such function; and the process may have
    # ended, or have a lower limit already.
    with suppress(ImportError, AttributeError, OSError, ValueError):
        import resource

        limit = (_MAX_ADDRESS_SPACE_BYTES, _MAX_ADDRESS_SPACE_BYTES)
        resource.prlimit(pid, resource.RLIMIT_AS, limit)


def measure_objects(store: Path) -> int:
    """Total size of the files in Git's object folder, in bytes."""
    return sum(size for _, size in find_objects(store))


def find_objects(store: Path) -> Iterator[tuple[str, int]]:
    for folder, _, names in os.walk(store / "objects"):
        for name in names:
            path = os.path.join(folder, name)  # noqa: PTH118 - there may be thousands
            with suppress(OSError):  # Git renames its files meanwhile
                yield path, os.stat(path).st_size  # noqa: PTH116
