"""Snapshots on disk, one folder per commit, shared by every server on the machine.

```text
<store>/                 0700; one per repository, what is followed, and its parts
  sync.lock              one writer at a time; Git's children hold it, too
  objects.git/           bare, never checked out
  snap/<commit>/         the files of one commit; never changes once it is there
  snap/<commit>.survey   where its skills begin, and what is not in the folder and why
  snap/<commit>.lease    locked, shared, by every reader of that commit
  current.json           which commit is published; replaced in one step
  state.json             how the last syncs went; replaced in one step
```

If we crash on any line, the next sync finds either the old pointer or the new
one, and each points to a folder that was complete before it got its name.
"""

import errno
import os
import re
import shutil
import stat
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from skills_mcp.content.disk import explained
from skills_mcp.content.source import Attempt, Checkout, Surveyed
from skills_mcp.content.store import leases
from skills_mcp.content.store.exported_files import flush_to_disk
from skills_mcp.content.store.pointer import (
    Current,
    compose_attempt,
    compose_current,
    compose_surveyed,
    is_commit,
    parse_attempt,
    parse_current,
    parse_surveyed,
)
from skills_mcp.errors import SyncError
from skills_mcp.files.durable import (
    DELETED_PREFIX,
    NEW_PREFIX,
    delete,
    make_folder,
    open_up,
    read_regular,
    replace_text,
    sync_folder,
)
from skills_mcp.files.locks import (
    FileLock,
    LifeSigns,
    acquire_lock,
    is_current,
    showing_life,
)

_LOCK = "sync.lock"
_GUARD = "takeover.lock"
"""The lock of a process that takes the other one from a process without life."""
_STAGING_PREFIX = ".staging-"
_LEFTOVERS = (_STAGING_PREFIX, DELETED_PREFIX, NEW_PREFIX, ".current-")
"""Names that a killed process leaves behind; the last one is of an older version."""
_LEASE_SUFFIX = ".lease"
_SURVEY_SUFFIX = ".survey"
_CHECKED_SUFFIX = ".checked"
"""The file whose time says when the files of a commit were last read and compared."""

# What was not opened for so long belongs to a branch that is followed no more.
_KEPT_SECONDS = 30 * 24 * 60 * 60.0
_NAME = re.compile("[0-9a-f]{16}")

# A process that reads a large commit may be slow to show life.
_SILENT_SECONDS = 3.0

# Who has shown no life for so long loses its claim: it was stopped, or it was killed
# and its Git lives on. Longer than a Git may take by default.
_CLAIM_SECONDS = 150.0

# A pointer is rarely replaced between reading it and taking the lease; twice in a row
# means that another program deletes snapshots.
_LEASE_ATTEMPTS = 5

# A hundred thousand files with long names.
_MAX_SURVEY_BYTES = 64 * 1024 * 1024


class ClaimLostError(SyncError):
    """Another process has taken over the lock of this one, which showed no life."""


