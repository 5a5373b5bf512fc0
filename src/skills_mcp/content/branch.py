"""Content of a remote Git repository: a branch, a tag or a commit (001 §9).

See DESIGN §3.7 to §3.11.
"""

import hashlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Literal

from skills_mcp.content.git import DamagedStoreError, GitRepository
from skills_mcp.content.remote import Remote
from skills_mcp.content.source import Checkout
from skills_mcp.content.store import Current, SnapshotStore
from skills_mcp.errors import SyncError

_FETCH_TIMEOUT_SECONDS = 120.0


class RemoteBranch:
    """A branch, followed exactly, with every commit in a folder of its own.

    A tag is followed like a branch; a pinned commit needs the remote only once.
    """

    mode: Literal["git"] = "git"

    def __init__(self, remote: Remote, cache: Path) -> None:
        self._store = SnapshotStore(cache / _store_name(remote))
        self._repository = GitRepository(self._store.objects, remote)
        self._is_final = remote.commit is not None
        self.name = str(remote)

    def published(self) -> Checkout | None:
        """Return the commit that this machine has, if any."""
        return self._store.open_current()

    def sync(self) -> Checkout:
        """Fetch, stage and publish the remote's commit.

        If another process has begun a fetch since this call, its result is used:
        however many windows ask at the same time, the remote is asked twice.

        Raises:
            SyncError: What was published before stays published.
        """
        # A pin has a store of its own, in which there is nothing else.
        here = self._store.open_current() if self._is_final else None
        return here or self._sync()

    def _sync(self) -> Checkout:
        asked_at = time.time()
        try:
            with self._store.exclusive(timeout_seconds=_FETCH_TIMEOUT_SECONDS) as lock:
                if not self._was_fetched_since(asked_at):
                    self._fetch(lock)
                self._store.collect()
            checkout = self._store.open_current()
        except OSError as error:
            raise SyncError(f"the cache cannot be written: {error}") from error
        if checkout is None:
            raise SyncError("the published commit was deleted by somebody else")
        return checkout

    def count_changes(self, before: Checkout | None, after: Checkout) -> int:
        """Return how many files were added, changed or removed."""
        old = self._blobs(before.revision if before else None)
        return len(_differing(old or {}, self._blobs(after.revision) or {}))

    def find_changes(
        self, before: str | None, after: Checkout
    ) -> frozenset[str] | None:
        """Return the files that differ, also those that are never written.

        None if one of the commits is long forgotten.
        """
        if before is None or after.revision is None:
            return None
        try:
            return self._repository.diff(before, after.revision)
        except SyncError:
            return None

    def close(self) -> None:
        """End a fetch that is running."""
        self._repository.close()

    def _was_fetched_since(self, moment: float) -> bool:
        current = self._store.current()
        # A time to come was written while the clock was wrong; it proves nothing.
        return current is not None and moment <= current.fetched_at <= time.time()

    def _fetch(self, lock: IO[Any]) -> None:
        """Publish the remote's commit; a damaged store is made anew once."""
        started_at = time.time()
        try:
            commit = self._stage(lock)
        except DamagedStoreError:
            self._store.discard_objects()
            commit = self._stage(lock)
        self._store.publish(Current(commit, started_at))

    def _stage(self, lock: IO[Any]) -> str:
        repository = self._repository
        commit = repository.fetch(lock, timeout_seconds=_FETCH_TIMEOUT_SECONDS)
        self._store.stage(commit, lambda folder: repository.write(commit, folder))
        return commit

    def _blobs(self, commit: str | None) -> dict[str, str] | None:
        """Return the content of each file; None for a commit long forgotten."""
        if commit is None:
            return None
        try:
            listing = self._repository.list_files(commit)
        except SyncError:
            return None
        return {entry.file: entry.blob for entry in listing.entries}


def _differing(old: Mapping[str, str], new: Mapping[str, str]) -> frozenset[str]:
    every = old.keys() | new.keys()
    return frozenset(file for file in every if old.get(file) != new.get(file))


def _store_name(remote: Remote) -> str:
    """Name the folder so that another repository, branch or tag never shares it."""
    followed = f"\0{remote.wanted}" if remote.pin else remote.branch
    identity = f"{remote.url}\0{followed}"
    return hashlib.sha256(identity.encode()).hexdigest()[:16]
