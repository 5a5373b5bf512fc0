"""Environment variables with a name like ours that nothing reads."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from skills_mcp.config.variables import VARIABLES

_OPTIONS = (
    "SKILLS_BRANCH",
    "SKILLS_DIR",
    "SKILLS_EVERYWHERE",
    "SKILLS_MCP_DISCOVER",
    "SKILLS_MCP_HOME",
    "SKILLS_MCP_LOG_LEVEL",
    "SKILLS_MCP_OFFLINE",
    "SKILLS_MCP_PROJECT_ROOT",
    "SKILLS_MCP_TOKEN_FILE",
    "SKILLS_MCP_TOOLSETS",
    "SKILLS_MCP_TRANSPORT",
    "SKILLS_PLUGINS",
    "SKILLS_REF",
    "SKILLS_REPO",
    "SKILLS_SUBFOLDER",
)
"""Variables of options and places, which are no settings."""

_OURS = "SKILLS_MCP_"
_LIKE_OURS = re.compile(r"(?:SKILLS?_MCP|SKILLS?HUB|SKILLS?)_")

_ALIKE = 0.8  # one or two letters of a word


@dataclass(frozen=True, slots=True)
class UnknownVariable:
    """A variable that nothing reads."""

    name: str
    meant: str
    """The variable that was probably meant; empty if none is near."""

    def __str__(self) -> str:
        """Return a sentence for people."""
        if self.meant:
            return f"{self.name} is not read. Did you mean {self.meant}?"
        return f"{self.name} is not read: there is no such variable."


def find_unknown_variables(
    environment: Mapping[str, str],
) -> tuple[UnknownVariable, ...]:
    """Return the variables that look like ours and are none, in order.

    Another program may have variables that begin with `SKILLS_`, so of these only those
    are returned that are near to one of ours.
    """
    looked_at = sorted(name for name in environment if _LIKE_OURS.match(name))
    known = {*_OPTIONS, *(each.name for each in VARIABLES)}
    given = [name for name in looked_at if environment[name] and name not in known]
    if not given:
        return ()
    from difflib import get_close_matches

    bare = {_bare(name): name for name in sorted(known)}
    found = []
    for name in given:
        near = get_close_matches(_bare(name), bare, n=1, cutoff=_ALIKE)
        if near or name.startswith(_OURS):
            found.append(UnknownVariable(name, bare[near[0]] if near else ""))
    return tuple(found)


def _bare(name: str) -> str:
    return _LIKE_OURS.sub("", name, count=1).replace("_", "")
