"""Partial fetch of a commit: first its trees, then the served blobs.

A repository may hold hundreds of megabytes outside of skills, so the first fetch omits
all blobs (see `git help partial-clone`). A remote without filters sends everything.

Rule: all served blobs are present before publication. Git itself never fetches one
later.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import IO

from skills_mcp.content.git.failures import DamagedStoreError
from skills_mcp.content.git.git_runner import Git
from skills_mcp.content.git.tree_listing import (
    CommitTree,
    TreeEntry,
    TreeListing,
    find_served,
    parse_listing,
    select_served,
)
from skills_mcp.content.sync_policy import SyncPolicy

BLOBLESS_FILTER = "--filter=blob:none"

# They say where the skills are, so they are read before the others are chosen.
_MANIFESTS = ("/plugin.json", "/marketplace.json")

_PIECE_BYTES = 256 * 1024

FetchBlobs = Callable[[Collection[str]], None]
"""Fetches the content of these blobs into the incoming store."""


class PartialFetch:
    """Blobs of a commit, in the store of a running fetch or an earlier one."""

    def __init__(self, incoming: Git, store: Git, fetch: FetchBlobs) -> None:
        self._incoming = incoming
        self._store = store
        self._fetch = fetch
        self._arrived = _list_sizes(incoming)
        self._known: dict[str, int] = {}

    @property
    def arrived(self) -> Collection[str]:
        return self._arrived.keys()

    def select(self, commit: str, policy: SyncPolicy) -> tuple[tuple[TreeEntry, ...], TreeListing]:
        """Fetch the served blobs; list all files, and the served ones.

        An unserved, unfetched file has a negative size.

        Raises:
            SyncError: They cannot be fetched.
            LimitExceededError: There are too many files, or too many bytes.
        """
        entries = self._list(commit)
        self._fetch_missing(e.blob for e in entries if f"/{e.file}".endswith(_MANIFESTS))
        served = find_served(CommitTree(entries, self._read), policy)
        self._fetch_missing(entry.blob for entry in served)
        entries = self._list(commit)
        return entries, select_served(CommitTree(entries, self._read), policy)

    def _list(self, commit: str) -> tuple[TreeEntry, ...]:
        # Without -l: to know the sizes, Git would fetch one file after the other.
        words = ("ls-tree", "-r", "-z", "--full-tree", commit)
        with self._incoming.stream(*words) as output:
            return parse_listing(split_records(output), self._known | self._arrived)

    def _fetch_missing(self, blobs: Iterable[str]) -> None:
        """Fetch the blobs missing on this machine."""
        requested = dict.fromkeys(blob for blob in blobs if blob not in self._arrived)
        self._known |= _find_sizes(self._store, requested)
        if missing := requested.keys() - self._known.keys():
            self._fetch(missing)
            self._arrived = _list_sizes(self._incoming)

    def _read(self, blob: str) -> bytes:
        self._fetch_missing((blob,))
        store = self._incoming if blob in self._arrived else self._store
        with read_blobs(store, (blob,)) as contents:
            return next(contents)


def _list_sizes(store: Git) -> dict[str, int]:
    form = "--batch-check=%(objectname) %(objectsize)"
    printed = store.run("cat-file", "--batch-all-objects", "--unordered", form)
    return _parse_sizes(printed.text)


def _find_sizes(store: Git, blobs: Collection[str]) -> dict[str, int]:
    if not blobs:
        return {}
    form = "--batch-check=%(objectname) %(objectsize)"
    lines = "".join(f"{blob}\n" for blob in blobs)
    return _parse_sizes(store.run("cat-file", form, stdin=lines.encode()).text)


def _parse_sizes(text: str) -> dict[str, int]:
    rows = map(str.split, text.splitlines())
    return {name: int(size) for name, size in rows if size != "missing"}


def split_records(output: IO[bytes]) -> Iterator[bytes]:
    rest = b""
    while piece := output.read(_PIECE_BYTES):
        *records, rest = (rest + piece).split(b"\0")
        yield from records


@contextmanager
def read_blobs(git: Git, blobs: Iterable[str]) -> Iterator[Iterator[bytes]]:
    """Stream the content of blobs, in their order.

    Raises:
        DamagedStoreError: One is missing or damaged.
    """
    names = tuple(blobs)
    with git.stream(
        "cat-file",
        "--batch",
        stdin="".join(f"{blob}\n" for blob in names).encode(),
    ) as output:
        yield (_read_blob(output) for _ in names)


def _read_blob(output: IO[bytes]) -> bytes:
    """Read one record of `cat-file --batch`: a header line, the bytes, a newline."""
    match output.readline().split():
        case [_, b"blob", size]:
            data = output.read(int(size))
        case _:
            raise DamagedStoreError("an object is missing from Git's store")
    if output.read(1) != b"\n":
        raise DamagedStoreError("an object of Git's store is cut off")
    return data
