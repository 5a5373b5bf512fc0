"""Work trees of Git on this machine, such as that of a project, and their histories.

Rule: nothing is written or fetched, and no hook or filter runs.
"""

from dataclasses import dataclass
from pathlib import Path

from skills_mcp.content.git.remote import Remote
from skills_mcp.content.git.repository import BranchLog, CommitHistory, GitRepository
from skills_mcp.content.source import SyncPolicy

_GIT = ".git"
_POINTER = "gitdir:"
_HEAD = "HEAD"


@dataclass(frozen=True, slots=True)
class WorkTree:
    """A work tree, with its history up to the checked out commit.  Blocking."""

    top: Path
    _repository: GitRepository
    history: CommitHistory

    @classmethod
    def find(cls, folder: Path) -> "WorkTree | None":
        """Find the work tree that a folder is in."""
        top = find_work_tree(folder.resolve())
        if top is None:
            return None
        policy = SyncPolicy(is_offline=True)
        repository = GitRepository(find_store(top), Remote(str(top), ""), policy)
        return cls(top, repository, CommitHistory(repository.git, policy))

    def read_log(self, max_commits: int) -> BranchLog:
        """Read the commits with their files, the newest first.

        Raises:
            SyncError: There is no commit.
        """
        return self.history.read_log(_HEAD, max_commits)

    def read_file(self, commit: str, file: str) -> str | None:
        """Read a text of a commit; None if there is no such file."""
        data = self.history.read_file(commit, file)
        return None if data is None else data.decode("utf-8", "replace")

    def read_origin(self) -> str:
        """Read the address of `origin`; empty without one."""
        words = ("config", "--get", "remote.origin.url")
        return self._repository.git.run(*words, is_ok=(0, 1)).text.strip()


def find_work_tree(folder: Path) -> Path | None:
    candidates = (folder, *folder.parents)
    return next((candidate for candidate in candidates if (candidate / _GIT).exists()), None)


def find_store(top: Path) -> Path:
    """Find the Git directory of a work tree."""
    marker = top / _GIT
    if marker.is_dir():
        return marker
    text = marker.read_text(encoding="utf-8", errors="replace").strip()
    return (top / text.removeprefix(_POINTER).strip()).resolve()
