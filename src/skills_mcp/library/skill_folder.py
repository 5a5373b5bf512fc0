"""A skill as a folder of its own: its text with all that it inherits, and its files.

Rule: nothing here is an event. What lists, searches or copies skills has not given one
to an agent; what does asks `load_skill` and `read_file`.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from skills_mcp.errors import UndeclaredFileError
from skills_mcp.library.answers import compose_instructions
from skills_mcp.skills.assets import FileContent, read_file
from skills_mcp.skills.index import SkillIndex
from skills_mcp.skills.inheritance import find_owners
from skills_mcp.skills.model import Skill
from skills_mcp.text.rendering import cut_text

MAIN = "SKILL.md"
"""The file of a folder that has the skill's text."""

_MAX_DESCRIPTION = 1024  # what the Agent Skills standard allows

# What YAML cannot hold, not even in quotes.
_UNFIT = re.compile("[^\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]+")


@dataclass(frozen=True, slots=True)
class SkillFolder:
    """A skill, and every file that can be read by its name."""

    skill: Skill
    files: Mapping[str, int]
    """The size of each file in bytes, those that it inherits as well.

    Its own Markdown is not among them: `compose` has its text.
    """
    _index: SkillIndex
    _owners: Mapping[str, Skill]
    _max_bytes: int

    def compose(self) -> str:
        """Return the skill's text, below the rules that it inherits."""
        return compose_instructions(self._index, self.skill)

    def read(self, file: str) -> FileContent:
        """Return the whole of a file.  Blocking.

        Raises:
            FileError: It cannot be handed out; the subclass says why.
        """
        if file not in self.files:
            raise UndeclaredFileError(
                f"{self.skill.path} has no file {file!r}. Use one of its files."
            )
        return read_file(self._owners[file], file, max_bytes=self._max_bytes)


def open_folder(index: SkillIndex, skill: Skill, *, max_bytes: int) -> SkillFolder:
    """Return a skill as a folder; larger files than `max_bytes` are not read."""
    owners = find_owners(index, skill)
    if skill.directory is not None and skill.location is not None:
        main = {f for f in owners if skill.directory / f == skill.location}
        owners = {file: each for file, each in owners.items() if file not in main}
    sizes = {file: each.files[file].size_bytes for file, each in owners.items()}
    return SkillFolder(skill, sizes, index, owners, max_bytes)


def render_main(skill: Skill, name: str, text: str) -> str:
    """Return the `SKILL.md` of a folder with this name, as the standard has it.

    Args:
        skill: Whose description it is; its path is in the metadata.
        name: That of the folder, in the characters that the standard allows.
        text: What `compose` or `load_skill` returns.
    """
    short = cut_text(_UNFIT.sub(" ", skill.description), _MAX_DESCRIPTION)
    description, path = (json.dumps(t, ensure_ascii=False) for t in (short, skill.path))
    fields = f"name: {name}\ndescription: {description}\nmetadata:\n  path: {path}"
    return f"---\n{fields}\n---\n\n{text}\n"
