"""Which skills this server offers (000 §8.3, 002 §8.1).  Pure.

What is only not enabled cannot be asked for, but its rules still reach the skills
below it. What is denied is never served, not even as a part of another skill.
"""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from skills_mcp.config import Visibility
from skills_mcp.skills.model import Skill


def is_denied(skill: Skill, rules: Visibility) -> bool:
    """Whether a pattern of `deny` fits."""
    return _fits(skill, rules.deny)


def is_enabled(skill: Skill, rules: Visibility) -> bool:
    """Whether the skill can be asked for; deny wins over allow (002 §8.1)."""
    if is_denied(skill, rules) or (rules.allow and not _fits(skill, rules.allow)):
        return False
    if rules.enabled_skills:  # 000 §8.3: names decide alone, if there are any
        return not {skill.name.casefold(), skill.path.casefold()}.isdisjoint(
            _folded(rules.enabled_skills)
        )
    if rules.enabled_categories:
        return skill.category in _folded(rules.enabled_categories)
    return True


def _fits(skill: Skill, patterns: Iterable[str]) -> bool:
    """Whether a pattern fits the path or the name; `*` crosses slashes."""
    return any(
        fnmatchcase(text.casefold(), pattern)
        for pattern in _folded(patterns)
        for text in (skill.path, skill.name)
    )


def _folded(words: Iterable[str]) -> list[str]:
    return [word.strip().casefold() for word in words]
