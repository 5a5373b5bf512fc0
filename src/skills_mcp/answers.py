"""What the library answers: values, free of any protocol."""

from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from skills_mcp.content.source import Mode
from skills_mcp.errors import SkillsError
from skills_mcp.skills.assets import FileContent
from skills_mcp.skills.index import SkillIndex
from skills_mcp.skills.inheritance import (
    Inherited,
    compose,
    inherited_assets,
    inherited_scripts,
)
from skills_mcp.skills.model import Asset, Script, Skill, SkillPath


@dataclass(frozen=True, slots=True, kw_only=True)
class Guidance:
    """A skill with everything that applies to the task."""

    skill: Skill
    score: Fraction
    matched_keywords: tuple[str, ...]
    content: str
    inherited_assets: tuple[Inherited[Asset], ...]
    inherited_scripts: tuple[Inherited[Script], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedFile:
    """A file as it was asked for; `resolved_from` names the ancestor that has it."""

    skill_path: SkillPath
    file: str
    type: str
    content: FileContent
    resolved_from: SkillPath | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """How a refresh ended, and what is served now."""

    mode: Mode
    commit: str | None
    files_changed: int
    skills_reindexed: int
    synced_at: datetime | None
    error: SkillsError | None


def guide(
    index: SkillIndex, skill: Skill, score: Fraction, words: tuple[str, ...]
) -> Guidance:
    """Return a skill together with everything that it inherits."""
    return Guidance(
        skill=skill,
        score=score,
        matched_keywords=words,
        content=compose(index, skill),
        inherited_assets=inherited_assets(index, skill),
        inherited_scripts=inherited_scripts(index, skill),
    )
