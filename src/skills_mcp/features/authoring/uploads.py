"""Uploads to a server by people and programs, with an audit log.

Rule 1: callers add and replace only skills visible to them, and learn nothing about
others (see `UploadAccess`).

Rule 2: one log line per upload and per refusal: who, which skill, and the digest; no
content.
"""

import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from skills_mcp.errors import (
    PackageNotAddedError,
    PackageRefusedError,
    SyncError,
    UploadStoppedError,
)
from skills_mcp.features.authoring.package_archive import (
    UNLIMITED,
    UnpackedPackage,
    UploadAttempt,
    hash_archive,
    unpacked_package,
)
from skills_mcp.features.authoring.version_store import (
    FolderContent,
    MergePolicy,
    UploadAccess,
    VersionStore,
    name_version,
    replace_all,
)
from skills_mcp.files.paths import fold_name
from skills_mcp.library import FolderChange, LibraryView, SkillLibrary, TextReplacement
from skills_mcp.library.source_edits import (
    SkillReview,
    SkillTarget,
    find_skill_target,
    propose_skill,
    require_upload_target,
)
from skills_mcp.skills.model import escape_unprintable
from skills_mcp.skills.skill_parser import is_skill_md
from skills_mcp.text.rendering import abbreviate_value

logger = logging.getLogger(__name__)

_MAX_LOGGED_CHARACTERS = 200

BRANCHES = "skills-mcp/"
BRANCH_DIGITS = 12  # of the archive, so that the same one is one branch


@dataclass(frozen=True, slots=True)
class Uploader:
    """The caller of an upload."""

    name: str
    library: LibraryView


@dataclass(frozen=True, slots=True)
class UploadPreview:
    """Preview of an upload."""

    package: UnpackedPackage
    target: SkillTarget
    path: str
    replaced: str
    """Digest of the files that it replaces; empty if it is new."""


@dataclass(frozen=True, slots=True)
class AddedPackage:
    package: UnpackedPackage
    """Its folder is deleted."""
    path: str
    version: str
    """Installation time; empty if pending review."""
    replaced: str | None
    """The previous version, retained; None if there was none."""
    review: SkillReview | None = None
    """The branch pending review; None if installed."""


@dataclass(frozen=True, slots=True)
class PreviousVersions:
    """Restorable versions of a skill."""

    name: str
    path: str
    versions: tuple[str, ...]


