"""Matchers over a few skills that are in memory, in path order."""

from collections.abc import Sequence

from skills_mcp.routing.decision import derive_places
from skills_mcp.routing.keyword_index import KeywordIndex
from skills_mcp.routing.keywords import KeywordMatcher
from skills_mcp.routing.names import Names
from skills_mcp.routing.ranked import RankedMatcher, derive_document
from skills_mcp.routing.text_index.inverted_index import TextIndex
from skills_mcp.skills.model import Skill


def keyword_matcher(skills: Sequence[Skill]) -> KeywordMatcher:
    index = KeywordIndex.build((skill.keywords, skill.priority) for skill in skills)
    return KeywordMatcher(index, skills, derive_places([s.path for s in skills]))


def ranked_matcher(skills: Sequence[Skill]) -> RankedMatcher:
    names = Names([skill.path for skill in skills], [skill.name for skill in skills])
    index = TextIndex.build(map(derive_document, skills))
    return RankedMatcher(index, skills, names=names, places=derive_places(names.paths))
