"""Where a skill goes that is added to a source, and what it is called there."""

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
from skills_mcp.skills.homes import WHOLE, Selection, find_layout, lies_in

if TYPE_CHECKING:
    from skills_mcp.content.git.proposal import Proposal


KeepFiles = Callable[[Collection[str], Callable[[str], bytes]], Collection[str]]
"""Chooses which files of a folder stay: of their paths in it, and a reader of them."""


@dataclass(frozen=True, slots=True)
class SkillSuggestion:
    """A package that is sent for review."""

    folder: Path
    """Its files; the name is that of the skill's folder."""
    branch: str
    message: str
    """That of the commit."""
    keep: KeepFiles | None = None
    """Chooses what of the folder before stays; None for nothing."""
    timeout_seconds: float = inf
    """How long it may take, if the settings do not say less."""


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
    selection: Selection = WHOLE
    """Which part of the source is served."""

    def keeps_layout(self, package: Path) -> bool:
        """Whether each skill keeps its path once a package is in the folder.

        A package called `skills` at the top of a source would hide all others, and one
        in the folder of a plugin would be served under the name of the plugin.
        """
        top = self.folder.parents[self.place.count("/")] if self.place else self.folder
        source = FolderTree(top)
        placed = f"{self.place}/{package.name}".lstrip("/")
        before = find_layout(source, self.selection).homes
        after = find_layout(_Addition(source, placed, package), self.selection).homes
        parts = [part for home in after for part in home.parts if part]
        return before == after and not any(lies_in(part, placed) for part in parts)

    @property
    def address(self) -> str:
        """The URL of the repository, or the path of the folder."""
        return self.repository.url if self.repository else str(self.folder)


@dataclass(frozen=True, slots=True)
class _Addition:
    """A source as it would be with another folder in it, as a `FileTree`."""

    source: FolderTree
    placed: str
    folder: Path

    def list(self, folder: str, most: int) -> FolderListing:
        if lies_in(folder, self.placed):
            return FolderTree(self.folder).list(self._inside(folder), most)
        above, _, name = self.placed.rpartition("/")
        listing = self.source.list(folder, most)
        if folder != above:
            return listing
        entries = {**listing.entries, name: FolderEntry("folder")}
        return FolderListing(
            {each: entries[each] for each in sorted(entries)}, len(entries)
        )

    def read(self, file: str) -> bytes | None:
        if lies_in(file, self.placed):
            return FolderTree(self.folder).read(self._inside(file))
        return self.source.read(file)

    def _inside(self, path: str) -> str:
        return path.removeprefix(self.placed).lstrip("/")


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
        return SkillTarget(checkout.directory, "", above, repository, mount.selection)
    home = layout.homes[0]
    folder = checkout.directory / home.folder
    return SkillTarget(
        folder, home.folder, above + home.prefix, repository, mount.selection
    )
