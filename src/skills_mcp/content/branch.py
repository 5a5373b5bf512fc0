"""Content on a branch of a remote Git repository (001 §9, DESIGN §3.7 to §3.11)."""

import hashlib
import time
from pathlib import Path
from typing import Literal

from skills_mcp.content.git import GitRepository
from skills_mcp.content.remote import Remote
from skills_mcp.content.source import Checkout
from skills_mcp.content.store import Current, SnapshotStore
from skills_mcp.errors import SyncError

_FETCH_TIMEOUT_SECONDS = 120.0


class RemoteBranch:
    """A branch, followed exactly, with every commit in a folder of its own."""

    mode: Literal["git"] = "git"

    def __init__(self, remote: Remote, cache: Path) -> None:
        self._store = SnapshotStore(cache / _store_name(remote))
        self._repository = GitRepository(self._store.objects, remote)
        self.name = str(remote)

    def published(self) -> Checkout | None:
        """Return the commit that this machine has, if any."""
        return self._store.open_current()

    def sync(self) -> Checkout:
        """Fetch, stage and publish the branch's commit.

        If another process has begun a fetch since this call, its result is used:
        however many windows ask at the same time, the remote is asked twice.

        Raises:
            SyncError: What was published before stays published.
        """
        asked_at = time.time()
        try:
            with self._store.exclusive(timeout_seconds=_FETCH_TIMEOUT_SECONDS) as lock:
                current = self._store.current()
                if current is None or current.fetched_at < asked_at:
                    started_at = time.time()
                    commit = self._repository.fetch(
                        lock, timeout_seconds=_FETCH_TIMEOUT_SECONDS
                    )
                    self._store.stage(
                        commit, lambda folder: self._repository.write(commit, folder)
                    )
                    self._store.publish(Current(commit, started_at))
                self._store.collect()
        except OSError as error:
            raise SyncError(f"the cache cannot be written: {error}") from error
        checkout = self._store.open_current()
        if checkout is None:
            raise SyncError("the published commit was deleted by somebody else")
        return checkout

    def count_changes(self, before: Checkout | None, after: Checkout) -> int:
        """Return how many files were added, changed or removed."""
        old = self._blobs(before.revision if before else None)
        new = self._blobs(after.revision)
        return sum(old.get(file) != new.get(file) for file in old.keys() | new.keys())

    def close(self) -> None:
        """End a fetch that is running."""
        self._repository.close()

    def _blobs(self, commit: str | None) -> dict[str, str]:
        """Return the content of each file; nothing for a commit long forgotten."""
        if commit is None:
            return {}
        try:
            return {e.file: e.blob for e in self._repository.entries(commit)}
        except SyncError:
            return {}


def _store_name(remote: Remote) -> str:
    """Name the folder so that another repository or branch never shares it."""
    identity = f"{remote.url}\0{remote.branch}"
    return hashlib.sha256(identity.encode()).hexdigest()[:16]
