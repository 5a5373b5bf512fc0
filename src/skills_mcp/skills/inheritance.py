"""What a skill says together with everything above it (001 §6, §7.3, §7.5).

A skill's own `inherit` decides for that skill alone: with it, the whole chain up
to `_root` counts; without it, only the skill itself.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from skills_mcp.skills.index import INDEX, ROOT, SkillIndex
from skills_mcp.skills.model import Asset, Script, Skill, SkillPath

Entry = TypeVar("Entry", Asset, Script)


@dataclass(frozen=True, slots=True)
class Inherited(Generic[Entry]):
    """An asset or script, and the ancestor it comes from."""

    entry: Entry
    source: SkillPath


@dataclass(frozen=True, slots=True)
class Located:
    """Where in the chain a file was found; `source` is None for the skill itself."""

    entry: Asset | Script
    owner: Skill
    source: SkillPath | None


def compose(index: SkillIndex, skill: Skill) -> str:
    """Return the rules that apply, from the most general to the skill's own.

    A skill that does not inherit is returned as it is, without a header.
    """
    if not skill.inherit:
        return skill.body
    return "\n\n".join(
        f"=== {derive_title(member.path)} (from {member.file}) ===\n\n{member.body}"
        for member in index.lineage(skill)
    )


def derive_title(path: SkillPath) -> str:
    """Return the title of a section (001 §6.2).

    >>> derive_title(SkillPath("ui/react/_index"))
    'UI > REACT'
    """
    if path == ROOT:
        return "GLOBAL RULES"
    parts = [part.upper() for part in path.split("/") if part != INDEX]
    title = " > ".join(" ".join(part.split()) for part in parts)
    return title or path.upper()  # an _index.md at the top has no folder to name


def inherited_assets(index: SkillIndex, skill: Skill) -> tuple[Inherited[Asset], ...]:
    """Return the assets of the ancestors that nothing more specific replaces."""
    return _inherited(index, skill, lambda member: member.assets)


def inherited_scripts(index: SkillIndex, skill: Skill) -> tuple[Inherited[Script], ...]:
    """Return the scripts of the ancestors that nothing more specific replaces."""
    return _inherited(index, skill, lambda member: member.scripts)


def find_in_chain(index: SkillIndex, skill: Skill, file: str) -> Located | None:
    """Find the skill that declares `file`, the most specific first (001 §7.5)."""
    return _find(index, skill, file, lambda member: member.entries())


def find_script(index: SkillIndex, skill: Skill, file: str) -> Located | None:
    """Find the skill that declares `file` as a script, the most specific first."""
    return _find(index, skill, file, lambda member: member.scripts)


def files_in_chain(index: SkillIndex, skill: Skill) -> list[str]:
    """Return every file that `find_in_chain` finds, the skill's own first."""
    chain = _chain(index, skill)
    return list(dict.fromkeys(e.file for member in chain for e in member.entries()))


def _find(
    index: SkillIndex,
    skill: Skill,
    file: str,
    entries: Callable[[Skill], Iterable[Asset | Script]],
) -> Located | None:
    for member in _chain(index, skill):
        for entry in entries(member):
            if entry.file == file:
                source = None if member.path == skill.path else member.path
                return Located(entry, member, source)
    return None


def _chain(index: SkillIndex, skill: Skill) -> tuple[Skill, ...]:
    """Return whose files count, the most specific first."""
    return index.lineage(skill)[::-1] if skill.inherit else (skill,)


def _inherited(
    index: SkillIndex, skill: Skill, entries: Callable[[Skill], Iterable[Entry]]
) -> tuple[Inherited[Entry], ...]:
    """Collect root to leaf, so that the more specific one wins (001 §7.3)."""
    if not skill.inherit:
        return ()
    collected: dict[str, Inherited[Entry]] = {}
    for member in index.lineage(skill):
        for entry in entries(member):
            collected[entry.file] = Inherited(entry, member.path)
    return tuple(item for item in collected.values() if item.source != skill.path)
