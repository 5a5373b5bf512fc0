"""A bare repository for one remote: its commits and files.

Rule 1: nothing is ever checked out.  Files are read from the object database, so no
hook, filter or attribute runs.
Rule 2: the refs are our own and forced, so a force-push or a rollback is followed
exactly.
"""

import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Any
from uuid import uuid4

from skills_mcp.content.git.command import CommandOutput, Git, RemoteCall
from skills_mcp.content.git.diagnostics import PIN_ADVICE, DamagedStoreError, advise_pin
from skills_mcp.content.git.object_store import (
    BLOBLESS_FILTER,
    PUBLISHED_REF,
    CommitTree,
    PartialFetch,
    RetainedRefs,
    TreeEntry,
    TreeListing,
    list_tree,
    opened_blobs,
    parse_content_ids,
    parse_listing,
    parse_sizes,
    prepare_store,
    read_blobs,
    read_shallow,
    select_served,
    write_shallow,
)
from skills_mcp.content.git.remote import Remote, is_ref_name
from skills_mcp.content.git.signatures import find_signers
from skills_mcp.content.source import SyncPolicy, translate_disk_errors
from skills_mcp.errors import LimitExceededError, RemoteMissingError, SyncError
from skills_mcp.files.durable import delete_tree, write_text_atomically
from skills_mcp.files.locks import acquire_lock
from skills_mcp.processes.retry import parse_http_date
from skills_mcp.skills.model import escape_unprintable
from skills_mcp.text.rendering import abbreviate_value

_NEWEST = "--depth=1"

_INCOMING = "skills-incoming"

_SIZES = "skills-sizes"
"""File with the sizes of oversized blobs, to tell them from lost ones."""

_DAMAGED_MARK = "skills-damaged"

# After this time a message does without the name of the default branch.
_HINT_TIMEOUT_SECONDS = 10.0
_MAX_BRANCHES_NAMED = 5
_HEADS = "refs/heads/"
_SYMBOLIC = f"ref: {_HEADS}"


@dataclass(frozen=True, slots=True)
class FetchResult:
    commit: str
    object: str
    """The annotated tag, if one was followed; else the commit."""
    default_branch: str = ""


@dataclass(frozen=True, slots=True)
class RemoteRef:
    """The ref to fetch, and its object on the remote."""

    ref: str
    object: str
    """The newest commit, or the annotated tag, if one is followed."""
    default_branch: str = ""
    sent_at: datetime | None = None
    """The host's clock, over HTTP."""


class _FilesRefusedError(Exception):
    """The remote does not serve single blobs."""


