"""Commit store: the commits of a repository on disk, and a pointer to the published one.

docs/explanation/sync.md has its files, and what each step leaves there.

Rule: other versions of this program read these files, and people edit them. An invalid
value is ignored, and a missing key has its default.
"""

import errno
import json
import os
import re
import shutil
import stat
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from skills_mcp.content.source import (
    Checkout,
    Hold,
    Loss,
    Surveyed,
    SurveyedPart,
    SyncAttempt,
    translate_disk_errors,
)
from skills_mcp.errors import SyncError
from skills_mcp.files.durable import (
    DELETED_PREFIX,
    GUARDED_FLAGS,
    NEW_PREFIX,
    RESOURCE_ERRORS,
    delete_tree,
    ensure_folder,
    flush_to_disk,
    fsync_folder,
    grant_owner_access,
    read_regular,
    read_stamp,
    write_text_atomically,
)
from skills_mcp.files.locks import (
    FileLock,
    StaleLockDetector,
    acquire_lock,
    is_same_file,
    lock_file,
    lock_heartbeat,
)
from skills_mcp.skills.model import Problem
from skills_mcp.skills.source_layout import RelativeRoot, Selection

ARCHIVES = "archives"
"""Folder of the cache with a repository for each fetched archive."""

# No other text in the pointer may become the name of a folder.
_COMMIT = re.compile(r"[0-9a-f]{40,64}")

_PARSE_ERRORS = (
    *(ValueError, KeyError, TypeError, AttributeError),
    *(OverflowError, OSError),  # numbers that are no time
    RecursionError,  # a million brackets
)


@dataclass(frozen=True, slots=True)
class PublishedCommit:
    """The published commit, its age, and its predecessor."""

    commit: str
    fetched_at: float
    """Start of its fetch, in seconds since the epoch."""
    verified_by: str | None = None
    previous: str | None = None
    """The previously published commit, retained for a rollback."""
    hold: Hold | None = None
    default_branch: str = ""
    """The remote's default branch, if it stands in for a missing `main`."""
    loss: Loss | None = None

    @property
    def synced_at(self) -> datetime:
        return datetime.fromtimestamp(self.fetched_at, UTC)

    @property
    def commits(self) -> frozenset[str]:
        """The commits to retain."""
        instead_of = self.hold.instead_of if self.hold else None
        named = (self.commit, self.previous, instead_of)
        return frozenset(commit for commit in named if commit)


def is_commit_id(name: str) -> bool:
    """Whether a name is a commit id, and so safe as a folder name."""
    return _COMMIT.fullmatch(name) is not None


def compose_pointer(current: PublishedCommit) -> str:
    return json.dumps(asdict(current), indent=2)


def parse_pointer(text: bytes | None) -> PublishedCommit | None:
    """Parse `current.json`; None if it is invalid.

    >>> parse_pointer(b'{"commit": "..", "fetched_at": 1}') is None
    True
    """
    try:
        data = json.loads(text or b"")
        commit = _parse_commit(data["commit"])
        fetched_at = _parse_timestamp(data["fetched_at"])
        return PublishedCommit(
            commit,
            fetched_at,
            _parse_text(data.get("verified_by")),
            _parse_optional_commit(data.get("previous")),
            _parse_hold(data.get("hold"), commit, fetched_at),
            _parse_text(data.get("default_branch")) or "",
            _parse_loss(data.get("loss")),
        )
    except _PARSE_ERRORS:
        return None


def compose_attempt(attempt: SyncAttempt) -> str:
    return json.dumps(asdict(attempt), indent=2)


def parse_attempt(text: bytes | None) -> SyncAttempt:
    """Parse `state.json`; an empty state if it is invalid."""
    try:
        data = json.loads(text or b"")
        return SyncAttempt(
            attempted_at=_parse_timestamp(data["attempted_at"]),
            failures=max(0, int(data["failures"])),
            next_attempt_at=_parse_timestamp(data["next_attempt_at"]),
            error_code=str(data["error_code"]),
            error_message=str(data["error_message"]),
            refused_commit=_parse_optional_commit(data.get("refused_commit")) or "",
        )
    except _PARSE_ERRORS:
        return SyncAttempt()


