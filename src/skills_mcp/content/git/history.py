"""History of files: the last commits of a branch with their changes.

Rule: it has a store of its own, fetched on demand, independent of the served content.
"""

import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from skills_mcp.content.git.failures import DamagedStoreError
from skills_mcp.content.git.garbage import delete_leftovers
from skills_mcp.content.git.git_runner import Git
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.sync_policy import SyncPolicy
from skills_mcp.errors import SyncError
from skills_mcp.files.durable import delete_tree
from skills_mcp.files.locks import acquire_lock
from skills_mcp.skills.model import escape_unprintable

_REF = "refs/skills/history"

_FETCH_SECONDS = 30.0  # a person waits for it

_PAUSE_SECONDS = 60.0

_MAX_LINES = 400
"""Limit for the changes of one commit."""

_MAX_CHARACTERS = 500

_MAX_PACKS = 8

_SHOW = (
    *("--no-merges", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv"),
    *("--patch", "--unified=3"),
)

_LAST_SECOND = 253_402_300_799  # of the year 9999, where dates of Python end


@dataclass(frozen=True, slots=True)
class PastCommit:
    """A commit with its changes in the requested files."""

    commit: str
    at: datetime
    author: str
    subject: str
    lines: tuple[str, ...]
    """The unified diff, from the first file on."""
    left_out: int


class CommitHistory:
    """The last commits of one branch.  Blocking."""

    def __init__(self, git: Git, remote: Remote, policy: SyncPolicy) -> None:
        self._git = git
        self._remote = remote
        self._policy = policy
        self._rests_until = 0.0

    def read(
        self, base: str, commit: str, files: Sequence[str], max_commits: int
    ) -> tuple[PastCommit, ...]:
        """Read the newest commits with changes in any of the files, up to a commit.

        Raises:
            SyncError: The history cannot be fetched, or the commit is not in it.
        """
        if not self._has_commit(commit):
            self._fetch(base, max_commits)
        if not self._has_commit(commit):
            raise SyncError(
                f"the commit {commit[:12]} is not among the last {max_commits} of its branch"
            )
        # No content can hold the mark, so none can write a commit of its own.
        mark = secrets.token_hex(16)
        form = f"--format={mark} %H %ct %an%x1f%s"
        printed = self._git.run(
            *("log", f"--max-count={max_commits}", *_SHOW, form, commit, "--"),
            *(f":(top,literal){file}" for file in files),
        )
        shallow = self._read_shallow()
        found = _parse(printed.stdout.decode("utf-8", "replace"), mark)
        # Git takes the oldest commit for one that has made every file.
        return tuple(past for past in found if past.commit not in shallow)

    def _has_commit(self, commit: str) -> bool:
        if not (self._git.directory / "HEAD").is_file():
            return False
        words = ("cat-file", "-e", f"{commit}^{{commit}}")
        return self._git.run(*words, is_ok=(0, 1, 128)).returncode == 0

    def _fetch(self, base: str, max_commits: int) -> None:
        if self._policy.is_offline:
            raise SyncError("sync.offline is on, so no history is fetched")
        if time.monotonic() < self._rests_until:
            raise SyncError("the history could not be fetched. Try again in a minute")
        directory = self._git.directory
        try:
            with acquire_lock(directory.with_suffix(".lock")) as lock:
                self._fetch_alone(base, max_commits, lock)
        except BlockingIOError as error:
            raise SyncError("the history is being fetched. Look again in a moment") from error
        except OSError as error:
            raise SyncError(f"the history cannot be kept: {error}") from error
        except SyncError as error:
            self._rests_until = time.monotonic() + _PAUSE_SECONDS
            if isinstance(error, DamagedStoreError):
                delete_tree(directory)
                raise SyncError(
                    "its store was damaged, and is made anew. Look again in a minute"
                ) from error
            raise

    def _fetch_alone(self, base: str, max_commits: int, lock: IO[bytes]) -> None:
        access = self._git.open_access()
        self._git.directory.mkdir(parents=True, exist_ok=True)
        delete_leftovers(self._git.directory, _REF)
        if not (self._git.directory / "HEAD").is_file():
            self._git.run("init", "--quiet", "--bare", "--template=", lock=lock)
        self._git.run(
            *(
                "fetch",
                "--quiet",
                "--no-tags",
                f"--depth={max_commits + 1}",
                *access.options,
            ),
            *("--end-of-options", self._remote.url, f"+{base}:{_REF}"),
            lock=lock,
            access=access,
            timeout_seconds=min(_FETCH_SECONDS, self._policy.timeout_seconds),
            max_growth_bytes=self._policy.max_download_bytes,
        )
        packs = (self._git.directory / "objects" / "pack").glob("*.pack")
        if sum(1 for _ in packs) > _MAX_PACKS:
            self._git.run("repack", "-a", "-d", "-q", lock=lock)

    def _read_shallow(self) -> frozenset[str]:
        file: Path = self._git.directory / "shallow"
        try:
            return frozenset(file.read_text("ascii").split())
        except FileNotFoundError:
            return frozenset()


def _parse(printed: str, mark: str) -> Iterator[PastCommit]:
    for record in printed.split(f"{mark} ")[1:]:
        head, _, patch = record.partition("\n")
        commit, seconds, rest = head.split(" ", 2)
        author, _, subject = rest.partition("\x1f")
        lines = patch.strip("\n").split("\n") if patch.strip("\n") else []
        yield PastCommit(
            commit,
            datetime.fromtimestamp(min(int(seconds), _LAST_SECOND), UTC),
            escape_unprintable(author),
            escape_unprintable(subject),
            tuple(_render_line(line) for line in lines[:_MAX_LINES]),
            max(len(lines) - _MAX_LINES, 0),
        )


def _render_line(line: str) -> str:
    return escape_unprintable(line.replace("\t", "    ")[:_MAX_CHARACTERS])
