"""A bare store that follows one remote: its commits and their files.

Rule 1: nothing is ever checked out.  Files are read from the object database, so no
hook, filter or attribute runs.
Rule 2: the refs are our own and forced, so a force-push or a rollback is followed
exactly.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from skills_mcp.content.disk import explained
from skills_mcp.content.git.failures import (
    PIN_ADVICE,
    DamagedStoreError,
    RefMissingError,
)
from skills_mcp.content.git.garbage import PUBLISHED_REF, KeptRefs, delete_leftovers
from skills_mcp.content.git.git_environment import Access
from skills_mcp.content.git.git_runner import Git
from skills_mcp.content.git.remote import Remote, is_ref_name
from skills_mcp.content.git.tree_listing import (
    CommitTree,
    TreeEntry,
    TreeListing,
    parse_listing,
    select,
)
from skills_mcp.content.sync_policy import SyncPolicy
from skills_mcp.errors import LimitExceededError, RemoteMissingError, SyncError
from skills_mcp.files.durable import delete
from skills_mcp.text.rendering import shorten

_FETCH_OPTIONS = (
    "--progress",
    "--no-tags",
    "--no-recurse-submodules",
    "--no-write-fetch-head",
    "--no-auto-maintenance",
)

_CONDEMNED = "skills-damaged"
"""The file that marks a store as damaged."""

# After this time a message does without the name of the default branch.
_HINT_TIMEOUT_SECONDS = 10.0
_MAX_BRANCHES_NAMED = 5
_SYMBOLIC = "ref: refs/heads/"

_PIECE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Fetched:
    """The result of a fetch."""

    commit: str
    object: str
    """The annotated tag, if a tag with a message was followed; else the commit."""
    default_branch: str = ""
    """The remote's default branch, if that was fetched because there is no `main`."""


class GitRepository:
    """A bare repository that follows one branch, tag or commit of one remote."""

    def __init__(self, directory: Path, remote: Remote, policy: SyncPolicy) -> None:
        self.git = Git(directory, remote, policy)
        self._directory = directory
        self._remote = remote
        self._policy = policy
        self.refs = KeptRefs(self.git)

    def fetch(
        self,
        lock: IO[Any],
        *,
        timeout_seconds: float,
        known: str | None = None,
        served: str | None = None,
        on_progress: Callable[[str, float], None] | None = None,
    ) -> Fetched:
        """Fetch the branch, tag or commit, also after a force-push.

        If no branch is named, and the remote has no `main`, its default branch.

        Args:
            lock: The store's; held as long as any child of Git runs.
            timeout_seconds: For all of it.
            known: A commit for `is_ancestor`. The history since then is fetched as
                well, or the whole history.
            served: The published commit. It gets a ref of its own, which it lacks if
                the process that published it has died since.
            on_progress: Called with Git's step and the share that is done, 0 to 1.

        Raises:
            SyncError: The fetch failed; the message says what to do.
            DamagedStoreError: The cause is Git's store, not the remote.
        """
        deadline = time.monotonic() + timeout_seconds
        access = self.git.open_access()
        if (self._directory / _CONDEMNED).exists():
            raise DamagedStoreError("Git could not clean it")
        self._prepare(lock)
        if served:
            self.refs.secure(served, lock)

        wanted, default = self._remote.wanted, ""

        def fetch(*depth: str) -> None:
            self.git.run(
                *("fetch", *_FETCH_OPTIONS, *depth, *access.options),
                *("--end-of-options", self._remote.url),
                f"+{wanted}:{PUBLISHED_REF}",
                lock=lock,
                access=access,
                timeout_seconds=max(deadline - time.monotonic(), 0.0),
                on_progress=on_progress,
                max_growth_bytes=self._policy.max_download_bytes,
            )

        # The check of the descent needs the history since `known`, or all of it.
        depth = () if known else ("--depth=1",)
        try:
            try:
                fetch(*depth)
            except RefMissingError as error:
                default = self._find_default(access, deadline, error)
                wanted = f"refs/heads/{default}"
                fetch(*depth)
            if known and self._is_cut(known):
                fetch("--unshallow")
        except LimitExceededError:
            self.refs.forget_published(lock)
            raise
        return replace(self._read_published(), default_branch=default)

    def list_files(self, commit: str) -> tuple[TreeEntry, ...]:
        """Return all files of a commit, served or not.

        Raises:
            DamagedStoreError: The commit is not in the store.
        """
        with self.git.stream(
            *("ls-tree", "-r", "-z", "-l", "--full-tree", commit),
        ) as output:
            return parse_listing(_split_records(output))

    def list_served(self, commit: str) -> TreeListing:
        """Return the files of a commit that are served, by the policy.

        Raises:
            DamagedStoreError: The commit is not in the store.
            LimitExceededError: There are more files than the policy allows.
        """
        return select(CommitTree(self.list_files(commit), self.read_blob), self._policy)

    def read_blob(self, blob: str) -> bytes:
        """Return the content of one blob.

        Raises:
            DamagedStoreError: It is missing or damaged.
        """
        with self.read_blobs((blob,)) as blobs:
            return next(blobs)

    @contextmanager
    def read_blobs(self, blobs: Iterable[str]) -> Iterator[Iterator[bytes]]:
        """Yield the content of blobs, in their order.

        Raises:
            DamagedStoreError: One is missing or damaged.
        """
        wanted = tuple(blobs)
        with self.git.stream(
            "cat-file",
            "--batch",
            stdin="".join(f"{blob}\n" for blob in wanted).encode(),
        ) as output:
            yield (_read_blob(output) for _ in wanted)

    def is_ancestor(self, old: str, new: str) -> bool:
        """Whether `new` descends from `old`; False if that is not certain."""
        words = ("merge-base", "--is-ancestor", old, new)
        try:
            return self.git.run(*words, is_ok=(0, 1)).returncode == 0
        except SyncError:
            return False

    def condemn(self) -> None:
        """Mark the store as damaged, so that the next fetch makes a new one."""
        with suppress(OSError):
            (self._directory / _CONDEMNED).touch()

    def _prepare(self, lock: IO[Any]) -> None:
        """Make the store if it is missing, and delete what a killed Git has left.

        The lock is held, so no other process writes here.
        """
        if not self._directory.is_dir():
            delete(self._directory)
        with explained(self._directory.parent):
            self._directory.mkdir(parents=True, exist_ok=True)
            delete_leftovers(self._directory, PUBLISHED_REF)
        if not (self._directory / "HEAD").is_file():
            self.git.run("init", "--quiet", "--bare", "--template=", lock=lock)

    def _read_published(self) -> Fetched:
        names = (PUBLISHED_REF, f"{PUBLISHED_REF}^{{commit}}")
        found = self.git.run("rev-parse", *names, is_ok=(0, 128))
        if found.returncode == 0:
            marked, commit = found.text.split()
            return Fetched(commit, marked)
        if "expected commit type" in found.stderr:  # a tag may mark anything
            raise RemoteMissingError(f"{self._remote}: {PIN_ADVICE}")
        raise DamagedStoreError("what was fetched is not in Git's store")

    def _is_cut(self, known: str) -> bool:
        """Whether the shallow history may end before it reaches a known commit."""
        return not self.is_ancestor(known, PUBLISHED_REF) and any(
            self.is_ancestor(commit, PUBLISHED_REF) for commit in self._read_boundary()
        )

    def _read_boundary(self) -> tuple[str, ...]:
        """Return the commits at which the shallow history ends."""
        try:
            return tuple((self._directory / "shallow").read_text("ascii").split())
        except FileNotFoundError:
            return ()
        except (OSError, UnicodeDecodeError) as error:
            raise DamagedStoreError(f"Git's store cannot be read: {error}") from error

    def _find_default(
        self, access: Access, deadline: float, missing: RefMissingError
    ) -> str:
        """Return the remote's default branch, to be followed instead of `main`.

        Raises:
            RemoteMissingError: A branch was named, or there is no default branch.
            SyncError: The remote does not answer.
        """
        try:
            listed = self._list_branches(access, deadline)
        except SyncError as error:
            if not self._remote.is_named:
                raise
            name = f"{self._remote}: the repository"
            said = f"{name} has no such branch. Check its name"
            raise RemoteMissingError(said) from error
        default = _parse_default(listed)
        if self._remote.is_named or not is_ref_name(default):
            raise self._explain_missing(listed) from missing
        return default

    def _list_branches(self, access: Access, deadline: float) -> str:
        """Return what `git ls-remote --symref` prints about the branches."""
        seconds = max(deadline - time.monotonic(), 0.0)
        if self._remote.is_named:  # it is for the message only
            seconds = min(seconds, _HINT_TIMEOUT_SECONDS)
        return self.git.run(
            *("ls-remote", "--symref", *access.options, "--end-of-options"),
            *(self._remote.url, "HEAD", "refs/heads/*"),
            access=access,
            timeout_seconds=seconds,
        ).text

    def _explain_missing(self, listed: str) -> SyncError:
        """Return the error for a missing branch, with the names of those there are."""
        name = f"{self._remote}: the repository"
        if not listed:
            return RemoteMissingError(f"{name} is empty. Push a first commit")
        hint = _render_branches(listed)
        return RemoteMissingError(f"{name} has no such branch. {hint}")