def compose_surveyed(surveyed: Surveyed) -> str:
    return json.dumps([[asdict(key), asdict(part)] for key, part in surveyed.items()])


def parse_surveyed(text: bytes | None) -> Surveyed:
    try:
        return dict(_parse_part(*row) for row in json.loads(text or b"[]"))
    except _PARSE_ERRORS:
        return {}


def _parse_part(
    selection: dict[str, Any], survey: dict[str, Any]
) -> tuple[Selection, SurveyedPart]:
    plugins = tuple(selection.pop("plugins"))
    homes = tuple(
        RelativeRoot(**{**home, "only": tuple(home["only"]), "without": tuple(home["without"])})
        for home in survey["homes"]
    )
    problems = tuple(Problem(**problem) for problem in survey["problems"])
    return Selection(**selection, plugins=plugins), SurveyedPart(homes, problems)


def _parse_commit(value: Any) -> str:
    if not isinstance(value, str) or not is_commit_id(value):
        raise ValueError
    return value


def _parse_optional_commit(value: Any) -> str | None:
    """Parse an optional commit; an invalid one does not invalidate the pointer."""
    return value if isinstance(value, str) and is_commit_id(value) else None


def _parse_text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _parse_hold(value: Any, commit: str, fetched_at: float) -> Hold | None:
    """Parse the rollback; an invalid one still holds, or its commit would return."""
    if value is None:
        return None
    try:
        return Hold(_parse_timestamp(value["since"]), _parse_commit(value["instead_of"]))
    except _PARSE_ERRORS:
        return Hold(fetched_at, commit)


def _parse_loss(value: Any) -> Loss | None:
    """Parse a loss; an invalid one does not invalidate the pointer."""
    try:
        paths = tuple(path for path in value["paths"] if isinstance(path, str))
        moment = _parse_timestamp(value["happened_at"])
        return Loss(int(value["removed"]), int(value["served"]), moment, paths)
    except _PARSE_ERRORS:
        return None


def _parse_timestamp(value: Any) -> float:
    moment = float(value)
    datetime.fromtimestamp(moment, UTC)  # or it is no time
    return moment


_KNOWS_EFFECTIVE_IDS = os.access in os.supports_effective_ids

# A process that deletes holds a lease no longer than this.
_RETRY_SECONDS = 0.01


Lease = Callable[[], object]


def acquire_lease(path: Path, exists: Callable[[], bool]) -> Lease | None:
    """Lock a lease for reading; None if it was deleted meanwhile, or is unavailable.

    A read-only cache without a lease file is read unlocked, safe as long as its owner
    leaves it alone.

    Raises:
        OSError: There are too many open files.
    """
    try:
        handle = _open_lease(path)
    except OSError as error:
        if error.errno in RESOURCE_ERRORS:
            raise
        return None if _is_writable(path.parent) else lambda: None
    # In this order: if the lease file is still there after we have locked it, the
    # snapshot that it guards cannot have been deleted since.
    if _try_lock(handle, is_shared=True) and exists() and is_same_file(handle, path):
        return handle.close
    handle.close()
    time.sleep(_RETRY_SECONDS)
    return None


@contextmanager
def exclusive_lease(path: Path) -> Iterator[bool]:
    """Lock a lease exclusively, with the writers' lock; False if it has readers."""
    try:
        delete_irregular_lease(path)
        handle = _open_lease(path)
    except OSError:
        yield False
        return
    with handle:
        yield _try_lock(handle, is_shared=False)


def delete_irregular_lease(path: Path) -> None:
    """Delete anything but a file at a lease's path, with the writers' lock."""
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(path.lstat().st_mode):
            delete_tree(path)


def _open_lease(path: Path) -> IO[bytes]:
    try:
        return _create_lease(path)
    except PermissionError:
        with suppress(OSError):
            path.chmod(0o644)  # ours, but without permission
            return _create_lease(path)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
    return os.fdopen(os.open(path, os.O_RDONLY | GUARDED_FLAGS), "rb")


