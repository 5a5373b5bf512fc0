"""Edits of sources: a working copy for previews, and targets for added skills.

Rule: a preview leaves served content and its files unchanged.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from skills_mcp.config.values import ForgeKind, UploadMode
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import derive_review_url
from skills_mcp.content.mounts import Mounts
from skills_mcp.content.source import (
    Checkout,
    Content,
    ContentPart,
    LocalFolder,
    Mode,
    Mount,
    SurveyedPart,
)
from skills_mcp.errors import ConfigError, SyncError
from skills_mcp.files.durable import read_regular
from skills_mcp.files.paths import find_marked_folder, is_inside
from skills_mcp.skills import source_layout
from skills_mcp.skills.model import Skill
from skills_mcp.skills.skill_discovery import (
    MAX_SKILL_BYTES,
    Package,
    RuleFile,
    SourceWalk,
)
from skills_mcp.snapshots.skill_snapshot import Snapshot

if TYPE_CHECKING:  # no other operation pushes
    from skills_mcp.content.git.proposal import FolderChange, TextReplacement

_CONFIG = "config.yaml"
_GIT = ".git"

SnapshotLoader = Callable[[Content, Snapshot | None], Snapshot]


@dataclass(frozen=True, slots=True)
class SkillSource:
    """A source and its location in its repository."""

    name: str
    mount: str
    """Path prefix of its skills; empty for the top."""
    mode: Mode
    top: Path
    """Root of the repository; the folder itself outside of Git."""
    folder: str
    """Served folder, relative to the root; `.` for the root."""


@dataclass(frozen=True, slots=True)
class EditableText:
    source: SkillSource
    file: str
    """POSIX path from the root of the repository."""
    raw: bytes


class UneditableError(Exception):
    """The text of a skill cannot be changed alone; the message has the reason."""


@dataclass(frozen=True, slots=True)
class _StubSource:
    """Stub source, so that the same rules read its copy."""

    name: str
    mode: Mode

    def open(self) -> Checkout | None:
        return None


class WorkingCopy:
    """Copies of all served files in a temporary folder.  All methods block.

    Of a limited snapshot, only its skills are copied: no check of the copy tells of others.
    """

    def __init__(
        self,
        served: Snapshot,
        folder: Path,
        load_snapshot: SnapshotLoader,
        *,
        is_limited: bool = False,
    ) -> None:
        self.served = served
        """What is served now, which is what is copied."""
        self._folder = folder
        self._load_snapshot = load_snapshot
        self._visible = {skill.location for skill in served.index} if is_limited else None
        self._content: Content | None = None
        self._base: Snapshot | None = None
        self._originals: dict[Path, bytes] = {}

    def read(self, skill: Skill) -> EditableText:
        """Read the text of a skill.

        Raises:
            UneditableError: It cannot be read, has copies, or is outside of its source.
        """
        location = skill.location
        part = self.served.content.find_part(location, skill.path) if location else None
        if others := self.served.index.other_places(skill.path):
            raise UneditableError(
                f"the same package lies at {', '.join(others)}, too: change all of them"
            )
        raw = None if location is None else read_regular(location, MAX_SKILL_BYTES)
        if part is None or location is None or raw is None:
            raise UneditableError("its file cannot be read")
        source = _locate_repository(part)
        try:
            file = location.resolve().relative_to(source.top)
        except ValueError:
            raise UneditableError("a link leads to it from its source") from None
        return EditableText(source, file.as_posix(), raw)

    def serve(self, texts: Mapping[Path, bytes]) -> Snapshot:
        """Snapshot of the copy after replacing texts by location.

        Raises:
            SyncError: The copy cannot be made.
        """
        try:
            return self._serve(texts)
        except OSError as error:
            raise SyncError(
                f"the content cannot be copied to {self._folder}: {error.strerror}. "
                "Set TMPDIR to a folder with more room"
            ) from error

    def _serve(self, texts: Mapping[Path, bytes]) -> Snapshot:
        if self._content is None:
            parts = enumerate(self.served.content.parts)
            copied = tuple(self._copy(part, str(number)) for number, part in parts)
            self._content = Content(copied)
            self._base = self._load_snapshot(self._content, None)
        edited = {c: raw for location, raw in texts.items() for c in self._find_copies(location)}
        for location, original in self._originals.items():
            if location not in edited:
                _write_new_inode(location, original)
        retained = {p: raw for p, raw in self._originals.items() if p in edited}
        self._originals = retained | {p: p.read_bytes() for p in edited if p not in retained}
        for location, raw in edited.items():
            _write_new_inode(location, raw)
        return self._load_snapshot(self._content, self._base)

    def find_copy(self, location: Path) -> Path | None:
        """Copy of a file, after the first `serve`."""
        return next(self._find_copies(location), None)

    def _find_copies(self, location: Path) -> Iterator[Path]:
        for number, part in enumerate(self.served.content.parts):
            top = part.checkout.directory
            if location.is_relative_to(top):
                copied = self._folder / str(number) / location.relative_to(top)
                if copied.is_file():
                    yield copied

    def _copy(self, part: ContentPart, name: str) -> ContentPart:
        mount, checkout = part.mount, part.checkout
        known = checkout.surveyed.get(mount.selection)
        top, copied = checkout.directory, self._folder / name
        copied.mkdir()
        limits = self.served.config.limits
        layout = source_layout.Layout(known.homes) if known else None
        survey = SourceWalk(source_layout.FolderTree(top), mount.selection, limits, layout)
        for home in survey.layout.homes:
            (copied / home.folder).mkdir(parents=True, exist_ok=True)
            for found in survey.walk(home):
                if self._is_hidden(found, top, home):
                    continue
                for file in _list_files(found):
                    _copy_file(top / home.below(file), copied / home.below(file))
        for folder in (*(home.folder for home in survey.layout.homes), ""):
            _copy_file(top / folder / _CONFIG, copied / folder / _CONFIG)
        surveyed = SurveyedPart(survey.layout.homes, known.problems if known else ())
        source = _StubSource(mount.source.name, mount.source.mode)
        return ContentPart(
            replace(mount, source=source),
            Checkout(copied, None, checkout.synced_at, surveyed={mount.selection: surveyed}),
        )

    def _is_hidden(self, found: object, top: Path, home: source_layout.RelativeRoot) -> bool:
        if self._visible is None or not isinstance(found, RuleFile | Package):
            return False
        return top / home.below(found.file) not in self._visible


def _list_files(found: object) -> Iterator[str]:
    if isinstance(found, RuleFile | Package):
        yield found.file
        yield from (f"{found.folder}/{name}".lstrip("/") for name in found.files)


def _copy_file(old: Path, new: Path) -> None:
    if old.is_file():
        new.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(old, new)


def _write_new_inode(path: Path, raw: bytes) -> None:
    """Write a new inode, so that change detection never depends on the clock."""
    staging = path.with_name(f"{path.name}.new")
    staging.write_bytes(raw)
    staging.replace(path)


def _locate_repository(part: ContentPart) -> SkillSource:
    mount, folder = part.mount, part.checkout.directory.resolve()
    name, mode = mount.source.name, mount.source.mode
    top = (find_marked_folder(folder, _GIT) if mode == "local" else None) or folder
    served = (folder / mount.selection.subfolder).relative_to(top).as_posix()
    return SkillSource(name, mount.at, mode, top, served)


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
    selection: source_layout.Selection = source_layout.DEFAULT_SELECTION

    def keeps_layout(self, package: Path) -> bool:
        """Whether adding a package leaves all existing paths unchanged.

        A package called `skills` at the top of a source would hide all others, and one
        in the folder of a plugin would be served under the name of the plugin.
        """
        top = (
            self.folder.parents[self.source_folder.count("/")]
            if self.source_folder
            else self.folder
        )
        source = source_layout.FolderTree(top)
        placed = self.locate(package)
        before = source_layout.find_layout(source, self.selection).homes
        after = source_layout.find_layout(
            _OverlaidTree(source, placed, package), self.selection
        ).homes
        parts = [part for home in after for part in home.parts if part]
        return before == after and not any(is_inside(part, placed) for part in parts)

    def locate(self, package: Path) -> str:
        """Folder of a package, relative to the source."""
        return f"{self.source_folder}/{package.name}".lstrip("/")

    @property
    def address(self) -> str:
        return self.repository.url if self.repository else str(self.folder)


@dataclass(frozen=True, slots=True)
class _OverlaidTree:
    """`FileTree` of a source overlaid with another folder."""

    source: source_layout.FolderTree
    placed: str
    folder: Path

    def list(self, folder: str, limit: int) -> source_layout.FolderListing:
        if is_inside(folder, self.placed):
            return source_layout.FolderTree(self.folder).list(self._inside(folder), limit)
        above, _, name = self.placed.rpartition("/")
        listing = self.source.list(folder, limit)
        if folder != above:
            return listing
        entries = {**listing.entries, name: source_layout.FolderEntry("folder")}
        return source_layout.FolderListing(dict(sorted(entries.items())), len(entries))

    def read(self, file: str) -> bytes | None:
        if is_inside(file, self.placed):
            return source_layout.FolderTree(self.folder).read(self._inside(file))
        return self.source.read(file)

    def resolve(self, link: str) -> str | None:
        return self.source.resolve(link)

    def _inside(self, path: str) -> str:
        return path.removeprefix(self.placed).lstrip("/")


@dataclass(frozen=True, slots=True)
class SkillReview:
    branch: str
    url: str
    """Page to open a review; empty if the forge is unknown."""
    is_new: bool
    """False if the same archive was sent before."""


def propose_skill(
    target: SkillTarget, change: "FolderChange | TextReplacement", forges: Mapping[str, ForgeKind]
) -> SkillReview:
    """Push a change to a new branch for review.  Blocking.

    Raises:
        SyncError: The repository is unreachable or refuses it; the message has the
            remedy.
    """
    repository = target.repository
    if repository is None:
        raise ValueError(f"{target.folder} belongs to no repository")
    proposal = repository.propose(change)
    url = derive_review_url(repository.url, proposal.base, proposal.branch, forges)
    return SkillReview(proposal.branch, url, proposal.is_new)


def require_upload_target(mounts: Mounts, at: str, mode: UploadMode) -> None:
    """Refuse a source incompatible with `upload.mode`.

    Raises:
        ConfigError: There is none, it is of the other kind, or serves no branch.
    """
    source = _require_mount(mounts, at).source
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


def _require_mount(mounts: Mounts, at: str) -> Mount:
    if mount := mounts.find(at):
        return mount
    known = ", ".join(repr(mount.at) for mount in mounts.mounts)
    raise ConfigError(f"upload.source: no source stands at {at!r}. Write one of: {known}")


def find_skill_target(mounts: Mounts, at: str) -> SkillTarget:
    """Locate the folder for added skills.  Blocking.

    Raises:
        ConfigError: There is no such source.
        SyncError: The source was not fetched yet.
    """
    mount = _require_mount(mounts, at)
    source = mount.source
    checkout = source.open()
    if checkout is None:
        raise SyncError(f"{source.name} was not fetched yet. Try again in a minute")
    layout = source_layout.find_layout(
        source_layout.FolderTree(checkout.directory), mount.selection
    )
    above = f"{mount.at}/" if mount.at else ""
    repository = source if isinstance(source, RemoteBranch) else None
    if not layout.homes:
        return SkillTarget(checkout.directory, "", above, repository, mount.selection)
    home = layout.homes[0]
    folder = checkout.directory / home.folder
    return SkillTarget(folder, home.folder, above + home.prefix, repository, mount.selection)
