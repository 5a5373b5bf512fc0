"""Skills that people and programs add to a server, each with its line in the log.

Rule 1: a caller adds and replaces only what that caller may see, and is told nothing
of the rest (see `upload_sight`).
Rule 2: each upload and each refusal is one line of the log: who, what, and the digest,
and nothing of the content.
"""

import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from skills_mcp.errors import (
    PackageNotAddedError,
    PackageRefusedError,
    SyncError,
    UploadStoppedError,
)
from skills_mcp.features.authoring.intake.offer import (
    OfferedPackage,
    offered,
    read_digest,
)
from skills_mcp.features.authoring.intake.shelf import (
    Decide,
    SkillShelf,
    name_version,
    replace_all,
)
from skills_mcp.features.authoring.intake.upload_attempt import UNLIMITED, UploadAttempt
from skills_mcp.features.authoring.intake.upload_sight import FolderContent, UploadSight
from skills_mcp.files.paths import fold_name
from skills_mcp.library import SkillLibrary
from skills_mcp.library.skill_target import (
    KeepFiles,
    SkillReview,
    SkillSuggestion,
    SkillTarget,
)
from skills_mcp.skills.model import printable
from skills_mcp.skills.package import is_main
from skills_mcp.text.rendering import shorten

logger = logging.getLogger(__name__)

_MAX_SHOWN = 200

_BRANCHES = "skills-mcp/"
_BRANCH_DIGITS = 12  # of the archive, so that the same one is one branch


@dataclass(frozen=True, slots=True)
class Uploader:
    """Who adds skills."""

    name: str
    """For the log; it says so where there is no sign-in."""
    library: SkillLibrary
    """The skills as this caller sees them."""


@dataclass(frozen=True, slots=True)
class UploadOffer:
    """A package as it would be added."""

    package: OfferedPackage
    path: str
    """Where it would be served."""
    is_new: bool
    """Whether nothing is replaced."""


@dataclass(frozen=True, slots=True)
class AddedPackage:
    """A package that was added."""

    package: OfferedPackage
    """Its folder is gone."""
    path: str
    version: str
    """When it was put in place; empty if it waits for a review."""
    replaced: str | None
    """The version before, which is kept; None if there was none."""
    review: SkillReview | None = None
    """The branch with it; None if it is in its folder."""


@dataclass(frozen=True, slots=True)
class EarlierVersions:
    """What a skill can be taken back to."""

    name: str
    path: str
    versions: tuple[str, ...]
    """The newest first."""


