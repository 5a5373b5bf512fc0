"""Files of a commit on disk: exported, compared with Git, and repaired.

Rule: every file has a modification time derived from its content, and one of two modes.
So its kind, size, time and mode reveal any edit, except a forged one or a failing disk:
those are found by content alone, which takes longer to read. In a work tree that is not
ours, such as that of a project, nothing is written or fetched, and no hook runs.
"""

import hashlib
import os
import re
import stat
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol
from uuid import uuid4

from skills_mcp.content.git.diagnostics import (
    DamagedStoreError,
    advise_partial_clone,
    is_partial_clone,
)
from skills_mcp.content.git.object_store import TreeEntry, TreeListing, group_by_folder
from skills_mcp.content.git.remote import Remote
from skills_mcp.content.git.repository import BranchLog, CommitHistory, GitRepository
from skills_mcp.content.source import SyncPolicy
from skills_mcp.errors import SyncError
from skills_mcp.files.durable import NEW_PREFIX, delete_tree, flush_to_disk, grant_owner_access
from skills_mcp.files.paths import find_marked_folder
from skills_mcp.skills.model import EXPORTED_TIMES_NS

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
        top = find_marked_folder(folder.resolve(), _GIT)
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


def find_store(top: Path) -> Path:
    """Find the Git directory of a work tree."""
    marker = top / _GIT
    if marker.is_dir():
        return marker
    text = marker.read_text(encoding="utf-8", errors="replace").strip()
    return (top / text.removeprefix(_POINTER).strip()).resolve()


# The number of hex digits of a hash that choose one of the times.
_TIME_DIGITS = 7

# Read-only, so that a snapshot is not edited by accident.
_READABLE, _EXECUTABLE = 0o444, 0o555

_SHA1_DIGITS = 40

# Other systems do not keep the mode that was set.
_KEEPS_MODES = hasattr(os, "geteuid")


# `HEAD~2`, `v1.0^{commit}` and `main@{yesterday}` are commits; a name with a hyphen in
# front is an option, and the part after a colon is a file.
_COMMIT = re.compile(r"[^-\s:][^\s:]*")

# The repository is the user's own, and all of it is on this machine.
_UNLIMITED = SyncPolicy(
    max_files=sys.maxsize, max_file_bytes=sys.maxsize, max_total_bytes=sys.maxsize
)


class BlobReader(Protocol):
    """Reads blobs from Git's store."""

    def read_blobs(self, blobs: Iterable[str]) -> AbstractContextManager[Iterator[bytes]]:
        """Stream the content of blobs, in their order.

        Raises:
            DamagedStoreError: One is missing.
        """
        ...