class SnapshotStore:
    """The folder described above.  Every method is safe between processes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.objects = directory / "objects.git"
        self._snapshots = directory / "snap"
        self._pointer = directory / "current.json"
        self._state = directory / "state.json"
        self._lock: FileLock | None = None

    @contextmanager
    def exclusive(self, *, timeout_seconds: float) -> Iterator[IO[Any]]:
        """Hold the lock that all writers share; yields its file.

        A child that inherits the file keeps the lock if this process dies, so an
        orphaned Git does not write beside a new one. A process that shows no life for
        some minutes loses the lock; then none of its writing methods works.

        Raises:
            SyncError: Another process held it for the whole time, or shows no life, or
                the folder cannot be written.
        """
        with explained(self.directory):
            lock = _acquire(self.directory, timeout_seconds)
        try:
            with explained(self.directory):
                make_folder(self._snapshots)
            self._lock = lock
            with showing_life(lock):
                yield lock.handle
        finally:
            self._lock = None
            lock.release()

    def require_claim(self) -> None:
        """Make sure that the lock is still ours.

        Raises:
            ClaimLostError: Another process has taken it over.
        """
        if self._lock and not is_current(self._lock.handle, self.directory / _LOCK):
            raise ClaimLostError(
                "this sync was stopped for minutes, so another process has taken over. "
                "What that publishes is picked up at the next refresh"
            )

    def current(self) -> Current | None:
        """Return the published commit; None if there is none, or its files are gone.

        Raises:
            SyncError: There are too many open files.
        """
        pointer = self.pointer()
        return pointer if pointer and self._is_complete(pointer.commit) else None

    def pointer(self) -> Current | None:
        """Return what the pointer says; the files of the commit may be gone.

        Raises:
            SyncError: There are too many open files.
        """
        with explained(self.directory):
            return parse_current(read_regular(self._pointer))

    def folder(self, commit: str) -> Path:
        """Return where the files of a commit are, or would be."""
        return self._snapshots / commit

    def commits(self) -> tuple[str, ...]:
        """Return the commits whose files are here, sorted."""
        try:
            names = [path.name for path in self._snapshots.iterdir()]
        except OSError:
            return ()
        return tuple(sorted(filter(self._is_complete, names)))

    def stage(self, commit: str, write: Callable[[Path], Surveyed]) -> Path:
        """Make the folder of a commit; `write` fills it before it gets its name.

        `write` returns what is known of the commit. Call it only with the lock held.

        Raises:
            SyncError: There is no room, or no permission, or another process has taken
                over; nothing is left of it.
        """
        self.require_claim()
        folder = self.folder(commit)
        if self._is_complete(commit):
            return folder
        with explained(self.directory):
            delete(folder)  # it is no complete snapshot
            name = tempfile.mkdtemp(prefix=_STAGING_PREFIX, dir=self._snapshots)
            try:
                self._write_survey(commit, write(Path(name)))
                # Otherwise a power cut could leave the folder with empty files.
                flush_to_disk(Path(name))
                Path(name).rename(folder)
            except BaseException:
                delete(Path(name))
                raise
            sync_folder(self._snapshots)
        return folder

    def checked_at(self, commit: str) -> float:
        """Return when the content of a commit's files was last compared with Git.

        In seconds since the epoch; 0 if that is not known.
        """
        try:
            changed = self._checked_file(commit).stat().st_mtime
        except OSError:
            return 0.0
        # A time in the future was written while the clock was wrong.
        return changed if changed <= time.time() else 0.0

    def mark_checked(self, commit: str) -> None:
        """Remember that the content of a commit's files is that of Git now.

        Call it only with the lock held.

        Raises:
            SyncError: There is no room, or no permission.
        """
        with explained(self.directory):
            replace_text(self._checked_file(commit), "")

    def revise(self, commit: str, surveyed: Surveyed) -> None:
        """Replace what is known of a staged commit.

        Call it only with the lock held.

        Raises:
            SyncError: There is no room, or no permission.
        """
        if self._read_survey(commit) != surveyed:
            with explained(self.directory):
                self._write_survey(commit, surveyed)

    def publish(self, current: Current) -> None:
        """Make a staged commit the one that new readers get.

        Call it only with the lock held.

        Raises:
            SyncError: There is no room, or no permission; what was published is.
        """
        self.require_claim()
        with explained(self.directory):
            leases.heal(self._lease_file(current.commit))
            replace_text(self._pointer, compose_current(current))

    def open_current(
        self, verify: Callable[[str], str | None] | None = None
    ) -> Checkout | None:
        """Return the published commit, protected for as long as it is referenced.

        Args:
            verify: Returns the signer of a commit; without it, the pointer's counts.

        Raises:
            SyncError: There are too many open files, or `verify` refuses the commit.
        """
        for _ in range(_LEASE_ATTEMPTS):
            current = self.pointer()
            if current is None:
                return None
            if verify and self._is_complete(current.commit):
                current = replace(current, verified_by=verify(current.commit))
            if checkout := self._open(current.commit, current):
                return checkout
        return None

    def open_commit(self, commit: str, current: Current) -> Checkout | None:
        """Return a staged commit, protected as well, with the facts of `current`.

        Raises:
            SyncError: There are too many open files.
        """
        for _ in range(_LEASE_ATTEMPTS):
            if not self._is_complete(commit):
                return None
            if checkout := self._open(commit, current):
                return checkout
        return None

    def collect(self) -> tuple[str, ...]:
        """Delete commits without readers that are not needed; return the others.

        Needed are the published commit, the one before it, and one that was rolled
        back. Call it only with the lock held.

        Raises:
            SyncError: There are too many open files.
        """
        self.require_claim()
        pointer = self.pointer()
        with explained(self.directory):
            for stray in (*_find_leftovers(self.directory), *self._find_strays()):
                delete(stray)
        if pointer is None and os.path.lexists(self._pointer):
            return self.commits()  # unreadable: every commit may be needed
        needed = pointer.commits if pointer else frozenset()
        for commit in self.commits():
            if commit not in needed:
                self._delete_unless_leased(commit)
        return self.commits()

    def attempt(self) -> Attempt:
        """Return how the last syncs went; an empty state if that is not known."""
        with suppress(OSError):
            return parse_attempt(read_regular(self._state))
        return Attempt()

    def remember(self, attempt: Attempt) -> None:
        """Write how the last syncs went.  Call it only with the lock held.

        Raises:
            SyncError: There is no room, or no permission.
        """
        self.require_claim()
        with explained(self.directory):
            replace_text(self._state, compose_attempt(attempt))

    def stamp(self) -> object:
        """Return a value that differs after each `publish`, by any process."""
        try:
            found = self._pointer.stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def delete_unused(self, now: float) -> None:
        """Delete the whole store if it was not opened for 30 days.

        It stays if another process reads or writes it.

        Args:
            now: In seconds since the epoch.
        """
        if not self._is_unused(now):
            return
        deleted = self.directory.with_name(f"{DELETED_PREFIX}{uuid4().hex}")
        with suppress(OSError, SyncError), ExitStack() as held:
            held.enter_context(self.exclusive(timeout_seconds=0.0))
            every = self._snapshots.glob(f"*{_LEASE_SUFFIX}")
            is_free = [held.enter_context(leases.held_alone(each)) for each in every]
            if all(is_free) and self._is_unused(now):
                self.directory.rename(deleted)
        delete(deleted)

    def _is_unused(self, now: float) -> bool:
        try:
            return self.directory.stat().st_mtime < now - _KEPT_SECONDS
        except OSError:
            return False

    def _is_complete(self, commit: str) -> bool:
        """Whether the folder of a commit is here; it gets its name when complete."""
        try:
            mode = self.folder(commit).lstat().st_mode
        except OSError:
            return False
        return is_commit(commit) and stat.S_ISDIR(mode)

    def _open(self, commit: str, current: Current) -> Checkout | None:
        """Take a lease; None if the commit is deleted, or about to be."""
        if not self._is_complete(commit):
            return None  # and leave no lease behind for what is not there
        with suppress(OSError):  # a read-only disk can still be read
            os.utime(self.directory)  # or `delete_unused` takes it for unused
        with explained(self.directory):
            lease = leases.take(
                self._lease_file(commit), lambda: self._is_complete(commit)
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
        )
        weakref.finalize(checkout, lease)
        return checkout

    def _lease_file(self, commit: str) -> Path:
        return self._snapshots / f"{commit}{_LEASE_SUFFIX}"

    def _survey_file(self, commit: str) -> Path:
        return self._snapshots / f"{commit}{_SURVEY_SUFFIX}"

    def _checked_file(self, commit: str) -> Path:
        return self._snapshots / f"{commit}{_CHECKED_SUFFIX}"

    def _read_survey(self, commit: str) -> Surveyed:
        with explained(self.directory):
            text = read_regular(self._survey_file(commit), _MAX_SURVEY_BYTES)
        return parse_surveyed(text)

    def _write_survey(self, commit: str, surveyed: Surveyed) -> None:
        replace_text(self._survey_file(commit), compose_surveyed(surveyed))

    def _find_strays(self) -> Iterator[Path]:
        """Yield leftovers among the snapshots, and files without a snapshot."""
        yield from _find_leftovers(self._snapshots)
        for suffix in (_LEASE_SUFFIX, _SURVEY_SUFFIX, _CHECKED_SUFFIX):
            for path in self._snapshots.glob(f"*{suffix}"):
                if not self._is_complete(path.name.removesuffix(suffix)):
                    yield path

    def _delete_unless_leased(self, commit: str) -> None:
        lease = self._lease_file(commit)
        deleted = self._snapshots / f"{DELETED_PREFIX}{uuid4().hex}"
        with leases.held_alone(lease) as is_free, suppress(OSError):
            if is_free:
                # In one step: a half-deleted folder must not look like a snapshot.
                self.folder(commit).rename(deleted)
                self._survey_file(commit).unlink(missing_ok=True)
                self._checked_file(commit).unlink(missing_ok=True)
                lease.unlink()
        delete(deleted)


def collect_stores(cache: Path, now: float) -> None:
    """Delete the stores in a folder that were not opened for 30 days.

    Args:
        cache: The folder of all stores; what else is in it stays.
        now: In seconds since the epoch.
    """
    with suppress(OSError):
        for path in tuple(cache.iterdir()):
            if path.name.startswith(DELETED_PREFIX):
                delete(path)  # a process was killed meanwhile
            elif _NAME.fullmatch(path.name) and (path / _LOCK).is_file():
                SnapshotStore(path).delete_unused(now)


def _find_leftovers(directory: Path) -> Iterator[Path]:
    return (path for path in directory.iterdir() if path.name.startswith(_LEFTOVERS))


def _acquire(directory: Path, timeout_seconds: float) -> FileLock:
    """Make the folder of a store if need be, and take its lock.

    Raises:
        SyncError: Another process held it for the whole time, or the file system has
            no locks.
        OSError: The folder cannot be written.
    """
    path = directory / _LOCK
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    open_up(directory)
    _make_way(path)
    signs = LifeSigns(path, _SILENT_SECONDS)
    try:
        return _claim(path, signs, timeout_seconds)
    except BlockingIOError as error:
        if signs.are_missing:
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


def _claim(path: Path, signs: LifeSigns, timeout_seconds: float) -> FileLock:
    """Take the lock, also from a process that has shown no life for minutes.

    Raises:
        BlockingIOError: Another process holds it.
        OSError: It cannot be written.
    """
    try:
        lock = acquire_lock(path, timeout_seconds=timeout_seconds, wait=signs)
    except BlockingIOError:
        if not signs.are_missing or _silent_seconds(path) < _CLAIM_SECONDS:
            raise
        with acquire_lock(path.with_name(_GUARD)):
            # Look again: another process may have taken over meanwhile.
            if _silent_seconds(path) > _CLAIM_SECONDS:
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
    remaining = max(1, round(_CLAIM_SECONDS - _silent_seconds(path)))
    return (
        f"another sync on this machine shows no life{holder}: its process was stopped, "
        "or was killed while its Git works on. Continue it (fg) or end it; otherwise "
        f"its claim ends in {remaining} seconds, and a refresh after that goes on"
    )


def _make_way(path: Path) -> None:
    """Make sure that the lock is a file, or can be made one."""
    if path.is_symlink() or (path.exists() and not (path.is_file() or path.is_dir())):
        raise SyncError(f"{path} is no plain file, as a lock has to be: delete it")
    if path.is_dir():
        # Only a folder: another writer may have put the lock file there meanwhile.
        shutil.rmtree(path, ignore_errors=True)
    elif path.exists() and not os.access(path, os.W_OK):
        path.chmod(0o600)
