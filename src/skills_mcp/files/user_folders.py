"""Folders of a user for settings, cache and state: the XDG base directories, or one folder.

Rule: nothing else of ours and little of the standard library is imported, as each window
of a host waits for it.
"""

import os
from collections.abc import Mapping

_NAME = "skills-mcp"
_NO_HOME = "/nonexistent"
_PROJECT_VARIABLES = ("CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR")


def find_user_folders(environment: Mapping[str, str], home: str = "") -> tuple[str, str, str]:
    """Absolute paths of the folders for settings, cache and state; each may be missing.

    >>> find_user_folders({"SKILLS_MCP_HOME": "/srv/skills"})
    ('/srv/skills', '/srv/skills/cache', '/srv/skills')
    """
    home = home or os.path.expanduser("~")
    home = _NO_HOME if home == "~" else home
    own = environment.get("SKILLS_MCP_HOME") or ""
    own = home + own[1:] if own == "~" or own.startswith("~/") else os.path.expanduser(own)
    dotted = f"{home}/.{_NAME}"
    one = own or (dotted if os.path.isdir(dotted) else "")
    if one:
        one = os.path.abspath(one)  # not resolved: a link stays one
        return one, os.path.join(one, "cache"), one
    return (
        _find_base(environment.get("XDG_CONFIG_HOME"), f"{home}/.config"),
        _find_base(environment.get("XDG_CACHE_HOME"), f"{home}/.cache"),
        _find_base(environment.get("XDG_STATE_HOME"), f"{home}/.local/state"),
    )


def find_hidden_settings(environment: Mapping[str, str]) -> tuple[str, str]:
    """The folder that hides settings of the user, and these; both empty if none are hidden."""
    used = find_user_folders(environment)[0]
    usual = _find_base(environment.get("XDG_CONFIG_HOME"), f"{os.path.dirname(used)}/.config")
    hidden = os.path.join(usual, "config.yaml")
    is_hidden = os.path.basename(used) == f".{_NAME}" and os.path.isfile(hidden)
    return (used, hidden) if is_hidden else ("", "")


def find_project_folder(environment: Mapping[str, str], working: str) -> str:
    """The folder that a host names as its project, or else the working directory.

    Raises:
        OSError: It is relative, and the working directory is gone.
    """
    named = next(filter(None, map(environment.get, _PROJECT_VARIABLES)), None)
    return os.path.realpath(os.path.join(working, named or ""))


def _find_base(named: str | None, default: str) -> str:
    # The XDG specification has relative paths ignored.
    return os.path.abspath(
        os.path.join(named if named and os.path.isabs(named) else default, _NAME)
    )
