"""What a skill says together with everything above it.

A skill's own `inherit` decides for that skill alone: with it, the whole chain up
to `_root` counts; without it, only the skill itself.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from skills_mcp.files.paths import find_name
from skills_mcp.skills.index import SkillIndex
from skills_mcp.skills.model import Asset, Script, Skill, SkillPath
from skills_mcp.skills.section_headers import escape_headers, render_header

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

    A skill that does not inherit is returned alone, without a header. Lines of a body
    that only look like headers are escaped, see `section_headers`.
    """
    if not skill.inherit:
        return escape_headers(skill.body)
    return "\n\n".join(map(_render_section, index.lineage(skill)))


def inherited_assets(index: SkillIndex, skill: Skill) -> tuple[Inherited[Asset], ...]:
    """Return the assets of the ancestors that nothing more specific replaces."""
    return _inherited(index, skill, lambda member: member.assets)


def inherited_scripts(index: SkillIndex, skill: Skill) -> tuple[Inherited[Script], ...]:
    """Return the scripts of the ancestors that nothing more specific replaces."""
    return _inherited(index, skill, lambda member: member.scripts)


def find_in_chain(index: SkillIndex, skill: Skill, file: str) -> Located | None:
    """Find the skill that declares `file`, the most specific first."""
    return _find(index, skill, file, lambda member: member.entries())


def find_script(index: SkillIndex, skill: Skill, file: str) -> Located | None:
    """Find the skill that declares `file` as a script, the most specific first."""
    return _find(index, skill, file, lambda member: member.scripts)


def files_in_chain(index: SkillIndex, skill: Skill) -> list[str]:
    """Return every file that `find_in_chain` finds, the skill's own first."""
    chain = _chain(index, skill)
    return list(dict.fromkeys(e.file for member in chain for e in member.entries()))


def _render_section(skill: Skill) -> str:
    return f"{render_header(skill.path, skill.file)}\n\n{escape_headers(skill.body)}"


def _find(
    index: SkillIndex,
    skill: Skill,
    file: str,
    entries: Callable[[Skill], Iterable[Asset | Script]],
) -> Located | None:
    for member in _chain(index, skill):
        listed = {entry.file: entry for entry in reversed(tuple(entries(member)))}
        if name := find_name(listed, file):
            source = None if member.path == skill.path else member.path
            return Located(listed[name], member, source)
    return None


def _chain(index: SkillIndex, skill: Skill) -> tuple[Skill, ...]:
    """Return whose files count, the most specific first."""
    return index.lineage(skill)[::-1] if skill.inherit else (skill,)


def _inherited(
    index: SkillIndex, skill: Skill, entries: Callable[[Skill], Iterable[Entry]]
) -> tuple[Inherited[Entry], ...]:
    """Collect root to leaf, so that the more specific one wins."""
    if not skill.inherit:
        return ()
    collected: dict[str, Inherited[Entry]] = {}
    for member in index.lineage(skill):
        for entry in entries(member):
            collected[entry.file] = Inherited(entry, member.path)
    return tuple(item for item in collected.values() if item.source != skill.path)
