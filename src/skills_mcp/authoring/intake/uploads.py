"""Skills that people and programs add to a server, each with its line in the log.

Rule: a caller adds and replaces only what that caller may see. Each upload and each
refusal is one line of the log: who, what, and the digest, and nothing of the content.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from skills_mcp.authoring.intake.offer import OfferedPackage, offered, read_digest
from skills_mcp.authoring.intake.shelf import SkillShelf, name_version
from skills_mcp.errors import PackageNotAddedError, PackageRefusedError
from skills_mcp.library import SkillLibrary
from skills_mcp.library.skill_target import SkillTarget
from skills_mcp.skills.model import SkillPath, printable
from skills_mcp.skills.package import is_main
from skills_mcp.text.rendering import shorten

logger = logging.getLogger(__name__)

_MAX_SHOWN = 200


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
    replaced: str | None
    """The version before, which is kept; None if there was none."""


@dataclass(frozen=True, slots=True)
class EarlierVersions:
    """What a skill can be taken back to."""

    name: str
    path: str
    versions: tuple[str, ...]
    """The newest first."""


class Uploads:
    """Takes packages into a folder that is served.  Blocking.

    Args:
        library: All skills.
        mount: Where the source stands that takes them.
    """

    def __init__(self, library: SkillLibrary, mount: str) -> None:
        self._library = library
        self._mount = mount

    @contextmanager
    def looked_at(self, archive: Path, uploader: Uploader) -> Iterator[UploadOffer]:
        """Yield what an archive holds, and what it would replace.

        Raises:
            PackageRefusedError: The archive is unsafe, damaged, or holds no skill.
            PackageNotAddedError: The caller may not add such a skill.
        """
        try:
            with offered(archive) as package:
                target = self.find_target()
                path = f"{target.prefix}{package.name}"
                _require_sight(package, path, uploader)
                yield UploadOffer(package, path, _is_free(target, package.name))
        except (PackageRefusedError, PackageNotAddedError) as error:
            logger.warning(
                "Refused an upload of %s: %s, SHA-256 %s",
                *(_show(uploader.name), error.code, read_digest(archive)),
            )
            raise

    def take(self, archive: Path, uploader: Uploader) -> AddedPackage:
        """Put the package of an archive into the folder.

        Raises:
            PackageRefusedError: The archive is unsafe, damaged, or holds no skill.
            PackageNotAddedError: The caller may not add it, or the folder cannot
                take it.
        """
        now = datetime.now(UTC)
        with self.looked_at(archive, uploader) as offer:
            package, shelf = offer.package, SkillShelf(self.find_target().folder)
            replaced = shelf.put(package.folder, package.name, now)
        logger.info(
            "%s has added %s, SHA-256 %s; the version before: %s",
            *(_show(uploader.name), offer.path, package.digest, replaced or "none"),
        )
        return AddedPackage(package, offer.path, name_version(now), replaced)

    def find_versions(self, uploader: Uploader) -> tuple[EarlierVersions, ...]:
        """Return the earlier versions that are kept of skills that the caller sees."""
        target = self.find_target()
        shelf, library = SkillShelf(target.folder), uploader.library
        return tuple(
            EarlierVersions(name, path, shelf.versions(name))
            for name in shelf.names()
            if _is_seen(path := f"{target.prefix}{name}", library)
        )

    def restore(self, name: str, version: str, uploader: Uploader) -> str:
        """Put an earlier version in place again; return the path of the skill.

        Raises:
            PackageNotAddedError: No such version is kept, or the folder cannot take it.
        """
        target = self.find_target()
        path = f"{target.prefix}{name}"
        try:
            _require_known(path, uploader.library)
            SkillShelf(target.folder).restore(name, version, datetime.now(UTC))
        except PackageNotAddedError as error:
            logger.warning(
                "Refused to let %s restore %s: %s",
                *(_show(uploader.name), _show(name), error.code),
            )
            raise
        logger.info(
            "%s has restored %s of %s",
            _show(uploader.name),
            _show(version),
            _show(path),
        )
        return path

    def find_target(self) -> SkillTarget:
        """Return where packages go.

        Raises:
            ConfigError: `upload.source` names no folder.
        """
        return self._library.find_target(self._mount)


def open_uploads(library: SkillLibrary) -> Uploads | None:
    """Return what takes packages as the settings have it; None if nothing does.

    Raises:
        ConfigError: `upload.source` names no folder.
    """
    rules = library.config.upload
    if rules.mode == "off":
        return None
    uploads = Uploads(library, rules.source)
    uploads.find_target()
    return uploads


def _show(name: str) -> str:
    """Return a name that a caller has chosen as it can stand in a line of the log."""
    return printable(name)[:_MAX_SHOWN]


def _require_sight(package: OfferedPackage, path: str, uploader: Uploader) -> None:
    if uploader.library.sees(replace(package.skill, path=SkillPath(path))):
        return
    raise PackageNotAddedError(
        f"You may not see a skill called {path}, so you may not add one. Choose "
        "another name, or ask the operator for a grant"
    )


def _require_known(path: str, library: SkillLibrary) -> None:
    if not _is_seen(path, library):
        raise PackageNotAddedError(f"No earlier version of {shorten(path)} is kept")


def _is_seen(path: str, library: SkillLibrary) -> bool:
    return library.sees_everything or library.snapshot.index.get(path) is not None


def _is_free(target: SkillTarget, name: str) -> bool:
    """Whether nothing is replaced.

    Raises:
        PackageNotAddedError: What lies there is no package.
    """
    place = target.folder / name
    if not place.is_dir() or place.is_symlink():
        return True  # the shelf refuses what is no folder
    if any(is_main(each.name) for each in place.iterdir()):
        return False
    raise PackageNotAddedError(
        f"{name} is the name of a folder with other skills. Choose another name for "
        "the skill"
    )
