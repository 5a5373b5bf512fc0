"""The versions of a folder, and which of its files a caller may replace."""

import ctypes
import errno
import os
import shutil
import stat
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, NoReturn

from skills_mcp.errors import MissingFileError, PackageNotAddedError, PackageRefusedError
from skills_mcp.features.authoring.package_archive import UNLIMITED, UploadAttempt
from skills_mcp.files.archive import require_distinct_entries
from skills_mcp.files.durable import NEW_PREFIX, delete_tree, fsync_folder
from skills_mcp.files.locks import StaleLockDetector, acquire_lock, lock_heartbeat
from skills_mcp.files.opening import open_inside
from skills_mcp.files.paths import find_user_home, fold_name, is_path_component
from skills_mcp.skills.model import NO_LIFECYCLE, Lifecycle, Scope, Skill, SkillPath
from skills_mcp.skills.skill_discovery import MAX_SKILL_BYTES
from skills_mcp.skills.skill_index import SkillRow
from skills_mcp.skills.skill_parser import is_skill_md, parse_package
from skills_mcp.skills.source_layout import BACKUP_FOLDER
from skills_mcp.text.rendering import abbreviate_value


@dataclass(frozen=True, slots=True)
class FolderContent:
    """The files of a folder, on disk or in a commit."""

    files: frozenset[str]
    read: Callable[[str], bytes]
    """Reads one file; empty if unreadable."""

    @classmethod
    def of(cls, folder: Path) -> "FolderContent":
        """List a folder on disk; symbolic links count as files.  Blocking."""
        return cls(frozenset(_list_files(folder)), lambda file: _read(folder, file))

    def hash(self, files: Iterable[str]) -> str:
        """SHA-256 of some of the files, with their names.  Blocking."""
        listed = [(file, sha256(self.read(file)).hexdigest()) for file in sorted(files)]
        return sha256(repr(listed).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class FolderMerge:
    """Plan for the replacement of a folder by a package."""

    left_out: frozenset[str] = frozenset()
    carried: frozenset[str] = frozenset()
    is_new: bool = False
    """Whether no visible skill is replaced."""


class UploadAccess:
    """One caller's visibility at and below the path of an upload."""

    def __init__(self, path: str, sees: Callable[[SkillRow], bool]) -> None:
        self._path = path
        self._sees = sees

    def require_visible(self, content: FolderContent) -> None:
        """Refuse a package with folders or nested skills hidden by the grants.

        Raises:
            PackageNotAddedError: There is one.
        """
        packages = _find_packages(content.files)
        for folder in sorted({"", *_find_folders(content.files)}):
            main = packages.get(folder)
            listed = self._derive_attributes(folder)
            if main is not None:
                listed = self._read_attributes(folder, main, content)
            if not self._sees(listed):
                self.refuse("the grants hide it", folder)

    def is_top_visible(self, content: FolderContent) -> bool:
        """Whether the folder is a package visible to the caller."""
        main = _find_packages(content.files).get("")
        return main is not None and self._sees(self._read_attributes("", main, content))

    def merge(self, standing: FolderContent, coming: FolderContent) -> FolderMerge:
        """Plan the replacement of the installed folder.

        Raises:
            PackageNotAddedError: The caller may not replace it, or would write into a hidden
                skill.
        """
        retained, hidden = self._find_hidden(standing), self._find_hidden(coming)
        is_new = "" not in _find_packages(standing.files)
        if is_new and standing.files - retained:
            self.refuse("it is the name of a folder with other files or skills")
        if not is_new and not self.is_top_visible(standing):
            self.refuse("the caller may not see the skill that is there")
        added = coming.files - hidden
        if not _are_disjoint(added, retained, _find_packages(retained)):
            self.refuse("it reaches into a skill that the caller may not see")
        return FolderMerge(hidden, retained, is_new)

    def restore(self, standing: FolderContent, earlier: FolderContent) -> FolderMerge:
        """Plan the restoration of a previous version.

        Raises:
            PackageNotAddedError: As for `merge`, or the grants hide a part other than a nested
                skill.
        """
        # First, as in an upload: that a hidden skill is in the way would tell that it exists.
        seen = earlier.files - self._find_hidden(earlier)
        self.require_visible(FolderContent(seen, earlier.read))
        return self.merge(standing, earlier)

    def refuse(self, reason: str, folder: str = "") -> NoReturn:
        """Refuse an upload; the reason is a note, for the operator's log only.

        Raises:
            PackageNotAddedError: Always.
        """
        error = PackageNotAddedError(
            f"You may not add a skill called {self._derive_attributes(folder).path} here. Choose "
            "another name, or ask the operator for a grant"
        )
        error.add_note(reason)
        raise error

    def _find_hidden(self, content: FolderContent) -> frozenset[str]:
        packages = _find_packages(content.files)
        hidden = {
            folder
            for folder, main in packages.items()
            if folder and not self._sees(self._read_attributes(folder, main, content))
        }
        if not hidden:
            return frozenset()
        owned = ((file, _find_owner(file, packages)) for file in content.files)
        return frozenset(file for file, owner in owned if owner in hidden)

    def _derive_attributes(self, folder: str, skill: Skill | None = None) -> "_SkillAttributes":
        path = f"{self._path}/{folder}" if folder else self._path
        if skill is None:
            return _SkillAttributes(SkillPath(path), path.rpartition("/")[2])
        return _SkillAttributes(SkillPath(path), skill.name, lifecycle=skill.lifecycle)

    def _read_attributes(
        self, folder: str, main: str, content: FolderContent
    ) -> "_SkillAttributes":
        """Attributes for the grants, with the name in the frontmatter if readable."""
        text = content.read(main).decode("utf-8", "replace")
        listed = self._derive_attributes(folder)
        skill, _ = parse_package(text, file=main, path=listed.path, files={})
        return self._derive_attributes(folder, skill)


class _SkillAttributes(NamedTuple):
    path: SkillPath
    name: str
    category: str = ""
    scope: Scope = "org"
    always_apply: bool = False
    user_only: bool = False
    lifecycle: Lifecycle = NO_LIFECYCLE


def _find_packages(files: Iterable[str]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for file in sorted(files):
        folder, _, name = file.rpartition("/")
        if is_skill_md(name):
            found.setdefault(folder, file)
    return found


def _find_folders(files: Iterable[str]) -> set[str]:
    return {folder for file in files for folder in _iterate_parents(file)}


def _iterate_parents(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def _find_owner(file: str, packages: Collection[str]) -> str | None:
    return next((folder for folder in (*_iterate_parents(file), "") if folder in packages), None)


def _are_disjoint(
    added: Collection[str], retained: Collection[str], packages: Iterable[str]
) -> bool:
    """Whether uploaded files neither enter nor collide with retained packages."""
    closed = set(map(fold_name, packages))
    reached = (fold_name(path) for file in added for path in (file, *_iterate_parents(file)))
    if not closed.isdisjoint(reached):
        return False
    try:
        require_distinct_entries([*added, *retained], (), lambda _: None)
    except PackageRefusedError:
        return False
    return True


def _list_files(folder: Path) -> Iterator[str]:
    for above, folders, files in os.walk(folder):
        links = (name for name in folders if Path(above, name).is_symlink())
        for name in (*files, *links):
            yield Path(above, name).relative_to(folder).as_posix()


def _read(folder: Path, file: str) -> bytes:
    try:
        with open_inside(folder, file.split("/")) as handle:
            return handle.read(MAX_SKILL_BYTES)
    except (OSError, MissingFileError):
        return b""


RETAINED_VERSIONS = 10

_STAMP = "%Y%m%d-%H%M%S"
_READY = "ready-"
_LOCK_SECONDS = 30.0
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS
_AT_FDCWD = -100
_NO_EXCHANGE = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP})


MergePolicy = Callable[[FolderContent, FolderContent], FolderMerge]
"""Merge policy: `(installed, uploaded)` to a merge; it may refuse."""


def replace_all(_standing: FolderContent, _coming: FolderContent) -> FolderMerge:
    return FolderMerge()


class VersionStore:
    """Version store for a folder of skills.  Blocking.

    A version is named by its installation time, or that of its last manual edit.

    Args:
        folder: The folder; it must exist.
        retained: Previous versions to retain per skill.
        called: Display name in messages; empty for the path of the folder.
        attempt: Cancels the staging of a version.
    """

    def __init__(
        self,
        folder: Path,
        retained: int = RETAINED_VERSIONS,
        called: str = "",
        attempt: UploadAttempt = UNLIMITED,
    ) -> None:
        self._folder = folder
        self._home = folder.absolute() / BACKUP_FOLDER
        self._versions = self._home / "versions"
        self._retained = retained
        self._called = called or str(folder)
        self._attempt = attempt

    def put(
        self, package: Path, name: str, now: datetime, decide: MergePolicy = replace_all
    ) -> str | None:
        """Install a copy of a package; return the replaced version, if any.

        Raises:
            PackageNotAddedError: The disk is full or permission is denied.
        """
        self._require_free_name(name)
        with self._lock_versions(name) as versions:
            return self._install(package, name, now, versions, decide)

    def restore(
        self, name: str, version: str | None, now: datetime, decide: MergePolicy = replace_all
    ) -> str:
        """Reinstall a previous version, by default the newest, and return its name.

        Raises:
            PackageNotAddedError: There is no such version, or it cannot be installed.
        """
        self._require_version(name, version)
        self._require_free_name(name)
        with self._lock_versions(name) as versions:
            resolved = self._require_version(name, version)
            self._install(versions / resolved, name, now, versions, decide)
        return resolved

    def read_version(self, name: str, version: str) -> FolderContent:
        """List the files of a previous version.

        Raises:
            PackageNotAddedError: There is no such version.
        """
        return FolderContent.of(self._versions / name / self._require_version(name, version))

    def versions(self, name: str) -> tuple[str, ...]:
        """Previous versions of a skill, newest first."""
        return self._read_versions(name) if name in _list_folders(self._versions) else ()

    def names(self) -> tuple[str, ...]:
        return tuple(n for n in sorted(_list_folders(self._versions)) if self._read_versions(n))

    def _read_versions(self, name: str) -> tuple[str, ...]:
        found = _list_folders(self._versions / name)
        return tuple(sorted((n for n in found if n[:1].isdigit()), reverse=True))

    def _require_version(self, name: str, version: str | None) -> str:
        known = self.versions(name)
        if not known:
            raise PackageNotAddedError(
                f"No earlier version of {abbreviate_value(name)} is kept in {self._called}"
            )
        requested = known[0] if version is None else version
        if requested not in known:
            raise PackageNotAddedError(
                f"{abbreviate_value(name)} has no earlier version {abbreviate_value(requested)}. "
                f"Kept in {self._called}: {', '.join(known)}"
            )
        return requested

    @contextmanager
    def _lock_versions(self, name: str) -> Iterator[Path]:
        """Lock and repair the versions folder of a skill."""
        try:
            path = self._home / "lock"
            timeout = min(_LOCK_SECONDS, self._attempt.left_seconds)
            lock = acquire_lock(path, timeout_seconds=timeout, wait=StaleLockDetector(path))
            with lock, lock_heartbeat(lock):
                versions = self._versions / name
                versions.mkdir(parents=True, exist_ok=True)
                _recover(versions)
                yield versions
        except BlockingIOError as error:
            raise PackageNotAddedError(
                f"Another program adds to {self._called}, or was stopped while it did. "
                "Try again when it has ended"
            ) from error
        except OSError as error:
            raise PackageNotAddedError(
                f"Nothing can be written to {self._called}: {_describe_error(error)}. Check "
                "its permissions and the room on its disk; the skill that was there "
                "still is"
            ) from error

    def _install(
        self, package: Path, name: str, now: datetime, versions: Path, decide: MergePolicy
    ) -> str | None:
        target = self._folder / name
        merge = decide(FolderContent.of(target), coming := FolderContent.of(package))
        sources = {
            **dict.fromkeys(coming.files - merge.left_out, package),
            **dict.fromkeys(merge.carried, target),
        }
        ready = _stage_files(sources, versions, now, self._attempt.check)
        is_first = not os.path.lexists(target)
        try:
            if is_first:
                ready.rename(target)
            else:
                _swap_folders(ready, target)
        except BaseException:
            delete_tree(ready)
            raise
        fsync_folder(self._folder)
        if is_first:
            return None
        if merge.is_new:  # all that was there is carried over
            delete_tree(ready)
            return None
        version = _archive_version(ready, versions)
        for old in self.versions(name)[self._retained :]:
            # By its own name, one that a kill leaves in part would count as a version.
            delete_tree((versions / old).rename(versions / f"{NEW_PREFIX}{old}"))
        return version

    def _require_free_name(self, name: str) -> None:
        obstacle = self.find_conflict(name)
        if obstacle:
            raise PackageNotAddedError(obstacle)

    def find_conflict(self, name: str) -> str:
        """Explain why a name cannot be installed; empty if it can."""
        if not is_path_component(name) or name == BACKUP_FOLDER:
            return f"{abbreviate_value(name)} can be no name of a skill. Choose another one"
        if self._home == find_user_home() / BACKUP_FOLDER:
            return (
                "Earlier versions in your home would make the folder that hides your settings. "
                "Make a folder for the skills, such as ~/skills, and name that"
            )
        target = self._folder / name
        if target.is_symlink() or (target.exists() and not target.is_dir()):
            return (
                f"{name} in {self._called} is a link or a file, not the folder of a "
                "skill. Move it away, and add the package again"
            )
        if any(map(Path.is_symlink, (self._home, self._versions, self._versions / name))):
            return (
                f"The earlier versions of {name} in {self._called} are behind a link. "
                f"Put a folder in its place, in {BACKUP_FOLDER}"
            )
        for other in self._list_existing():
            if fold_name(other) == fold_name(name) and other != name:
                return (
                    f"{other} in {self._called} has the same name but for case or "
                    "accents. Rename it, and add the package again"
                )
        return ""

    def _list_existing(self) -> tuple[str, ...]:
        try:
            return tuple(entry.name for entry in self._folder.iterdir())
        except OSError as error:
            raise PackageNotAddedError(
                f"Nothing can be put into {self._called}: {_describe_error(error)}. Check "
                "that it exists, and its permissions"
            ) from error


def name_version(moment: datetime) -> str:
    return moment.strftime(_STAMP)


def _list_folders(folder: Path) -> frozenset[str]:
    """Names of subfolders; symbolic links are skipped, also `folder` itself."""
    try:
        if folder.is_symlink():
            return frozenset()
        with os.scandir(folder) as found:
            folders = (entry for entry in found if entry.is_dir(follow_symlinks=False))
            return frozenset(entry.name for entry in folders)
    except OSError:
        return frozenset()


def _describe_error(error: OSError) -> str:
    """Error text; the one of a copied tree would list all its paths."""
    return error.strerror or "not every file can be copied"


def _stage_files(
    sources: Mapping[str, Path], versions: Path, now: datetime, check: Callable[[], None]
) -> Path:
    """Copy and fsync files into a staging folder; `check` may raise to cancel."""
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
            fsync_folder(Path(folder))
        os.utime(staging, (now.timestamp(), now.timestamp()))
        ready = versions / f"{_READY}{os.urandom(8).hex()}"
        staging.rename(ready)
        fsync_folder(versions)
    except BaseException:
        delete_tree(staging)
        raise
    return ready


def _copy(source: Path, target: Path) -> None:
    """Copy a file or link; other types are skipped, as a pipe would block."""
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


def _swap_folders(ready: Path, target: Path) -> None:
    """Swap two folders atomically; by two renames if the system cannot."""
    code = _swap_atomically(os.fsencode(ready), os.fsencode(target))
    if not code:
        return
    if code not in _NO_EXCHANGE:
        raise OSError(code, os.strerror(code))
    displaced = ready.with_name(f"{ready.name}-old")
    target.rename(displaced)
    try:
        ready.rename(target)
    except OSError:
        displaced.rename(target)
        raise
    displaced.rename(ready)


def _swap_atomically(first: bytes, second: bytes) -> int:
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


def _archive_version(folder: Path, versions: Path) -> str:
    moment = datetime.fromtimestamp(folder.lstat().st_mtime, UTC)
    while (versions / name_version(moment)).exists():
        moment += timedelta(seconds=1)
    version = name_version(moment)
    folder.rename(versions / version)
    fsync_folder(versions)
    return version


def _recover(versions: Path) -> None:
    """Recover from a crash: complete staging folders become versions."""
    for folder in sorted(versions.iterdir()):
        if folder.name.startswith(NEW_PREFIX):
            delete_tree(folder)
        elif folder.name.startswith(_READY):
            _archive_version(folder, versions)
