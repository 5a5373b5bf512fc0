"""Child processes in a group of their own, so that the whole tree can be ended.

A child that starts children of its own (Git its transport, a script its tools)
leaves them behind when only the child is killed.
"""

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

# A server that is killed can end nothing. Its end of the pipe closes all the same.
_ON_END = 'read -r _; kill -s KILL -- "-$1"'

GROUP_OPTIONS: Mapping[str, Any] = (
    {"start_new_session": True}
    if hasattr(os, "killpg")
    else {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
)
"""Options for `Popen` that put the child at the head of a new group."""


def kill_group(pid: int) -> None:
    """Kill every process of the group that `pid` leads."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGTERM)
    except (ProcessLookupError, PermissionError):
        return  # the group is gone; macOS says EPERM when only zombies are left


class Lifeline:
    """Ends the group of a child when this process ends, also when it is killed.

    It is a small shell that waits for the end of a pipe, which only this process holds
    open. Where there is no POSIX shell, it does nothing.

    Args:
        pid: The child, which leads its group.
    """

    def __init__(self, pid: int) -> None:
        self._shell: subprocess.Popen[bytes] | None = None
        with suppress(OSError):  # not installed, or no process more is allowed
            if hasattr(os, "killpg"):
                self._shell = subprocess.Popen(  # noqa: S603 - a fixed program
                    ["/bin/sh", "-c", _ON_END, "lifeline", str(pid)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env={},
                    **GROUP_OPTIONS,
                )

    def cut(self) -> None:
        """End the shell, once the group has ended."""
        if self._shell is None:
            return
        self._shell.kill()  # before its pipe closes
        self._shell.communicate()
        self._shell = None
