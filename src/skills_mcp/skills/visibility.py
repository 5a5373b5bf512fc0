"""The index of all skills of one snapshot: visibility, relations and filters.

A disabled skill cannot be requested, but its rules still reach the skills below it. A
denied one is never served, not even as a part of another skill. Immutable.
"""

from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from typing import Protocol

from skills_mcp.config import Visibility
from skills_mcp.files.patterns import compile_patterns
from skills_mcp.skills.model import Scope, SkillPath

# The settings of a server and of its tests: each state is judged with the same ones.
_COMPILED_CACHE_SIZE = 16


class SkillRow(Protocol):
    """Metadata of a skill, available without decoding."""

    @property
    def path(self) -> SkillPath: ...

    @property
    def name(self) -> str: ...

    @property
    def category(self) -> str: ...

    @property
    def scope(self) -> Scope: ...

    @property
    def always_apply(self) -> bool: ...


def is_denied(skill: SkillRow, rules: Visibility) -> bool:
    return _matches(skill, rules.deny)


def is_enabled(skill: SkillRow, rules: Visibility) -> bool:
    """Whether the skill can be requested; deny wins over allow."""
    if is_denied(skill, rules) or (rules.allow and not _matches(skill, rules.allow)):
        return False
    if rules.enabled_skills:  # 000 §8.3: names decide alone, if there are any
        return not {skill.name.casefold(), skill.path.casefold()}.isdisjoint(
            _fold_words(rules.enabled_skills)
        )
    if rules.enabled_categories:
        return skill.category in _fold_words(rules.enabled_categories)
    return True


def find_unused_rules(skills: Collection[SkillRow], rules: Visibility) -> Iterator[str]:
    """Yield the settings without a match, as `deny: pdf/*`."""
    for key in ("allow", "deny"):
        for pattern in getattr(rules, key):
            if not any(map(SkillPatterns((pattern,)).fit, skills)):
                yield f"{key}: {pattern}"
    names = {text for s in skills for text in (s.name.casefold(), s.path.casefold())}
    categories = {skill.category for skill in skills}
    for word in _fold_words(rules.enabled_skills):
        if word not in names:
            yield f"enabled_skills: {word}"
    for word in _fold_words(rules.enabled_categories):
        if word not in categories:
            yield f"enabled_categories: {word}"


def normalize_pattern(pattern: str) -> str:
    """Normalise a pattern of skills written as a folder or file.

    >>> [normalize_pattern(p) for p in ("./pdf/", "/pdf", "pdf/SKILL.md", "pdf/**")]
    ['pdf', 'pdf', 'pdf', 'pdf/*']
    """
    bare = pattern.strip().removeprefix("./").strip("/")
    bare = bare.removesuffix("/SKILL.md")
    return f"{bare.removesuffix('/**')}/*" if bare.endswith("/**") else bare


class SkillPatterns:
    """Compiled patterns of skills, for many look-ups."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._fits = compile_patterns(normalize_pattern(pattern).casefold() for pattern in patterns)

    def fit(self, skill: SkillRow) -> bool:
        return self._fits(skill.path.casefold()) or self._fits(skill.name.casefold())


def _matches(skill: SkillRow, patterns: tuple[str, ...]) -> bool:
    return _compile(patterns).fit(skill)


@lru_cache(maxsize=_COMPILED_CACHE_SIZE)
def _compile(patterns: tuple[str, ...]) -> SkillPatterns:
    return SkillPatterns(patterns)


def _fold_words(words: Iterable[str]) -> list[str]:
    return [word.strip().casefold() for word in words]