class Uploads:
    """Takes packages into a folder that is served, or onto a branch.  Blocking.

    Args:
        library: All skills.
        mount: Where the source stands that takes them.
    """

    def __init__(self, library: SkillLibrary, mount: str) -> None:
        self._library = library
        self._mount = mount

    @contextmanager
    def looked_at(
        self, archive: Path, uploader: Uploader, attempt: UploadAttempt = UNLIMITED
    ) -> Iterator[UploadOffer]:
        """Yield what an archive holds, and what it would replace.

        Raises:
            UploadStoppedError: The attempt is over.
            PackageRefusedError: The archive is unsafe, damaged, or holds no skill.
            PackageNotAddedError: The caller may not add such a skill.
        """
        try:
            with offered(archive, attempt) as package:
                target = self.find_target()
                path = f"{target.prefix}{package.name}"
                yield UploadOffer(package, path, self._is_new(package, path, uploader))
        except (
            PackageRefusedError,
            PackageNotAddedError,
            UploadStoppedError,
        ) as error:
            logger.warning(
                "Refused an upload of %s: %s, SHA-256 %s%s",
                *(_show(uploader.name), error.code, read_digest(archive)),
                _show_notes(error),
            )
            raise

    def _is_new(self, package: OfferedPackage, path: str, uploader: Uploader) -> bool:
        """Whether nothing is replaced that the caller sees.

        Raises:
            PackageNotAddedError: The caller may not add it, or what lies there is no
                package.
        """
        target, sight = self.find_target(), _open_sight(path, uploader)
        place = target.folder / package.name
        if sight is None:
            _require_layout(target, package)
            _require_one_spelling(target, package.name)
            return _is_free(place)
        shelf = self._open_shelf(target)
        obstacle = shelf.find_obstacle(package.name)
        if obstacle or not target.keeps_layout(package.folder):
            sight.refuse(obstacle or "the layout of the source has another use for it")
        coming = FolderContent.of(package.folder)
        sight.require_seen(coming)
        return sight.merge(FolderContent.of(place), coming).is_new

    def take(
        self, archive: Path, uploader: Uploader, attempt: UploadAttempt = UNLIMITED
    ) -> AddedPackage:
        """Put the package of an archive into the folder, or onto a branch.

        Raises:
            UploadStoppedError: The attempt is over.
            PackageRefusedError: The archive is unsafe, damaged, or holds no skill.
            PackageNotAddedError: The caller may not add it, or the folder or the
                repository cannot take it.
        """
        now = datetime.now(UTC)
        with self.looked_at(archive, uploader, attempt) as offer:
            package, target = offer.package, self.find_target()
            if target.repository:
                return self._propose(offer, target, uploader, attempt)
            sight = _open_sight(offer.path, uploader)
            decide = sight.merge if sight else replace_all
            shelf = self._open_shelf(target, attempt)
            replaced = shelf.put(package.folder, package.name, now, decide)
        logger.info(
            "%s has added %s, SHA-256 %s; the version before: %s",
            *(_show(uploader.name), offer.path, package.digest, replaced or "none"),
        )
        return AddedPackage(package, offer.path, name_version(now), replaced)

    def _propose(
        self,
        offer: UploadOffer,
        target: SkillTarget,
        uploader: Uploader,
        attempt: UploadAttempt,
    ) -> AddedPackage:
        attempt.check()
        package = offer.package
        branch = f"{_BRANCHES}{package.name}-{package.digest[:_BRANCH_DIGITS]}"
        message = (
            f"{'Add' if offer.is_new else 'Replace'} {offer.path}\n\n"
            f"SHA-256 of the archive: {package.digest}\n"
            f"Suggested-by: {_show(uploader.name)}\n"
        )
        suggestion = SkillSuggestion(
            *(package.folder, branch, message, _keep_hidden(offer, uploader)),
            timeout_seconds=attempt.left_seconds,
        )
        try:
            review = self._library.propose_skill(target, suggestion)
        except SyncError as error:
            # It may be a path of this machine.
            said = str(error).replace(target.address, "the repository")
            raise PackageNotAddedError(f"It was not sent for review: {said}") from error
        logger.info(
            "%s has sent %s for review, SHA-256 %s; the branch: %s",
            *(_show(uploader.name), offer.path, package.digest, branch),
        )
        return AddedPackage(package, offer.path, "", None, review)

    def find_versions(self, uploader: Uploader) -> tuple[EarlierVersions, ...]:
        """Return the earlier versions that are kept of skills that the caller sees.

        A repository keeps its own.
        """
        if self.is_reviewed:
            return ()
        target = self.find_target()
        shelf = self._open_shelf(target)
        found = (
            EarlierVersions(
                name, path, _find_seen_versions(name, path, shelf, uploader)
            )
            for name in shelf.names()
            if _is_seen(path := f"{target.prefix}{name}", uploader.library)
        )
        return tuple(each for each in found if each.versions)

    def restore(
        self,
        name: str,
        version: str,
        uploader: Uploader,
        attempt: UploadAttempt = UNLIMITED,
    ) -> str:
        """Put an earlier version in place again; return the path of the skill.

        Raises:
            UploadStoppedError: The attempt is over.
            PackageNotAddedError: No such version is kept, or the folder cannot take it.
        """
        if self.is_reviewed:
            raise PackageNotAddedError("Earlier versions are in the repository")
        target = self.find_target()
        shelf, path = self._open_shelf(target, attempt), f"{target.prefix}{name}"
        try:
            _require_known(name, path, shelf, uploader)
            decide = self._decide_restored(name, version, path, uploader)
            shelf.restore(name, version, datetime.now(UTC), decide)
        except PackageNotAddedError as error:
            logger.warning(
                "Refused to let %s restore %s: %s%s",
                *(_show(uploader.name), _show(name), error.code, _show_notes(error)),
            )
            raise
        logger.info(
            "%s has restored %s of %s",
            _show(uploader.name),
            _show(version),
            _show(path),
        )
        return path

    def _decide_restored(
        self, name: str, version: str, path: str, uploader: Uploader
    ) -> Decide:
        sight = _open_sight(path, uploader)
        if sight is None:
            return replace_all
        shelf = self._open_shelf(self.find_target())
        if version not in _find_seen_versions(name, path, shelf, uploader):
            _refuse_unknown(path)
        if obstacle := shelf.find_obstacle(name):
            sight.refuse(obstacle)
        return sight.restore

    def _open_shelf(
        self, target: SkillTarget, attempt: UploadAttempt = UNLIMITED
    ) -> SkillShelf:
        """Return the folder of the source, called by its mount and not by its path."""
        called = f"the source at {self._mount}" if self._mount else "the source"
        return SkillShelf(target.folder, called=called, attempt=attempt)

    @property
    def is_reviewed(self) -> bool:
        """Whether people review a skill before it is served."""
        return self._library.config.upload.mode == "branch"

    def find_target(self) -> SkillTarget:
        """Return where packages go.

        Raises:
            PackageNotAddedError: Nothing of the repository was fetched yet.
        """
        try:
            return self._library.find_target(self._mount)
        except SyncError as error:
            logger.warning("The source that takes skills cannot be used: %s", error)
            raise PackageNotAddedError(
                "The source that takes skills cannot be read now. Try again in a "
                "minute; the log of the server has the reason"
            ) from error


