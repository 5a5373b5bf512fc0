"""A store that fetches, for tests of what is below `RemoteBranch`."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from skills_mcp.content.git.remote import Remote
from skills_mcp.content.git.repository import FetchResult, GitRepository
from skills_mcp.content.source import SyncPolicy
from skills_mcp.errors import SyncError


@dataclass(frozen=True)
class GitStore:
    """A repository of ours in a folder, and its lock."""

    folder: Path
    repository: GitRepository

    @classmethod
    def create(cls, folder: Path, remote: Remote | str, **policy: Any) -> "GitStore":
        remote = Remote(remote, "main") if isinstance(remote, str) else remote
        folder.mkdir(parents=True, exist_ok=True)
        settings = replace(SyncPolicy(), **policy)
        return cls(folder, GitRepository(folder / "objects.git", remote, settings))

    @property
    def objects(self) -> Path:
        return self.folder / "objects.git"

    def fetch(
        self,
        timeout_seconds: float = 30,
        known: str | None = None,
        on_progress: Callable[[str, float], None] | None = None,
    ) -> FetchResult:
        with (self.folder / "lock").open("wb") as lock:
            return self.repository.fetch(
                lock,
                timeout_seconds=timeout_seconds,
                known=known,
                on_progress=on_progress,
            )

    def fail(self, **options: Any) -> SyncError:
        """Fetch and return why it failed."""
        try:
            fetched = self.fetch(**options)
        except SyncError as error:
            return error
        raise AssertionError(f"it has fetched {fetched}")

    def keep(self, *commits: str) -> None:
        with (self.folder / "lock").open("wb") as lock:
            self.repository.refs.retain(commits, lock)

    def files(self, commit: str) -> dict[str, bytes]:
        """Return the content of every file that is served."""
        entries = self.repository.list_served(commit).entries
        blobs = (entry.blob for entry in entries)
        with self.repository.read_blobs(blobs) as contents:
            return {e.file: data for e, data in zip(entries, contents)}  # noqa: B905

    def size(self) -> int:
        """Return how many bytes all its files have."""
        files = (path for path in self.objects.rglob("*") if path.is_file())
        return sum(path.stat().st_size for path in files)
