"""A commit that arrives in two parts: its folders, and then the files that are served.

A repository may hold hundreds of megabytes that no skill has. So the first fetch leaves
out the content of all files (a partial clone, see `git help partial-clone`), and only
what is served, and is not on this machine yet, is fetched after that. A remote that
cannot leave anything out sends all of it at once.

Rule: all that is served is here before anything is published. A missing file is never
fetched later, by Git itself.
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
    select,
)
from skills_mcp.content.sync_policy import SyncPolicy

WITHOUT_FILES = "--filter=blob:none"
"""The option of the first fetch."""

# They say where the skills are, so they are read before the others are chosen.
_MANIFESTS = ("/plugin.json", "/marketplace.json")

_PIECE_BYTES = 256 * 1024

FetchBlobs = Callable[[Collection[str]], None]
"""Fetches the content of these blobs into the store of the fetch."""


class PartialFetch:
    """The files of a commit, in the store of a fetch that is running.

    Args:
        incoming: The store of the fetch.
        kept: The store with the files of earlier commits.
        fetch: Brings more files into the store of the fetch.
    """

    def __init__(self, incoming: Git, kept: Git, fetch: FetchBlobs) -> None:
        self._incoming = incoming
        self._kept = kept
        self._fetch = fetch
        self._arrived = _list_sizes(incoming)
        self._known: dict[str, int] = {}

    @property
    def arrived(self) -> Collection[str]:
        """The objects in the store of the fetch."""
        return self._arrived.keys()

    def select(
        self, commit: str, policy: SyncPolicy
    ) -> tuple[tuple[TreeEntry, ...], TreeListing]:
        """Bring the files of a commit that are served.

        Returns:
            All files of the commit, and those that are served. The size of a file is
            negative if it is not served, and was not fetched.

        Raises:
            SyncError: They cannot be fetched.
            LimitExceededError: There are too many files, or too many bytes.
        """
        entries = self._list(commit)
        self._bring(e.blob for e in entries if f"/{e.file}".endswith(_MANIFESTS))
        wanted = find_served(CommitTree(entries, self._read), policy)
        self._bring(entry.blob for entry in wanted)
        entries = self._list(commit)
        return entries, select(CommitTree(entries, self._read), policy)

    def _list(self, commit: str) -> tuple[TreeEntry, ...]:
        # Without -l: to know the sizes, Git would fetch one file after the other.
        words = ("ls-tree", "-r", "-z", "--full-tree", commit)
        with self._incoming.stream(*words) as output:
            return parse_listing(split_records(output), self._known | self._arrived)

    def _bring(self, blobs: Iterable[str]) -> None:
        """Fetch those of the blobs that are not on this machine."""
        wanted = dict.fromkeys(each for each in blobs if each not in self._arrived)
        self._known |= _find_sizes(self._kept, wanted)
        if missing := wanted.keys() - self._known.keys():
            self._fetch(missing)
            self._arrived = _list_sizes(self._incoming)

    def _read(self, blob: str) -> bytes:
        self._bring((blob,))
        store = self._incoming if blob in self._arrived else self._kept
        with read_blobs(store, (blob,)) as contents:
            return next(contents)


def _list_sizes(store: Git) -> dict[str, int]:
    """Return the size of each object that is in a store, by its name."""
    form = "--batch-check=%(objectname) %(objectsize)"
    printed = store.run("cat-file", "--batch-all-objects", "--unordered", form)
    return _parse_sizes(printed.text)


def _find_sizes(store: Git, blobs: Collection[str]) -> dict[str, int]:
    """Return the sizes of those blobs that are in a store, by their names."""
    if not blobs:
        return {}
    form = "--batch-check=%(objectname) %(objectsize)"
    lines = "".join(f"{blob}\n" for blob in blobs)
    return _parse_sizes(store.run("cat-file", form, stdin=lines.encode()).text)


def _parse_sizes(text: str) -> dict[str, int]:
    rows = map(str.split, text.splitlines())
    return {name: int(size) for name, size in rows if size != "missing"}


def split_records(output: IO[bytes]) -> Iterator[bytes]:
    """Yield the records that end with NUL; read no further than needed."""
    rest = b""
    while piece := output.read(_PIECE_BYTES):
        *records, rest = (rest + piece).split(b"\0")
        yield from records


@contextmanager
def read_blobs(git: Git, blobs: Iterable[str]) -> Iterator[Iterator[bytes]]:
    """Yield the content of blobs of a store, in their order.

    Raises:
        DamagedStoreError: One is missing or damaged.
    """
    wanted = tuple(blobs)
    with git.stream(
        "cat-file",
        "--batch",
        stdin="".join(f"{blob}\n" for blob in wanted).encode(),
    ) as output:
        yield (_read_blob(output) for _ in wanted)


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
