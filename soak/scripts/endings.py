"""Every way in which a server ends, while it is idle, syncs or runs a script.

Promise 40, rows 48 to 51 of the fault matrix.  A process belongs to a server if its
command line, its environment or its folder names that server's own: so no process gets
away by a new session, and what the supervisor of a script does is seen, too.
"""

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from soak.scenario import Figure, Scale, Scenario, Unavailable
from soak.stdio import home_variables
from tests.clients import ServerProcess
from tests.content.git_server import Request, hang, serving
from tests.support import Upstream, skill_text, wait_for, write

_BOUND_SECONDS = 3.0
"""Until the last process has ended: one to notice the end of the parent, two to end."""

_ENOUGH_ANSWERS = 40
"""The number of lists of tools that exceeds what a pipe holds."""

_PARENT = (
    *(sys.executable, "-c"),
    "import subprocess, sys; subprocess.run(sys.argv[1:])",
)
"""The words that start a command beneath a parent, which passes its streams on."""

_SCRIPT = {"file": "scripts/long.sh", "execution": "server"}
_CALL: dict[str, Any] = {"skill_path": "login", "file": "scripts/long.sh", "args": {}}


class _Server(ServerProcess):
    """A server whose client can stop reading, or hang up, at any time."""

    def __init__(self, folder: Path, parent: Sequence[str], **environment: str) -> None:
        self._answers = folder / "answers"
        os.mkfifo(self._answers)
        self._reading = os.open(self._answers, os.O_RDONLY | os.O_NONBLOCK)
        self._is_reading = threading.Event()
        self._is_reading.set()
        temporary = folder / "tmp"
        temporary.mkdir()
        super().__init__(
            environment=home_variables(folder) | {"TMPDIR": str(temporary)} | environment,
            log=folder / "server.log",
            prefix=("sh", "-c", 'exec "$@" > "$0"', str(self._answers), *parent),
        )

    def signal(self, number: int) -> None:
        """Send a signal to the server, or to its parent if it has one."""
        self.process.send_signal(number)

    def stop_reading(self) -> None:
        """Stop reading answers, and send requests whose answers fill the pipe."""
        self._is_reading.clear()
        self._reader.join()
        for _ in range(_ENOUGH_ANSWERS):
            self.send("tools/list")

    def hang_up(self) -> None:
        """Close the pipe of the answers, and send one more request."""
        self._is_reading.clear()
        self._reader.join()
        os.close(self._reading)
        self._reading = -1
        with suppress(BrokenPipeError):
            self.send("tools/list")

    def close(self) -> None:
        """End all that is left of the server."""
        self._is_reading.clear()
        super().close()
        if self._reading >= 0:
            os.close(self._reading)

    def _read(self) -> None:
        rest = b""
        while self._is_reading.is_set():
            if not select.select([self._reading], [], [], 0.05)[0]:
                continue
            with suppress(BlockingIOError):
                data = os.read(self._reading, 65536)
                if not data:  # no process has it open for writing
                    time.sleep(0.01)
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self.lines.append(line.decode())
                    self.arrived.put(line.decode())


def _stop_reading_and_close(server: _Server) -> None:
    server.stop_reading()
    server.close_input()


_Busy = Callable[[Path, Sequence[str]], AbstractContextManager[_Server]]
"""Starts a server in a folder, beneath a parent; it is busy until the block ends."""

ENDINGS: dict[str, Callable[[_Server], None]] = {
    "end of input": _Server.close_input,
    "SIGTERM": lambda server: server.signal(signal.SIGTERM),
    "SIGINT": lambda server: server.signal(signal.SIGINT),
    "SIGHUP": lambda server: server.signal(signal.SIGHUP),
    "death of the parent": lambda server: server.signal(signal.SIGKILL),
    "answers that are not taken": _Server.hang_up,
    "answers that are not read": _stop_reading_and_close,
    "SIGKILL": lambda server: server.signal(signal.SIGKILL),
}
_HAS_PARENT = "death of the parent"

# Git is no script: what is orphaned keeps the lock until it ends by itself (promise 6).
_LEAVES_GIT = frozenset({"SIGKILL"})

_QUICK = {
    "idle": ("answers that are not taken",),
    "a fetch": ("death of the parent",),
    "a script": ("answers that are not read", "SIGKILL"),
}


@dataclass(frozen=True, slots=True)
class _End:
    """How a server has ended."""

    name: str
    seconds: float
    """The seconds until the last of its processes had ended."""
    left: tuple[str, ...]
    """The processes that were left at the bound."""
    has_event: bool
    """Whether the events from before are on the disk."""


