"""Where a skill goes that is added to a source, and what it is called there."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from skills_mcp.config.values import ForgeKind, UploadMode
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.local import LocalFolder
from skills_mcp.content.source import Mount
from skills_mcp.errors import ConfigError, SyncError
from skills_mcp.skills.file_tree import FolderTree
from skills_mcp.skills.homes import find_layout

if TYPE_CHECKING:
    from skills_mcp.content.git.proposal import Proposal


@dataclass(frozen=True, slots=True)
class SkillTarget:
    """A folder of skills that are served."""

    folder: Path
    """Of a repository it is that of a commit, in which nothing may be written."""
    place: str
    """The same within the source, such as `skills`; empty for its top."""
    prefix: str
    """Stands before the path of each skill in it, such as `teams/web/`."""
    repository: RemoteBranch | None = None
    """Where changes are reviewed; None for a folder, which takes them at once."""

    @property
    def address(self) -> str:
        """The URL of the repository, or the path of the folder."""
        return self.repository.url if self.repository else str(self.folder)


@dataclass(frozen=True, slots=True)
class SkillReview:
    """A branch with a skill that people review before it is served."""

    branch: str
    url: str
    """Where a review of it is opened; empty if the forge is unknown."""
    is_new: bool
    """False if the same archive was sent before."""

    @classmethod
    def of(
        cls,
        proposal: "Proposal",
        repository: RemoteBranch,
        forges: Mapping[str, ForgeKind],
    ) -> "SkillReview":
        """Return what people are told about a branch that was pushed."""
        from skills_mcp.content.git.forge import derive_review_url

        url = derive_review_url(repository.url, proposal.base, proposal.branch, forges)
        return cls(proposal.branch, url, proposal.is_new)


def require_takes_skills(mount: Mount, mode: UploadMode) -> None:
    """Refuse a source that cannot take skills in this way.

    Raises:
        ConfigError: It is of the other kind, or serves no branch.
    """
    source = mount.source
    if mode == "branch" and not isinstance(source, RemoteBranch):
        raise ConfigError(
            f"upload.mode is branch, and {source.name} is a folder. Name the mount of "
            "a repository in upload.source, or set upload.mode to folder"
        )
    if isinstance(source, RemoteBranch) and source.is_pinned:
        raise ConfigError(
            f"upload.mode is {mode}, and {source.name} is a tag or a commit. Follow a "
            "branch, or name the mount of another source in upload.source"
        )
    if mode == "folder" and not isinstance(source, LocalFolder):
        raise ConfigError(
            f"upload.mode is folder, and {source.name} is a repository. Name the "
            "mount of a folder in upload.source, or set upload.mode to branch"
        )


def find_skill_target(mount: Mount) -> SkillTarget:
    """Return where the skills of a source lie.  Blocking.

    Raises:
        SyncError: Nothing was fetched yet.
    """
    source = mount.source
    checkout = source.open()
    if checkout is None:
        raise SyncError(f"{source.name} was not fetched yet. Try again in a minute")
    layout = find_layout(FolderTree(checkout.directory), mount.selection)
    above = f"{mount.at}/" if mount.at else ""
    repository = source if isinstance(source, RemoteBranch) else None
    if not layout.homes:
        return SkillTarget(checkout.directory, "", above, repository)
    home = layout.homes[0]
    folder = checkout.directory / home.folder
    return SkillTarget(folder, home.folder, above + home.prefix, repository)
