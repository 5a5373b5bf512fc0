"""Unknown environment variables with names like the program's own."""

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
"""Variables of options and folders: no settings."""

_PREFIX = "SKILLS_MCP_"
_SIMILAR_PREFIX = re.compile(r"(?:SKILLS?_MCP|SKILLS?HUB|SKILLS?)_")

_MIN_SIMILARITY = 0.8  # one or two letters of a word


@dataclass(frozen=True, slots=True)
class UnknownVariable:
    """A variable no code reads."""

    name: str
    suggestion: str
    """Suggested variable; empty if none is similar."""

    def __str__(self) -> str:
        if self.suggestion:
            return f"{self.name} is not read. Did you mean {self.suggestion}?"
        return f"{self.name} is not read: there is no such variable."


def find_unknown_variables(
    environment: Mapping[str, str],
) -> tuple[UnknownVariable, ...]:
    """Find probable misspellings, sorted.

    Other programs may use `SKILLS_`, too, so those names count only if similar to a
    known
    one.
    """
    looked_at = sorted(name for name in environment if _SIMILAR_PREFIX.match(name))
    known = {*_OPTIONS, *(variable.name for variable in VARIABLES)}
    unknown = [name for name in looked_at if environment[name] and name not in known]
    if not unknown:
        return ()
    from difflib import get_close_matches

    bare = {_strip_prefix(name): name for name in sorted(known)}
    found = []
    for name in unknown:
        near = get_close_matches(_strip_prefix(name), bare, n=1, cutoff=_MIN_SIMILARITY)
        if near or name.startswith(_PREFIX):
            found.append(UnknownVariable(name, bare[near[0]] if near else ""))
    return tuple(found)


def _strip_prefix(name: str) -> str:
    return _SIMILAR_PREFIX.sub("", name, count=1).replace("_", "")
