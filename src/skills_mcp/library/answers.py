"""Answers of the library and their provenance, independent of any protocol.

The commit is the one of the skill's own source. Inherited rules may come from other
sources; their commits are listed if they differ. A digest identifies an answer.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.source import Content, ContentPart, SourceState
from skills_mcp.errors import SkillsError
from skills_mcp.routing.matcher import Candidate
from skills_mcp.skills.composition import NO_RELATIONS, Composition, Outline, Relations
from skills_mcp.skills.inheritance import (
    Inherited,
    inherited_assets,
    inherited_scripts,
)
from skills_mcp.skills.model import Asset, Script, Skill, SkillPath
from skills_mcp.skills.plugin_files import PluginFiles, open_plugin
from skills_mcp.skills.skill_files import FileContent, FilePart
from skills_mcp.skills.skill_index import SkillIndex
from skills_mcp.text.redaction import redact
from skills_mcp.text.rendering import render_time, truncate_text
from skills_mcp.text.tokens import estimate_tokens

if TYPE_CHECKING:
    from skills_mcp.scripts.execution import ScriptResult
    from skills_mcp.skills.skill_examples import LoadedExamples


@dataclass(frozen=True, slots=True)
class Provenance:
    """Commit and file of an answer."""

    commit: str | None
    """None for a folder."""
    path: str
    """POSIX path within the repository or folder."""
    inherited_commits: Mapping[SkillPath, str | None] = field(default_factory=dict)
    """Ancestors from another commit."""


def derive_provenance(content: Content, contributors: Sequence[Skill]) -> Provenance:
    *ancestors, skill = contributors
    own = derive_file_provenance(content, skill)
    if len(content.parts) <= 1:
        return own
    commits = {a.path: derive_file_provenance(content, a).commit for a in ancestors}
    others = {path: c for path, c in commits.items() if c != own.commit}
    return Provenance(own.commit, own.path, others)


def derive_file_provenance(content: Content, skill: Skill, file: str | None = None) -> Provenance:
    location = skill.location
    if file is not None and skill.directory is not None:
        location = skill.directory / file
    part = _find_part(content, skill, location)
    if part is None or location is None:
        return Provenance(None, file or skill.file)
    inside = location.relative_to(part.checkout.directory)
    return Provenance(part.checkout.revision, inside.as_posix())


def find_repository(content: Content, skill: Skill) -> RemoteBranch | None:
    """The repository of a skill; None for a folder."""
    part = _find_part(content, skill, skill.location)
    source = part.mount.source if part else None
    return source if isinstance(source, RemoteBranch) else None


def _find_part(content: Content, skill: Skill, location: Path | None) -> ContentPart | None:
    return content.find_part(location, skill.path, skill.scope) if location else None


_PLUGIN_FILES: WeakKeyDictionary[SkillIndex, dict[tuple[Path, SkillPath], PluginFiles | None]] = (
    WeakKeyDictionary()
)
"""Of commits, whose files never change."""


def read_plugin_files(content: Content, index: SkillIndex, skill: Skill) -> PluginFiles | None:
    """The files of its plugin that a skill names; None without any.  Blocking."""
    part = _find_part(content, skill, skill.location)
    if part is None:
        return None
    known = _PLUGIN_FILES.setdefault(index, {}) if part.checkout.revision else {}
    top = part.checkout.directory / part.mount.selection.subfolder
    if (top, skill.path) not in known:
        known[top, skill.path] = open_plugin(skill, top)
    return known[top, skill.path]


def sha256_of(content: str | bytes) -> str:
    """SHA-256 of bytes, or of text in UTF-8.

    >>> sha256_of("Be kind.")[:16]
    '5499befb38dbf3fc'
    """
    raw = content.encode() if isinstance(content, str) else content
    return hashlib.sha256(raw).hexdigest()


# Some quote what Git or an operating system has said.
_MAX_ERROR_CHARACTERS = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A skill with everything applicable to the task."""

    skill: Skill
    score: float
    """0 to 1, plus a small bonus for the priority."""
    matched_keywords: tuple[str, ...]
    """Keywords found in the task."""
    content: str = field(repr=False)
    """Text for the agent: all inherited rules, then the skill's own."""
    inherited_assets: tuple[Inherited[Asset], ...]
    """Files of ancestors, also readable."""
    inherited_scripts: tuple[Inherited[Script], ...]
    """Scripts of ancestors, also runnable."""
    digest: str
    """Changes with the text or the files."""
    provenance: Provenance
    """Origin of the skill."""
    is_known: bool = False
    """Whether the caller already has this text."""
    outline: Outline | None = None
    """Headings and must-lines of a text that the caller already has."""
    near_copies: tuple[SkillPath, ...] = ()
    """Skills of the same name with nearly the same text."""
    replaces: SkillPath | None = None
    """The deprecated skill in whose place it is served."""
    also: Skill | None = None
    """The skill for the second intent of the task, whose text is served, too."""
    relations: Relations = NO_RELATIONS
    applies: str = ""
    """How the project at hand differs from what it is written for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSkill:
    """A skill loaded by name."""

    skill: Skill
    instructions: str = field(repr=False)
    """Inherited rules, then the skill's own text."""
    digest: str
    """Changes with the text or the files."""
    provenance: Provenance
    is_known: bool
    """Whether the caller already has this text."""
    other_places: tuple[SkillPath, ...]
    """Paths of identical copies."""
    plugin_files: tuple[str, ...] = ()
    """Files of its plugin that the text names."""
    outline: Outline | None = None
    """Headings and must-lines of a text that the caller already has."""
    relations: Relations = NO_RELATIONS
    applies: str = ""
    """How the project at hand differs from what it is written for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFile:
    """Part of a file; `resolved_from` is the ancestor owning the file."""

    skill: Skill
    file: str
    part: FilePart
    next_line: int | None
    """First line of the rest; None at the end, or if unknown."""
    is_line_cut: bool
    """Whether the last line was too long for one reply."""
    resolved_from: SkillPath | None
    provenance: Provenance

    @property
    def text(self) -> str | None:
        """The part as text; None for a binary file."""
        content = self.part.content
        return None if content.is_binary else content.data.decode("utf-8")


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """Files of a skill; `truncated` if there are more."""

    skill: Skill
    files: tuple[str, ...]
    truncated: bool
    digest: str
    """Equal to `load`'s."""
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class ServedExamples:
    """Examples of a skill, and the commit that they are from."""

    loaded: "LoadedExamples"
    provenance: Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedFile:
    """An asset or script; `resolved_from` is the ancestor owning it."""

    skill_path: SkillPath
    file: str
    type: str
    content: FileContent
    resolved_from: SkillPath | None
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class RanScript:
    """Result and provenance of a script or a command."""

    result: "ScriptResult"
    provenance: Provenance
    """Of the script's file; for a command, of the skill."""
    sha256: str | None = None
    """Of the executed bytes; None for a command, a program of the machine."""
    words: tuple[str, ...] = ()
    """Command line of a command, without the sandbox prefix."""