def end(folder: Path, scale: Scale) -> Iterator[Figure]:
    """End servers in every way: idle, during a sync, during a script."""
    if not Path("/proc/self/environ").exists():
        raise Unavailable("processes are found by what only Linux tells of them")
    whens = {"idle": _idle, "a fetch": _fetching, "a script": _running}
    bound = scale.bound(_BOUND_SECONDS)
    for when, busy in whens.items():
        ways = list(ENDINGS) if scale.is_full else _QUICK[when]
        ways = [way for way in ways if when != "a fetch" or way not in _LEAVES_GIT]
        ended = [_try(way, busy, folder / f"{when} {way}", bound) for way in ways]
        left = [f"{each.name}: {', '.join(each.left)}" for each in ended if each.left]
        said = f" ({'; '.join(left)})" if left else ""
        count = len(ended)
        yield Figure.none(40, f"{when}: processes left{said}", len(left), count)
        slowest = max(ended, key=lambda each: each.seconds)
        what = f"{when}: seconds until all are gone, {slowest.name}"
        yield Figure.at_most(40, what, round(slowest.seconds, 1), bound)
        kept = sum(each.has_event for each in ended)
        yield Figure.every(40, f"{when}: events kept", kept, count)


def _try(way: str, busy: _Busy, folder: Path, bound_seconds: float) -> _End:
    folder.mkdir()
    with busy(folder, _PARENT if way == _HAS_PARENT else ()) as server:
        began = time.monotonic()
        ENDINGS[way](server)
        left = _find_processes(folder)
        while left and time.monotonic() - began < 2 * bound_seconds:
            time.sleep(0.02)
            left = _find_processes(folder)
        seconds = time.monotonic() - began
    return _End(way, seconds, tuple(left), _has_event(folder))


@contextmanager
def _idle(folder: Path, parent: Sequence[str]) -> Iterator[_Server]:
    with _counting(folder, parent, SKILLS_DIR=_write_content(folder)) as server:
        yield server


@contextmanager
def _running(folder: Path, parent: Sequence[str]) -> Iterator[_Server]:
    """Run a script with a grandchild in a session of its own."""
    with _counting(folder, parent, SKILLS_DIR=_write_content(folder)) as server:
        server.send("tools/call", name="run_script", arguments=_CALL)
        wait_for(lambda: len(_find_sleeping(folder)) > 1)
        yield server


@contextmanager
def _fetching(folder: Path, parent: Sequence[str]) -> Iterator[_Server]:
    """Hang in a fetch; the served commit came with an earlier one."""
    upstream, asked = Upstream.create(folder / "remote"), threading.Event()
    upstream.commit({"login.md": skill_text(keywords=["login"])})

    def hold(request: Request) -> None:
        asked.set()
        hang(request)

    with serving(folder / "remote") as remote:
        url = f"{remote.url}/upstream.git"
        with _counting(folder, parent, SKILLS_REPO=url) as server:
            upstream.commit({"login.md": skill_text(keywords=["login", "more"])})
            remote.fault = hold
            server.send("tools/call", name="refresh_skills", arguments={})
            if not asked.wait(20):
                raise TimeoutError("no fetch was begun")
            yield server


@contextmanager
def _counting(folder: Path, parent: Sequence[str], **environment: str) -> Iterator[_Server]:
    """Start a server that has recorded events."""
    write(folder / "home/.skills-mcp/config.yaml", "analytics: {enabled: true}\n")
    server = _Server(folder, parent, **environment)
    try:
        server.call("get_skill", context="login")
        server.call("report_usage", skill_path="login", useful=True)
        yield server
    finally:
        server.close()
        for pid in _find_processes(folder, only_pids=True):
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def _write_content(folder: Path) -> str:
    content = folder / "content"
    write(content / "login.md", skill_text(keywords=["login"], scripts=[_SCRIPT]))
    write(content / "login/scripts/long.sh", "setsid sleep 613 & sleep 613\n")
    return str(content)


def _has_event(folder: Path) -> bool:
    ours = (folder / "home/.skills-mcp").rglob("*")
    return any(b"skill_feedback" in each.read_bytes() for each in ours if each.is_file())


def _find_sleeping(folder: Path) -> list[str]:
    return [each for each in _find_processes(folder) if each == "sleep 613"]


def _find_processes(folder: Path, *, only_pids: bool = False) -> list[str]:
    """Return the command lines of the other processes in or for this folder."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            with suppress(OSError):  # it has ended
                words = (process / "cmdline").read_bytes()
                told = words + b"\0" + (process / "environ").read_bytes()
                told += os.fsencode((process / "cwd").readlink())
                if words and os.fsencode(folder) in told:
                    shown = words.replace(b"\0", b" ").decode(errors="replace")
                    found.append(process.name if only_pids else shown.strip())
    return found


SCENARIOS: tuple[tuple[str, Scenario], ...] = (("endings", end),)
