"""Snapshots on disk, one folder per commit, shared by every server on the machine.

```text
<store>/                 0700; one per repository and branch
  sync.lock              one writer at a time; Git's children hold it, too
  objects.git/           bare, never checked out
  snap/<commit>/         the files of one commit; never changes once it is there
  snap/<commit>.left-out the names of files that are not in the folder, if any
  snap/<commit>.lease    locked, shared, by every reader of that commit
  current.json           which commit is published; replaced in one step
```

If we crash on any line, the next sync finds either the old pointer or the new
one, and each points to a folder that was complete before it got its name.
"""

import json
import os
import re
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import portalocker

from skills_mcp.content.source import Checkout
from skills_mcp.errors import SyncError

_STAGING_PREFIX = ".staging-"
_LEASE_SUFFIX = ".lease"
_LEFT_OUT_SUFFIX = ".left-out"

# A pointer that is replaced between reading it and taking the lease is rare, and
# twice in a row means that somebody deletes snapshots by hand.
_LEASE_ATTEMPTS = 5

# Whatever else stands in the pointer is no name of a folder of ours.
_COMMIT = re.compile(r"[0-9a-f]{40,64}")


@dataclass(frozen=True, slots=True)
class Current:
    """What `current.json` says: the published commit, and how new it is."""

    commit: str
    fetched_at: float
    """When its fetch began, in seconds since the epoch: no older than that."""


class SnapshotStore:
    """The folder described above.  Every method is safe between processes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._snapshots = directory / "snap"
        self.objects = directory / "objects.git"

    @contextmanager
    def exclusive(self, *, timeout_seconds: float) -> Iterator[IO[Any]]:
        """Hold the lock that all writers share; yields its file.

        A child that inherits the file keeps the lock if this process dies, so
        an orphaned Git can never write beside a new one.

        Raises:
            SyncError: Somebody else held it for the whole time.
        """
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._snapshots.mkdir(exist_ok=True)
        lock = portalocker.Lock(
            self._directory / "sync.lock", "ab", timeout=timeout_seconds
        )
        try:
            handle = lock.acquire()
        except portalocker.LockException as error:
            raise SyncError(
                f"another sync has been running for {timeout_seconds:.0f} seconds; "
                "what it publishes is picked up at the next refresh"
            ) from error
        try:
            yield handle
        finally:
            lock.release()

    def current(self) -> Current | None:
        """Return what is published, or None when nothing usable is."""
        pointer = self._read_pointer()
        return pointer if pointer and self._folder(pointer.commit).is_dir() else None

    def stage(self, commit: str, write: Callable[[Path], Sequence[str]]) -> None:
        """Make the folder of a commit; `write` fills it before it has its name.

        It returns the names that it left out. Call it only with the lock held.
        """
        if self._folder(commit).is_dir():
            return
        staging = Path(tempfile.mkdtemp(prefix=_STAGING_PREFIX, dir=self._snapshots))
        try:
            left_out = write(staging)
            self._left_out_file(commit).write_text(json.dumps(left_out))
            staging.rename(self._folder(commit))
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise

    def publish(self, current: Current) -> None:
        """Make a staged commit the one that new readers get."""
        text = json.dumps(asdict(current), indent=2)
        descriptor, name = tempfile.mkstemp(prefix=".current-", dir=self._directory)
        with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        Path(name).replace(self._directory / "current.json")

    def open_current(self) -> Checkout | None:
        """Return the published commit, protected for as long as it is referenced."""
        for _ in range(_LEASE_ATTEMPTS):
            current = self._read_pointer()
            if current is None:
                return None
            lease = self._take_lease(current.commit)
            if lease is not None:
                synced_at = datetime.fromtimestamp(current.fetched_at, UTC)
                checkout = Checkout(
                    self._folder(current.commit),
                    current.commit,
                    synced_at,
                    self._read_left_out(current.commit),
                )
                weakref.finalize(checkout, lease.close)
                return checkout
        return None

    def collect(self) -> None:
        """Delete what nobody reads any more.  Call it only with the lock held."""
        current = self.current()
        for entry in sorted(self._snapshots.iterdir()):
            if entry.name.startswith(_STAGING_PREFIX):
                shutil.rmtree(entry, ignore_errors=True)
            elif entry.is_dir() and (current is None or entry.name != current.commit):
                self._delete_unless_leased(entry.name)
        for leftover in self._directory.glob(".current-*"):
            leftover.unlink(missing_ok=True)

    def discard_objects(self) -> None:
        """Delete Git's own store, so that the next fetch makes a new one."""
        shutil.rmtree(self.objects, ignore_errors=True)

    def _read_pointer(self) -> Current | None:
        try:
            pointer = json.loads((self._directory / "current.json").read_bytes())
            current = Current(str(pointer["commit"]), float(pointer["fetched_at"]))
            datetime.fromtimestamp(current.fetched_at, UTC)  # or it is no time
        except (OSError, ValueError, KeyError, TypeError, OverflowError):
            return None
        return current if _COMMIT.fullmatch(current.commit) else None

    def _folder(self, commit: str) -> Path:
        return self._snapshots / commit

    def _lease_file(self, commit: str) -> Path:
        return self._snapshots / f"{commit}{_LEASE_SUFFIX}"

    def _left_out_file(self, commit: str) -> Path:
        return self._snapshots / f"{commit}{_LEFT_OUT_SUFFIX}"

    def _read_left_out(self, commit: str) -> tuple[str, ...]:
        try:
            names = json.loads(self._left_out_file(commit).read_bytes())
        except (OSError, ValueError):
            return ()
        return tuple(map(str, names)) if isinstance(names, list) else ()

    def _take_lease(self, commit: str) -> IO[bytes] | None:
        """Lock the commit for reading; None if it was deleted meanwhile."""
        if not self._folder(commit).is_dir():
            return None  # and leave no lease behind for what is not there
        try:
            handle = self._lease_file(commit).open("ab")
        except OSError:
            return None  # not even ours to open: as good as not there
        try:
            portalocker.lock(
                handle,
                portalocker.LockFlags.SHARED | portalocker.LockFlags.NON_BLOCKING,
            )
            if self._is_still_there(handle, commit):
                return handle
        except portalocker.LockException:
            time.sleep(0.01)  # a collector looks at this very lease; look again
        except OSError:
            pass
        handle.close()
        return None

    def _is_still_there(self, handle: IO[bytes], commit: str) -> bool:
        """Look again after taking the lock: the file may have been unlinked."""
        mine, theirs = os.fstat(handle.fileno()), self._lease_file(commit).stat()
        return os.path.samestat(mine, theirs) and self._folder(commit).is_dir()

    def _delete_unless_leased(self, commit: str) -> None:
        with self._lease_file(commit).open("ab") as handle:
            try:
                portalocker.lock(
                    handle,
                    portalocker.LockFlags.EXCLUSIVE
                    | portalocker.LockFlags.NON_BLOCKING,
                )
            except portalocker.LockException:
                return
            shutil.rmtree(self._folder(commit), ignore_errors=True)
            with suppress(OSError):
                self._left_out_file(commit).unlink(missing_ok=True)
                self._lease_file(commit).unlink()
