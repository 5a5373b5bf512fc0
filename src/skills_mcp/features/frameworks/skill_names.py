"""Skill names in the syntax of agent frameworks, and whole files."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING

from skills_mcp.errors import SkillNotFoundError
from skills_mcp.skills.model import Skill, SkillPath, hyphenate, map_standard_names
from skills_mcp.skills.skill_files import FileContent
from skills_mcp.text.rendering import abbreviate_value

if TYPE_CHECKING:
    from skills_mcp.api.in_process import Skills, SyncSkills

_MAX_SUGGESTIONS = 3
_MAX_MISSPELT_CHARACTERS = 100  # longer words are no names, and take long to compare


@dataclass(frozen=True, slots=True)
class NamedSkills:
    by_name: Mapping[str, Skill]
    names: Mapping[SkillPath, str] = field(repr=False)

    def find(self, name: str) -> Skill:
        """Look up a skill by name or path.

        Raises:
            SkillNotFoundError: The message has similar names.
        """
        known = self.by_name.get(name.strip()) or self._find_by_path(name.strip())
        if known is None:
            near = " or ".join(self.suggest(name))
            hint = f"Did you mean {near}?" if near else "Pass a name from the list."
            raise SkillNotFoundError(f"There is no skill named {abbreviate_value(name)}. {hint}")
        return known

    def suggest(self, name: str) -> list[str]:
        normalised = hyphenate(name[:_MAX_MISSPELT_CHARACTERS])
        prefix_matches = [known for known in self.by_name if known.startswith(f"{normalised}-")]
        close = prefix_matches or get_close_matches(
            normalised, list(self.by_name), _MAX_SUGGESTIONS
        )
        return close[:_MAX_SUGGESTIONS]

    def _find_by_path(self, path: str) -> Skill | None:
        # Texts of skills name other skills by their paths.
        name = self.names.get(SkillPath(path))
        return None if name is None else self.by_name[name]


class SkillNameCache:
    def __init__(self, skills: "Skills | SyncSkills") -> None:
        self._skills = skills.to_sync()
        self._revision = ""
        self._named = NamedSkills(MappingProxyType({}), MappingProxyType({}))

    def read(self) -> NamedSkills:
        revision = self._skills.revision  # first: what changes meanwhile is read again
        if revision != self._revision:
            self._named = name_skills(self._skills.list())
            self._revision = revision
        return self._named


def name_skills(skills: Iterable[Skill]) -> NamedSkills:
    """Unique names; colliding ones become longer."""
    by_path = {skill.path: skill for skill in skills}
    paths = map_standard_names(by_path)
    named = {name: by_path[path] for name, path in paths.items()}
    names = {path: name for name, path in paths.items()}
    return NamedSkills(MappingProxyType(named), MappingProxyType(names))


def read_whole_file(skills: "SyncSkills", path: str, file: str) -> FileContent:
    """Read a file of a skill; frameworks have no way to ask for the rest.

    Raises:
        SkillsError: There is no such file, or it cannot be read; see the subclass.
    """
    found = skills.read(path, file)
    return skills.open_folder(path).read(found.file) if found.part.truncated else found.part.content
