"""Replacement of unavailable tools in messages."""

import re
from collections.abc import Collection

# Where a tool is not offered, the one that comes nearest is named.
_EQUIVALENTS = {
    "list_skills": "search_skills",
    "search_skills": "list_skills",
    "get_skill": "load_skill",
    "load_skill": "get_skill",
    "get_asset": "read_skill_file",
    "read_skill_file": "get_asset",
    "find_skill_files": "get_skill",
}

_NAME = re.compile(r"\b(?:" + "|".join(_EQUIVALENTS) + r")\b")
_REPETITION = re.compile(r"\b(\w+) or \1\b")


def replace_unavailable_tools(message: str, available: Collection[str]) -> str:
    """Replace names of unavailable tools by their nearest equivalent.

    Lower layers name one tool per operation, regardless of tool sets and caller.

    >>> replace_unavailable_tools("list_skills or search_skills shows all.",
    {"list_skills"})
    'list_skills shows all.'
    """

    def name(found: re.Match[str]) -> str:
        tool = found[0]
        return tool if tool in available else _EQUIVALENTS[tool]

    return _REPETITION.sub(r"\1", _NAME.sub(name, message))
