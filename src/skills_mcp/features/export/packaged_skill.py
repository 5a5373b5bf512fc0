"""Each skill as a legal package of the Agent Skills standard, with all it needs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from skills_mcp.errors import FileError
from skills_mcp.features.export.format import CLAUDE, CLAUDE_KEYS
from skills_mcp.features.export.lock import LockedSettings
from skills_mcp.library import SkillLibrary
from skills_mcp.library.published_skills import PublishedSkills
from skills_mcp.library.skill_folder import MAIN, MAX_DESCRIPTION, render_main
from skills_mcp.skills.model import SkillPath


@dataclass(frozen=True, slots=True)
class PackagedSkill:
    """A skill that is to be written."""

    name: str
    """Unique, and legal in the standard; the folder has it, too."""
    path: SkillPath
    description: str
    """As its frontmatter has it, within the limit of the standard."""
    files: Mapping[str, bytes] = field(repr=False)
    remarks: tuple[str, ...] = ()
    """What was shortened or left out, for the person who exports."""


def package_skills(
    library: SkillLibrary, settings: LockedSettings
) -> Iterator[PackagedSkill]:
    """Iterate over the skills that are visible, in the order of their paths.

    Rules that others inherit are no package of their own: their text stands first in
    each skill below them.

    Args:
        library: With the visibility that counts.
        settings: Whether rules are left out, and for which host it is.
    """
    published = library.publish()
    for path in published.names.published:
        yield package_skill(published, path, settings)


def package_skill(
    published: PublishedSkills,
    path: SkillPath,
    settings: LockedSettings,
) -> PackagedSkill:
    """Return one of the skills that are published as a package.  Blocking."""
    skill = published.snapshot.index.require(path)
    folder = published.open_folder(skill)
    remarks = []
    if len(skill.description.strip()) > MAX_DESCRIPTION:
        remarks.append(f"its description was cut to {MAX_DESCRIPTION:,} characters")
    name, description = published.summarize(path)
    text = skill.body if settings.raw else folder.compose()
    kept = CLAUDE_KEYS if settings.format in CLAUDE else ()
    main = render_main(skill, name, text, folder.read_fields(), kept=kept)
    files = {MAIN: main.encode()}
    for file in sorted(folder.files):
        if settings.raw and file not in skill.files:
            continue
        try:
            files.setdefault(file, folder.read(file).data)
        except FileError as error:
            remarks.append(f"{file} was left out: {error}")
    return PackagedSkill(name, path, description, files, tuple(remarks))
