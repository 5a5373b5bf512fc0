"""Which skills this server offers.  Pure.

What is only not enabled cannot be asked for, but its rules still reach the skills
below it. What is denied is never served, not even as a part of another skill.
"""

from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from typing import Protocol

from skills_mcp.config import Visibility
from skills_mcp.files.patterns import compile_patterns
from skills_mcp.skills.model import Scope, SkillPath

# The settings of a server and of its tests: each state is judged with the same ones.
_MOST_COMPILED = 16


class Listed(Protocol):
    """What a skill is called, and the skill itself need not be made for it."""

    @property
    def path(self) -> SkillPath:
        """Its place in the tree."""
        ...

    @property
    def name(self) -> str:
        """What its author calls it."""
        ...

    @property
    def category(self) -> str:
        """The author's own word for the kind of skill, folded."""
        ...

    @property
    def scope(self) -> Scope:
        """Whose skill it is."""
        ...

    @property
    def always_apply(self) -> bool:
        """Whether it is a core skill."""
        ...


def is_denied(skill: Listed, rules: Visibility) -> bool:
    """Whether a pattern of `deny` fits."""
    return _fits(skill, rules.deny)


def is_enabled(skill: Listed, rules: Visibility) -> bool:
    """Whether the skill can be asked for; deny wins over allow."""
    if is_denied(skill, rules) or (rules.allow and not _fits(skill, rules.allow)):
        return False
    if rules.enabled_skills:  # 000 §8.3: names decide alone, if there are any
        return not {skill.name.casefold(), skill.path.casefold()}.isdisjoint(
            _folded(rules.enabled_skills)
        )
    if rules.enabled_categories:
        return skill.category in _folded(rules.enabled_categories)
    return True


def find_unused(skills: Collection[Listed], rules: Visibility) -> Iterator[str]:
    """Iterate over the settings that name nothing, as `deny: pdf/*`."""
    for key in ("allow", "deny"):
        for pattern in getattr(rules, key):
            if not any(map(Patterns((pattern,)).fit, skills)):
                yield f"{key}: {pattern}"
    names = {text for s in skills for text in (s.name.casefold(), s.path.casefold())}
    categories = {skill.category for skill in skills}
    for word in _folded(rules.enabled_skills):
        if word not in names:
            yield f"enabled_skills: {word}"
    for word in _folded(rules.enabled_categories):
        if word not in categories:
            yield f"enabled_categories: {word}"


def clean(pattern: str) -> str:
    """Return a pattern of skills without what people add to a folder's name.

    >>> [clean(each) for each in ("./pdf/", "/pdf", "pdf/SKILL.md", "pdf/**")]
    ['pdf', 'pdf', 'pdf', 'pdf/*']
    """
    bare = pattern.strip().removeprefix("./").strip("/")
    bare = bare.removesuffix("/SKILL.md")
    return f"{bare.removesuffix('/**')}/*" if bare.endswith("/**") else bare


class Patterns:
    """Patterns of skills, compiled: they pay where many skills are looked at."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._fits = compile_patterns(clean(each).casefold() for each in patterns)

    def fit(self, skill: Listed) -> bool:
        """Whether one of them fits the path or the name, as in `visibility`."""
        return self._fits(skill.path.casefold()) or self._fits(skill.name.casefold())


def _fits(skill: Listed, patterns: tuple[str, ...]) -> bool:
    return _compile(patterns).fit(skill)


@lru_cache(maxsize=_MOST_COMPILED)
def _compile(patterns: tuple[str, ...]) -> Patterns:
    return Patterns(patterns)


def _folded(words: Iterable[str]) -> list[str]:
    return [word.strip().casefold() for word in words]