class GitRepository:
    """A bare repository for one branch, tag or commit of one remote."""

    def __init__(self, directory: Path, remote: Remote, policy: SyncPolicy) -> None:
        self.git = Git(directory, remote, policy)
        self._directory = directory
        self._remote = remote
        self._policy = policy
        self._listings: dict[str, TreeListing] = {}
        self.refs = RetainedRefs(self.git, self._find_blobs if self._keeps_served_only else None)

    def fetch(
        self,
        lock: IO[Any],
        *,
        timeout_seconds: float,
        known: str | None = None,
        served: str | None = None,
        on_progress: Callable[[str, float], None] | None = None,
    ) -> FetchResult:
        """Fetch the branch, tag or commit, also after a force-push.

        Falls back to the default branch if none is named and the remote has no `main`.

        Args:
            lock: The store's; held as long as any child of Git runs.
            timeout_seconds: Deadline of the whole fetch.
            known: A commit for `is_ancestor`; the history since then is fetched, too.
            served: The published commit; it gets a missing ref of its own.
            on_progress: Called with Git's step and the completed share, 0 to 1.

        Raises:
            SyncError: The fetch failed; the message has advice.
            DamagedStoreError: The cause is Git's store, not the remote.
        """
        access = self.git.open_access()
        if (self._directory / _DAMAGED_MARK).exists():
            raise DamagedStoreError("Git could not clean it")
        self._prepare()
        if served:
            self.refs.retain_published(served, lock)
        call = RemoteCall(
            access=access,
            deadline=time.monotonic() + timeout_seconds,
            lock=lock,
            on_progress=on_progress,
        )
        remote_ref = self._resolve_remote(call)
        if known or not self._keeps_served_only:
            self._fetch_all_files(call, remote_ref.ref, known)
            found = self._read_published(self.git)
        else:
            found = self._fetch_served(call, remote_ref)
        return replace(found, default_branch=remote_ref.default_branch)

    def _fetch_all_files(self, call: RemoteCall, ref: str, known: str | None) -> None:
        refspec = f"+{ref}:{PUBLISHED_REF}"
        try:
            # The check of the descent needs the history since `known`, or all of it.
            self.git.fetch(call, refspec, *(() if known else (_NEWEST,)))
            if known and self._is_shallow_before(known):
                self.git.fetch(call, refspec, "--unshallow")
        except LimitExceededError:
            self.refs.forget_published(call.lock)
            raise

    def _fetch_served(self, call: RemoteCall, remote_ref: RemoteRef) -> FetchResult:
        """Fetch new commits into a temporary store, and import the served files.

        So a repository may be larger than its skills, and an oversized commit leaves
        nothing.
        """
        printed = self._print_published(self.git)
        if printed.text.startswith(remote_ref.object):
            return self._parse_published(printed)
        # Git can leave nothing out of a repository whose address is a path.
        filters = () if self._remote.scheme == "file" else (BLOBLESS_FILTER,)
        try:
            return self._fetch_separately(call, remote_ref, *filters)
        except _FilesRefusedError:
            # Old servers give single files to no client. If the reason was another one,
            # this fails, too, and says so.
            return self._fetch_separately(call, remote_ref)

    def _fetch_separately(
        self, call: RemoteCall, remote_ref: RemoteRef, *options: str
    ) -> FetchResult:
        # A name of its own: another process may have taken over meanwhile.
        incoming = self.git.with_directory(self._directory / f"{_INCOMING}-{uuid4().hex}")
        try:
            incoming.init()
            incoming.fetch(call, f"+{remote_ref.ref}:{PUBLISHED_REF}", _NEWEST, *options)
            found = self._read_published(incoming)
            # Also of a remote without shallow clones, the history stays behind.
            write_shallow(incoming.directory, (found.commit,))
            fetch = partial(self._fetch_blobs, incoming, call)
            with opened_blobs(incoming) as new, opened_blobs(self.git) as stored:
                fetched = PartialFetch(incoming, self.git, fetch, new=new, stored=stored)
                entries, listing = fetched.select(found.commit, self._policy)
            self._record_sizes(entries)
            blobs = set(listing.blobs).intersection(fetched.arrived)
            self.refs.import_objects(incoming, found.object, blobs, call.lock)
            self._listings = {found.commit: listing}
            return found
        finally:
            delete_tree(incoming.directory)

    def _fetch_blobs(self, incoming: Git, call: RemoteCall, blobs: Collection[str]) -> None:
        done = incoming.fetch(
            call,
            "",
            *(BLOBLESS_FILTER, "--stdin"),
            stdin="".join(f"{blob}\n" for blob in blobs).encode(),
            settings=("fetch.negotiationAlgorithm=noop",),
            is_ok=(0, 1, 128),  # with the last two a remote refuses what it was asked for
        )
        if done.returncode:
            raise _FilesRefusedError

    def ask_remote(self, timeout_seconds: float) -> RemoteRef:
        """Query the newest commit, without fetching or touching this store.

        It never takes longer than a sync may.

        Raises:
            SyncError: The remote does not answer or has no such branch, tag or commit.
        """
        with (
            TemporaryDirectory(prefix="skills-mcp-") as folder,
            TemporaryFile() as lock,
        ):
            other = GitRepository(Path(folder, "asked.git"), self._remote, self._policy)
            access = other.git.open_access()
            other._prepare()
            seconds = min(timeout_seconds, self._policy.timeout_seconds)
            call = RemoteCall(access=access, deadline=time.monotonic() + seconds, lock=lock)
            try:
                return other._resolve_remote(call, resolves_pin=True)
            except SyncError as error:
                if call.remaining_seconds:
                    raise
                raise SyncError(
                    f"{self._remote}: no answer within {seconds:.0f} seconds. Check the "
                    "address, the proxy, the VPN and the firewall"
                ) from error

    @property
    def _keeps_served_only(self) -> bool:
        """Whether to store served blobs alone; an ancestry check needs all."""
        return self._policy.allow_non_fast_forward

    def list_files(self, commit: str) -> tuple[TreeEntry, ...]:
        """List all files of a commit, served or not.

        Raises:
            DamagedStoreError: The commit is not in the store.
        """
        with list_tree(self.git, commit, "-l") as records:
            return parse_listing(records, self._read_sizes())

    def read_content_ids(self, commit: str) -> dict[str, str]:
        """Map each file of a commit to its content id, served or not.

        Raises:
            DamagedStoreError: The commit is not in the store.
        """
        # Without their sizes, which Git would read for each.
        with list_tree(self.git, commit) as records:
            return parse_content_ids(records)

    def list_served(self, commit: str) -> TreeListing:
        """List the served files of a commit, by the policy.

        Raises:
            DamagedStoreError: The commit, or one of the files, is not in the store.
            LimitExceededError: There are more files than the policy allows.
        """
        if known := self._listings.get(commit):
            return known

        with opened_blobs(self.git) as read:
            return select_served(CommitTree(self.list_files(commit), read), self._policy)

    def forget_listings(self) -> None:
        """Free the cached listings: they may take many megabytes."""
        self._listings.clear()

    def read_blobs(self, blobs: Iterable[str]) -> AbstractContextManager[Iterator[bytes]]:
        """Stream the content of blobs, in their order.

        Raises:
            DamagedStoreError: One is missing or damaged.
        """
        return read_blobs(self.git, blobs)

    def is_ancestor(self, old: str, new: str) -> bool:
        """Whether `new` descends from `old`; False if uncertain."""
        words = ("merge-base", "--is-ancestor", old, new)
        try:
            return self.git.run(*words, is_ok=(0, 1)).returncode == 0
        except SyncError:
            return False

    def _find_blobs(self, commit: str) -> Iterator[str]:
        return self.list_served(commit).blobs

    def _read_sizes(self) -> dict[str, int]:
        with suppress(OSError, ValueError):
            return parse_sizes((self._directory / _SIZES).read_text("ascii"))
        return {}

    def _record_sizes(self, entries: Iterable[TreeEntry]) -> None:
        limit = self._policy.max_file_bytes
        large = {entry.blob: entry.size_bytes for entry in entries}
        large = {blob: size for blob, size in large.items() if size > limit}
        known = self._read_sizes()
        if large.keys() - known.keys():
            rows = (f"{blob} {size}\n" for blob, size in {**known, **large}.items())
            write_text_atomically(self._directory / _SIZES, "".join(rows))

    def mark_damaged(self) -> None:
        with suppress(OSError):
            (self._directory / _DAMAGED_MARK).touch()

    def _prepare(self) -> None:
        if not self._directory.is_dir():
            delete_tree(self._directory)
        with translate_disk_errors(self._directory.parent):
            for left in self._directory.glob(f"{_INCOMING}*"):
                delete_tree(left)
            prepare_store(self.git, PUBLISHED_REF)

    def _read_published(self, git: Git) -> FetchResult:
        return self._parse_published(self._print_published(git))

    def _print_published(self, git: Git) -> CommandOutput:
        """Print the commit or tag of the last fetch and its commit, as far as they are here."""
        names = (PUBLISHED_REF, f"{PUBLISHED_REF}^{{commit}}")
        return git.run("rev-parse", *names, is_ok=(0, 128))

    def _parse_published(self, printed: CommandOutput) -> FetchResult:
        if printed.returncode == 0:
            marked, commit = printed.text.split()
            return FetchResult(commit, marked)
        if "expected commit type" in printed.stderr:  # a tag may mark anything
            raise RemoteMissingError(f"{self._remote}: {PIN_ADVICE}")
        raise DamagedStoreError("what was fetched is not in Git's store")

    def _is_shallow_before(self, known: str) -> bool:
        """Whether the shallow boundary may lie before a known commit."""
        return not self.is_ancestor(known, PUBLISHED_REF) and any(
            self.is_ancestor(commit, PUBLISHED_REF) for commit in self._read_boundary()
        )

    def _read_boundary(self) -> list[str]:
        try:
            return read_shallow(self._directory)
        except (OSError, UnicodeDecodeError) as error:
            raise DamagedStoreError(f"Git's store cannot be read: {error}") from error

    def _resolve_remote(self, call: RemoteCall, *, resolves_pin: bool = False) -> RemoteRef:
        """Resolve the ref on the remote; a pinned commit only with `resolves_pin`."""
        remote = self._remote
        if remote.commit and not resolves_pin:
            return RemoteRef(remote.commit, remote.commit)
        output = self._list_refs(call, call.remaining_seconds, "HEAD", remote.requested_ref)
        sent_at = (
            parse_http_date(output.response.headers.get("date", "")) if output.response else None
        )
        if remote.commit:
            return RemoteRef(remote.commit, remote.commit, sent_at=sent_at)
        listed = output.text
        objects = _parse_refs(listed)
        if found := objects.get(remote.requested_ref):
            return RemoteRef(remote.requested_ref, found, sent_at=sent_at)
        if remote.pin:
            raise RemoteMissingError(f"{remote}: {advise_pin(remote.pin)}")
        default = _parse_default(listed)
        if remote.is_named or not is_ref_name(default):
            raise self._explain_missing(call)
        return RemoteRef(f"refs/heads/{default}", objects["HEAD"], default, sent_at)

    def _list_refs(self, call: RemoteCall, seconds: float, *refs: str) -> CommandOutput:
        return self.git.run(
            *("ls-remote", "--symref", *call.access.options, "--end-of-options"),
            *(self._remote.url, *refs),
            lock=call.lock,
            access=call.access,
            timeout_seconds=seconds,
        )

    def _explain_missing(self, call: RemoteCall) -> SyncError:
        name = f"{self._remote}: the repository"
        branches = ("HEAD", f"{_HEADS}*")
        try:
            listed = self._list_refs(call, _HINT_TIMEOUT_SECONDS, *branches).text
        except SyncError:
            return RemoteMissingError(f"{name} has no such branch. Check its name")
        if not listed:
            return RemoteMissingError(f"{name} is empty. Push a first commit")
        hint = _render_branches(listed)
        return RemoteMissingError(f"{name} has no such branch. {hint}")


