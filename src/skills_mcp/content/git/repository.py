"""A bare store that follows one remote: its commits and their files.

Rule 1: nothing is ever checked out.  Files are read from the object database, so no
hook, filter or attribute runs.
Rule 2: the refs are our own and forced, so a force-push or a rollback is followed
exactly.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Any
from uuid import uuid4

from skills_mcp.content.disk import explained
from skills_mcp.content.git.failures import PIN_ADVICE, DamagedStoreError, advise_pin
from skills_mcp.content.git.garbage import PUBLISHED_REF, KeptRefs, delete_leftovers
from skills_mcp.content.git.git_environment import RemoteAccess
from skills_mcp.content.git.git_runner import Git, Output
from skills_mcp.content.git.partial_fetch import (
    WITHOUT_FILES,
    PartialFetch,
    read_blobs,
    split_records,
)
from skills_mcp.content.git.remote import Remote, is_ref_name
from skills_mcp.content.git.transcript import Response
from skills_mcp.content.git.tree_listing import (
    CommitTree,
    TreeEntry,
    TreeListing,
    parse_content_ids,
    parse_listing,
    select,
)
from skills_mcp.content.sync_policy import SyncPolicy
from skills_mcp.errors import LimitExceededError, RemoteMissingError, SyncError
from skills_mcp.files.durable import delete, replace_text
from skills_mcp.processes.retry import parse_http_date
from skills_mcp.text.rendering import shorten

_FETCH_OPTIONS = (
    "--progress",
    "--no-tags",
    "--no-recurse-submodules",
    "--no-write-fetch-head",
    "--no-auto-maintenance",
)

_NEWEST = "--depth=1"

_INCOMING = "skills-incoming"
"""How the store of a fetch that is running begins; it is deleted at its end."""

_SIZES = "skills-sizes"
"""The file with the sizes of files that are too large to be served, and not kept.

Without it, nothing could tell them from files that are lost.
"""

_CONDEMNED = "skills-damaged"
"""The file that marks a store as damaged."""

# After this time a message does without the name of the default branch.
_HINT_TIMEOUT_SECONDS = 10.0
_MAX_BRANCHES_NAMED = 5
_SYMBOLIC = "ref: refs/heads/"

# Git ends with 1 or 128 where a remote refuses what it was asked for.
_REFUSED_STATUS = (1, 128)


@dataclass(frozen=True, slots=True)
class Fetched:
    """The result of a fetch."""

    commit: str
    object: str
    """The annotated tag, if a tag with a message was followed; else the commit."""
    default_branch: str = ""
    """The remote's default branch, if that was fetched because there is no `main`."""


@dataclass(frozen=True, slots=True)
class RemoteAnswer:
    """What a remote says when it is asked, and nothing is fetched."""

    commit: str
    """The newest one; the object of a tag, if a tag with a message is followed."""
    sent_at: datetime | None = None
    """The clock of the host, if it was asked over HTTP."""