def build_match(
    content: Content, composed: Composition, found: Candidate, known_digest: str | None = None
) -> Match:
    return Match(
        skill=found.skill,
        **_describe_text(content, composed, known_digest),
        score=found.score,
        matched_keywords=found.matched_keywords,
        content=composed.guidance,
        inherited_assets=inherited_assets(composed.contributors),
        inherited_scripts=inherited_scripts(composed.contributors),
        near_copies=found.near_copies,
        replaces=found.replaces,
        also=found.also.skill if found.also else None,
    )


def build_loaded_skill(
    content: Content, index: SkillIndex, composed: Composition, known_digest: str | None
) -> LoadedSkill:
    skill = composed.contributors[-1]
    plugin = read_plugin_files(content, index, skill)
    return LoadedSkill(
        skill=skill,
        **_describe_text(content, composed, known_digest),
        instructions=composed.instructions,
        other_places=index.other_places(skill.path),
        plugin_files=tuple(plugin.names) if plugin else (),
    )


def _describe_text(
    content: Content, composed: Composition, known_digest: str | None
) -> dict[str, Any]:
    is_known = composed.digest == known_digest
    return {
        "digest": composed.digest,
        "provenance": derive_provenance(content, composed.parts),
        "is_known": is_known,
        "outline": composed.outline if is_known else None,
        "relations": composed.relations,
        "applies": composed.applies,
    }


def count_served_tokens(served: Match | LoadedSkill) -> int:
    """Estimate the tokens of a text, or of the outline that is served in its place."""
    if outline := served.outline:
        lines = (*outline.headings, *outline.must_lines, *outline.inherited_must_lines)
        return estimate_tokens("\n".join(lines))
    return estimate_tokens(served.content if isinstance(served, Match) else served.instructions)


def render_relations(skill: Skill, relations: Relations) -> dict[str, Any]:
    """Stage and relations of a skill for a reply; empty for an active one without any."""
    named = {
        "replaced_by": relations.successor,
        "requires": list(relations.requires),
        "requires_omitted": list(relations.omitted),
        "related": list(relations.related),
        "problems": list(relations.problems),
    }
    return render_status(skill) | {key: value for key, value in named.items() if value}


def render_applies(line: str) -> dict[str, str]:
    """Misfit of a skill and the project at hand."""
    return {"applies": line} if line else {}


def render_status(skill: Skill) -> dict[str, str]:
    """Stage of a skill that is a draft or deprecated."""
    status = skill.lifecycle.marked_status
    return {"status": status} if status else {}


def render_state(state: SourceState) -> dict[str, Any]:
    age = state.age_seconds
    data: dict[str, Any] = {
        "mount": state.mount,
        "name": state.name,
        "mode": state.mode,
        "commit": state.commit,
        "last_sync": render_time(state.synced_at) if state.synced_at else None,
        "age_seconds": None if age is None else int(age),
        "stale": state.is_stale,
    }
    if state.error:
        data["error"] = render_error(state.error)
    moments = {"failed_at": state.failed_at, "next_attempt_at": state.next_attempt_at}
    data |= {name: render_time(moment) for name, moment in moments.items() if moment}
    if state.refused_commit:
        data["refused_commit"] = state.refused_commit
    if state.loss:
        data["loss"] = {
            "removed": state.loss.removed,
            "served": state.loss.served,
            "since": render_time(datetime.fromtimestamp(state.loss.happened_at, UTC)),
            "skills": list(state.loss.paths),
        }
    if state.not_served:
        data["not_served"] = state.not_served
    if state.pins:
        data["pins"] = list(state.pins)
    named = ("rollout", "default_branch", "verified_by")
    data |= {name: value for name in named if (value := getattr(state, name))}
    if state.hold:
        since = render_time(datetime.fromtimestamp(state.hold.since, UTC))
        data["held"] = {"since": since, "instead_of": state.hold.instead_of}
    return data


def render_error(error: SkillsError) -> dict[str, str]:
    """Error as JSON for every reply; secrets are redacted."""
    return {
        "code": error.code,
        "message": truncate_text(redact(str(error)), _MAX_ERROR_CHARACTERS),
    }
