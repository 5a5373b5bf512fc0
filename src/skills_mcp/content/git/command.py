"""One running Git command: its output, its limits, and how it ends.

Rule: every wait for a pipe has a deadline.  A helper that Git has left in the
background may hold it open long after Git has ended.
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


class GitCommand:
    """A process that leads its own group, with pipes for both of its outputs.

    Its group ends with this process, also if this process is killed.
    """

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self._lifeline = Lifeline(process.pid)
        self.transcript = Transcript()
        self.printed = bytearray()
        self.is_late = False
        """Whether it was killed at its deadline."""
        self._threads: list[threading.Thread] = []
        self._timer: threading.Timer | None = None
        self._drain(process.stderr, self.transcript.feed)

    @property
    def output(self) -> IO[bytes]:
        """Its standard output, for callers that read it in pieces, without `wait`."""
        if self.process.stdout is None:
            raise ValueError("started without a pipe")
        return self.process.stdout

    @property
    def has_printed_too_much(self) -> bool:
        """Whether it was killed because its output was too long."""
        return len(self.printed) > _MAX_OUTPUT_BYTES

    def wait(self, timeout_seconds: float, on_tick: Callable[[], object]) -> None:
        """Read its whole output until it ends or has to be killed.

        Args:
            timeout_seconds: Then its group is killed.
            on_tick: Called every tenth of a second; an exception ends the wait.
        """
        deadline = time.monotonic() + timeout_seconds
        reader = self._drain(self.process.stdout, self._keep)
        while self.process.poll() is None:
            # At the end of its output it ends at once, so the wait is short.
            reader.join(_CHECK_SECONDS)
            if not reader.is_alive():
                self._wait_briefly()
            on_tick()
            if time.monotonic() > deadline:
                self.is_late = True
                return
            if self.has_printed_too_much:
                return

    def end_after(self, timeout_seconds: float) -> None:
        """Kill its group if it still runs after this time."""
        self._timer = threading.Timer(timeout_seconds, self._end_late)
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> None:
        """Kill the whole process group, and close both pipes.

        Needed even if the command has ended: its transport, or a helper in the
        background, may still run and hold the lock that it inherited.
        """
        if self._timer:
            self._timer.cancel()
        kill_group(self.process.pid)
        self._lifeline.cut()
        self.process.wait()
        for thread in self._threads:
            thread.join(_DRAIN_SECONDS)
        if not any(thread.is_alive() for thread in self._threads):
            self.transcript.finish()
            for pipe in filter(None, (self.process.stdout, self.process.stderr)):
                pipe.close()

    def _end_late(self) -> None:
        self.is_late = True
        kill_group(self.process.pid)

    def _wait_briefly(self) -> None:
        try:
            self.process.wait(_CHECK_SECONDS)
        except subprocess.TimeoutExpired:
            return

    def _keep(self, data: bytes) -> None:
        if self.has_printed_too_much:
            return
        self.printed += data

    def _drain(
        self, stream: IO[bytes] | None, consume: Callable[[bytes], object]
    ) -> threading.Thread:
        """Read a pipe to its end on a thread of its own."""

        def read() -> None:
            while stream and (data := _read_some(stream)):
                consume(data)

        thread = threading.Thread(target=read, name="git-output", daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread


def _read_some(stream: IO[bytes]) -> bytes:
    """Return what is in the pipe, without waiting for a full buffer."""
    read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
    return read(_PIECE_BYTES)


class Watch:
    """Watches a running command: its progress, and how much the store grows."""

    def __init__(
        self,
        directory: Path,
        on_progress: Callable[[str, float], None] | None = None,
        max_growth_bytes: int | None = None,
    ) -> None:
        self._directory = directory
        self._on_progress = on_progress
        self._told: tuple[str, float] | None = None
        self._before_bytes = measure_objects(directory) if max_growth_bytes else 0
        self._max_growth_bytes = max_growth_bytes

    def check(self, command: GitCommand) -> None:
        """Report the progress, and check the limit.

        Raises:
            LimitExceededError: The store has grown too much.
        """
        progress = command.transcript.progress
        if self._on_progress and progress and progress != self._told:
            self._told = progress
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
    """Limit the memory of a process, on systems that can do that."""
    # Windows has no such module, macOS no such function; and the process may have
    # ended, or have a lower limit already.
    with suppress(ImportError, AttributeError, OSError, ValueError):
        import resource

        limit = (_MAX_ADDRESS_SPACE_BYTES, _MAX_ADDRESS_SPACE_BYTES)
        resource.prlimit(pid, resource.RLIMIT_AS, limit)


def measure_objects(store: Path) -> int:
    """Return how many bytes Git's objects have, with unfinished ones."""
    return sum(size for _, size in find_objects(store))


def find_objects(store: Path) -> Iterator[tuple[str, int]]:
    """Yield the path and the size of every file of Git's objects."""
    for folder, _, names in os.walk(store / "objects"):
        for name in names:
            path = os.path.join(folder, name)  # noqa: PTH118 - there may be thousands
            with suppress(OSError):  # Git renames its files meanwhile
                yield path, os.stat(path).st_size  # noqa: PTH116
