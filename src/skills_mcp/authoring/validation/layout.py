"""Whether the files of a tree of rules fit together."""

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path, PurePosixPath

from skills_mcp.authoring.validation.rules import Finding, enumerate_shortly
from skills_mcp.skills.index import INDEX, SkillIndex
from skills_mcp.skills.inheritance import compose
from skills_mcp.skills.model import Skill

MAX_COMPOSED = 100_000
"""Characters: about 25,000 tokens, which every single answer would cost."""

_MAX_LISTED = 1000
_MARKDOWN = ".md"
_LEFT_BY_TOOLS = frozenset({"__pycache__", "node_modules"})


def find_gaps(files: Collection[str], skills: Iterable[str]) -> Iterator[str]:
    """Iterate over folders with skills and without rules of their own.

    That is a gap only where the folders above or beside it have some.

    Args:
        files: Every rule file, relative to where the skills begin.
        skills: Those of them that are skills.
    """
    name = f"{INDEX}{_MARKDOWN}"
    indexed = {PurePosixPath(f).parent for f in files if PurePosixPath(f).name == name}
    indexed.discard(PurePosixPath())  # nothing inherits from an index at the top
    beside = {folder.parent for folder in indexed}
    for folder in sorted({PurePosixPath(skill).parent for skill in skills}):
        is_above = not indexed.isdisjoint(folder.parents)
        is_known = folder in indexed or folder == PurePosixPath()
        if not is_known and (is_above or folder.parent in beside):
            yield str(folder)


def describe_gap() -> Finding:
    """Return what is wrong with such a folder."""
    reason = f"has skills but no {INDEX}{_MARKDOWN}, unlike the folders around it"
    hint = f"add {INDEX}{_MARKDOWN} with the rules for everything in it"
    return Finding("missing-index", reason, hint)


def check_undeclared(skill: Skill, line: int, known: Collection[Path]) -> list[Finding]:
    """Check the folder that belongs to a rule file.  Lists it.

    Args:
        skill: What the rule file says.
        line: Where it declares files.
        known: Files of which something else is reported already.
    """
    if skill.directory is None:
        return []
    declared = {entry.file for entry in skill.entries()}
    found = [
        file
        for file in _list_files(skill.directory)
        if file not in declared and skill.directory / file not in known
    ]
    if not found:
        return []
    reason = f"does not declare what is in its folder: {enumerate_shortly(found)}"
    hint = "list it under assets or scripts, or take it away: nobody can ask for it"
    return [Finding("undeclared-file", reason, hint, line)]


def check_length(index: SkillIndex, skill: Skill) -> Iterator[Finding]:
    """Check how much an agent gets that asks for a skill."""
    length = len(compose(index, skill))
    if length > MAX_COMPOSED:
        chain = index.lineage(skill) if skill.inherit else (skill,)
        longest = max(chain, key=lambda member: len(member.body))
        reason = f"is {length:,} characters long with the rules that it inherits"
        hint = f"move parts of {longest.path} into files of its folder"
        yield Finding("composed-length", reason, hint)


def _list_files(directory: Path) -> list[str]:
    """Return the files in a folder, without those that are for people or tools."""
    listed: list[str] = []
    for folder, folders, files in os.walk(directory):
        folders[:] = sorted(name for name in folders if _is_content(name))
        inside = Path(folder).relative_to(directory)
        listed += [(inside / f).as_posix() for f in sorted(files) if _is_content(f)]
        if len(listed) > _MAX_LISTED:
            break
    return listed


def _is_content(name: str) -> bool:
    is_notice = name.endswith(_MARKDOWN) and name.removesuffix(_MARKDOWN).isupper()
    return not (name.startswith(".") or name in _LEFT_BY_TOOLS or is_notice)
