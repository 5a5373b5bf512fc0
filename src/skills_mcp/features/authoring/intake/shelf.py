"""A folder of skills into which packages are put, and their earlier versions.

Rule 1: a reader sees the old version or the new one. The new one is written and synced
beside the skills, and the two change places in one call of the system.
Rule 2: a name and a version that are restored are compared with what is listed, and a
path is joined only then. Nothing is made before everything is checked.
"""

import ctypes
import errno
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from skills_mcp.errors import PackageNotAddedError
from skills_mcp.features.authoring.intake.upload_attempt import UNLIMITED, UploadAttempt
from skills_mcp.features.authoring.intake.upload_sight import FolderContent, FolderMerge
from skills_mcp.files.durable import NEW_PREFIX, delete, sync_folder
from skills_mcp.files.locks import LifeSigns, acquire_lock, showing_life
from skills_mcp.files.paths import fold_name, is_path_component
from skills_mcp.skills.homes import EARLIER
from skills_mcp.text.rendering import shorten

DEFAULT_KEPT = 10
"""How many earlier versions of a skill are kept."""

_STAMP = "%Y%m%d-%H%M%S"
_READY = "ready-"
_LOCK_SECONDS = 30.0
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS
_AT_FDCWD = -100
_NO_EXCHANGE = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP})


Decide = Callable[[FolderContent, FolderContent], FolderMerge]
"""Says how a package, the second, takes the place of a folder; it may refuse."""


def replace_all(_standing: FolderContent, _coming: FolderContent) -> FolderMerge:
    """Let a package take the place of everything that is there."""
    return FolderMerge()


