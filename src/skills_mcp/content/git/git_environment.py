"""What Git sees of the machine that it runs on: settings and variables.

Rule: whatever a project, a hook, a shell or the user's own configuration says about
Git does not count, but for what `credentials` lets through.
"""

import os
import re
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skills_mcp.content.git.credentials import (
    TOKEN_FILE_VARIABLE,
    Access,
    render_settings,
)
from skills_mcp.content.git.remote import TOKEN_VARIABLE, Remote
from skills_mcp.errors import SyncError

SETTINGS = (
    "protocol.allow=never",
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.fsync=committed",
    "core.bigFileThreshold=8m",  # larger files are never in memory as a whole
    "core.commitGraph=false",  # one fewer file that may be damaged
    "core.multiPackIndex=false",
    "fetch.fsckObjects=true",
    "fetch.unpackLimit=1",  # a pack is there as a whole or not at all
    "transfer.bundleURI=false",
    "submodule.recurse=false",
    "http.followRedirects=false",
    # A stalled transfer ends by itself; a slow one may take until the deadline.
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=15",
    "pack.threads=2",  # each has a window of its own in memory
    "gc.auto=0",
    "maintenance.auto=false",
    "credential.interactive=false",
)
"""Of every command; none is secret, so they may be arguments."""

# Where the certificates are says nothing about any repository.
_KEPT_VARIABLES = frozenset({"GIT_SSL_CAINFO", "GIT_SSL_CAPATH"})

# Of the operator's, which no child has a use for.
_OURS = frozenset({"GITHUB_TOKEN", TOKEN_FILE_VARIABLE, TOKEN_VARIABLE})

_SEALED = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}

_FIXED = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",  # set, so that no other variable has a window opened either
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oConnectTimeout=10",
    "LC_ALL": "C",  # `advice` knows its words in English
    "LANGUAGE": "C",
}

# The headers of answers, which say what Git leaves out. It hides what is secret in
# them, and of ours `transcript` reads nothing.
_TRACED = {"GIT_TRACE_CURL": "1", "GIT_TRACE_CURL_NO_DATA": "1"}

# The first that reads settings from variables, as a token needs it.
_OLDEST_VERSION = (2, 31)


def require_version(printed: bytes) -> None:
    """Make sure that Git knows what we need; a version that says nothing may.

    Raises:
        SyncError: It is too old.
    """
    said = printed.decode("utf-8", "replace").strip()
    found = re.search(r"(\d+)\.(\d+)", said)
    if found and (int(found[1]), int(found[2])) < _OLDEST_VERSION:
        oldest = ".".join(map(str, _OLDEST_VERSION))
        raise SyncError(
            f"{said} is too old. Install Git {oldest} or newer, or put a newer one "
            "first in PATH"
        )


def derive_user_variables(
    started_with: Mapping[str, str], directory: Path
) -> dict[str, str]:
    """Return the variables of a command that reads the user's configuration."""
    kept = {name: value for name, value in started_with.items() if _is_kept(name)}
    return kept | _FIXED | {"GIT_CEILING_DIRECTORIES": str(directory.parent)}


def derive_variables(
    started_with: Mapping[str, str], directory: Path, remote: Remote, access: Access
) -> dict[str, str]:
    """Return the variables of every other command.

    Args:
        started_with: Those of the server.
        directory: Git's store.
        remote: What is asked, if anything is.
        access: What may be shown to it.
    """
    traced = _TRACED if access.is_open and remote.scheme.startswith("http") else {}
    return {
        **derive_user_variables(started_with, directory),
        **_SEALED,
        **traced,
        **dict(render_settings(access.settings)),
        **access.variables,
    }


def _is_kept(name: str) -> bool:
    name = name.upper()  # on Windows it does not matter how it is written
    return name not in _OURS and (
        not name.startswith("GIT_") or name in _KEPT_VARIABLES
    )


_LOADING = threading.Lock()


def load_starter() -> Any:
    """Return what starts Git, and import GitPython as late: the first answer first.

    It asks for Git's version meanwhile, which is no reason to obey a variable that
    was meant for another repository, such as one that has Git write files.
    """
    with _LOADING:
        if "git.cmd" in sys.modules:
            return sys.modules["git.cmd"].safer_popen
        names = [name for name in os.environ if name.startswith("GIT_")]
        hidden = {name: os.environ.pop(name) for name in names}
        os.environ["GIT_PYTHON_REFRESH"] = "quiet"  # we say ourselves what lacks
        try:
            from git.cmd import safer_popen  # on Windows it runs no git of the folder
        finally:
            os.environ.update(hidden)
        return safer_popen
