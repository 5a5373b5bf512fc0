"""Where an answer comes from: the commit of its source, and the file in it.

The commit is that of the skill's own source. Rules that it inherits may come from other
sources, so their commits are named where they differ. An answer can be checked by its
digest, and against the file at that commit.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from skills_mcp.content.source import Content, Part
from skills_mcp.skills.index import SkillIndex
from skills_mcp.skills.model import Skill, SkillPath


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
    at = part.mount.at.strip("/")
    return part.mount.scope == skill.scope and f"{skill.path}/".startswith(
        f"{at}/" if at else ""
    )
