"""Upload targets."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from skills_mcp.config.values import ForgeKind, UploadMode
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.local import LocalFolder
from skills_mcp.content.source import Mount
from skills_mcp.errors import ConfigError, SyncError
from skills_mcp.skills.file_tree import FolderEntry, FolderListing, FolderTree
from skills_mcp.skills.homes import DEFAULT_SELECTION, Selection, find_layout, is_inside

if TYPE_CHECKING:
    from skills_mcp.content.git.proposal import Proposal


FileSelector = Callable[[Collection[str], Callable[[str], bytes]], Collection[str]]
"""Selects files to keep in a folder, given their paths and a reader."""


@dataclass(frozen=True, slots=True)
class SkillSuggestion:
    folder: Path
    branch: str
    message: str
    keep: FileSelector | None = None
    """Selects existing files to keep; None for none."""
    timeout_seconds: float = inf


@dataclass(frozen=True, slots=True)
class SkillTarget:
    """A served folder of skills, to add skills to."""

    folder: Path
    """Read-only for a repository: the folder of a commit."""
    source_folder: str
    """The folder relative to the source, such as `skills`; empty for its top."""
    prefix: str
    repository: RemoteBranch | None = None
    """Repository for reviews; None for a folder, changed at once."""
    selection: Selection = DEFAULT_SELECTION

    def keeps_layout(self, package: Path) -> bool:
        """Whether adding a package leaves all existing paths unchanged.

        A package called `skills` at the top of a source would hide all others, and one
        in the
        folder of a plugin would be served under the name of the plugin.
        """
        top = (
            self.folder.parents[self.source_folder.count("/")]
            if self.source_folder
            else self.folder
        )
        source = FolderTree(top)
        placed = f"{self.source_folder}/{package.name}".lstrip("/")
        before = find_layout(source, self.selection).homes
        after = find_layout(_OverlaidTree(source, placed, package), self.selection).homes
        parts = [part for home in after for part in home.parts if part]
        return before == after and not any(is_inside(part, placed) for part in parts)

    @property
    def address(self) -> str:
        return self.repository.url if self.repository else str(self.folder)


@dataclass(frozen=True, slots=True)
class _OverlaidTree:
    """`FileTree` of a source overlaid with another folder."""

    source: FolderTree
    placed: str
    folder: Path

    def list(self, folder: str, limit: int) -> FolderListing:
        if is_inside(folder, self.placed):
            return FolderTree(self.folder).list(self._inside(folder), limit)
        above, _, name = self.placed.rpartition("/")
        listing = self.source.list(folder, limit)
        if folder != above:
            return listing
        entries = {**listing.entries, name: FolderEntry("folder")}
        return FolderListing(
            {entry_name: entries[entry_name] for entry_name in sorted(entries)},
            len(entries),
        )

    def read(self, file: str) -> bytes | None:
        if is_inside(file, self.placed):
            return FolderTree(self.folder).read(self._inside(file))
        return self.source.read(file)

    def _inside(self, path: str) -> str:
        return path.removeprefix(self.placed).lstrip("/")


@dataclass(frozen=True, slots=True)
class SkillReview:
    branch: str
    url: str
    """Page to open a review; empty if the forge is unknown."""
    is_new: bool
    """False if the same archive was sent before."""

    @classmethod
    def of(
        cls,
        proposal: "Proposal",
        repository: RemoteBranch,
        forges: Mapping[str, ForgeKind],
    ) -> "SkillReview":
        from skills_mcp.content.git.forge import derive_review_url

        url = derive_review_url(repository.url, proposal.base, proposal.branch, forges)
        return cls(proposal.branch, url, proposal.is_new)


def require_upload_target(mount: Mount, mode: UploadMode) -> None:
    """Refuse a source incompatible with `upload.mode`.

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
    """Locate the skills folder of a source.  Blocking.

    Raises:
        SyncError: The source was not fetched yet.
    """
    source = mount.source
    checkout = source.open()
    if checkout is None:
        raise SyncError(f"{source.name} was not fetched yet. Try again in a minute")
    layout = find_layout(FolderTree(checkout.directory), mount.selection)
    above = f"{mount.at}/" if mount.at else ""
    repository = source if isinstance(source, RemoteBranch) else None
    if not layout.homes:
        return SkillTarget(checkout.directory, "", above, repository, mount.selection)
    home = layout.homes[0]
    folder = checkout.directory / home.folder
    return SkillTarget(folder, home.folder, above + home.prefix, repository, mount.selection)
