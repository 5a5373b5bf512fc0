"""The answers of the library: values, free of any protocol."""

import hashlib
import json
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from skills_mcp.content.source import Content
from skills_mcp.library.provenance import Provenance, derive_provenance
from skills_mcp.routing.matcher import Candidate
from skills_mcp.scripts.execution import ScriptResult
from skills_mcp.skills.assets import FileContent, FilePart
from skills_mcp.skills.index import SkillIndex
from skills_mcp.skills.inheritance import (
    Inherited,
    compose,
    escape_headers,
    inherited_assets,
    inherited_scripts,
)
from skills_mcp.skills.model import Asset, Script, Skill, SkillPath

if TYPE_CHECKING:
    from skills_mcp.skills.examples import LoadedExamples

# 64 bits: it tells an old text from a new one, and guards nothing.
_DIGEST_CHARACTERS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Guidance:
    """A skill with everything that applies to the task."""

    skill: Skill
    score: Fraction
    matched_keywords: tuple[str, ...]
    content: str
    inherited_assets: tuple[Inherited[Asset], ...]
    inherited_scripts: tuple[Inherited[Script], ...]
    digest: str
    """It changes when the text or the files change."""
    provenance: Provenance
    is_known: bool = False
    """Whether the caller has exactly this text already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSkill:
    """A skill that was loaded by its name."""

    skill: Skill
    instructions: str
    """Its own text, below the rules that it inherits."""
    digest: str
    provenance: Provenance
    is_known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFile:
    """A part of a file; `resolved_from` names the ancestor that has it."""

    skill: Skill
    file: str
    part: FilePart
    next_line: int | None
    """The line to read on from; None if there is none, or it is not known."""
    is_line_cut: bool
    """Whether the last line is cut, because it is longer than a reply may be."""
    resolved_from: SkillPath | None
    provenance: Provenance
    """Of the file, which may be an ancestor's."""


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """Files of a skill; `truncated` if there are more."""

    skill: Skill
    files: tuple[str, ...]
    truncated: bool
    digest: str
    """That of the skill, as `load_skill` returns it."""
    provenance: Provenance
    """Of the skill."""


@dataclass(frozen=True, slots=True)
class ServedExamples:
    """Examples of a skill, and where the skill comes from."""

    loaded: "LoadedExamples"
    provenance: Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedFile:
    """An asset or script; `resolved_from` names the ancestor that has it."""

    skill_path: SkillPath
    file: str
    type: str
    content: FileContent
    resolved_from: SkillPath | None
    provenance: Provenance
    """Of the file, which may be an ancestor's."""


@dataclass(frozen=True, slots=True)
class RanScript:
    """The result of a script or a command, and where it comes from."""

    result: ScriptResult
    provenance: Provenance
    """Of the script's file; for a command, of the skill."""
    sha256: str | None = None
    """Of the bytes that ran; None for a command, which is a program of the machine."""
    words: tuple[str, ...] = ()
    """The command line of a command, without the sandbox around it."""


def guide(
    content: Content,
    index: SkillIndex,
    found: Candidate,
    known_digest: str | None = None,
) -> Guidance:
    """Return a skill together with everything that it inherits."""
    skill = found.skill
    digest = derive_digest(index, skill)
    return Guidance(
        skill=skill,
        score=found.score,
        matched_keywords=found.matched_keywords,
        content=compose(index, skill),
        inherited_assets=inherited_assets(index, skill),
        inherited_scripts=inherited_scripts(index, skill),
        digest=digest,
        provenance=derive_provenance(content, index, skill),
        is_known=digest == known_digest,
    )


def load_answer(
    content: Content, index: SkillIndex, skill: Skill, known_digest: str | None
) -> LoadedSkill:
    """Return a skill's text, below the rules that it inherits."""
    is_alone = not skill.inherit or index.parent(skill) is None
    text = escape_headers(skill.body) if is_alone else compose(index, skill)
    digest = derive_digest(index, skill)
    return LoadedSkill(
        skill=skill,
        instructions=text,
        digest=digest,
        provenance=derive_provenance(content, index, skill),
        is_known=digest == known_digest,
    )


def derive_digest(index: SkillIndex, skill: Skill) -> str:
    """Return a digest of everything that an answer says about a skill.

    It covers the texts and files of the skill and of the skills above it. `get_skill`
    and `load_skill` return the same one. It covers no times: the files of every commit
    are new, and most of them are unchanged.
    """
    chain = index.lineage(skill) if skill.inherit else (skill,)
    about = (skill.path, skill.name, skill.description, skill.category, skill.inherit)
    whole = json.dumps([(*about, *skill.entry), *map(_said_by, chain)])
    return hashlib.sha256(whole.encode()).hexdigest()[:_DIGEST_CHARACTERS]


def _said_by(skill: Skill) -> tuple[object, ...]:
    sizes = {file: stamp.size_bytes for file, stamp in skill.files.items()}
    return skill.file, skill.body, tuple(map(repr, skill.entries())), sizes
