"""Child processes in their own groups, to kill whole trees.

Grandchildren (Git's transport, a script's tools) survive if only the child is killed.
"""

import atexit
import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast

# A server that is killed can end nothing. Its end of the pipe closes all the same.
_ON_END = """
while read -r line; do groups=$line; done
for group in $groups; do kill -s KILL -- "-$group"; done
"""

GROUP_OPTIONS: Mapping[str, Any] = (
    {"start_new_session": True}
    if hasattr(os, "killpg")
    else {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
)
"""Options of `Popen` for a new group led by the child."""


def kill_group(pid: int) -> None:
    try:
        if hasattr(os, "killpg"):
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGTERM)
    except (ProcessLookupError, PermissionError):
        return  # the group is gone; macOS says EPERM when only zombies are left


def is_running(number: int) -> bool:
    """Whether a process has not ended; its number may be that of another one by now."""
    if number <= 0:
        return False
    try:
        os.kill(number, 0)
        status = Path(f"/proc/{number}/stat").read_bytes()
    except ProcessLookupError:
        return False
    except OSError:  # only Linux has the file
        return True
    # One that its parent never waits for, as in some containers, has ended, too.
    return status.rpartition(b")")[2].split()[:1] != [b"Z"]


class Watcher:
    """Kills groups of children when this process ends, even by SIGKILL.

    One small shell for all of them waits for the end of a pipe held open by this process
    only: a shell each doubled the processes of Git's short commands. Without a POSIX
    shell it does nothing.
    """

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._lock = threading.Lock()
        self._shell: subprocess.Popen[bytes] | None = None

    def add(self, group: int) -> None:
        if not hasattr(os, "killpg"):
            return
        with self._lock:
            self._groups.add(group)
            self._announce()

    def remove(self, group: int) -> None:
        with self._lock:
            if group in self._groups:
                self._groups.remove(group)
                self._announce()

    def close(self) -> None:
        """End the shell, which kills the rest."""
        if self._shell:
            self._shell.communicate()
            self._shell = None

    def _announce(self) -> None:
        line = f"{' '.join(map(str, self._groups))}\n".encode()
        for _ in range(2):  # what ends a whole service may have ended the shell before
            with suppress(OSError):  # not installed, or no process more is allowed
                self._shell = self._shell or _start_shell()
                cast("IO[bytes]", self._shell.stdin).write(line)
                return
            self.close()


def _start_shell() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(  # noqa: S603 - a fixed program
        ["/bin/sh", "-c", _ON_END],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={},
        **GROUP_OPTIONS,
    )


WATCHER = Watcher()
atexit.register(WATCHER.close)
