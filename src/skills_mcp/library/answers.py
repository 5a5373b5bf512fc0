"""The answers of the library, free of any protocol, and where each of them comes from.

The commit is that of the skill's own source. Rules that it inherits may come from other
sources, so their commits are named where they differ. An answer can be checked by its
digest, and against the file at that commit.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skills_mcp.content.source import Content, ContentSource, Part, SourceState
from skills_mcp.errors import SkillsError
from skills_mcp.routing.matcher import Candidate
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
from skills_mcp.text.redaction import redact
from skills_mcp.text.rendering import cut_text, render_time

if TYPE_CHECKING:
    from skills_mcp.scripts.execution import ScriptResult
    from skills_mcp.skills.examples import LoadedExamples


@dataclass(frozen=True, slots=True)
class Provenance:
    """The commit and the file that an answer was read from."""

    commit: str | None
    """Of the skill's source; None for a folder, which has none."""
    path: str
    """Within the repository or the folder, as its authors see it, with slashes."""
    inherited_commits: Mapping[SkillPath, str | None] = field(default_factory=dict)
    """Skills above whose rules come from another commit, with that commit."""


def derive_provenance(content: Content, index: SkillIndex, skill: Skill) -> Provenance:
    """Return where a skill's text and the rules above it come from."""
    own = derive_place(content, skill)
    if len(content.parts) <= 1 or not skill.inherit:
        return own
    above = index.lineage(skill)[:-1]
    commits = {each.path: derive_place(content, each).commit for each in above}
    others = {path: c for path, c in commits.items() if c != own.commit}
    return Provenance(own.commit, own.path, others)


def derive_place(content: Content, skill: Skill, file: str | None = None) -> Provenance:
    """Return where a skill's Markdown comes from, or another file of its folder."""
    place = skill.location
    if file is not None and skill.directory is not None:
        place = skill.directory / file
    part = _find_part(content, skill, place) if place else None
    if part is None or place is None:
        return Provenance(None, file or skill.file)
    inside = place.relative_to(part.checkout.directory)
    return Provenance(part.checkout.revision, inside.as_posix())


def find_source(content: Content, skill: Skill) -> ContentSource | None:
    """Return the source that a skill's Markdown comes from."""
    part = _find_part(content, skill, skill.location) if skill.location else None
    return part.mount.source if part else None


def derive_sha256(content: str | bytes) -> str:
    """Return the SHA-256 of a file's bytes, or of a text in UTF-8.

    >>> derive_sha256("Be kind.")[:16]
    '5499befb38dbf3fc'
    """
    raw = content.encode() if isinstance(content, str) else content
    return hashlib.sha256(raw).hexdigest()


def _find_part(content: Content, skill: Skill, place: Path) -> Part | None:
    """Return the source of a file; the folder of one may lie in that of another."""
    shown = os.fspath(place)
    holding = [part for part in content.parts if shown.startswith(_top(part))]
    if len(holding) == 1:
        return holding[0]
    return max(
        holding,
        key=lambda part: (_may_serve(part, skill), len(_top(part))),
        default=None,
    )


def _top(part: Part) -> str:
    return os.path.join(part.checkout.directory, "")  # noqa: PTH118 - Path drops the slash


def _may_serve(part: Part, skill: Skill) -> bool:
    mount = part.mount
    return mount.scope == skill.scope and f"{skill.path}/".startswith(mount.prefix)


# Some quote what Git or an operating system has said.
_LONGEST_ERROR = 4000

# 64 bits: it tells an old text from a new one, and guards nothing.
_DIGEST_CHARACTERS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A skill with everything that applies to the task."""

    skill: Skill
    score: Fraction
    """Exact, 0 to 1 and a little for the priority; `float(score)` for a number."""
    matched_keywords: tuple[str, ...]
    """The keywords of the skill that the task has."""
    content: str = field(repr=False)
    """The text for the agent: the skill's own, below all rules that it inherits."""
    inherited_assets: tuple[Inherited[Asset], ...]
    """Files of the skills above, which `read` returns, too."""
    inherited_scripts: tuple[Inherited[Script], ...]
    """Scripts of the skills above, which `run_script` runs, too."""
    digest: str
    """It changes when the text or the files change."""
    provenance: Provenance
    """The commit and the file that the skill was read from."""
    is_known: bool = False
    """Whether the caller has exactly this text already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSkill:
    """A skill that was loaded by its name."""

    skill: Skill
    instructions: str = field(repr=False)
    """Its own text, below the rules that it inherits."""
    digest: str
    """It changes when the text or the files change."""
    provenance: Provenance
    """The commit and the file that the skill was read from."""
    is_known: bool
    """Whether the caller has exactly this text already."""
    other_places: tuple[SkillPath, ...]
    """The paths of identical copies, which the skill stands for."""


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

    @property
    def text(self) -> str | None:
        """The part as text; None for a binary file, whose bytes `part` has."""
        content = self.part.content
        return None if content.is_binary else content.data.decode("utf-8")


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

    result: "ScriptResult"
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
) -> Match:
    """Return a skill together with everything that it inherits."""
    skill = found.skill
    digest = derive_digest(index, skill)
    return Match(
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
    digest = derive_digest(index, skill)
    return LoadedSkill(
        skill=skill,
        instructions=compose_instructions(index, skill),
        digest=digest,
        provenance=derive_provenance(content, index, skill),
        is_known=digest == known_digest,
        other_places=index.other_places(skill.path),
    )


def compose_instructions(index: SkillIndex, skill: Skill) -> str:
    """Return a skill's text below the rules that it inherits, if there are any."""
    is_alone = not skill.inherit or index.parent(skill) is None
    return escape_headers(skill.body) if is_alone else compose(index, skill)


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


def render_state(state: SourceState) -> dict[str, Any]:
    """Return how a source is doing, without the keys that do not apply."""
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
    if state.not_served:
        data["not_served"] = state.not_served
    if state.default_branch:
        data["default_branch"] = state.default_branch
    if state.verified_by:
        data["verified_by"] = state.verified_by
    if state.hold:
        since = render_time(datetime.fromtimestamp(state.hold.since, UTC))
        data["held"] = {"since": since, "instead_of": state.hold.instead_of}
    return data


def render_error(error: SkillsError) -> dict[str, str]:
    """Return an error as every reply shows it, without any secret."""
    return {"code": error.code, "message": cut_text(redact(str(error)), _LONGEST_ERROR)}