class Uploads:
    """Installs packages in a served folder, or pushes review branches.  Blocking."""

    def __init__(self, library: SkillLibrary, mount: str) -> None:
        self.library = library
        self.mount = mount

    @contextmanager
    def preview(
        self, archive: Path, uploader: Uploader, attempt: UploadAttempt = UNLIMITED
    ) -> Iterator[UploadPreview]:
        """Unpack an archive, and yield a preview.

        Raises:
            UploadStoppedError: The deadline has passed.
            PackageRefusedError: The archive is unsafe, damaged, or holds no skill.
            PackageNotAddedError: The caller may not add such a skill.
        """
        try:
            with unpacked_package(archive, attempt) as package:
                target = self.find_target()
                path = f"{target.prefix}{package.name}"
                replaced = self._hash_replaced(package, target, path, uploader)
                yield UploadPreview(package, target, path, replaced)
        except (PackageRefusedError, PackageNotAddedError, UploadStoppedError) as error:
            logger.warning(
                "Refused an upload of %s: %s, SHA-256 %s%s",
                *(escape_for_log(uploader.name), error.code, hash_archive(archive)),
                escape_notes(error),
            )
            raise

    def _hash_replaced(
        self, package: UnpackedPackage, target: SkillTarget, path: str, uploader: Uploader
    ) -> str:
        """Digest of the visible skill that is replaced; raises if the caller may not add it."""
        sight = _find_access(path, uploader)
        standing = FolderContent.of(target.folder / package.name)
        if sight is None:
            _require_layout(target, package)
            _require_unambiguous_name(target, package.name)
            return "" if _is_free(target.folder / package.name) else standing.hash(standing.files)
        shelf = self.open_store(target)
        obstacle = shelf.find_conflict(package.name)
        if obstacle or not target.keeps_layout(package.folder):
            sight.refuse(obstacle or "the layout of the source has another use for it")
        coming = FolderContent.of(package.folder)
        sight.require_visible(coming)
        merge = sight.merge(standing, coming)
        return "" if merge.is_new else standing.hash(standing.files - merge.carried)

    def take(
        self,
        archive: Path,
        uploader: Uploader,
        attempt: UploadAttempt = UNLIMITED,
        *,
        replaced: str | None = None,
    ) -> AddedPackage:
        """Install a package, or push it to a review branch.

        `replaced` is that of the preview, if there was one.

        Raises:
            UploadStoppedError: The deadline has passed.
            PackageRefusedError: The archive is unsafe, damaged, or holds no skill.
            PackageNotAddedError: The caller may not add it, or the folder or repository does
                not accept it.
        """
        now = datetime.now(UTC)
        with self.preview(archive, uploader, attempt) as offer:
            package, target = offer.package, offer.target
            if replaced not in {None, offer.replaced}:
                raise PackageNotAddedError(
                    f"{offer.path} was changed by someone else since you looked. Look at it, "
                    "then send yours again"
                )
            if target.repository:
                return self._propose(offer, uploader, attempt)
            sight = _find_access(offer.path, uploader)
            decide = sight.merge if sight else replace_all
            shelf = self.open_store(target, attempt)
            earlier = shelf.put(package.folder, package.name, now, decide)
        logger.info(
            "%s has added %s, SHA-256 %s; the version before: %s",
            *(escape_for_log(uploader.name), offer.path, package.digest, earlier or "none"),
        )
        return AddedPackage(package, offer.path, name_version(now), earlier)

    def _propose(
        self, offer: UploadPreview, uploader: Uploader, attempt: UploadAttempt
    ) -> AddedPackage:
        attempt.check()
        package, target = offer.package, offer.target
        branch = f"{BRANCHES}{package.name}-{package.digest[:BRANCH_DIGITS]}"
        message = (
            f"{'Replace' if offer.replaced else 'Add'} {offer.path}\n\n"
            f"SHA-256 of the archive: {package.digest}\n"
            f"Suggested-by: {escape_for_log(uploader.name)}\n"
        )
        change = FolderChange(
            *(package.folder, target.locate(package.folder), branch, message),
            _create_hidden_filter(offer, uploader),
            attempt.left_seconds,
        )
        review = self.send(target, change)
        logger.info(
            "%s has sent %s for review, SHA-256 %s; the branch: %s",
            *(escape_for_log(uploader.name), offer.path, package.digest, branch),
        )
        return AddedPackage(package, offer.path, "", None, review)

    def send(self, target: SkillTarget, change: FolderChange | TextReplacement) -> SkillReview:
        """Push a change to a branch for review.

        Raises:
            PackageNotAddedError: The repository does not accept it.
        """
        try:
            return propose_skill(target, change, self.library.config.web.forges)
        except SyncError as error:
            # It may be a path of this machine.
            message = str(error).replace(target.address, "the repository")
            raise PackageNotAddedError(f"It was not sent for review: {message}") from error

    def find_versions(self, uploader: Uploader) -> tuple[PreviousVersions, ...]:
        """List the restorable versions visible to a caller; empty for a repository."""
        if self.is_reviewed:
            return ()
        target = self.find_target()
        shelf = self.open_store(target)
        found = (
            PreviousVersions(name, path, _find_visible_versions(name, path, shelf, uploader))
            for name in shelf.names()
            if _is_visible(path := f"{target.prefix}{name}", uploader.library)
        )
        return tuple(previous for previous in found if previous.versions)

    def restore(
        self, name: str, version: str, uploader: Uploader, attempt: UploadAttempt = UNLIMITED
    ) -> str:
        """Reinstall a previous version; return the path of the skill.

        Raises:
            UploadStoppedError: The deadline has passed.
            PackageNotAddedError: There is no such version, or the folder does not
            accept it.
        """
        if self.is_reviewed:
            raise PackageNotAddedError("Earlier versions are in the repository")
        target = self.find_target()
        shelf, path = self.open_store(target, attempt), f"{target.prefix}{name}"
        try:
            decide = _choose_restore_policy(name, version, path, shelf, uploader)
            shelf.restore(name, version, datetime.now(UTC), decide)
        except PackageNotAddedError as error:
            logger.warning(
                "Refused to let %s restore %s: %s%s",
                *(*map(escape_for_log, (uploader.name, name)), error.code, escape_notes(error)),
            )
            raise
        logger.info(
            "%s has restored %s of %s", *map(escape_for_log, (uploader.name, version, path))
        )
        return path

    def open_store(self, target: SkillTarget, attempt: UploadAttempt = UNLIMITED) -> VersionStore:
        """Open the version store; messages name its mount, never its path on disk."""
        called = f"the source at {self.mount}" if self.mount else "the source"
        return VersionStore(target.folder, called=called, attempt=attempt)

    @property
    def is_reviewed(self) -> bool:
        """Whether uploads go to a review branch."""
        return self.library.config.upload.mode == "branch"

    def find_target(self) -> SkillTarget:
        """Resolve the target source.

        Raises:
            PackageNotAddedError: The repository was never fetched.
        """
        try:
            return find_skill_target(self.library.mounts, self.mount)
        except SyncError as error:
            logger.warning("The source that takes skills cannot be used: %s", error)
            raise PackageNotAddedError(
                "The source that takes skills cannot be read now. Try again in a "
                "minute; the log of the server has the reason"
            ) from error


