"""Program running another program and ending every process of its tree.

It stands between the server and a script, imports nothing of the project, and is
started as `python -I -S supervisor.py key=value …`.  Standard input carries the
arguments and the environment.  The server then holds it open, so its end signals the
end of the server, for any reason.

Rule: the supervisor ends only when the process tree is empty.  On Linux it adopts every
orphan (a subreaper), so it has no child left exactly when the program has no descendant
left, even in other sessions.  Elsewhere it knows only the program's process group.
"""

# To import pathlib would take longer than everything else before a script starts.
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
_PROC_ALL_PIDS, _PROC_RUID_ONLY = 1, 5  # <sys/proc_info.h>

# Between SIGTERM and SIGKILL for processes that outlive the program: enough for a trap
# that deletes a file, and less than a server takes to end.
_FINAL_GRACE_SECONDS = 0.25

# A process that survives SIGKILL for so long belongs to another user, or hangs in the
# kernel, and cannot be ended.
_KILL_SECONDS = 5.0

# Processes can start each other in a chain, each living for less than one look takes.
_POLL_SECONDS = 0.001

# More than a tool opens by itself, and too few to exhaust the system.
_MAX_OPEN_FILES = 1024

_CANNOT_START = 127  # as in a shell

# Node.js and Java reserve many times what they use. Linux counts what can be written;
# elsewhere this would be the heap alone, or nothing. macOS has no limit of memory: it
# refuses this one, because each process has more from its start.
_MEMORY = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS


def run_supervised(words: Sequence[str]) -> None:
    """Run the program from standard input; report its end on the `status` pipe."""
    options = dict(word.split("=", 1) for word in words)
    status = int(options["status"])
    os.set_inheritable(status, False)  # noqa: FBT003 - it takes no names
    signals = _open_signal_pipe()
    program, environment = _read_command(int(options["bytes"]), int(options["words"]))
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    child = os.fork()
    if not child:
        _execute(program, environment, _parse_limits(options), status)
    _report(status, f"started {child}")
    _release_output()
    tree = ProcessTree(child, signals_child=options["wrapper"] == "no")
    ended = supervise(tree, signals, grace_seconds=float(options["grace"]))
    _report(status, _describe_end(ended))


class ProcessTree:
    """A program and all its descendants.

    `signals_child` is false for a sandbox in the program's place: after SIGTERM it
    would end at once, and take the program with it.
    """

    def __init__(self, child: int, *, signals_child: bool) -> None:
        self.child = child
        self.ended: int | None = None
        """The wait status of the program, once it has ended."""
        self._signals_child = signals_child

    def reap(self) -> bool:
        """Collect ended processes; whether others are left."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return True
                if pid == self.child:
                    self.ended = status
        except ChildProcessError:
            return False

    def terminate(self) -> None:
        for pid in self._members():
            if pid != self.child or self._signals_child:
                _send_signal(os.kill, pid, signal.SIGTERM)
                _send_signal(os.kill, pid, signal.SIGCONT)

    def kill(self) -> bool:
        """SIGKILL to every process; whether any are left.

        The next call kills processes started meanwhile. A group is killed in one call,
        so that no member can fork in between.
        """
        groups = set() if _ADOPTS else {self.child}  # its leader may have ended
        for pid in self._members():
            with suppress(OSError):
                groups.add(os.getpgid(pid))
            _send_signal(os.kill, pid, signal.SIGKILL)
        for group in groups - {os.getpgrp()}:
            _send_signal(os.killpg, group, signal.SIGKILL)
        return self.reap()

    def _members(self) -> Iterator[int]:
        yield from _descendants(os.getpid()) if _ADOPTS else (self.child,)


def supervise(tree: ProcessTree, signals: int, grace_seconds: float) -> int | None:
    """Wait for the program's end, or end it, until the tree is empty.

    SIGTERM ends the program after a grace period; any other signal, or the end of
    standard input, ends it now.
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
            tree.terminate()
        tree.reap()
    if deadline == math.inf and tree.reap():
        tree.terminate()
        _wait_while(tree.reap, signals, _FINAL_GRACE_SECONDS, _FINAL_GRACE_SECONDS)
    _wait_while(tree.kill, signals, _KILL_SECONDS, _POLL_SECONDS)
    return tree.ended


def _wait_while(
    has_members: Callable[[], bool], signals: int, seconds: float, look_seconds: float
) -> None:
    deadline = time.monotonic() + seconds
    while has_members() and time.monotonic() < deadline:
        if select.select([signals], [], [], look_seconds)[0]:
            os.read(signals, 64)


