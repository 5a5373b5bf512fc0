"""Declared files, as the disk spells them.

An author types é as one character, and the disk may keep it as two. What is handed out
later is looked up among these names, so they have to be those of the disk.
"""

from dataclasses import replace
from pathlib import Path

from skills_mcp.files.opening import find_spelling
from skills_mcp.skills.model import Skill


def spell_as_disk(root: Path, skill: Skill) -> Skill:
    """Return a skill of rules that calls its files as they are called below `root`."""
    if all(entry.file.isascii() for entry in skill.entries()):
        return skill
    folder = skill.path.split("/")

    def spell(file: str) -> str:
        spelling = find_spelling(root, (*folder, *file.split("/")))
        return "/".join(spelling[len(folder) :])

    return replace(
        skill,
        assets=tuple(replace(each, file=spell(each.file)) for each in skill.assets),
        scripts=tuple(replace(each, file=spell(each.file)) for each in skill.scripts),
    )