def _parse_default(listed: str) -> str:
    r"""Parse the default branch from `git ls-remote --symref`; empty without one.

    >>> _parse_default("ref: refs/heads/trunk\tHEAD\n3f2a9c\tHEAD")
    'trunk'
    """
    for line in listed.splitlines():
        name, _, ref = line.partition("\t")
        if ref == "HEAD" and name.startswith(_SYMBOLIC):
            return name.removeprefix(_SYMBOLIC)
    return ""


def _parse_refs(listed: str) -> dict[str, str]:
    rows = (line.partition("\t") for line in listed.splitlines())
    return {ref: name for name, _, ref in rows if not name.startswith(_SYMBOLIC[:5])}


def _render_branches(listed: str) -> str:
    if default := _parse_default(listed):
        return (
            f"Its default branch is {abbreviate_value(default)}: set SKILLS_BRANCH "
            "(`branch` in `sources`) to that, or to HEAD, which follows the default branch"
        )
    # A clone has `refs/remotes/origin/HEAD`, too, and its own HEAD may be detached.
    heads = (ref for ref in _parse_refs(listed) if ref.startswith(_HEADS))
    branches = [ref.removeprefix(_HEADS) for ref in heads]
    if not branches:
        return "Set SKILLS_BRANCH (`branch` in `sources`) to HEAD, as it has no branch at all"
    some = ", ".join(map(abbreviate_value, branches[:_MAX_BRANCHES_NAMED]))
    return f"Set SKILLS_BRANCH (`branch` in `sources`) to one that it has: {some}"