class SkillShelf:
    """A folder of skills.  Blocking.

    A version is named by when its folder was put in place, or last changed by hand.

    Args:
        folder: The folder, which exists.
        kept: How many earlier versions of each skill are kept.
        called: What messages call the folder; empty for its path.
        attempt: Ends what is not in place yet.
    """

    def __init__(
        self,
        folder: Path,
        kept: int = DEFAULT_KEPT,
        called: str = "",
        attempt: UploadAttempt = UNLIMITED,
    ) -> None:
        self._folder = folder
        self._home = folder / EARLIER
        self._versions = self._home / "versions"
        self._kept = kept
        self._called = called or str(folder)
        self._attempt = attempt

    def put(
        self, package: Path, name: str, now: datetime, decide: Decide = replace_all
    ) -> str | None:
        """Put a copy of a package in place; return the version it replaces, if any.

        Raises:
            PackageNotAddedError: There is no room or no permission.
        """
        self._require_place(name)
        with self._changing(name) as versions:
            return self._put(package, name, now, versions, decide)

    def restore(
        self,
        name: str,
        version: str | None,
        now: datetime,
        decide: Decide = replace_all,
    ) -> str:
        """Put an earlier version in place again, and return which one it was.

        Args:
            name: The name of the skill's folder, one of `names`.
            version: One of `versions`; None for the newest.
            now: The time, which becomes the name of what is put in place.
            decide: What of the version and of the folder there is after it.

        Raises:
            PackageNotAddedError: No such version is kept, or it cannot be put there.
        """
        self._require_version(name, version)
        self._require_place(name)
        with self._changing(name) as versions:
            wanted = self._require_version(name, version)
            self._put(versions / wanted, name, now, versions, decide)
        return wanted

    def look(self, name: str) -> FolderContent:
        """Return what stands in the place of a skill; nothing if there is none."""
        self._require_place(name)
        return FolderContent.of(self._folder / name)

    def look_at(self, name: str, version: str) -> FolderContent:
        """Return what an earlier version holds.

        Raises:
            PackageNotAddedError: No such version is kept.
        """
        return FolderContent.of(
            self._versions / name / self._require_version(name, version)
        )

    def versions(self, name: str) -> tuple[str, ...]:
        """Return the earlier versions of a skill that are kept, the newest first."""
        return self._read_versions(name) if name in self._listed() else ()

    def names(self) -> tuple[str, ...]:
        """Return the names of the skills of which earlier versions are kept."""
        return tuple(n for n in sorted(self._listed()) if self._read_versions(n))

    def _listed(self) -> frozenset[str]:
        return _list_folders(self._versions)

    def _read_versions(self, name: str) -> tuple[str, ...]:
        """Return the versions of a name that is listed."""
        found = _list_folders(self._versions / name)
        return tuple(sorted((n for n in found if n[:1].isdigit()), reverse=True))

    def _require_version(self, name: str, version: str | None) -> str:
        """Return a version that is kept: this one, or the newest."""
        known = self.versions(name)
        if not known:
            raise PackageNotAddedError(
                f"No earlier version of {shorten(name)} is kept in {self._called}"
            )
        wanted = known[0] if version is None else version
        if wanted not in known:
            raise PackageNotAddedError(
                f"{shorten(name)} has no earlier version {shorten(wanted)}. "
                f"Kept in {self._called}: {', '.join(known)}"
            )
        return wanted

    @contextmanager
    def _changing(self, name: str) -> Iterator[Path]:
        """Yield the folder of a skill's versions, repaired, while no other changes."""
        try:
            path = self._home / "lock"
            timeout = min(_LOCK_SECONDS, self._attempt.left_seconds)
            lock = acquire_lock(path, timeout_seconds=timeout, wait=LifeSigns(path))
            with lock, showing_life(lock):
                versions = self._versions / name
                versions.mkdir(parents=True, exist_ok=True)
                _repair(versions)
                yield versions
        except BlockingIOError as error:
            raise PackageNotAddedError(
                f"Another program adds to {self._called}, or was stopped while it did. "
                "Try again when it has ended"
            ) from error
        except OSError as error:
            raise PackageNotAddedError(
                f"Nothing can be written to {self._called}: {_explain(error)}. Check "
                "its permissions and the room on its disk; the skill that was there "
                "still is"
            ) from error

    def _put(
        self, package: Path, name: str, now: datetime, versions: Path, decide: Decide
    ) -> str | None:
        place = self._folder / name
        merge = decide(self.look(name), coming := FolderContent.of(package))
        sources = {
            **dict.fromkeys(coming.files - merge.left_out, package),
            **dict.fromkeys(merge.carried, place),
        }
        ready = _write_beside(sources, versions, now, self._attempt.check)
        is_first = not os.path.lexists(place)
        try:
            if is_first:
                ready.rename(place)
            else:
                _exchange(ready, place)
        except BaseException:
            delete(ready)
            raise
        sync_folder(self._folder)
        if is_first:
            return None
        if merge.is_new:  # all that was there is carried over
            delete(ready)
            return None
        version = _keep(ready, versions)
        for old in self.versions(name)[self._kept :]:
            delete(versions / old)
        return version

    def _require_place(self, name: str) -> None:
        obstacle = self.find_obstacle(name)
        if obstacle:
            raise PackageNotAddedError(obstacle)

    def find_obstacle(self, name: str) -> str:
        """Return why no skill of this name can be put in place; empty if one can."""
        if not is_path_component(name) or name == EARLIER:
            return f"{shorten(name)} can be no name of a skill. Choose another one"
        place = self._folder / name
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            return (
                f"{name} in {self._called} is a link or a file, not the folder of a "
                "skill. Move it away, and add the package again"
            )
        if any(
            map(Path.is_symlink, (self._home, self._versions, self._versions / name))
        ):
            return (
                f"The earlier versions of {name} in {self._called} are behind a link. "
                f"Put a folder in its place, in {EARLIER}"
            )
        for other in self._names():
            if fold_name(other) == fold_name(name) and other != name:
                return (
                    f"{other} in {self._called} has the same name but for case or "
                    "accents. Rename it, and add the package again"
                )
        return ""

    def _names(self) -> tuple[str, ...]:
        try:
            return tuple(each.name for each in self._folder.iterdir())
        except OSError as error:
            raise PackageNotAddedError(
                f"Nothing can be put into {self._called}: {_explain(error)}. Check "
                "that it exists, and its permissions"
            ) from error


