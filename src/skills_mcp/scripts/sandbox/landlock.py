"""The second tier: a program that gives up rights, and then becomes the command.

It needs no privilege, and no namespace that a container might forbid.
"""

import json
import sys
from pathlib import Path

from skills_mcp.scripts.sandbox import system
from skills_mcp.scripts.sandbox.grants import Grants

_PROGRAM = Path(__file__).with_name("landlock_program.py")

# Nobody else's processes can be looked into with /proc: Landlock forbids that, too.
_READABLE_DEVICES = ("/proc", "/dev/urandom", "/dev/random", "/dev/zero", "/dev/full")
_WRITABLE_DEVICES = ("/dev/null",)


def derive_words(grants: Grants) -> tuple[str, ...]:
    """Return what stands before the words of a command."""
    told = {
        "readable": [
            *map(str, (*system.find_folders(), *system.find_files())),
            *map(str, grants.readable),
            *_READABLE_DEVICES,
        ],
        "writable": [*map(str, (*grants.writable, grants.home)), *_WRITABLE_DEVICES],
        "network": grants.network,
    }
    # -I and -S: nothing of the user's or the project's is imported.
    return (sys.executable, "-I", "-S", str(_PROGRAM), json.dumps(told), "--")