def _open_signal_pipe() -> int:
    """Self-pipe with the number of each signal."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    return reading


def _read_command(size: int, words: int) -> tuple[list[bytes], dict[bytes, bytes]]:
    data = b""
    while len(data) < size:
        chunk = os.read(0, size - len(data))
        if not chunk:
            sys.exit(_CANNOT_START)  # the server has ended already
        data += chunk
    items = data.split(b"\0")[:-1]
    variables = (item.partition(b"=") for item in items[words:])
    return items[:words], {name: value for name, _, value in variables}


def _execute(
    program: list[bytes],
    environment: dict[bytes, bytes],
    limits: Sequence[tuple[int, int]],
    status: int,
) -> None:
    try:
        os.setsid()
        # Otherwise a program that kills its supervisor would live on.
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        for number in (signal.SIGPIPE, getattr(signal, "SIGXFSZ", signal.SIGPIPE)):
            signal.signal(number, signal.SIG_DFL)  # Python ignores them
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for kind, maximum in limits:
            _set_limit(kind, maximum)
        os.execve(program[0], program, environment)  # noqa: S606 - as it is meant
    except OSError as error:
        _report(status, f"failed {error.errno}")
    finally:
        os._exit(_CANNOT_START)


def _parse_limits(options: dict[str, str]) -> list[tuple[int, int]]:
    if "memory" not in options:
        return []
    return [
        (resource.RLIMIT_CORE, 0),  # a dump would hold what the program has read
        (_MEMORY, int(options["memory"])),
        (resource.RLIMIT_FSIZE, int(options["file"])),
        (resource.RLIMIT_NOFILE, _MAX_OPEN_FILES),
        (resource.RLIMIT_CPU, int(options["cpu"])),
        # It counts all threads of the user, and does not bind the superuser.
        (resource.RLIMIT_NPROC, int(options["processes"]) + _count_threads()),
    ]


def _set_limit(kind: int, maximum: int) -> None:
    _, hard = resource.getrlimit(kind)
    maximum = maximum if hard == resource.RLIM_INFINITY else min(maximum, hard)
    with suppress(ValueError):  # macOS knows some limits only by name
        resource.setrlimit(kind, (maximum, maximum))


def _count_threads() -> int:
    """Threads counting towards RLIMIT_NPROC, in all sessions."""
    with suppress(OSError, AttributeError):
        return _count_processes(ctypes.CDLL("/usr/lib/libproc.dylib"))
    count = 0
    for pid in _list_folder("/proc"):
        with suppress(OSError):
            if pid.isdigit() and os.stat(f"/proc/{pid}").st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{pid}/task"))
    return count


def _count_processes(libproc: ctypes.CDLL) -> int:
    size_limit = libproc.proc_listpids(_PROC_ALL_PIDS, 0, None, 0)  # in bytes
    found = ctypes.create_string_buffer(size_limit)
    size = libproc.proc_listpids(_PROC_RUID_ONLY, os.getuid(), found, size_limit)
    return int(size) // ctypes.sizeof(ctypes.c_int)


def _descendants(pid: int) -> Iterator[int]:
    find = _read_children if _HAS_CHILDREN else _scan_for_children
    waiting = [pid]
    while waiting:
        children = list(find(waiting.pop()))
        yield from children
        waiting += children


def _read_children(pid: int) -> Iterator[int]:
    for task in _list_folder(f"/proc/{pid}/task"):
        with suppress(OSError), open(f"/proc/{pid}/task/{task}/children") as listing:
            yield from map(int, listing.read().split())


def _scan_for_children(pid: int) -> Iterator[int]:
    for other in filter(str.isdigit, _list_folder("/proc")):
        with suppress(OSError), open(f"/proc/{other}/stat", "rb") as listing:
            # The name, in brackets, may hold any character, even brackets.
            _, _, fields = listing.read().rpartition(b")")
            if int(fields.split()[1]) == pid:
                yield int(other)


def _list_folder(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


_HAS_CHILDREN = os.path.exists(f"/proc/self/task/{os.getpid()}/children")

_ADOPTS = sys.platform == "linux" and os.path.isdir("/proc/self/task")


def _send_signal(send: Callable[[int, int], None], target: int, number: int) -> None:
    with suppress(OSError):  # it has ended, or changed its user
        send(target, number)


def _prctl(option: int, value: int) -> None:
    with suppress(AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _release_output() -> None:
    """Close the program's streams, so that they end with its last process."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(nowhere, stream)


def _report(status: int, line: str) -> None:
    with suppress(OSError):  # the server has ended
        os.write(status, line.encode() + b"\n")


def _describe_end(ended: int | None) -> str:
    if ended is None:
        return "lost 0"
    code = os.waitstatus_to_exitcode(ended)
    return f"exited {code}" if code >= 0 else f"signalled {-code}"


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    run_supervised(sys.argv[1:])
