"""Composition of the text of one skill: inherited parts, required parts, its own.

Each part occurs once. A relation that cannot be served, such as a cycle, is a problem of
the reply: the skill is served without it. See docs/reference/life-cycle.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from skills_mcp.errors import SkillsError
from skills_mcp.skills.inheritance import compose, escape_headers
from skills_mcp.skills.model import Skill, SkillPath
from skills_mcp.skills.skill_index import SkillIndex
from skills_mcp.text.rendering import abbreviate_value

MAX_REQUIRED = 100
"""Required skills of one skill, also indirectly: more than a reply has room for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relations:
    """Other skills that the reply of a skill names."""

    successor: SkillPath | None = None
    """The skill to use instead of a deprecated one."""
    requires: tuple[SkillPath, ...] = ()
    """Required skills, whose text is served with this one."""
    omitted: tuple[SkillPath, ...] = ()
    """Required skills that did not fit."""
    related: tuple[SkillPath, ...] = ()
    problems: tuple[str, ...] = ()
    """Relations that cannot be served."""


NO_RELATIONS = Relations()


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """Text of a skill, and the parts that it is made of."""

    contributors: tuple[Skill, ...]
    """The skill behind the ancestors that it inherits from."""
    parts: tuple[Skill, ...]
    """The same, with required skills and their ancestors in front of the skill itself."""
    notice: str
    """First lines of the text: about the project, a draft, or a deprecated skill."""
    relations: Relations
    applies: str = ""
    """How the project at hand differs from what it is written for; else empty."""

    def with_misfit(self, line: str) -> "Composition":
        """The same with this first line, unless it is empty."""
        if not line:
            return self
        return replace(self, applies=line, notice="\n\n".join(filter(None, (line, self.notice))))

    @property
    def guidance(self) -> str:
        """Text of `get_skill`."""
        return self._frame(compose(self.parts))

    @property
    def instructions(self) -> str:
        """Text of `load_skill`: without a header for a single part."""
        is_alone = len(self.parts) == 1
        return self._frame(escape_headers(self.parts[0].body) if is_alone else compose(self.parts))

    def _frame(self, text: str) -> str:
        omitted = ", ".join(self.relations.omitted)
        rest = f"Required, too, and left out for its length: {omitted}." if omitted else ""
        return "\n\n".join(filter(None, (self.notice, text, rest))) if self.notice or rest else text


def compose_skill(
    index: SkillIndex, skill: Skill, *, max_characters: int | None = None
) -> Composition:
    """Compose a skill; required skills are added while the text fits into `max_characters`."""
    contributors = index.contributors(skill)
    required, obstacles = find_required(index, skill) if skill.requires else ((), ())
    parts, omitted = _join_parts(index, contributors, required, max_characters)
    successor = index.successors.get(skill.path) if skill.lifecycle.is_deprecated else None
    relations = Relations(
        successor=successor,
        requires=tuple(member.path for member in required if member.path not in omitted),
        omitted=omitted,
        related=find_related(index, skill) if skill.related else (),
        problems=tuple(map(str, obstacles)),
    )
    notice = _render_notice(skill, successor)
    return Composition(contributors=contributors, parts=parts, notice=notice, relations=relations)


def join_compositions(first: Composition, second: Composition) -> Composition:
    """Join the texts of two skills that apply together, below their common ancestors."""
    shared = {part.path: part for part in (*first.parts[:-1], *second.parts[:-1])}
    own = {part.path: part for part in (first.parts[-1], second.parts[-1])}
    above = tuple(part for path, part in shared.items() if path not in own)
    notices = filter(None, (first.notice, second.notice))
    return replace(first, parts=(*above, *own.values()), notice="\n\n".join(notices))


def _render_notice(skill: Skill, successor: SkillPath | None) -> str:
    lifecycle = skill.lifecycle
    if lifecycle.is_draft:
        return "Draft: this skill is not in force yet."
    if not lifecycle.is_deprecated:
        return ""
    reason = f" {lifecycle.reason}" if lifecycle.reason else ""
    if successor:
        return f"Use {successor} instead: this skill is deprecated.{reason}"
    return f"Deprecated:{reason}" if reason else "Deprecated."


class Obstacle(NamedTuple):
    """A required skill that cannot be served, and why."""

    holder: SkillPath
    """The skill that requires it."""
    named: str
    """Its path, or the words of the holder if there is none."""
    reason: Literal["missing", "cycle", "draft", "too many"]

    def __str__(self) -> str:
        return f"{self.holder} requires {abbreviate_value(self.named)}, {_REASONS[self.reason]}"


_REASONS = {
    "missing": "which is no skill here",
    "cycle": "which requires it in turn",
    "draft": "which is a draft",
    "too many": f"beyond {MAX_REQUIRED} required skills",
}


def find_required(
    index: SkillIndex, skill: Skill
) -> tuple[tuple[Skill, ...], tuple[Obstacle, ...]]:
    """Find the required skills, each behind those that it requires itself."""
    found: dict[SkillPath, Skill] = {}
    obstacles: dict[Obstacle, None] = {}
    chain: list[SkillPath] = []

    def visit(member: Skill) -> None:
        chain.append(member.path)
        for named in resolve_words(index, member.requires):
            if isinstance(named, str):
                obstacles[Obstacle(member.path, named, "missing")] = None
            elif named.path in chain:
                obstacles[Obstacle(member.path, named.path, "cycle")] = None
            elif _is_hidden_draft(index, named) and not skill.lifecycle.is_draft:
                obstacles[Obstacle(member.path, named.path, "draft")] = None
            elif named.path not in found and len(chain) + len(found) > MAX_REQUIRED:
                obstacles[Obstacle(member.path, named.path, "too many")] = None
            elif named.path not in found:
                visit(named)
                found[named.path] = named
        chain.pop()

    visit(skill)
    return tuple(found.values()), tuple(obstacles)


def _is_hidden_draft(index: SkillIndex, skill: Skill) -> bool:
    return skill.lifecycle.is_draft and index.find(skill.path) is None


def resolve_words(index: SkillIndex, words: Sequence[str]) -> list[Skill | str]:
    """Resolve paths and names; the words themselves where there is no such skill."""
    resolved = [resolve_word(index, word) for word in words]
    is_relation = any(isinstance(r, Skill) or "/" in r for r in resolved)
    return resolved if is_relation else []  # a list of something else, such as programs


def resolve_word(index: SkillIndex, word: str) -> Skill | str:
    try:
        return index.resolve(word.strip("/"))
    except SkillsError:
        return word


def find_related(index: SkillIndex, skill: Skill) -> tuple[SkillPath, ...]:
    """Find the paths of the related skills that are offered."""
    resolved = (found for found in resolve_words(index, skill.related) if isinstance(found, Skill))
    paths = dict.fromkeys(found.path for found in resolved if index.find(found.path) is not None)
    return tuple(path for path in paths if path != skill.path)


def _join_parts(
    index: SkillIndex,
    contributors: Sequence[Skill],
    required: Sequence[Skill],
    max_characters: int | None,
) -> tuple[tuple[Skill, ...], tuple[SkillPath, ...]]:
    """Join inherited parts, required ones and the skill; and list what did not fit."""
    *inherited, skill = contributors
    parts = {part.path: part for part in inherited}
    omitted: list[SkillPath] = []
    for member in required:
        added = {part.path: part for part in index.contributors(member)}
        added.pop(skill.path, None)
        joined = (*(parts | added).values(), skill)
        if max_characters is None or len(compose(joined)) <= max_characters:
            parts |= added
        else:
            omitted.append(member.path)
    return (*parts.values(), skill), tuple(omitted)
