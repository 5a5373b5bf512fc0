"""Lets a message name only tools that its reader has.

The parts below the server name each operation by one tool, and which tools there are
depends on the tool sets and on the caller.
"""

import re
from collections.abc import Collection

# Where a tool is not offered, the one that comes nearest is named.
_INSTEAD = {
    "list_skills": "search_skills",
    "search_skills": "list_skills",
    "get_skill": "load_skill",
    "load_skill": "get_skill",
    "get_asset": "read_skill_file",
    "read_skill_file": "get_asset",
    "find_skill_files": "get_skill",
}

_NAME = re.compile(r"\b(?:" + "|".join(_INSTEAD) + r")\b")
_TWICE = re.compile(r"\b(\w+) or \1\b")


def name_offered(message: str, offered: Collection[str]) -> str:
    """Return a message with the names of tools that are offered.

    >>> name_offered("list_skills or search_skills shows all.", {"list_skills"})
    'list_skills shows all.'
    """

    def name(found: re.Match[str]) -> str:
        tool = found[0]
        return tool if tool in offered else _INSTEAD[tool]

    return _TWICE.sub(r"\1", _NAME.sub(name, message))
