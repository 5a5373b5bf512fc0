"""A process that shares the cache with others, as each agent's server does.

It uses the library as the server does, without what takes long to start: all windows
are forks of one process that has imported everything.  Run as a program, it syncs once.
"""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.source import Checkout, Freshness, SyncPolicy, accept_any_commit
from skills_mcp.errors import SyncError
from soak.sync.numbered import TornError, check_files

PATIENCE_SECONDS = 120.0
"""Longer than any answer takes: beyond it the process hangs."""

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["soak.sync.window", "git.cmd", "tests.clients", "pytest"])


def open_branch(cache: Path, url: str, timeout_seconds: float = 60.0) -> RemoteBranch:
    """Return the branch `main`, as a server would follow it."""
    policy = SyncPolicy(timeout_seconds=timeout_seconds)
    return RemoteBranch(Remote.parse(url, "main"), cache, policy)


def sync(branch: RemoteBranch) -> Checkout:
    """Ask the remote now, ignoring freshness and back-off.

    Raises:
        SyncError: As the library says.
    """
    return branch.sync(Freshness(time.time(), is_urgent=True), accept_any_commit)


class Window:
    """The handle of such a process; end it with `close`."""

    def __init__(self, cache: Path, url: str, timeout_seconds: float = 60.0) -> None:
        self._pipe, theirs = _FORKS.Pipe()
        arguments = (theirs, cache, url, timeout_seconds)
        self._process = _FORKS.Process(target=_work, args=arguments, daemon=True)
        self._process.start()
        theirs.close()

    @property
    def exit_status(self) -> int | None:
        """Its exit code, a signal as a negative number; None while it runs."""
        return self._process.exitcode

    def ask(self, do: str, **more: Any) -> str:
        """Send an order, and return the answer.

        Raises:
            EOFError: The window has ended.
        """
        self.tell(do, **more)
        return self.hear()

    def tell(self, do: str, **more: Any) -> None:
        """Send an order, without waiting for the answer."""
        with suppress(BrokenPipeError):
            self._pipe.send((do, more))

    def hear(self) -> str:
        """Return the next answer; for most it is empty if all went well.

        Raises:
            EOFError: The window has ended.
            TimeoutError: It hangs.
        """
        if not self.has_answered(PATIENCE_SECONDS):
            raise TimeoutError(f"no answer within {PATIENCE_SECONDS:.0f} seconds")
        answer: str = self._pipe.recv()
        return answer

    def has_answered(self, within_seconds: float = 0.0) -> bool:
        """Whether an answer, or the end, is there."""
        return self._pipe.poll(within_seconds)

    def kill(self) -> None:
        """End it as a power cut would; a Git that it has started lives on."""
        self._process.kill()
        self._process.join()

    def stop(self) -> None:
        """Stop it, as a suspended job."""
        os.kill(self._process.pid or 0, signal.SIGSTOP)

    def resume(self) -> None:
        """Continue it."""
        os.kill(self._process.pid or 0, signal.SIGCONT)

    def close(self) -> None:
        """End it."""
        self.kill()
        self._pipe.close()


@contextmanager
def opened(count: int, cache: Path, url: str) -> Iterator[list[Window]]:
    """Open several windows that share a cache; all end with the block."""
    windows = [Window(cache, url) for _ in range(count)]
    try:
        yield windows
    finally:
        for window in windows:
            window.close()


def _work(pipe: Connection, cache: Path, url: str, timeout_seconds: float) -> None:
    """Obey and answer each order, until standard input ends."""
    worker = _Worker(open_branch(cache, url, timeout_seconds))
    with suppress(EOFError, BrokenPipeError):
        while True:
            name, more = pipe.recv()
            do: Callable[..., str] = getattr(worker, name)
            pipe.send(do(**more))


class _Worker:
    """What the process itself does; each method returns an answer."""

    def __init__(self, branch: RemoteBranch) -> None:
        self._branch = branch
        self._held: Checkout | None = None
        self._number = 0

    def greet(self) -> str:
        """Answer, to show that it has started."""
        return "hello"

    def sync(self, times: int = 1) -> str:
        """Sync that often; return a line for each time that it failed."""
        errors = []
        for _ in range(times):
            try:
                sync(self._branch)
            except SyncError as error:
                errors.append(str(error))
        return "\n".join(errors)

    def hold(self, number: int) -> str:
        """Take a lease of what is published, and return its commit."""
        self._held, self._number = self._branch.open(), number
        return (self._held and self._held.revision) or ""

    def read(self) -> str:
        """Read all files of the held commit; return what is wrong with them."""
        try:
            if self._held:
                check_files(self._held.directory, self._number)
        except (TornError, OSError) as error:
            return str(error)
        return ""

    def release(self) -> str:
        """Give the lease back."""
        self._held = None
        return ""

    def follow(self, interval_seconds: float, poll_seconds: float) -> str:
        """Sync by the timer, for ever."""
        import anyio

        from skills_mcp.content.mounts import Mounts
        from skills_mcp.content.refresher import Refresher
        from skills_mcp.content.source import Mount

        mounts = Mounts((Mount(source=self._branch),))
        minutes = interval_seconds / 60
        refresher = Refresher(
            mounts,
            lambda _: None,
            accept_any_commit,
            lambda: minutes,
            is_loaded=lambda: False,
            poll_seconds=poll_seconds,
        )
        refresher.wake()
        anyio.run(refresher.run)
        return ""


if __name__ == "__main__":
    sync(open_branch(Path(sys.argv[1]), sys.argv[2]))
