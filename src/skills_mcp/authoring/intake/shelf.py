"""A folder of skills into which packages are put, and their earlier versions.

Rule: a reader sees the old version or the new one. The new one is written and synced
beside the skills, and the two change places in one call of the system.
"""

import ctypes
import errno
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from skills_mcp.errors import PackageNotAddedError
from skills_mcp.files.durable import NEW_PREFIX, delete, sync_folder
from skills_mcp.files.locks import LifeSigns, acquire_lock, showing_life
from skills_mcp.files.paths import fold_name, is_safe_name
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


class SkillShelf:
    """A folder of skills.  Blocking.

    A version is named by when its folder was put in place, or last changed by hand.

    Args:
        folder: The folder, which exists.
        kept: How many earlier versions of each skill are kept.
    """

    def __init__(self, folder: Path, kept: int = DEFAULT_KEPT) -> None:
        self._folder = folder
        self._home = folder / EARLIER
        self._kept = kept

    def put(self, package: Path, name: str, now: datetime) -> str | None:
        """Put a copy of a package in place; return the version it replaces, if any.

        Raises:
            PackageNotAddedError: There is no room or no permission.
        """
        with self._changing(name) as versions:
            return self._put(package, name, now, versions)

    def restore(self, name: str, version: str | None, now: datetime) -> str:
        """Put an earlier version in place again, and return which one it was.

        Args:
            name: The name of the skill's folder.
            version: One of `versions`; None for the newest.
            now: The time, which becomes the name of what is put in place.

        Raises:
            PackageNotAddedError: No such version is kept, or it cannot be put there.
        """
        with self._changing(name) as versions:
            known = self.versions(name)
            if not known:
                raise PackageNotAddedError(
                    f"No earlier version of {shorten(name)} is kept in {self._folder}"
                )
            wanted = version or known[0]
            if wanted not in known:
                raise PackageNotAddedError(
                    f"{shorten(name)} has no earlier version {shorten(wanted)}. "
                    f"Kept in {self._folder}: {', '.join(known)}"
                )
            self._put(versions / wanted, name, now, versions)
        return wanted

    def versions(self, name: str) -> tuple[str, ...]:
        """Return the earlier versions of a skill that are kept, the newest first."""
        if not is_safe_name(name):
            return ()
        try:
            found = [each.name for each in (self._home / "versions" / name).iterdir()]
        except OSError:
            return ()
        return tuple(sorted((n for n in found if n[:1].isdigit()), reverse=True))

    def names(self) -> tuple[str, ...]:
        """Return the names of the skills of which earlier versions are kept."""
        try:
            found = sorted(each.name for each in (self._home / "versions").iterdir())
        except OSError:
            return ()
        return tuple(name for name in found if self.versions(name))

    @contextmanager
    def _changing(self, name: str) -> Iterator[Path]:
        """Yield the folder of a skill's versions, repaired, while no other changes."""
        if not is_safe_name(name):
            raise PackageNotAddedError(f"{shorten(name)} can be no name of a skill")
        try:
            path = self._home / "lock"
            lock = acquire_lock(
                path, timeout_seconds=_LOCK_SECONDS, wait=LifeSigns(path)
            )
            with lock, showing_life(lock):
                versions = self._home / "versions" / name
                versions.mkdir(parents=True, exist_ok=True)
                _repair(versions)
                yield versions
        except BlockingIOError as error:
            raise PackageNotAddedError(
                f"Another program adds to {self._folder}, or was stopped while it did. "
                "Try again when it has ended"
            ) from error
        except OSError as error:
            raise PackageNotAddedError(
                f"{self._folder} cannot be changed: {error.strerror or error}. Check "
                "its permissions and the room on its disk; the skill that was there "
                "still is"
            ) from error

    def _put(
        self, package: Path, name: str, now: datetime, versions: Path
    ) -> str | None:
        place = self._folder / name
        self._require_place(place)
        ready = _write_beside(package, versions, now)
        if not os.path.lexists(place):
            ready.rename(place)
            sync_folder(self._folder)
            return None
        _exchange(ready, place)
        sync_folder(self._folder)
        version = _keep(ready, versions)
        for old in self.versions(name)[self._kept :]:
            delete(versions / old)
        return version

    def _require_place(self, place: Path) -> None:
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            raise PackageNotAddedError(
                f"{place} is a link or a file, not the folder of a skill. Move it "
                "away, and add the package again"
            )
        for each in self._folder.iterdir():
            is_alike = fold_name(each.name) == fold_name(place.name)
            if is_alike and each.name != place.name:
                raise PackageNotAddedError(
                    f"{each} has the same name but for case or accents. Rename it, "
                    "and add the package again"
                )


def name_version(moment: datetime) -> str:
    """Return what a version is called that was put in place at a time of UTC."""
    return moment.strftime(_STAMP)


def _write_beside(package: Path, versions: Path, now: datetime) -> Path:
    """Copy a package to where it can be renamed from, and sync every file of it."""
    staging = versions / f"{NEW_PREFIX}{os.urandom(8).hex()}"
    try:
        shutil.copytree(package, staging, symlinks=True)
        for folder, _, files in os.walk(staging, topdown=False):
            for file in files:
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