def open_uploads(library: SkillLibrary) -> Uploads | None:
    """Return what takes packages as the settings have it; None if nothing does.

    Raises:
        ConfigError: `upload.source` names no source that fits `upload.mode`.
    """
    rules = library.config.upload
    if rules.mode == "off":
        return None
    library.require_target(rules.source)
    return Uploads(library, rules.source)


def _show(name: str) -> str:
    """Return a name that a caller has chosen as it can stand in a line of the log."""
    return printable(name)[:_MAX_SHOWN]


def _show_notes(error: Exception) -> str:
    """Return what only the operator is told of a refusal."""
    notes = getattr(error, "__notes__", ())
    return f" ({'; '.join(map(_show, notes))})" if notes else ""


def _open_sight(path: str, uploader: Uploader) -> UploadSight | None:
    """Return what a caller may touch; None if that is everything."""
    if uploader.library.sees_everything:
        return None
    return UploadSight(path, uploader.library.sees)


def _keep_hidden(offer: UploadOffer, uploader: Uploader) -> KeepFiles | None:
    """Return what chooses the files of a newer commit that a branch may not delete."""
    sight = _open_sight(offer.path, uploader)
    if sight is None:
        return None
    coming = FolderContent.of(offer.package.folder)

    def keep(files: Collection[str], read: Callable[[str], bytes]) -> Collection[str]:
        return sight.merge(FolderContent(frozenset(files), read), coming).carried

    return keep


def _require_known(name: str, path: str, shelf: SkillShelf, uploader: Uploader) -> None:
    if name not in shelf.names() or not _is_seen(path, uploader.library):
        _refuse_unknown(path)


def _refuse_unknown(path: str) -> NoReturn:
    raise PackageNotAddedError(
        f"No earlier version of {shorten(path)} is kept. Reload the page: it lists "
        "those that are"
    )


def _is_seen(path: str, library: SkillLibrary) -> bool:
    return library.sees_everything or library.snapshot.index.get(path) is not None


def _find_seen_versions(
    name: str, path: str, shelf: SkillShelf, uploader: Uploader
) -> tuple[str, ...]:
    """Return the earlier versions of a name that the shelf lists, as a caller sees."""
    versions, sight = shelf.versions(name), _open_sight(path, uploader)
    if sight is None:
        return versions
    return tuple(v for v in versions if sight.sees_top(shelf.look_at(name, v)))


def _is_free(place: Path) -> bool:
    """Whether nothing is replaced.

    Raises:
        PackageNotAddedError: What lies there is no package.
    """
    if not place.is_dir() or place.is_symlink():
        return True  # the shelf refuses what is no folder
    if any(is_main(each.name) for each in place.iterdir()):
        return False
    raise PackageNotAddedError(
        f"{place.name} is the name of a folder with other skills. Choose another name "
        "for the skill"
    )


def _require_layout(target: SkillTarget, package: OfferedPackage) -> None:
    if not target.keeps_layout(package.folder):
        raise PackageNotAddedError(
            f"{package.name} is the name of a folder by which this source is laid "
            "out, so that other skills would no longer be served. Choose another name "
            "for the skill"
        )


def _require_one_spelling(target: SkillTarget, name: str) -> None:
    """Refuse a name that differs from another only in case or accents."""
    if target.repository is None or not target.folder.is_dir():
        return  # a folder is looked at when it takes the package
    for each in target.folder.iterdir():
        if fold_name(each.name) == fold_name(name) and each.name != name:
            raise PackageNotAddedError(
                f"{each.name} has the same name but for case or accents. Choose "
                "another name for the skill"
            )