def export_files(
    listing: TreeListing,
    reader: BlobReader,
    folder: Path,
    previous: tuple[TreeListing, Path] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write the files of a commit into an empty folder.

    Unchanged files of the `previous` commit are hard-linked from its folder, and copies
    within the commit to the first of them.

    Raises:
        DamagedStoreError: Git's store is damaged.
        OSError: There is no room, or no permission.
    """
    _make_folders(listing.entries, folder)
    missing = _link_unchanged(listing.entries, folder, previous)
    first: dict[tuple[str, bool], TreeEntry] = {}
    for entry in missing:
        first.setdefault(_content_key(entry), entry)
    total, done = len(listing.entries), len(listing.entries) - len(missing)

    def put(entry: TreeEntry, data: bytes) -> None:
        nonlocal done
        _write(folder / entry.file, data, entry)
        done += 1
        if on_progress:
            on_progress(done, total)

    _read_contents([*first.values()], reader, put)
    copies = [entry for entry in missing if first[_content_key(entry)] is not entry]
    alone = []
    for entry in copies:
        try:
            os.link(folder / first[_content_key(entry)].file, folder / entry.file)
        except OSError:  # a file may have only so many links
            alone.append(entry)
    done += len(copies) - len(alone)
    _read_contents(alone, reader, put)


def repair_files(
    listing: TreeListing, reader: BlobReader, folder: Path, *, by_content: bool = False
) -> tuple[str, ...]:
    """Repair an exported folder, by kind, size, time and mode, or by content.

    Each file is replaced atomically, as other processes may read meanwhile.

    Returns:
        The differing paths, including deleted foreign ones.

    Raises:
        DamagedStoreError: Git's store is damaged.
        OSError: There is no room, or no permission.
    """
    expected = {entry.file: entry for entry in listing.entries}
    wrong = {"."} if grant_owner_access(folder) else set()
    intact = set()
    for path, found in _walk(folder, "", group_by_folder(listing.entries), wrong):
        if path not in expected:
            delete_tree(folder / path)
            wrong.add(path)
        elif _is_intact(found, expected[path]) and (
            not by_content or _has_content(folder / path, expected[path])
        ):
            intact.add(path)
    bad = [entry for entry in listing.entries if entry.file not in intact]
    _make_folders(bad, folder)
    _read_contents(bad, reader, lambda entry, data: _replace(folder / entry.file, data, entry))
    wrong.update(entry.file for entry in bad)
    if wrong:
        flush_to_disk(folder)
    return tuple(sorted(wrong))


# A fetch whose history may not be rewritten has all files of the commit.
_ALL_FILES = SyncPolicy(allow_non_fast_forward=False)


@contextmanager
def exported_revision(folder: Path, ref: str) -> Iterator[Path]:
    """Export a folder of a Git work tree at another revision, temporarily.

    It is empty if the folder came later. Nothing in the work tree changes, and no hook
    or filter runs.

    Raises:
        SyncError: There is no such commit.
    """
    top = find_marked_folder(folder.resolve(), _GIT)
    if top is None:
        raise SyncError(
            f"{folder} is in no work tree of Git, so it has no other commit. Name "
            "a folder inside of a clone"
        )
    if not _COMMIT.fullmatch(ref):
        raise SyncError(_unknown(ref, top))
    with TemporaryDirectory(prefix="skills-mcp-") as made:
        try:
            _export_revision(top, folder, ref, Path(made))
        except DamagedStoreError as error:
            # Git 2.55 does not say why an object is missing.
            packs = find_store(top).glob("objects/pack/*.promisor")
            if is_partial_clone(str(error)) or any(packs):
                advice = advise_partial_clone(str(top))
                raise SyncError(f"{top} at {ref}: {advice}") from error
            raise
        yield Path(made)


@contextmanager
def exported_remote(remote: Remote, select: Callable[[str], bool]) -> Iterator[Path]:
    """Fetch a repository once, and export the selected files, temporarily.

    Raises:
        SyncError: It cannot be fetched.
    """
    with TemporaryDirectory(prefix="skills-mcp-") as made:
        top, target = Path(made), Path(made, "files")
        repository = GitRepository(top / "objects.git", remote, _ALL_FILES)
        with (top / "lock").open("wb") as lock:
            commit = repository.fetch(lock, timeout_seconds=_ALL_FILES.timeout_seconds).commit
        files = repository.list_files(commit) if commit else ()
        target.mkdir()
        listing = TreeListing(tuple(entry for entry in files if select(entry.file)))
        export_files(listing, repository, target)
        yield target


def _export_revision(top: Path, folder: Path, ref: str, target: Path) -> None:
    repository = GitRepository(find_store(top), Remote(str(top), ""), _UNLIMITED)
    if repository.git.run("cat-file", "-e", f"{ref}^{{commit}}", is_ok=(0, 1, 128)).returncode:
        raise SyncError(_unknown(ref, top))
    inside = folder.resolve().relative_to(top).as_posix()
    treeish = ref if inside == "." else f"{ref}:{inside}"
    if inside != "." and not repository.git.run("ls-tree", "-d", ref, f"./{inside}").text:
        return  # unlike a folder that is missing from the store, which is an error
    export_files(repository.list_served(treeish), repository, target)


def _make_folders(entries: Iterable[TreeEntry], folder: Path) -> None:
    for inner in sorted(group_by_folder(entries)):  # those above others come first
        with suppress(FileExistsError):
            os.mkdir(f"{folder}/{inner}")  # noqa: PTH102 - thousands of them


def _content_key(entry: TreeEntry) -> tuple[str, bool]:
    return entry.blob, entry.is_executable


def _link_unchanged(
    entries: Iterable[TreeEntry],
    folder: Path,
    previous: tuple[TreeListing, Path] | None,
) -> list[TreeEntry]:
    if previous is None:
        return list(entries)
    listing, origin = previous
    known = {_content_key(linked): linked.file for linked in listing.entries}
    missing = []
    for entry in entries:
        source = known.get(_content_key(entry))
        if source is None or not _try_link(origin / source, folder / entry.file, entry):
            missing.append(entry)
    return missing


def _try_link(source: Path, target: Path, entry: TreeEntry) -> bool:
    """Link a file; False if it was edited, or cannot be linked."""
    try:
        if not _is_intact(source.lstat(), entry) or not _has_content(source, entry):
            return False
        os.link(source, target)
    except OSError:
        return False
    return True


def _read_contents(
    entries: Sequence[TreeEntry],
    reader: BlobReader,
    put: Callable[[TreeEntry, bytes], object],
) -> None:
    if not entries:
        return  # nor start a process
    with reader.read_blobs(entry.blob for entry in entries) as blobs:
        for entry in entries:
            data = next(blobs, b"")
            if len(data) != entry.size_bytes:
                raise DamagedStoreError(
                    f"{entry.file!r} has {len(data):,} bytes in Git's store instead "
                    f"of {entry.size_bytes:,}"
                )
            put(entry, data)


def _write(path: Path, data: bytes, entry: TreeEntry) -> None:
    with path.open("xb") as handle:
        handle.write(data)
    os.utime(path, ns=(_modified_ns(entry), _modified_ns(entry)))
    path.chmod(_mode(entry))


def _replace(path: Path, data: bytes, entry: TreeEntry) -> None:
    new = path.with_name(f"{NEW_PREFIX}{uuid4().hex}")
    try:
        _write(new, data, entry)
        if path.is_dir() and not path.is_symlink():
            delete_tree(path)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def _modified_ns(entry: TreeEntry) -> int:
    return EXPORTED_TIMES_NS[int(entry.blob[:_TIME_DIGITS], 16)]


def _mode(entry: TreeEntry) -> int:
    return _EXECUTABLE if entry.is_executable else _READABLE


def _is_intact(found: os.stat_result, entry: TreeEntry) -> bool:
    return (
        stat.S_ISREG(found.st_mode)
        and found.st_size == entry.size_bytes
        and found.st_mtime_ns == _modified_ns(entry)
        and (not _KEEPS_MODES or stat.S_IMODE(found.st_mode) == _mode(entry))
    )


def _has_content(path: Path, entry: TreeEntry) -> bool:
    """Compare a file with its blob id, a hash of the content.

    https://git-scm.com/book/en/v2/Git-Internals-Git-Objects
    """
    kind = "sha1" if len(entry.blob) == _SHA1_DIGITS else "sha256"
    digest = hashlib.new(kind, b"blob %d\0" % entry.size_bytes, usedforsecurity=False)
    try:
        with path.open("rb", buffering=0) as handle:
            hashlib.file_digest(handle, lambda: digest)
    except OSError:
        return False
    return digest.hexdigest() == entry.blob


def _walk(
    folder: Path, prefix: str, folders: Collection[str], opened: set[str]
) -> Iterator[tuple[str, os.stat_result]]:
    """Yield entries except expected folders; adds unlocked ones to `opened`."""
    with os.scandir(f"{folder}/{prefix}") as entries:
        found = list(entries)
    for entry in found:
        path = f"{prefix}{entry.name}"
        if path in folders and entry.is_dir(follow_symlinks=False):
            mode = entry.stat(follow_symlinks=False).st_mode
            if mode & stat.S_IRWXU != stat.S_IRWXU and grant_owner_access(folder / path):
                opened.add(path)
            yield from _walk(folder, f"{path}/", folders, opened)
        else:
            yield path, entry.stat(follow_symlinks=False)


def _unknown(ref: str, top: Path) -> str:
    if (find_store(top) / "shallow").is_file():
        return f"{top} is a shallow clone without {ref!r}. Fetch it: git fetch --unshallow"
    return (
        f"{top} has no commit {ref!r}. Write a branch, a tag or a commit that Git "
        "knows there, such as HEAD~1 or origin/main"
    )
