"""Skill paths as the names that agent frameworks allow, and back again.

Rule: a name depends on its path alone, so that it stays the same when other skills
come and go, and no two paths have one name.

The Agent Skills standard allows 1 to 64 of a-z, 0-9 and single hyphens.  A path that is
such a name stays as it is.  Every other is spelled with hyphens and ends in `-x` and
seven digits of its digest, and so does a path that only looks as if it had them.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING

from skills_mcp.errors import SkillNotFoundError
from skills_mcp.skills.model import Skill, SkillPath
from skills_mcp.text.rendering import shorten
from skills_mcp.text.unicode import normalize

if TYPE_CHECKING:
    from skills_mcp.integrations.in_process import Skills, SyncSkills

MAX_NAME_LENGTH = 64
"""What the Agent Skills standard and every framework that checks it allow."""

_PLAIN = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_MARKED = re.compile(r".*-x(?:[0-9a-f]{7}|[0-9a-f]{39})")
_MARKS = re.compile("[\u0300-\u036f]+")  # accents, once they stand alone
_OTHERS = re.compile("[^a-z0-9]+")

# Few paths are spelled alike, so 28 bits keep them apart; 156 bits do where a stranger
# has looked for a path with the same few.
_DIGITS = 7
_ALL_DIGITS = 39

_MOST_NEAR = 3
_LONGEST_SLIP = 100  # longer words are no names, and take long to compare


@dataclass(frozen=True, slots=True)
class NamedSkills:
    """The skills of one revision, each with its name."""

    by_name: Mapping[str, Skill]
    """In path order."""
    names: Mapping[SkillPath, str] = field(repr=False)

    def find(self, name: str) -> Skill:
        """Return the skill with this name, or this path.

        Raises:
            SkillNotFoundError: There is none; the message has names like it.
        """
        known = self.by_name.get(name.strip()) or self._at(name.strip())
        if known is None:
            near = " or ".join(self.near(name))
            hint = f"Did you mean {near}?" if near else "Pass a name from the list."
            raise SkillNotFoundError(f"There is no skill named {shorten(name)}. {hint}")
        return known

    def near(self, name: str) -> list[str]:
        """Return the names that were probably meant, the closest first."""
        wanted = derive_words(name[:_LONGEST_SLIP])
        begun = [known for known in self.by_name if known.startswith(f"{wanted}-")]
        close = begun or get_close_matches(wanted, list(self.by_name), _MOST_NEAR)
        return close[:_MOST_NEAR]

    def _at(self, path: str) -> Skill | None:
        # Texts of skills name other skills by their paths.
        name = self.names.get(SkillPath(path))
        return None if name is None else self.by_name[name]


class SkillNames:
    """The names of the skills that are offered now; made anew for each revision."""

    def __init__(self, skills: "Skills | SyncSkills") -> None:
        self._skills = skills.to_sync()
        self._revision = ""
        self._named = NamedSkills(MappingProxyType({}), MappingProxyType({}))

    def read(self) -> NamedSkills:
        """Return what is offered now; may block."""
        revision = self._skills.revision  # first: what changes meanwhile is read again
        if revision != self._revision:
            self._named = name_skills(self._skills.list())
            self._revision = revision
        return self._named


def name_skills(skills: Iterable[Skill]) -> NamedSkills:
    """Return skills with their names; where two were alike, both have longer ones."""
    spelled: dict[str, list[Skill]] = defaultdict(list)
    for skill in skills:
        spelled[spell_name(skill.path)].append(skill)
    named = {
        name if len(alike) == 1 else spell_name(skill.path, digits=_ALL_DIGITS): skill
        for name, alike in spelled.items()
        for skill in alike
    }
    names = {skill.path: name for name, skill in named.items()}
    return NamedSkills(MappingProxyType(named), MappingProxyType(names))


def spell_name(path: str, *, digits: int = _DIGITS) -> str:
    """Return a name for a path, from which nothing but a table leads back.

    >>> spell_name("pdf")
    'pdf'
    >>> spell_name("ui/react/auth")
    'ui-react-auth-x709ad3c'
    """
    if is_name(path) and not _MARKED.fullmatch(path):
        return path
    digest = sha256(path.encode("utf-8", "surrogatepass")).hexdigest()[:digits]
    # The end of a long path says most about the skill.
    words = derive_words(path)[-(MAX_NAME_LENGTH - len("-x") - digits) :].strip("-")
    return f"{words or 'skill'}-x{digest}"


def is_name(text: str) -> bool:
    """Return whether the Agent Skills standard allows this name.

    >>> is_name("code-review"), is_name("code--review"), is_name("ui/react")
    (True, False, False)
    """
    return len(text) <= MAX_NAME_LENGTH and _PLAIN.fullmatch(text) is not None


def derive_words(text: str) -> str:
    """Return the words of a path in a-z and 0-9, joined with hyphens.

    >>> derive_words("Ünïcode/Straße")
    'unicode-strasse'
    """
    bare = _MARKS.sub("", normalize("NFKD", text.casefold()))
    return _OTHERS.sub("-", bare).strip("-")