@dataclass(frozen=True, slots=True)
class _Call:
    """What every command of one fetch needs."""

    lock: IO[Any]
    access: RemoteAccess
    deadline: float
    on_progress: Callable[[str, float], None] | None

    @property
    def remaining_seconds(self) -> float:
        return max(self.deadline - time.monotonic(), 0.0)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a remote has: the ref to fetch, and the object that it leads to."""

    ref: str
    object: str
    default_branch: str = ""
    sent_at: datetime | None = None


class _FilesRefusedError(Exception):
    """A remote has sent a commit without its files, and does not send them either."""


class GitRepository:
    """A bare repository that follows one branch, tag or commit of one remote."""

    def __init__(self, directory: Path, remote: Remote, policy: SyncPolicy) -> None:
        self.git = Git(directory, remote, policy)
        self._directory = directory
        self._remote = remote
        self._policy = policy
        self._listings: dict[str, TreeListing] = {}
        self.refs = KeptRefs(self.git, self._find_blobs if self._is_narrow else None)

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
        access = self.git.open_access()
        if (self._directory / _CONDEMNED).exists():
            raise DamagedStoreError("Git could not clean it")
        self._prepare(lock)
        if served:
            self.refs.secure(served, lock)
        call = _Call(lock, access, time.monotonic() + timeout_seconds, on_progress)
        asked = self._ask(call)
        if known or not self._is_narrow:
            self._fetch_whole(call, asked.ref, known)
        elif asked.object != self.refs.published:
            self._fetch_served(call, asked)
        return replace(self._read_published(), default_branch=asked.default_branch)

    def _fetch_whole(self, call: "_Call", ref: str, known: str | None) -> None:
        """Fetch all files of a commit, and its history if that is needed."""
        try:
            # The check of the descent needs the history since `known`, or all of it.
            self._run_fetch(self.git, call, ref, *(() if known else (_NEWEST,)))
            if known and self._is_cut(known):
                self._run_fetch(self.git, call, ref, "--unshallow")
        except LimitExceededError:
            self.refs.forget_published(call.lock)
            raise

    def _fetch_served(self, call: "_Call", asked: "_Asked") -> None:
        """Fetch a commit into a store of its own, and keep what is served.

        So a repository may be much larger than its skills, and a commit beyond a limit
        leaves nothing behind.
        """
        # Git can leave nothing out of a repository whose address is a path.
        filters = () if self._remote.scheme == "file" else (WITHOUT_FILES,)
        try:
            self._fetch_apart(call, asked, *filters)
        except _FilesRefusedError:
            # Old servers give single files to no client. If the reason was another one,
            # this fails, too, and says so.
            self._fetch_apart(call, asked)

    def _fetch_apart(self, call: "_Call", asked: "_Asked", *options: str) -> None:
        # A name of its own: another process may have taken over meanwhile.
        incoming = self.git.beside(self._directory / f"{_INCOMING}-{uuid4().hex}")
        try:
            incoming.run("init", "--quiet", "--bare", "--template=", lock=call.lock)
            self._run_fetch(incoming, call, asked.ref, _NEWEST, *options)
            found = self._read_published(incoming)
            fetch = partial(self._fetch_blobs, incoming, call)
            fetched = PartialFetch(incoming, self.git, fetch)
            entries, listing = fetched.select(found.commit, self._policy)
            self._remember_sizes(entries)
            blobs = {e.blob for e in listing.entries}.intersection(fetched.arrived)
            self.refs.take(incoming, found.object, blobs, call.lock)
            self._listings = {found.commit: listing}
        finally:
            delete(incoming.directory)

    def _fetch_blobs(
        self, incoming: Git, call: "_Call", blobs: Collection[str]
    ) -> None:
        """Fetch the content of files by their names in Git.

        Raises:
            _FilesRefusedError: The remote did not send them.
        """
        done = incoming.run(
            *("fetch", *_FETCH_OPTIONS, WITHOUT_FILES, "--stdin", *call.access.options),
            *("--end-of-options", self._remote.url),
            stdin="".join(f"{blob}\n" for blob in blobs).encode(),
            lock=call.lock,
            access=call.access,
            timeout_seconds=call.remaining_seconds,
            settings=("fetch.negotiationAlgorithm=noop",),
            on_progress=call.on_progress,
            max_growth_bytes=self._policy.max_download_bytes,
            is_ok=(0, *_REFUSED_STATUS),
        )
        if done.returncode:
            raise _FilesRefusedError

    def _run_fetch(self, git: Git, call: "_Call", ref: str, *options: str) -> None:
        git.run(
            *("fetch", *_FETCH_OPTIONS, *options, *call.access.options),
            *("--end-of-options", self._remote.url, f"+{ref}:{PUBLISHED_REF}"),
            lock=call.lock,
            access=call.access,
            timeout_seconds=call.remaining_seconds,
            on_progress=call.on_progress,
            max_growth_bytes=self._policy.max_download_bytes,
        )

    def ask_remote(self, *, timeout_seconds: float) -> RemoteAnswer:
        """Ask for the newest commit; nothing is fetched, and this store is untouched.

        Raises:
            SyncError: The remote does not answer or has no such branch, tag or commit;
                the message says what to do.
        """
        with (
            TemporaryDirectory(prefix="skills-mcp-") as folder,
            TemporaryFile() as lock,
        ):
            other = GitRepository(Path(folder, "asked.git"), self._remote, self._policy)
            access = other.git.open_access()
            other._prepare(lock)
            deadline = time.monotonic() + timeout_seconds
            asked = other._ask(_Call(lock, access, deadline, None), is_pin_asked=True)
            return RemoteAnswer(asked.object, asked.sent_at)

    @property
    def _is_narrow(self) -> bool:
        """Whether only files that are served are kept.

        To prove that a history goes on, Git compares it with a whole store.
        """
        return self._policy.allow_non_fast_forward

    def list_files(self, commit: str) -> tuple[TreeEntry, ...]:
        """Return all files of a commit, served or not.

        Raises:
            DamagedStoreError: The commit is not in the store.
        """
        return self._list(commit, self.git)

    def read_content_ids(self, commit: str) -> dict[str, str]:
        """Return what names the content of each file of a commit, served or not.

        Raises:
            DamagedStoreError: The commit is not in the store.
        """
        # Without their sizes, which Git would read for each.
        with self.git.stream("ls-tree", "-r", "-z", "--full-tree", commit) as output:
            return parse_content_ids(split_records(output))

    def list_served(self, commit: str) -> TreeListing:
        """Return the files of a commit that are served, by the policy.

        Raises:
            DamagedStoreError: The commit, or one of the files, is not in the store.
            LimitExceededError: There are more files than the policy allows.
        """
        known = self._listings.get(commit)
        return known or self._select(self.list_files(commit), self.git)

    def forget_listings(self) -> None:
        """Forget what was listed for a fetch: it may take many megabytes."""
        self._listings.clear()

    @contextmanager
    def read_blobs(self, blobs: Iterable[str]) -> Iterator[Iterator[bytes]]:
        """Yield the content of blobs, in their order.

        Raises:
            DamagedStoreError: One is missing or damaged.
        """
        with read_blobs(self.git, blobs) as contents:
            yield contents

    def is_ancestor(self, old: str, new: str) -> bool:
        """Whether `new` descends from `old`; False if that is not certain."""
        words = ("merge-base", "--is-ancestor", old, new)
        try:
            return self.git.run(*words, is_ok=(0, 1)).returncode == 0
        except SyncError:
            return False

    def _list(self, commit: str, git: Git) -> tuple[TreeEntry, ...]:
        words = ("ls-tree", "-r", "-z", "-l", "--full-tree", commit)
        with git.stream(*words) as output:
            return parse_listing(split_records(output), self._read_sizes())

    def _select(self, entries: Sequence[TreeEntry], git: Git) -> TreeListing:
        def read(blob: str) -> bytes:
            with read_blobs(git, (blob,)) as contents:
                return next(contents)

        return select(CommitTree(entries, read), self._policy)

    def _find_blobs(self, commit: str) -> Iterator[str]:
        return (entry.blob for entry in self.list_served(commit).entries)

    def _read_sizes(self) -> dict[str, int]:
        """Return the sizes of files that were too large to be kept, by their blobs."""
        with suppress(OSError, ValueError):
            rows = (self._directory / _SIZES).read_text("ascii").splitlines()
            return {blob: int(size) for blob, _, size in map(_partition, rows)}
        return {}

    def _remember_sizes(self, entries: Iterable[TreeEntry]) -> None:
        most = self._policy.max_file_bytes
        large = {each.blob: each.size_bytes for each in entries}
        large = {blob: size for blob, size in large.items() if size > most}
        known = self._read_sizes()
        if large.keys() - known.keys():
            rows = (f"{blob} {size}\n" for blob, size in {**known, **large}.items())
            replace_text(self._directory / _SIZES, "".join(rows))

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
            for left in self._directory.glob(f"{_INCOMING}*"):
                delete(left)
            delete_leftovers(self._directory, PUBLISHED_REF)
        if not (self._directory / "HEAD").is_file():
            self.git.run("init", "--quiet", "--bare", "--template=", lock=lock)

    def _read_published(self, git: Git | None = None) -> Fetched:
        names = (PUBLISHED_REF, f"{PUBLISHED_REF}^{{commit}}")
        found = (git or self.git).run("rev-parse", *names, is_ok=(0, 128))
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

    def _ask(self, call: "_Call", *, is_pin_asked: bool = False) -> "_Asked":
        """Ask the remote which commit is newest, and on which branch.

        A commit that is pinned is known; with `is_pin_asked`, the remote is asked all
        the same.

        Raises:
            RemoteMissingError: There is no such branch or tag.
            SyncError: The remote does not answer.
        """
        remote = self._remote
        if remote.commit and not is_pin_asked:
            return _Asked(remote.commit, remote.commit)
        said = self._list_refs(call, call.remaining_seconds, "HEAD", remote.wanted)
        sent_at = _read_clock(said.response)
        if remote.commit:
            return _Asked(remote.commit, remote.commit, sent_at=sent_at)
        listed = said.text
        objects = _parse_refs(listed)
        if found := objects.get(remote.wanted):
            return _Asked(remote.wanted, found, sent_at=sent_at)
        if remote.pin:
            raise RemoteMissingError(f"{remote}: {advise_pin(remote.pin)}")
        default = _parse_default(listed)
        if remote.is_named or not is_ref_name(default):
            raise self._explain_missing(call)
        return _Asked(f"refs/heads/{default}", objects["HEAD"], default, sent_at)

    def _list_refs(self, call: "_Call", seconds: float, *refs: str) -> Output:
        """Run `git ls-remote --symref`."""
        return self.git.run(
            *("ls-remote", "--symref", *call.access.options, "--end-of-options"),
            *(self._remote.url, *refs),
            lock=call.lock,
            access=call.access,
            timeout_seconds=seconds,
        )

    def _explain_missing(self, call: "_Call") -> SyncError:
        """Return the error for a missing branch, with the names of those there are."""
        name = f"{self._remote}: the repository"
        branches = ("HEAD", "refs/heads/*")
        try:
            listed = self._list_refs(call, _HINT_TIMEOUT_SECONDS, *branches).text
        except SyncError:
            return RemoteMissingError(f"{name} has no such branch. Check its name")
        if not listed:
            return RemoteMissingError(f"{name} is empty. Push a first commit")
        hint = _render_branches(listed)
        return RemoteMissingError(f"{name} has no such branch. {hint}")


def _read_clock(response: Response | None) -> datetime | None:
    return parse_http_date(response.headers.get("date", "")) if response else None


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


def _parse_refs(listed: str) -> dict[str, str]:
    """Return the objects that `git ls-remote` prints, by their refs."""
    rows = (line.partition("\t") for line in listed.splitlines())
    return {ref: name for name, _, ref in rows if not name.startswith(_SYMBOLIC[:5])}


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


def _partition(row: str) -> tuple[str, str, str]:
    return row.partition(" ")
