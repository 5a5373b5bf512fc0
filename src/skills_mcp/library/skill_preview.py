"""Previews of skills for people: sections, files, audience, source text.

Rule: no events are tracked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from skills_mcp.content.git.remote import derive_page_url
from skills_mcp.errors import FileTooLargeError, MissingFileError
from skills_mcp.files.opening import open_inside
from skills_mcp.library.answers import (
    Provenance,
    compose_instructions,
    derive_digest,
    derive_file_provenance,
    derive_provenance,
    find_repository,
)
from skills_mcp.skills.inheritance import compose, escape_headers, find_owners
from skills_mcp.skills.model import Skill, SkillPath
from skills_mcp.skills.skill_index import SkillPatterns
from skills_mcp.skills.skill_parser import is_skill_md
from skills_mcp.snapshots.skill_snapshot import Snapshot

SkillFormat = Literal["package", "rule"]


def derive_skill_format(file: str) -> SkillFormat:
    return "package" if is_skill_md(file.rpartition("/")[2]) else "rule"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSection:
    path: SkillPath
    file: str
    commit: str | None
    body: str = field(repr=False)
    """The agent's text, without the section header."""
    is_own: bool
    page_url: str = ""
    """Page at the forge; empty if unknown."""


@dataclass(frozen=True, slots=True)
class PreviewFile:
    file: str
    size_bytes: int
    owner: SkillPath
    """The skill itself or an ancestor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillPreview:
    skill: Skill
    format: SkillFormat
    sections: tuple[TextSection, ...]
    """From the most general rule to the skill's own text."""
    text: str = field(repr=False)
    """Equal to `load_skill`: without a header if nothing is inherited."""
    guidance: str = field(repr=False)
    """Equal to `get_skill`."""
    files: tuple[PreviewFile, ...]
    digest: str
    provenance: Provenance
    copies: tuple[SkillPath, ...]
    audience: tuple[Mapping[str, Sequence[str]], ...] | None
    """Required claims of each matching grant; None without grants."""


def compose_preview(snapshot: Snapshot, skill: Skill) -> SkillPreview:
    index, content = snapshot.index, snapshot.content
    chain = index.contributors(skill)
    owners = find_owners(index, skill)
    return SkillPreview(
        skill=skill,
        format=derive_skill_format(skill.file),
        sections=tuple(_render_section(snapshot, member, skill) for member in chain),
        text=compose_instructions(chain),
        guidance=compose(chain),
        files=tuple(
            PreviewFile(file, owner.files[file].size_bytes, owner.path)
            for file, owner in sorted(owners.items())
        ),
        digest=derive_digest(chain),
        provenance=derive_provenance(content, chain),
        copies=index.other_places(skill.path),
        audience=_find_audience(snapshot, skill),
    )


def _find_audience(
    snapshot: Snapshot, skill: Skill
) -> tuple[Mapping[str, Sequence[str]], ...] | None:
    grants = snapshot.config.access
    if not grants:
        return None
    fitting = (
        grant
        for grant in grants
        if SkillPatterns(grant.allow).fit(skill) and not SkillPatterns(grant.deny).fit(skill)
    )
    return tuple(grant.when for grant in fitting)


def _render_section(snapshot: Snapshot, member: Skill, skill: Skill) -> TextSection:
    provenance = derive_file_provenance(snapshot.content, member)
    return TextSection(
        path=member.path,
        file=provenance.path,
        commit=provenance.commit,
        body=escape_headers(member.body),
        is_own=member.path == skill.path,
        page_url=_derive_page_url(snapshot, member, provenance),
    )


def _derive_page_url(snapshot: Snapshot, skill: Skill, provenance: Provenance) -> str:
    source = find_repository(snapshot.content, skill)
    if provenance.commit is None or source is None:
        return ""
    forges = snapshot.config.web.forges
    return derive_page_url(source.url, provenance.commit, provenance.path, forges)


def read_markdown(skill: Skill, *, max_bytes: int) -> str:
    """Read the Markdown file of a skill as written.  Blocking.

    Raises:
        MissingFileError: It has been deleted.
        FileTooLargeError: It exceeds `max_bytes`.
    """
    if skill.root is None or skill.location is None:
        raise MissingFileError(f"{skill.file} is not there any more")
    parts = skill.location.relative_to(skill.root).parts
    with open_inside(skill.root, parts) as handle:
        data = handle.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise FileTooLargeError(f"{skill.file} has more than {max_bytes:,} bytes")
    return data.decode("utf-8", "replace")