def open_uploads(library: SkillLibrary) -> Uploads | None:
    """Uploads as configured; None if disabled.

    Raises:
        ConfigError: `upload.source` names no source suitable for `upload.mode`.
    """
    rules = library.config.upload
    if rules.mode == "off":
        return None
    require_upload_target(library.mounts, rules.source, rules.mode)
    return Uploads(library, rules.source)


def escape_for_log(name: str, length: int = _MAX_LOGGED_CHARACTERS) -> str:
    """Escape and truncate a caller's text for the log."""
    return escape_unprintable(name)[:length]


def escape_notes(error: Exception) -> str:
    notes = getattr(error, "__notes__", ())
    return f" ({'; '.join(map(escape_for_log, notes))})" if notes else ""


def _find_access(path: str, uploader: Uploader) -> UploadAccess | None:
    if uploader.library.renew().sees_everything:
        return None
    return UploadAccess(path, uploader.library.renew().sees)


_FileSelector = Callable[[Collection[str], Callable[[str], bytes]], Collection[str]]


def _create_hidden_filter(offer: UploadPreview, uploader: Uploader) -> _FileSelector | None:
    """Callback to carry over hidden files of a newer commit; None if unrestricted."""
    sight = _find_access(offer.path, uploader)
    if sight is None:
        return None
    coming = FolderContent.of(offer.package.folder)

    def keep(files: Collection[str], read: Callable[[str], bytes]) -> Collection[str]:
        return sight.merge(FolderContent(frozenset(files), read), coming).carried

    return keep


def _choose_restore_policy(
    name: str, version: str, path: str, shelf: VersionStore, uploader: Uploader
) -> MergePolicy:
    sight = _find_access(path, uploader)
    is_known = name in shelf.names() and _is_visible(path, uploader.library)
    if not is_known or (
        sight and version not in _find_visible_versions(name, path, shelf, uploader)
    ):
        raise PackageNotAddedError(
            f"No earlier version of {abbreviate_value(path)} is kept. Reload the page: it lists "
            "those that are"
        )
    if sight is None:
        return replace_all
    if obstacle := shelf.find_conflict(name):
        sight.refuse(obstacle)
    return sight.restore


def _is_visible(path: str, library: LibraryView) -> bool:
    return library.renew().sees_everything or library.renew().snapshot.index.get(path) is not None


def _find_visible_versions(
    name: str, path: str, shelf: VersionStore, uploader: Uploader
) -> tuple[str, ...]:
    versions, sight = shelf.versions(name), _find_access(path, uploader)
    if sight is None:
        return versions
    return tuple(v for v in versions if sight.is_top_visible(shelf.read_version(name, v)))


def _is_free(folder: Path) -> bool:
    """Whether nothing is replaced; raises if the path is not a package's."""
    if not folder.is_dir() or folder.is_symlink():
        return True  # the shelf refuses what is no folder
    if any(is_skill_md(entry.name) for entry in folder.iterdir()):
        return False
    raise PackageNotAddedError(
        f"{folder.name} is the name of a folder with other skills. Choose another name "
        "for the skill"
    )


def _require_layout(target: SkillTarget, package: UnpackedPackage) -> None:
    if not target.keeps_layout(package.folder):
        raise PackageNotAddedError(
            f"{package.name} is the name of a folder by which this source is laid "
            "out, so that other skills would no longer be served. Choose another name "
            "for the skill"
        )


def _require_unambiguous_name(target: SkillTarget, name: str) -> None:
    if target.repository is None or not target.folder.is_dir():
        return  # a folder is looked at when it takes the package
    for entry in target.folder.iterdir():
        if fold_name(entry.name) == fold_name(name) and entry.name != name:
            raise PackageNotAddedError(
                f"{entry.name} has the same name but for case or accents. Choose "
                "another name for the skill"
            )
