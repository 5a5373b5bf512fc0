"""Child processes in their own groups, to kill whole trees.

Grandchildren (Git's transport, a script's tools) survive if only the child is killed.
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
"""Options of `Popen` for a new group led by the child."""


def kill_group(pid: int) -> None:
    try:
        if hasattr(os, "killpg"):
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGTERM)
    except (ProcessLookupError, PermissionError):
        return  # the group is gone; macOS says EPERM when only zombies are left


class Lifeline:
    """Kills a child's group when this process ends, even by SIGKILL.

    A small shell waits for the end of a pipe held open by this process only. Without a
    POSIX shell it does nothing.
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

    def close_shell(self) -> None:
        if self._shell is None:
            return
        self._shell.kill()  # before its pipe closes
        self._shell.communicate()
        self._shell = None
