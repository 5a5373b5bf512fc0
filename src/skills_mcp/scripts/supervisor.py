"""Runs one program and ends everything that it has started: a program of its own.

It stands between the server and a script, imports nothing of the project, and is
started as `python -I -S supervisor.py key=value …`.  Standard input brings the words
and the environment of the program, and is held open by the server from then on: its
end says that the server is gone, however it died.

Rule: it ends only when nobody is left.  On Linux it adopts every process whose parent
ends (a subreaper), so it has no child left exactly when the program has no descendant
left, whatever they did to get away.  Elsewhere it knows the program's process group.
"""

# pathlib takes longer to import than all else that is done before a script starts.
# ruff: noqa: PTH110, PTH112, PTH116, PTH123, PTH208

import ctypes
import math
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
_PR_SET_CHILD_SUBREAPER = 36

# After SIGTERM when nobody waits for the program any more: enough for a trap that
# deletes a file, and less than a server takes to end.
_LAST_SECONDS = 0.25

# Whoever is still there after so much SIGKILL belongs to somebody else, or hangs in the
# kernel: nobody could end it.
_KILL_SECONDS = 5.0

# For a chain of processes that each live for less than a look takes.
_LOOK_SECONDS = 0.001

# More than any tool opens by itself, and fewer than would matter to others.
_MOST_OPEN_FILES = 1024

_CANNOT_START = 127  # as a shell says it

# Node.js and Java reserve many times what they use. Linux counts what can be written;
# elsewhere this would be the heap alone, or nothing.
_MEMORY = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS


def main(words: Sequence[str]) -> None:
    """Run what standard input brings, and report on the pipe `status` how it ended."""
    options = dict(word.split("=", 1) for word in words)
    status = int(options["status"])
    os.set_inheritable(status, False)  # noqa: FBT003 - it takes no names
    signals = _receive_signals()
    program, environment = _read_order(int(options["bytes"]), int(options["words"]))
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    child = os.fork()
    if not child:
        _become(program, environment, _limits(options), status)
    _report(status, f"started {child}")
    _let_go_of_output()
    tree = Tree(child, is_asked=options["wrapper"] == "no")
    ended = supervise(tree, signals, grace_seconds=float(options["grace"]))
    _report(status, _describe(ended))


class Tree:
    """A program and everything that it has started.

    Args:
        child: The program's process.
        is_asked: Whether the program itself is asked to end; a sandbox that wraps it
            would end at once, and take the program with it.
    """

    def __init__(self, child: int, *, is_asked: bool) -> None:
        self.child = child
        self.ended: int | None = None
        """How the program has ended, as `waitpid` says it."""
        self._is_asked = is_asked

    def reap(self) -> bool:
        """Collect who has ended; return whether anybody is left."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return True
                if pid == self.child:
                    self.ended = status
        except ChildProcessError:
            return False

    def ask(self) -> None:
        """Ask everybody to end, also who is stopped and could not hear it."""
        for pid in self._members():
            if pid != self.child or self._is_asked:
                _send(os.kill, pid, signal.SIGTERM)
                _send(os.kill, pid, signal.SIGCONT)

    def kill(self) -> bool:
        """End everybody who is there now; return whether anybody was.

        Whoever was just born is there next time. A group is killed as one, so that
        none of it can be between two generations.
        """
        groups = set() if _ADOPTS else {self.child}  # its leader may be gone
        for pid in self._members():
            with suppress(OSError):
                groups.add(os.getpgid(pid))
            _send(os.kill, pid, signal.SIGKILL)
        for group in groups - {os.getpgrp()}:
            _send(os.killpg, group, signal.SIGKILL)
        return self.reap()

    def _members(self) -> Iterator[int]:
        yield from _descendants(os.getpid()) if _ADOPTS else (self.child,)


def supervise(tree: Tree, signals: int, grace_seconds: float) -> int | None:
    """Wait for the program's end, or bring it about; return when nobody is left.

    SIGTERM asks the program to end and gives it the grace; any other signal, or the
    end of standard input, ends it now.
    """
    deadline = math.inf
    while tree.ended is None and (remaining := deadline - time.monotonic()) > 0:
        waiting = None if deadline == math.inf else remaining
        ready, _, _ = select.select([0, signals], [], [], waiting)
        received = os.read(signals, 64) if signals in ready else b""
        if 0 in ready or set(received) - {signal.SIGCHLD, signal.SIGTERM}:
            break
        if signal.SIGTERM in received and deadline == math.inf:
            deadline = time.monotonic() + grace_seconds
            tree.ask()
        tree.reap()
    if deadline == math.inf and tree.reap():
        tree.ask()
        _wait_while(tree.reap, signals, _LAST_SECONDS, _LAST_SECONDS)
    _wait_while(tree.kill, signals, _KILL_SECONDS, _LOOK_SECONDS)
    return tree.ended


def _wait_while(
    is_left: Callable[[], bool], signals: int, seconds: float, look_seconds: float
) -> None:
    """Return when nobody is left, or the time is over."""
    deadline = time.monotonic() + seconds
    while is_left() and time.monotonic() < deadline:
        if select.select([signals], [], [], look_seconds)[0]:
            os.read(signals, 64)


def _receive_signals() -> int:
    """Return the end of a pipe from which the number of each signal can be read."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    return reading