def _create_lease(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | GUARDED_FLAGS, 0o644), "rb")


def _try_lock(handle: IO[bytes], *, is_shared: bool) -> bool:
    try:
        lock_file(handle, is_shared=is_shared)
    except OSError:
        return False
    return True


def _is_writable(directory: Path) -> bool:
    return os.access(directory, os.W_OK, effective_ids=_KNOWS_EFFECTIVE_IDS)


_LOCK = "sync.lock"
_GUARD = "takeover.lock"
_STAGING_PREFIX = ".staging-"
_LEFTOVERS = (_STAGING_PREFIX, DELETED_PREFIX, NEW_PREFIX, ".current-")
"""Prefixes of a killed process's leftovers; the last one is of an older version."""
_LEASE_SUFFIX = ".lease"
_SURVEY_SUFFIX = ".survey"
_CHECKED_SUFFIX = ".checked"
"""Its modification time is the last content check of a commit."""

# What was not opened for so long belongs to a branch that is followed no more.
_RETENTION_SECONDS = 30 * 24 * 60 * 60.0
_NAME = re.compile("[0-9a-f]{16}")

# A process that reads a large commit may be slow to show life.
_SILENT_SECONDS = 3.0

# Who has shown no life for so long loses its claim: it was stopped, or it was killed
# and its Git lives on. Longer than a Git may take by default.
_LOCK_EXPIRY_SECONDS = 150.0

# A pointer is rarely replaced between reading it and taking the lease; twice in a row
# means that another program deletes snapshots.
_LEASE_ATTEMPTS = 5

# A hundred thousand files with long names.
_MAX_SURVEY_BYTES = 64 * 1024 * 1024


class LockLostError(SyncError):
    """Another process has taken over the lock of this unresponsive one."""


