"""Matchers over a few skills that are in memory, in path order."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from skills_mcp.routing.inverted_index import TextIndex
from skills_mcp.routing.keyword_matcher import KeywordIndex, KeywordMatcher
from skills_mcp.routing.matcher import tie_break_ranks
from skills_mcp.routing.ranked_matcher import RankedMatcher, to_indexed_document
from skills_mcp.routing.search import NameIndex
from skills_mcp.skills.model import Skill
from tests.support import make_skill

Scores = dict[str, tuple[Fraction, tuple[str, ...]]]


def keyword_matcher(skills: Sequence[Skill]) -> KeywordMatcher:
    index = KeywordIndex.build((skill.keywords, skill.priority) for skill in skills)
    return KeywordMatcher(index, skills, tie_break_ranks([s.path for s in skills]))


def ranked_matcher(skills: Sequence[Skill]) -> RankedMatcher:
    names = NameIndex([skill.path for skill in skills], [skill.name for skill in skills])
    index = TextIndex.build(map(to_indexed_document, skills))
    return RankedMatcher(index, skills, names=names, tie_break_ranks=tie_break_ranks(names.paths))


def silent(path: str, **fields: Any) -> Skill:
    """Return a skill that says nothing but its fields."""
    nothing: dict[str, Any] = {"name": "", "keywords": (), "description": ""}
    return make_skill(path, **{**nothing, "body": "", **fields})


def matcher_of(skills: Sequence[Skill]) -> RankedMatcher:
    """Return a matcher that ranks every task, names or not."""
    ordered = sorted(skills, key=lambda skill: skill.path)
    places = tie_break_ranks([skill.path for skill in ordered])
    index = TextIndex.build(map(to_indexed_document, ordered))
    return RankedMatcher(index, ordered, tie_break_ranks=places)


def scores(skills: Sequence[Skill], context: str) -> Scores:
    return {
        candidate.skill.path: (candidate.exact_score, candidate.matched_keywords)
        for candidate in matcher_of(skills).score(context)
    }


def ranking(skills: Sequence[Skill], context: str) -> list[str]:
    return [c.skill.path for c in matcher_of(skills).score(context)]