def _read_order(size: int, words: int) -> tuple[list[bytes], dict[bytes, bytes]]:
    """Return the words and the environment of the program.

    Standard input has all of them, each ended by NUL, which none can hold.
    """
    data = b""
    while len(data) < size:
        chunk = os.read(0, size - len(data))
        if not chunk:
            sys.exit(_CANNOT_START)  # the server is gone already
        data += chunk
    items = data.split(b"\0")[:-1]
    variables = (item.partition(b"=") for item in items[words:])
    return items[:words], {name: value for name, _, value in variables}


def _become(
    program: list[bytes],
    environment: dict[bytes, bytes],
    limits: Sequence[tuple[int, int]],
    status: int,
) -> None:
    """Turn the process into the program, in a session and within limits of its own."""
    try:
        os.setsid()
        # Without it a program that kills its supervisor would run on.
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        for number in (signal.SIGPIPE, getattr(signal, "SIGXFSZ", signal.SIGPIPE)):
            signal.signal(number, signal.SIG_DFL)  # Python ignores them
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for kind, most in limits:
            _limit(kind, most)
        os.execve(program[0], program, environment)  # noqa: S606 - as it is meant
    except OSError as error:
        _report(status, f"failed {error.errno}")
    finally:
        os._exit(_CANNOT_START)


def _limits(options: dict[str, str]) -> list[tuple[int, int]]:
    """Return the limits that were asked for, as the kernel names them."""
    if "memory" not in options:
        return []
    return [
        (resource.RLIMIT_CORE, 0),  # a dump would hold what the program has read
        (_MEMORY, int(options["memory"])),
        (resource.RLIMIT_FSIZE, int(options["file"])),
        (resource.RLIMIT_NOFILE, _MOST_OPEN_FILES),
        (resource.RLIMIT_CPU, int(options["cpu"])),
        # It counts everything of the user, and binds everybody but the superuser.
        (resource.RLIMIT_NPROC, int(options["processes"]) + _count_threads()),
    ]


def _limit(kind: int, most: int) -> None:
    """Set a limit; one that is lower already stays, and nobody can raise it again."""
    _, hard = resource.getrlimit(kind)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    with suppress(ValueError):  # macOS knows some limits only by name
        resource.setrlimit(kind, (most, most))


def _count_threads() -> int:
    """Return how many threads the user has, in all sessions."""
    count = 0
    for pid in _listed("/proc"):
        with suppress(OSError):
            if pid.isdigit() and os.stat(f"/proc/{pid}").st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{pid}/task"))
    return count


def _descendants(pid: int) -> Iterator[int]:
    """Yield who descends from a process, parents first, as it is at this moment."""
    find = _read_children if _HAS_CHILDREN else _scan_for_children
    waiting = [pid]
    while waiting:
        children = list(find(waiting.pop()))
        yield from children
        waiting += children


def _read_children(pid: int) -> Iterator[int]:
    """Yield the children of a process as Linux lists them."""
    for task in _listed(f"/proc/{pid}/task"):
        with suppress(OSError), open(f"/proc/{pid}/task/{task}/children") as listing:
            yield from map(int, listing.read().split())


def _scan_for_children(pid: int) -> Iterator[int]:
    """Yield the children of a process, where no kernel lists them."""
    for other in filter(str.isdigit, _listed("/proc")):
        with suppress(OSError), open(f"/proc/{other}/stat", "rb") as listing:
            # Only its name, in brackets, may hold anything.
            _, _, fields = listing.read().rpartition(b")")
            if int(fields.split()[1]) == pid:
                yield int(other)


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


_HAS_CHILDREN = os.path.exists(f"/proc/self/task/{os.getpid()}/children")

_ADOPTS = sys.platform == "linux" and os.path.isdir("/proc/self/task")


def _send(how: Callable[[int, int], None], target: int, number: int) -> None:
    with suppress(OSError):  # it has ended, or has become somebody else's
        how(target, number)


def _prctl(option: int, value: int) -> None:
    """Ask Linux for something; other systems do not have it."""
    with suppress(AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _let_go_of_output() -> None:
    """Close the program's streams, so that they end with the last who prints."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(nowhere, stream)


def _report(status: int, line: str) -> None:
    with suppress(OSError):  # the server is gone
        os.write(status, line.encode() + b"\n")


def _describe(ended: int | None) -> str:
    if ended is None:
        return "lost 0"
    code = os.waitstatus_to_exitcode(ended)
    return f"exited {code}" if code >= 0 else f"signalled {-code}"


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    main(sys.argv[1:])