def name_version(moment: datetime) -> str:
    """Return what a version is called that was put in place at a time of UTC."""
    return moment.strftime(_STAMP)


def _list_folders(folder: Path) -> frozenset[str]:
    """Return the names of the folders in a folder, without links; none if it is one."""
    try:
        if folder.is_symlink():
            return frozenset()
        with os.scandir(folder) as found:
            folders = (each for each in found if each.is_dir(follow_symlinks=False))
            return frozenset(each.name for each in folders)
    except OSError:
        return frozenset()


def _explain(error: OSError) -> str:
    """Return what the system says; that of a copied tree would name every path."""
    return error.strerror or "not every file can be copied"


def _write_beside(
    sources: Mapping[str, Path],
    versions: Path,
    now: datetime,
    check: Callable[[], None],
) -> Path:
    """Copy files to where they can be renamed from as one folder, and sync them.

    Args:
        sources: The folder in which each file lies, by its path in there.
        versions: Where the new folder is made.
        now: Its time.
        check: Called before each file; it may end the work.
    """
    staging = versions / f"{NEW_PREFIX}{os.urandom(8).hex()}"
    try:
        staging.mkdir()
        for file, source in sources.items():
            check()
            _copy(source / file, staging / file)
        for folder, _, files in os.walk(staging, topdown=False):
            for file in files:
                check()
                _sync_file(Path(folder, file))
            sync_folder(Path(folder))
        os.utime(staging, (now.timestamp(), now.timestamp()))
        ready = versions / f"{_READY}{os.urandom(8).hex()}"
        staging.rename(ready)
        sync_folder(versions)
    except BaseException:
        delete(staging)
        raise
    return ready


def _copy(source: Path, target: Path) -> None:
    """Copy a file or a link; nothing else is a part of a skill, and a pipe blocks."""
    mode = source.lstat().st_mode
    if stat.S_ISREG(mode) or stat.S_ISLNK(mode):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)


def _sync_file(path: Path) -> None:
    if path.is_symlink():
        return
    with path.open("rb") as handle:
        if os.name == "posix":  # Windows syncs only files that are open for writing
            os.fsync(handle.fileno())


def _exchange(ready: Path, place: Path) -> None:
    """Let two folders change places; where the system cannot, one after the other."""
    code = _call_exchange(os.fsencode(ready), os.fsencode(place))
    if not code:
        return
    if code not in _NO_EXCHANGE:
        raise OSError(code, os.strerror(code))
    aside = ready.with_name(f"{ready.name}-old")
    place.rename(aside)
    try:
        ready.rename(place)
    except OSError:
        aside.rename(place)
        raise
    aside.rename(ready)


def _call_exchange(first: bytes, second: bytes) -> int:
    """Return 0, or the number of the error."""
    if sys.platform == "win32":
        return errno.ENOSYS
    library = ctypes.CDLL(None, use_errno=True)
    try:
        if sys.platform == "darwin":
            done = library.renamex_np(first, second, _EXCHANGE)
        else:
            done = library.renameat2(_AT_FDCWD, first, _AT_FDCWD, second, _EXCHANGE)
    except AttributeError:
        return errno.ENOSYS
    return ctypes.get_errno() if done else 0


def _keep(folder: Path, versions: Path) -> str:
    """Name a folder by its time, and return that name."""
    moment = datetime.fromtimestamp(folder.lstat().st_mtime, UTC)
    while (versions / name_version(moment)).exists():
        moment += timedelta(seconds=1)
    version = name_version(moment)
    folder.rename(versions / version)
    sync_folder(versions)
    return version


def _repair(versions: Path) -> None:
    """Finish what a killed program has left: complete folders become versions."""
    for each in sorted(versions.iterdir()):
        if each.name.startswith(NEW_PREFIX):
            delete(each)
        elif each.name.startswith(_READY):
            _keep(each, versions)