class CommitStore:
    """A commit store.  Every method is safe between processes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.objects = directory / "objects.git"
        self._commits_folder = directory / "snap"
        self._pointer = directory / "current.json"
        self._state = directory / "state.json"
        self._unsaved = SyncAttempt()
        """The last attempt of this process, if the disk had no room for it."""
        self._lock: FileLock | None = None

    @contextmanager
    def exclusive(self, *, timeout_seconds: float) -> Iterator[IO[Any]]:
        """Hold the writers' lock; yields its file.

        A child with the inherited file keeps the lock if this process dies, so an
        orphaned Git never writes concurrently with a new one. An unresponsive process
        loses the lock after some minutes; then none of its writing methods works.

        Raises:
            SyncError: The lock is unavailable, or the folder cannot be written.
        """
        with translate_disk_errors(self.directory):
            lock = _acquire(self.directory, timeout_seconds)
        try:
            with translate_disk_errors(self.directory):
                ensure_folder(self._commits_folder)
            self._lock = lock
            with lock_heartbeat(lock):
                yield lock.handle
        finally:
            self._lock = None
            lock.release()

    def require_lock(self) -> None:
        """Require continued ownership of the lock.

        Raises:
            LockLostError: Another process has taken it over.
        """
        if self._lock and not is_same_file(self._lock.handle, self.directory / _LOCK):
            raise LockLostError(
                "this sync was stopped for minutes, so another process has taken over. "
                "What that publishes is picked up at the next refresh"
            )

    def current(self) -> PublishedCommit | None:
        """Read the published commit; None without one, or if its files are gone.

        Raises:
            SyncError: There are too many open files.
        """
        pointer = self.pointer()
        return pointer if pointer and self.is_complete(pointer.commit) else None

    def pointer(self) -> PublishedCommit | None:
        """Read the pointer; the files of its commit may be gone.

        Raises:
            SyncError: There are too many open files.
        """
        with translate_disk_errors(self.directory):
            return parse_pointer(read_regular(self._pointer))

    def folder(self, commit: str) -> Path:
        """Path of a commit's files; it need not exist."""
        return self._commits_folder / commit

    def commits(self) -> tuple[str, ...]:
        """List the commits with complete files, sorted."""
        try:
            names = [path.name for path in self._commits_folder.iterdir()]
        except OSError:
            return ()
        return tuple(sorted(filter(self.is_complete, names)))

    def is_complete(self, commit: str) -> bool:
        """Whether the folder of a commit exists; it gets its name when complete."""
        try:
            mode = self.folder(commit).lstat().st_mode
        except OSError:
            return False
        return is_commit_id(commit) and stat.S_ISDIR(mode)

    def stage(self, commit: str, write: Callable[[Path], Surveyed]) -> Path:
        """Create a commit's folder with the lock held; `write` fills and surveys it.

        Raises:
            SyncError: It cannot be written, or the lock is lost; nothing is left
                behind.
        """
        self.require_lock()
        folder = self.folder(commit)
        if self.is_complete(commit):
            return folder
        with translate_disk_errors(self.directory):
            delete_tree(folder)  # it is no complete snapshot
            name = tempfile.mkdtemp(prefix=_STAGING_PREFIX, dir=self._commits_folder)
            try:
                self._write_survey(commit, write(Path(name)))
                # Otherwise a power cut could leave the folder with empty files.
                flush_to_disk(Path(name))
                Path(name).rename(folder)
            except BaseException:
                delete_tree(Path(name))
                raise
            fsync_folder(self._commits_folder)
        return folder

    def checked_at(self, commit: str) -> float:
        """Time of a commit's last content check, since the epoch; 0 if unknown."""
        try:
            changed = self._file_beside(commit, _CHECKED_SUFFIX).stat().st_mtime
        except OSError:
            return 0.0
        # A time in the future was written while the clock was wrong.
        return changed if changed <= time.time() else 0.0

    def mark_checked(self, commit: str) -> None:
        """Record a content check of a commit.  Requires the lock.

        Raises:
            SyncError: There is no room, or no permission.
        """
        with translate_disk_errors(self.directory):
            write_text_atomically(self._file_beside(commit, _CHECKED_SUFFIX), "")

    def replace_survey(self, commit: str, surveyed: Surveyed) -> None:
        """Replace the survey of a staged commit.  Requires the lock.

        Raises:
            SyncError: There is no room, or no permission.
        """
        if self._read_survey(commit) != surveyed:
            with translate_disk_errors(self.directory):
                self._write_survey(commit, surveyed)

    def publish(self, current: PublishedCommit) -> None:
        """Publish a staged commit to new readers.  Requires the lock.

        Raises:
            SyncError: There is no room, or no permission; the previous commit stays.
        """
        self.require_lock()
        with translate_disk_errors(self.directory):
            delete_irregular_lease(self._file_beside(current.commit, _LEASE_SUFFIX))
            write_text_atomically(self._pointer, compose_pointer(current))

    def open_current(self, verify: Callable[[str], str | None] | None = None) -> Checkout | None:
        """Open the published commit, leased for as long as it is referenced.

        Raises:
            SyncError: There are too many open files, or `verify` refuses the commit.
        """
        for _ in range(_LEASE_ATTEMPTS):
            current = self.pointer()
            if current is None:
                return None
            if verify and self.is_complete(current.commit):
                current = replace(current, verified_by=verify(current.commit))
            if checkout := self._open(current.commit, current):
                return checkout
        return None

    def open_commit(self, commit: str, current: PublishedCommit) -> Checkout | None:
        """Open a staged commit, leased as well, with the metadata of `current`.

        Raises:
            SyncError: There are too many open files.
        """
        opened = (self._open(commit, current) for _ in range(_LEASE_ATTEMPTS))
        return next(filter(None, opened), None)

    def delete_unreferenced(self) -> tuple[str, ...]:
        """Delete unleased commits except published, previous and rolled-back ones.

        Requires the lock.

        Raises:
            SyncError: There are too many open files.
        """
        self.require_lock()
        pointer = self.pointer()
        with translate_disk_errors(self.directory):
            for stray in (*_find_leftovers(self.directory), *self._find_orphans()):
                delete_tree(stray)
        if pointer is None and os.path.lexists(self._pointer):
            return self.commits()  # unreadable: every commit may be needed
        needed = pointer.commits if pointer else frozenset()
        for commit in self.commits():
            if commit not in needed:
                self._delete_unless_leased(commit)
        return self.commits()

    def attempt(self) -> SyncAttempt:
        """State of the last sync by any process; an empty one if it is unknown."""
        last = self._unsaved
        with suppress(OSError):
            stored = parse_attempt(read_regular(self._state))
            last = max(stored, last, key=attrgetter("attempted_at"))
        with suppress(SyncError):
            pointer = self.pointer()
            if pointer and last.attempted_at < pointer.fetched_at <= time.time():
                # The process that published it died, or found the disk full, before it
                # could write its state.
                return SyncAttempt(attempted_at=pointer.fetched_at)
        return last

    def save_attempt(self, attempt: SyncAttempt) -> None:
        """Write the sync state.  Requires the lock.

        Raises:
            SyncError: There is no room, or no permission; this process remembers it.
        """
        self._unsaved = attempt
        self.require_lock()
        with translate_disk_errors(self.directory):
            write_text_atomically(self._state, compose_attempt(attempt))
        self._unsaved = SyncAttempt()

    def stamp(self) -> object:
        """Version of the pointer: it differs after each `publish`, by any process."""
        return read_stamp(self._pointer)

    def delete_unused(self, now: float) -> None:
        """Delete the whole store after 30 days without use, unless it is in use."""
        if not _is_unused(self.directory, now):
            return
        deleted = self.directory.with_name(f"{DELETED_PREFIX}{uuid4().hex}")
        with suppress(OSError, SyncError), ExitStack() as locks:
            locks.enter_context(self.exclusive(timeout_seconds=0.0))
            lease_files = self._commits_folder.glob(f"*{_LEASE_SUFFIX}")
            is_free = [
                locks.enter_context(exclusive_lease(lease_file)) for lease_file in lease_files
            ]
            if all(is_free) and _is_unused(self.directory, now):
                self.directory.rename(deleted)
        delete_tree(deleted)

    def _open(self, commit: str, current: PublishedCommit) -> Checkout | None:
        """Lease a commit; None if it is deleted, or about to be."""
        if not self.is_complete(commit):
            return None  # and leave no lease behind for what is not there
        with suppress(OSError):  # a read-only disk can still be read
            os.utime(self.directory)  # or `delete_unused` takes it for unused
        with translate_disk_errors(self.directory):
            lease = acquire_lease(
                self._file_beside(commit, _LEASE_SUFFIX), lambda: self.is_complete(commit)
            )
        if lease is None:
            return None
        checkout = Checkout(
            self.folder(commit),
            commit,
            current.synced_at,
            self._read_survey(commit),
            current.verified_by,
            current.hold,
            current.default_branch,
            None if current.hold else current.loss,
        )
        weakref.finalize(checkout, lease)
        return checkout

    def _file_beside(self, commit: str, suffix: str) -> Path:
        return self._commits_folder / f"{commit}{suffix}"

    def _read_survey(self, commit: str) -> Surveyed:
        with translate_disk_errors(self.directory):
            text = read_regular(self._file_beside(commit, _SURVEY_SUFFIX), _MAX_SURVEY_BYTES)
        return parse_surveyed(text)

    def _write_survey(self, commit: str, surveyed: Surveyed) -> None:
        write_text_atomically(self._file_beside(commit, _SURVEY_SUFFIX), compose_surveyed(surveyed))

    def _find_orphans(self) -> Iterator[Path]:
        yield from _find_leftovers(self._commits_folder)
        for suffix in (_LEASE_SUFFIX, _SURVEY_SUFFIX, _CHECKED_SUFFIX):
            for path in self._commits_folder.glob(f"*{suffix}"):
                if not self.is_complete(path.name.removesuffix(suffix)):
                    yield path

    def _delete_unless_leased(self, commit: str) -> None:
        lease = self._file_beside(commit, _LEASE_SUFFIX)
        deleted = self._commits_folder / f"{DELETED_PREFIX}{uuid4().hex}"
        with exclusive_lease(lease) as is_free, suppress(OSError):
            if is_free:
                # In one step: a half-deleted folder must not look like a snapshot.
                self.folder(commit).rename(deleted)
                self._file_beside(commit, _SURVEY_SUFFIX).unlink(missing_ok=True)
                self._file_beside(commit, _CHECKED_SUFFIX).unlink(missing_ok=True)
                lease.unlink()
        delete_tree(deleted)