_REF = "refs/skills/history"

_FETCH_SECONDS = 30.0  # a person waits for it

_PAUSE_SECONDS = 60.0

_MAX_LINES = 400
"""Limit for the changes of one commit."""

_MAX_CHARACTERS = 500

_MAX_PACKS = 8

_SHOW = ("--no-color", "--no-ext-diff", "--no-textconv", "--patch", "--unified=3")

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


@dataclass(frozen=True, slots=True)
class ListedCommit:
    """A commit with the names of its changed files."""

    commit: str
    at: datetime
    author: str
    subject: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BranchLog:
    """The fetched commits of a branch, the newest first, without merges."""

    commits: tuple[ListedCommit, ...]
    is_complete: bool
    """Whether they reach back to the first commit."""


class CommitHistory:
    """The last commits of one branch, fetched when they are read.  Blocking.

    Args:
        git: Git in the folder of the history.
        policy: How commits are fetched, and whose signatures are trusted.
        find_base: The ref to fetch.
    """

    def __init__(self, git: Git, policy: SyncPolicy, find_base: Callable[[], str] = str) -> None:
        self._git = git
        self._policy = policy
        self._find_base = find_base
        self._rests_until = 0.0
        self._gate = threading.Lock()  # one thread fetches, the others wait for it

    def read(self, commit: str, files: Sequence[str], max_commits: int) -> tuple[PastCommit, ...]:
        """Read the newest commits with changes in any of the files, up to a commit.

        Raises:
            SyncError: The history cannot be fetched, or the commit is not in it.
        """
        paths = (f":(top,literal){file}" for file in files)
        records, shallow = self._read_records(commit, max_commits, *_SHOW, paths=paths)
        found = map(_parse_patch, records)
        return tuple(past for past in found if past.commit not in shallow)

    def read_log(self, commit: str, max_commits: int) -> BranchLog:
        """Read the fetched commits with the names of their files, up to a commit.

        Raises:
            SyncError: The history cannot be fetched, or the commit is not in it.
        """
        records, shallow = self._read_records(commit, max_commits, "-z", "--name-only")
        listed = tuple(map(_parse_names, records))
        known = tuple(each for each in listed if each.commit not in shallow)
        return BranchLog(known, not shallow and len(listed) < max_commits)

    def _read_records(
        self, commit: str, max_commits: int, *options: str, paths: Iterable[str] = ()
    ) -> tuple[list[str], Collection[str]]:
        """Read the commits up to one, and those whose parents were not fetched.

        Git takes such a commit for one that has made every file.
        """
        self._require_commit(commit, max_commits)
        # No content can hold the mark, so none can write a commit of its own.
        mark = secrets.token_hex(16)
        printed = self._git.run(
            *("log", "--no-merges", "--no-renames", f"--max-count={max_commits}", *options),
            *(f"--format={mark} %H %ct %an%x1f%s", commit, "--", *paths),
        )
        records = printed.stdout.decode("utf-8", "replace").split(f"{mark} ")[1:]
        return records, read_shallow(self._git.directory)

    def resolve(self, tip: str, name: str, max_commits: int) -> str:
        """Resolve an abbreviated commit id.

        Raises:
            SyncError: The history cannot be fetched, or has no such commit.
        """
        self._require_commit(tip, max_commits)
        found = self._git.run(
            "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", is_ok=(0, 1, 128)
        )
        if found.returncode:
            raise SyncError(
                f"no commit begins with {name} among the last {max_commits} of its branch"
            )
        return found.text.strip()

    def print_log(self, commit: str, form: str, max_commits: int) -> str:
        """Print the fetched commits, up to a commit, in a format of `git log -z`."""
        options = ("-z", f"--max-count={max_commits}", f"--format={form}")
        return self._git.run("log", *options, commit).stdout.decode("utf-8", "replace")

    def read_signers(self, commits: Iterable[str]) -> Mapping[str, str]:
        """Map fetched commits to their trusted signers; empty without `allowed_signers`."""
        signers = self._policy.signers
        return find_signers(self._git, signers, tuple(commits)) if signers else {}

    def read_file(self, commit: str, file: str) -> bytes | None:
        """Read a file of a fetched commit; None if there is no such file."""
        printed = self._git.run("cat-file", "blob", f"{commit}:{file}", is_ok=(0, 128))
        return None if printed.returncode else printed.stdout

    def _require_commit(self, commit: str, max_commits: int) -> None:
        with self._gate:
            if not self._has_commit(commit):
                self._fetch(self._find_base(), max_commits)
        if not self._has_commit(commit):
            raise SyncError(
                f"the commit {commit[:12]} is not among the last {max_commits} of its branch"
            )

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
        prepare_store(self._git, _REF)
        deadline = time.monotonic() + min(_FETCH_SECONDS, self._policy.timeout_seconds)
        call = RemoteCall(access=access, deadline=deadline, lock=lock)
        self._git.fetch(call, f"+{base}:{_REF}", f"--depth={max_commits + 1}")
        packs = (self._git.directory / "objects" / "pack").glob("*.pack")
        if sum(1 for _ in packs) > _MAX_PACKS:
            self._git.run("repack", "-a", "-d", "-q", lock=lock)


def _parse_patch(record: str) -> PastCommit:
    head, _, patch = record.partition("\n")
    lines = patch.strip("\n").split("\n") if patch.strip("\n") else []
    displayed = tuple(map(_render_line, lines[:_MAX_LINES]))
    return PastCommit(*_parse_head(head), displayed, max(len(lines) - _MAX_LINES, 0))


def _parse_names(record: str) -> ListedCommit:
    head, _, names = record.partition("\0")
    files = tuple(filter(None, names.removeprefix("\n").split("\0")))
    return ListedCommit(*_parse_head(head), files)


def _parse_head(head: str) -> tuple[str, datetime, str, str]:
    commit, seconds, rest = head.split(" ", 2)
    author, _, subject = rest.partition("\x1f")
    # A malformed commit has no time.
    at = datetime.fromtimestamp(min(int(seconds or 0), _LAST_SECOND), UTC)
    return commit, at, escape_unprintable(author), escape_unprintable(subject)


def _render_line(line: str) -> str:
    return escape_unprintable(line.replace("\t", "    ")[:_MAX_CHARACTERS])