def _parse_default(listed: str) -> str:
    r"""Return the default branch that `git ls-remote --symref` prints; empty without.

    >>> _parse_default("ref: refs/heads/trunk\tHEAD\n3f2a9c\tHEAD")
    'trunk'
    """
    for line in listed.splitlines():
        name, _, ref = line.partition("\t")
        if ref == "HEAD" and name.startswith(_SYMBOLIC):
            return name.removeprefix(_SYMBOLIC)
    return ""


def _render_branches(listed: str) -> str:
    """Return advice for SKILLS_BRANCH, from the output of `git ls-remote --symref`."""
    if default := _parse_default(listed):
        return (
            f"Its default branch is {shorten(default)}: set SKILLS_BRANCH to that, "
            "or to HEAD, which follows the default branch"
        )
    rows = [line.partition("\t") for line in listed.splitlines()]
    branches = [ref.removeprefix("refs/heads/") for _, _, ref in rows if ref != "HEAD"]
    some = ", ".join(map(shorten, branches[:_MAX_BRANCHES_NAMED]))
    return f"Set SKILLS_BRANCH to one that it has: {some}"


def _split_records(output: IO[bytes]) -> Iterator[bytes]:
    """Yield the records that end with NUL; read no further than needed."""
    rest = b""
    while piece := output.read(_PIECE_BYTES):
        *records, rest = (rest + piece).split(b"\0")
        yield from records


def _read_blob(output: IO[bytes]) -> bytes:
    """Read one object of `cat-file --batch`: a header line, the bytes, a newline."""
    match output.readline().split():
        case [_, b"blob", size]:
            data = output.read(int(size))
        case _:
            raise DamagedStoreError("an object is missing from Git's store")
    if output.read(1) != b"\n":
        raise DamagedStoreError("an object of Git's store is cut off")
    return data
