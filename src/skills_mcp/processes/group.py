"""Child processes in a group of their own, so that the whole tree can be ended.

A child that starts children of its own (Git its transport, a script its tools)
leaves them behind when only the child is killed.
"""

import os
import signal
import subprocess
from collections.abc import Mapping
from typing import Any

GROUP_OPTIONS: Mapping[str, Any] = (
    {"start_new_session": True}
    if hasattr(os, "killpg")
    else {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
)
"""Options for `Popen` that put the child at the head of a new group."""


def terminate_group(pid: int) -> None:
    """Ask every process of the group that `pid` leads to end."""
    _signal_group(pid, signal.SIGTERM)


def kill_group(pid: int) -> None:
    """End every process of the group that `pid` leads, without asking."""
    _signal_group(pid, getattr(signal, "SIGKILL", signal.SIGTERM))


def _signal_group(pid: int, number: signal.Signals) -> None:
    try:
        if hasattr(os, "killpg"):
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return  # the group is gone; macOS says EPERM when only zombies are left
