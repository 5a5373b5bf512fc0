"""Skills as packages of the Agent Skills standard."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from skills_mcp.errors import FileError
from skills_mcp.features.export.format import CLAUDE_FORMATS, CLAUDE_KEYS
from skills_mcp.features.export.lock import LockedSettings
from skills_mcp.library import SkillLibrary
from skills_mcp.library.published_skills import PublishedSkills
from skills_mcp.library.skill_folder import (
    MAX_DESCRIPTION,
    SKILL_FILE,
    render_skill_file,
)
from skills_mcp.skills.model import SkillPath


@dataclass(frozen=True, slots=True)
class PackagedSkill:
    name: str
    """Unique, and legal in the standard; also the name of the folder."""
    path: SkillPath
    description: str
    files: Mapping[str, bytes] = field(repr=False)
    remarks: tuple[str, ...] = ()
    """Truncations and omissions, for the user."""


def package_skills(library: SkillLibrary, settings: LockedSettings) -> Iterator[PackagedSkill]:
    """Package the visible skills, sorted by path.

    Inherited rules get no package: their text is prepended to each skill below them.
    """
    published = library.publish()
    for path in published.names.published:
        yield package_skill(published, path, settings)


def package_skill(
    published: PublishedSkills,
    path: SkillPath,
    settings: LockedSettings,
) -> PackagedSkill:
    """Package one published skill.  Blocking."""
    skill = published.snapshot.index.require(path)
    folder = published.open_folder(skill)
    remarks = []
    if len(skill.description.strip()) > MAX_DESCRIPTION:
        remarks.append(f"its description was cut to {MAX_DESCRIPTION:,} characters")
    name, description = published.summarize(path)
    text = skill.body if settings.raw else folder.compose()
    extra_keys = CLAUDE_KEYS if settings.format in CLAUDE_FORMATS else ()
    main = render_skill_file(skill, name, text, folder.read_fields(), extra_keys=extra_keys)
    files = {SKILL_FILE: main.encode()}
    for file in sorted(folder.files):
        if settings.raw and file not in skill.files:
            continue
        try:
            files.setdefault(file, folder.read(file).data)
        except FileError as error:
            remarks.append(f"{file} was left out: {error}")
    return PackagedSkill(name, path, description, files, tuple(remarks))
