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


def kill_group(pid: int) -> None:
    """Kill every process of the group that `pid` leads."""
    try:
        if hasattr(os, "killpg"):
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGTERM)
    except (ProcessLookupError, PermissionError):
        return  # the group is gone; macOS says EPERM when only zombies are left
