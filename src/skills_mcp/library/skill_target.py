"""Where a skill goes that is added to a source, and what it is called there."""

from dataclasses import dataclass
from pathlib import Path

from skills_mcp.content.local import LocalFolder
from skills_mcp.content.source import Mount
from skills_mcp.errors import ConfigError
from skills_mcp.skills.file_tree import FolderTree
from skills_mcp.skills.homes import find_layout


@dataclass(frozen=True, slots=True)
class SkillTarget:
    """A folder of skills that are served."""

    folder: Path
    prefix: str
    """Stands before the path of each skill in it, such as `teams/web/`."""


def find_skill_target(mount: Mount) -> SkillTarget:
    """Return where the skills of a folder lie.  Blocking.

    Raises:
        ConfigError: The source is no folder.
    """
    source = mount.source
    if not isinstance(source, LocalFolder):
        raise ConfigError(
            f"upload.mode is folder, and {source.name} is a repository. Name the "
            "mount of a folder in upload.source"
        )
    layout = find_layout(FolderTree(source.directory), mount.selection)
    above = f"{mount.at}/" if mount.at else ""
    if not layout.homes:
        return SkillTarget(source.directory, above)
    home = layout.homes[0]
    return SkillTarget(source.directory / home.folder, above + home.prefix)
