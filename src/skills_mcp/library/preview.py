"""What a person looks at of one skill: its text by origin, and its files.

Rule: nothing here is an event, and the text is the one that an agent gets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.forge import derive_page_url
from skills_mcp.errors import FileTooLargeError, MissingFileError
from skills_mcp.files.opening import open_inside
from skills_mcp.library.answers import (
    Provenance,
    compose_instructions,
    derive_digest,
    derive_place,
    derive_provenance,
    find_source,
)
from skills_mcp.library.browsing import SkillFormat, derive_format
from skills_mcp.skills.inheritance import compose, escape_headers, find_owners
from skills_mcp.skills.model import Skill, SkillPath
from skills_mcp.skills.visibility import Patterns
from skills_mcp.snapshots.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSection:
    """A part of a composed text, and the skill that it comes from."""

    path: SkillPath
    file: str
    """Within its repository or folder."""
    commit: str | None
    """Of its source; None for a folder."""
    body: str = field(repr=False)
    """As an agent gets it, without the header above it."""
    is_own: bool
    """Whether it is the skill's own text, and no rule above it."""
    page_url: str = ""
    """The page of the file at its forge; empty if there is none that is known."""


@dataclass(frozen=True, slots=True)
class PreviewFile:
    """A file that can be read by the name of a skill."""

    file: str
    size_bytes: int
    owner: SkillPath
    """The skill itself, or the one above that it is inherited from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillPreview:
    """A skill as a person looks at it."""

    skill: Skill
    format: SkillFormat
    sections: tuple[TextSection, ...]
    """From the most general rule to the skill's own text."""
    text: str = field(repr=False)
    """All of it, as `load_skill` returns it: without a header if it stands alone."""
    guidance: str = field(repr=False)
    """All of it, as `get_skill` returns it."""
    files: tuple[PreviewFile, ...]
    digest: str
    provenance: Provenance
    other_places: tuple[SkillPath, ...]
    """The paths of identical copies, which the skill stands for."""
    audience: tuple[Mapping[str, Sequence[str]], ...] | None
    """Of each grant that shows it, the claims that a caller needs; None for all."""


def compose_preview(snapshot: Snapshot, skill: Skill) -> SkillPreview:
    """Return what there is to see of a skill."""
    index, content = snapshot.index, snapshot.content
    chain = index.lineage(skill) if skill.inherit else (skill,)
    owners = find_owners(index, skill)
    return SkillPreview(
        skill=skill,
        format=derive_format(skill.file),
        sections=tuple(_show_section(snapshot, each, skill) for each in chain),
        text=compose_instructions(index, skill),
        guidance=compose(index, skill),
        files=tuple(
            PreviewFile(file, owner.files[file].size_bytes, owner.path)
            for file, owner in sorted(owners.items())
        ),
        digest=derive_digest(index, skill),
        provenance=derive_provenance(content, index, skill),
        other_places=index.other_places(skill.path),
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
        if Patterns(grant.allow).fit(skill) and not Patterns(grant.deny).fit(skill)
    )
    return tuple(grant.when for grant in fitting)


def _show_section(snapshot: Snapshot, member: Skill, skill: Skill) -> TextSection:
    place = derive_place(snapshot.content, member)
    return TextSection(
        path=member.path,
        file=place.path,
        commit=place.commit,
        body=escape_headers(member.body),
        is_own=member.path == skill.path,
        page_url=_derive_page_url(snapshot, member, place),
    )


def _derive_page_url(snapshot: Snapshot, skill: Skill, place: Provenance) -> str:
    source = find_source(snapshot.content, skill)
    if place.commit is None or not isinstance(source, RemoteBranch):
        return ""
    forges = snapshot.config.web.forges
    return derive_page_url(source.url, place.commit, place.path, forges)


def read_raw(skill: Skill, *, max_bytes: int) -> str:
    """Return the Markdown file of a skill as its author wrote it.  Blocking.

    Raises:
        MissingFileError: It is not there any more.
        FileTooLargeError: It has more than `max_bytes` bytes.
    """
    if skill.root is None or skill.location is None:
        raise MissingFileError(f"{skill.file} is not there any more")
    parts = skill.location.relative_to(skill.root).parts
    with open_inside(skill.root, parts) as handle:
        data = handle.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise FileTooLargeError(f"{skill.file} has more than {max_bytes:,} bytes")
    return data.decode("utf-8", "replace")
