"""The second tier: `landlock_program` gives up rights and then becomes the command.

It needs no privilege, and no namespace that a container might forbid.
"""

import json
import sys
from pathlib import Path

from skills_mcp.scripts.execution import Grants
from skills_mcp.scripts.sandbox.programs import find_system_files, find_system_folders

_PROGRAM = Path(__file__).with_name("landlock_program.py")

# /proc shows no other process to this one: Landlock forbids that, too.
_READABLE_DEVICES = ("/proc", "/dev/urandom", "/dev/random", "/dev/zero", "/dev/full")
_WRITABLE_DEVICES = ("/dev/null",)


def derive_words(grants: Grants) -> tuple[str, ...]:
    """Return the words that stand before those of a command."""
    orders = {
        "readable": [
            *map(str, (*find_system_folders(), *find_system_files())),
            *map(str, grants.readable),
            *_READABLE_DEVICES,
        ],
        "writable": [*map(str, (*grants.writable, grants.home)), *_WRITABLE_DEVICES],
        "network": grants.network,
    }
    # -I and -S: nothing of the user's or the project's is imported.
    return (sys.executable, "-I", "-S", str(_PROGRAM), json.dumps(orders), "--")
