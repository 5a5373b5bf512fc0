"""Declared relations: required and related skills, and the owner.

Only the owner is served, so no other check finds a mistake here.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from skills_mcp.features.authoring.validation.markdown import Markdown
from skills_mcp.features.authoring.validation.rules import (
    RuleFinding,
    enumerate_shortly,
)
from skills_mcp.routing.tokens import fold
from skills_mcp.skills.document import get_mapping, get_words
from skills_mcp.skills.index import SkillIndex
from skills_mcp.text.safe_yaml import YamlError, parse_yaml_strings

_RELATIONS = ("requires", "related")
_OWNER = "owner"
_METADATA = "metadata"


class RelationChecker:
    """Checks relations to other skills of an index."""

    def __init__(self, index: SkillIndex) -> None:
        named = (name for skill in index for name in (skill.path, skill.name))
        self._names = {fold(name): name for name in named}

    def check(self, markdown: Markdown) -> Iterator[RuleFinding]:
        """Yield unknown skills in relations, and an owner of another type than text."""
        fields = _parse_relations(markdown.frontmatter)
        below = get_mapping(fields, _METADATA)
        for key in _RELATIONS:
            words = get_words(fields, key) or get_words(below, key)
            line = markdown.line(key, _METADATA)
            yield from self._check_relation(key, words, line)
        if any(isinstance(mapping.get(_OWNER), list | dict) for mapping in (fields, below)):
            reason = "has an owner that is not a text, so it has none"
            hint = "name one team or person: owner: team-web"
            yield RuleFinding("owner-type", reason, hint, markdown.line(_OWNER))

    def _check_relation(self, key: str, words: tuple[str, ...], line: int) -> Iterator[RuleFinding]:
        unknown = [word for word in words if fold(word.strip("/")) not in self._names]
        nearest = [*self._find_nearest(unknown)]
        is_used = len(unknown) < len(words) or nearest or any("/" in w for w in unknown)
        if not unknown or not is_used:
            return  # a list of something else, such as programs
        reason = f"{key} names {enumerate_shortly(unknown)}, which is no skill here"
        hint = "write a path or a name that skills-mcp tree shows"
        if nearest:
            hint = f"did you mean {nearest[0]}?"
        yield RuleFinding("relation-unknown", reason, hint, line)

    def _find_nearest(self, words: list[str]) -> Iterator[str]:
        for word in words:
            for name in get_close_matches(fold(word), self._names, n=1, cutoff=0.8):
                yield self._names[name]


def _parse_relations(block: str) -> Mapping[str, Any]:
    if not any(key in block for key in (*_RELATIONS, _OWNER)):
        return {}  # as nearly every skill
    try:
        fields = parse_yaml_strings(block).value
    except YamlError:
        return {}
    return fields if isinstance(fields, dict) else {}
