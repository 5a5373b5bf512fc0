"""The skills of a library by the names that agent frameworks allow."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING

from skills_mcp.errors import SkillNotFoundError
from skills_mcp.skills.legal_names import derive_words, name_paths
from skills_mcp.skills.model import Skill, SkillPath
from skills_mcp.text.rendering import shorten

if TYPE_CHECKING:
    from skills_mcp.api.in_process import Skills, SyncSkills

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
    by_path = {skill.path: skill for skill in skills}
    paths = name_paths(by_path)
    named = {name: by_path[path] for name, path in paths.items()}
    names = {path: name for name, path in paths.items()}
    return NamedSkills(MappingProxyType(named), MappingProxyType(names))