def delete_unused_stores(cache: Path, now: float) -> None:
    """Delete stores without use for 30 days; other entries of the folder stay."""
    with suppress(OSError):
        for path in tuple(cache.iterdir()):
            if path.name.startswith(DELETED_PREFIX):
                delete_tree(path)  # a process was killed meanwhile
            elif _NAME.fullmatch(path.name) and (path / _LOCK).is_file():
                CommitStore(path).delete_unused(now)
        for path in (cache / ARCHIVES).iterdir():
            if _is_unused(path, now):
                delete_tree(path)


def _is_unused(directory: Path, now: float) -> bool:
    try:
        return directory.stat().st_mtime < now - _RETENTION_SECONDS
    except OSError:
        return False


def _find_leftovers(directory: Path) -> Iterator[Path]:
    return (path for path in directory.iterdir() if path.name.startswith(_LEFTOVERS))


def _acquire(directory: Path, timeout_seconds: float) -> FileLock:
    path = directory / _LOCK
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    grant_owner_access(directory)
    _require_lock_path(path)
    signs = StaleLockDetector(path, _SILENT_SECONDS)
    try:
        return _acquire_or_take_over(path, signs, timeout_seconds)
    except BlockingIOError as error:
        if signs.is_stale:
            raise SyncError(_explain_silence(path)) from error
        raise SyncError(
            f"another sync has been running for {timeout_seconds:.0f} seconds; "
            "what it publishes is picked up at the next refresh"
        ) from error
    except OSError as error:
        if error.errno == errno.ENOLCK:
            raise SyncError(
                f"the file system of {directory} has no file locks. Set "
                "SKILLS_MCP_HOME to a folder on a local disk"
            ) from error
        if error.errno == errno.ESTALE:
            raise SyncError(
                f"{directory} is deleted again and again. Set SKILLS_MCP_HOME to a "
                "folder that no other program deletes"
            ) from error
        raise


