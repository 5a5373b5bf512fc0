"""A repository, the copy of one machine, and whether the copy is a whole commit."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.source import Checkout, Freshness, SyncPolicy, accept_any_commit
from skills_mcp.errors import SyncError
from tests.content.git_server import GitServer, serving
from tests.support import Upstream, git, skill_text

_BLOCK_BYTES = 4096

Texts = Mapping[str, bytes]
"""What is in each file of a commit."""


@dataclass
class Mirror:
    """What others push to, and what one machine has of it.

    Args:
        upstream: The repository.
        remote: How the machine names it.
        cache: Where the machine keeps it.
        policy: What its operator demands.
    """

    upstream: Upstream
    remote: Remote
    cache: Path
    policy: SyncPolicy = field(default_factory=SyncPolicy)
    commits: dict[str, Texts] = field(default_factory=dict)
    """The commits that were pushed with `push`."""

    def __post_init__(self) -> None:
        self.source = self.open()

    @classmethod
    def create(cls, folder: Path, **policy: object) -> "Mirror":
        """Make a repository with one commit, and a copy of it on this machine."""
        upstream = Upstream.create(folder)
        remote = Remote(upstream.url, "main")
        mirror = cls(upstream, remote, folder / "cache", _policy(policy))
        mirror.push("first")
        return mirror

    def open(self, **other: object) -> RemoteBranch:
        """Return another process's view of the copy, or that of another remote."""
        remote = replace(self.remote, **other)  # type: ignore[arg-type]
        return RemoteBranch(remote, self.cache, self.policy)

    @property
    def store(self) -> Path:
        """The folder of the copy, once there is one."""
        [store] = (path for path in self.cache.iterdir() if path.is_dir())
        return store

    @property
    def newest(self) -> str:
        """The commit that was pushed last."""
        return next(reversed(self.commits))

    def push(self, said: str, files: Texts | None = None) -> str:
        """Push a commit in which every file says something new."""
        texts = {f"skills/{name}.md": skill_text(body=f"{said} {name}") for name in "ab"}
        for file, data in (files or {}).items():
            path = self.upstream.work / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        commit = self.upstream.commit(texts)
        self.remember(commit)
        return commit

    def remember(self, commit: str) -> None:
        """Record the files of the work tree, which is at this commit."""
        work = self.upstream.work
        names = git("ls-files", cwd=work).splitlines()
        texts = {name: (work / name).read_bytes() for name in names}
        self.commits.pop(commit, None)
        self.commits[commit] = texts

    def sync(self) -> SyncError | None:
        """Ask the remote now; return the error, if any."""
        return sync(self.source)

    def serves(self, commit: str | None = None) -> bool:
        """Whether all of a commit is served, and nothing else; else the newest."""
        served = self.served()
        return served is not None and served == (commit or self.newest)

    def served(self) -> str | None:
        """Return the commit that a new process serves.

        None if there is none, and `torn` if its files are not those of the commit.
        """
        checkout = self.open().open()
        if checkout is None:
            return None
        is_whole = read_files(checkout) == self.commits.get(checkout.revision or "")
        return checkout.revision if is_whole else "torn"


@contextmanager
def mirrored(
    folder: Path, token: str | None = None, **policy: object
) -> Iterator[tuple[Mirror, GitServer]]:
    """Serve a repository over HTTP, and open a copy of it that is not synced yet."""
    upstream = Upstream.create(folder)
    with serving(folder, token) as server:
        url = f"{server.url}/upstream.git"
        remote = Remote.parse(url, "main", token)
        mirror = Mirror(upstream, remote, folder / "cache", _policy(policy))
        mirror.push("first")
        yield mirror, server


def sync(source: RemoteBranch) -> SyncError | None:
    """Ask the remote now; return the error, if any."""
    try:
        source.sync(Freshness(time.time(), is_urgent=True), accept_any_commit)
    except SyncError as error:
        return error
    return None


def read_files(checkout: Checkout) -> Texts:
    """Return what is in each file of a checkout."""
    top = checkout.directory
    paths = (path for path in top.rglob("*") if path.is_file())
    return {path.relative_to(top).as_posix(): path.read_bytes() for path in paths}


def measure(folder: Path) -> int:
    """Return the bytes that a folder takes; what has two names counts once."""
    found = {}
    for path, _, names in os.walk(folder):
        for name in names:
            seen = os.lstat(os.path.join(path, name))  # noqa: PTH118 - many
            found[seen.st_ino] = -(-seen.st_size // _BLOCK_BYTES) * _BLOCK_BYTES
    return sum(found.values())


def _policy(said: Mapping[str, object]) -> SyncPolicy:
    return SyncPolicy(**said)  # type: ignore[arg-type] # as its fields are
