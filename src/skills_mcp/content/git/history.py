"""What the last commits of a branch have changed in some files.

Rule: it has a store of its own, which is fetched when people look, and which nothing
that is served depends on.
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
from skills_mcp.files.durable import delete
from skills_mcp.files.locks import acquire_lock
from skills_mcp.skills.model import printable

_REF = "refs/skills/history"

_FETCH_SECONDS = 30.0  # a person waits for it

_PAUSE_SECONDS = 60.0
"""After a failure the remote is left alone for so long."""

_MAX_LINES = 400
"""Of the changes of one commit."""

_MAX_CHARACTERS = 500
"""Of one line."""

_MAX_PACKS = 8

_SHOW = (
    *("--no-merges", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv"),
    *("--patch", "--unified=3"),
)

_LAST_SECOND = 253_402_300_799  # of the year 9999, where dates of Python end


@dataclass(frozen=True, slots=True)
class PastCommit:
    """A commit, and what it has changed in the files that were asked for."""

    commit: str
    at: datetime
    author: str
    subject: str
    lines: tuple[str, ...]
    """The changes as Git prints them (unified diff), from the first file on."""
    left_out: int
    """How many more lines there are."""


class CommitHistory:
    """The last commits of one branch.  Blocking.

    Args:
        git: Git with a store for the history alone.
        remote: Where it is fetched from.
        policy: The limit of a download.
    """

    def __init__(self, git: Git, remote: Remote, policy: SyncPolicy) -> None:
        self._git = git
        self._remote = remote
        self._policy = policy
        self._rests_until = 0.0

    def read(
        self, base: str, commit: str, files: Sequence[str], most: int
    ) -> tuple[PastCommit, ...]:
        """Return the newest commits that changed one of the files, until a commit.

        Args:
            base: The ref to fetch if the commit is not here, such as
                `refs/heads/main`.
            commit: The newest one.
            files: Their paths in the repository.
            most: How many commits back to look.

        Raises:
            SyncError: The history cannot be fetched, or the commit is not in it.
        """
        if not self._has(commit):
            self._fetch(base, most)
        if not self._has(commit):
            raise SyncError(
                f"the commit {commit[:12]} is not among the last {most} of its branch"
            )
        # No content can hold the mark, so none can write a commit of its own.
        mark = secrets.token_hex(16)
        form = f"--format={mark} %H %ct %an%x1f%s"
        printed = self._git.run(
            *("log", f"--max-count={most}", *_SHOW, form, commit, "--"),
            *(f":(top,literal){file}" for file in files),
        )
        cut = self._read_cut()
        found = _parse(printed.stdout.decode("utf-8", "replace"), mark)
        # Git takes the oldest commit for one that has made every file.
        return tuple(each for each in found if each.commit not in cut)

    def _has(self, commit: str) -> bool:
        if not (self._git.directory / "HEAD").is_file():
            return False
        words = ("cat-file", "-e", f"{commit}^{{commit}}")
        return self._git.run(*words, is_ok=(0, 1, 128)).returncode == 0

    def _fetch(self, base: str, most: int) -> None:
        if self._policy.is_offline:
            raise SyncError("sync.offline is on, so no history is fetched")
        if time.monotonic() < self._rests_until:
            raise SyncError("the history could not be fetched. Try again in a minute")
        directory = self._git.directory
        try:
            with acquire_lock(directory.with_suffix(".lock")) as lock:
                self._fetch_alone(base, most, lock)
        except BlockingIOError as error:
            raise SyncError(
                "the history is being fetched. Look again in a moment"
            ) from error
        except OSError as error:
            raise SyncError(f"the history cannot be kept: {error}") from error
        except SyncError as error:
            self._rests_until = time.monotonic() + _PAUSE_SECONDS
            if isinstance(error, DamagedStoreError):
                delete(directory)
                raise SyncError(
                    "its store was damaged, and is made anew. Look again in a minute"
                ) from error
            raise

    def _fetch_alone(self, base: str, most: int, lock: IO[bytes]) -> None:
        access = self._git.open_access()
        self._git.directory.mkdir(parents=True, exist_ok=True)
        delete_leftovers(self._git.directory, _REF)
        if not (self._git.directory / "HEAD").is_file():
            self._git.run("init", "--quiet", "--bare", "--template=", lock=lock)
        self._git.run(
            *("fetch", "--quiet", "--no-tags", f"--depth={most + 1}", *access.options),
            *("--end-of-options", self._remote.url, f"+{base}:{_REF}"),
            lock=lock,
            access=access,
            timeout_seconds=min(_FETCH_SECONDS, self._policy.timeout_seconds),
            max_growth_bytes=self._policy.max_download_bytes,
        )
        packs = (self._git.directory / "objects" / "pack").glob("*.pack")
        if sum(1 for _ in packs) > _MAX_PACKS:
            self._git.run("repack", "-a", "-d", "-q", lock=lock)

    def _read_cut(self) -> frozenset[str]:
        file: Path = self._git.directory / "shallow"
        try:
            return frozenset(file.read_text("ascii").split())
        except FileNotFoundError:
            return frozenset()


def _parse(printed: str, mark: str) -> Iterator[PastCommit]:
    for record in printed.split(f"{mark} ")[1:]:
        head, _, patch = record.partition("\n")
        commit, seconds, said = head.split(" ", 2)
        author, _, subject = said.partition("\x1f")
        lines = patch.strip("\n").split("\n") if patch.strip("\n") else []
        yield PastCommit(
            commit,
            datetime.fromtimestamp(min(int(seconds), _LAST_SECOND), UTC),
            printable(author),
            printable(subject),
            tuple(_show(line) for line in lines[:_MAX_LINES]),
            max(len(lines) - _MAX_LINES, 0),
        )


def _show(line: str) -> str:
    return printable(line.replace("\t", "    ")[:_MAX_CHARACTERS])