def _acquire_or_take_over(path: Path, signs: StaleLockDetector, timeout_seconds: float) -> FileLock:
    """Acquire the lock, also from a process unresponsive for minutes."""
    try:
        lock = acquire_lock(path, timeout_seconds=timeout_seconds, wait=signs)
    except BlockingIOError:
        if not signs.is_stale or _silent_seconds(path) < _LOCK_EXPIRY_SECONDS:
            raise
        with acquire_lock(path.with_name(_GUARD)):
            # Look again: another process may have taken over meanwhile.
            if _silent_seconds(path) > _LOCK_EXPIRY_SECONDS:
                path.unlink()
        lock = acquire_lock(path)
    with suppress(OSError):  # for a message only
        lock.handle.truncate(0)
        lock.handle.write(str(os.getpid()).encode())
    return lock


def _silent_seconds(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0


def _explain_silence(path: Path) -> str:
    holder = ""
    with suppress(OSError, ValueError):
        holder = f" (process {int(path.read_text('ascii'))})"
    remaining = max(1, round(_LOCK_EXPIRY_SECONDS - _silent_seconds(path)))
    return (
        f"another sync on this machine shows no life{holder}: its process was stopped, "
        "or was killed while its Git works on. Continue it (fg) or end it; otherwise "
        f"its claim ends in {remaining} seconds, and a refresh after that goes on"
    )


def _require_lock_path(path: Path) -> None:
    if path.is_symlink() or (path.exists() and not (path.is_file() or path.is_dir())):
        raise SyncError(f"{path} is no plain file, as a lock has to be: delete it")
    if path.is_dir():
        # Only a folder: another writer may have put the lock file there meanwhile.
        shutil.rmtree(path, ignore_errors=True)
    elif path.exists() and not os.access(path, os.W_OK):
        path.chmod(0o600)
