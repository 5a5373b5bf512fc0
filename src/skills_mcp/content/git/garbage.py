"""Which commits Git's store keeps, by refs of ours, and garbage collection of the rest.

Of a kept commit the store has all trees, and the content of the files that are served.

Rule 1: the size of a store follows its content, after any number of fetches, failed
ones included.
Rule 2: the caller of all that writes holds the store's lock, which Git's children hold,
too. So an unfinished file belongs to no running process.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import IO, Any

from skills_mcp.content.git.command import find_objects, measure_objects
from skills_mcp.content.git.git_runner import Git
from skills_mcp.files.durable import NEW_PREFIX, delete, replace_text

PUBLISHED_REF = "refs/skills/published"
"""The ref that a fetch writes."""

_OUR_REFS = "refs/skills/"
_KEPT_REFS = f"{_OUR_REFS}kept/"

# Above these Git becomes slow; below them a collection costs more than it gives.
_MAX_PACKS = 8
_MAX_LOOSE_OBJECTS = 2_000
_MAX_GROWTH = 1.4
_GROWTH_ALLOWANCE_BYTES = 64 * 1024

# A large store is written anew; if that takes longer, the next sync tries again.
_COLLECTION_TIMEOUT_SECONDS = 300.0

# All that a commit leads to, without its history and without the content of files.
_WITH_TREES = ("--objects", "--no-object-names", "--no-walk", "--filter=blob:none")

_SIZE_FILE = "skills-size"
"""The file with the size of the store after the last collection, in bytes."""


FindBlobs = Callable[[str], Iterable[str]]
"""Returns the blobs of a commit whose content is kept."""

# Files of an unfinished garbage collection of Git's own, and of our own writes.
_UNFINISHED = ("gc.pid", "gc.log", f"{NEW_PREFIX}*")
_UNFINISHED_OBJECTS = ("tmp_*", ".tmp-*", "incoming-*", "tmp_objdir-*")

# A pack needs both files; one alone was not finished, or is half deleted.
_HALVES = frozenset({".pack", ".idx"})


class KeptRefs:
    """The refs of ours in one store."""

    def __init__(self, git: Git, find_blobs: FindBlobs | None) -> None:
        """Keep the blobs that `find_blobs` returns; without it, all of them."""
        self._git = git
        self._find_blobs = find_blobs

    def find_object(self, commit: str) -> str:
        """Return the annotated tag of a commit, or the commit if it has none.

        A kept ref comes first: the tag of the last fetch may have been refused.
        """
        marks = self._read_marks(commit)
        return marks.get(_KEPT_REFS + commit) or marks.get(PUBLISHED_REF, commit)

    def keep(self, commits: Iterable[str], lock: IO[Any]) -> None:
        """Keep these commits, and collect the others if there is enough garbage.

        Commits that are not in the store are left out. Call it only after the result
        of the last fetch has passed all checks.
        """
        wanted = {}
        for commit in commits:
            marks, ref = self._read_marks(commit), _KEPT_REFS + commit
            wanted[ref] = marks.get(PUBLISHED_REF) or marks.get(ref, commit)
        there = self._filter_present(wanted.values())
        kept = {ref: name for ref, name in wanted.items() if name in there}
        stale = self._read_refs(_KEPT_REFS).keys() - kept.keys()
        self._change_refs(
            *(f"update {ref} {name}" for ref, name in kept.items()),
            *(f"delete {ref}" for ref in stale),
            lock=lock,
        )
        self.collect(lock)

    def secure(self, commit: str, lock: IO[Any]) -> None:
        """Keep a published commit, and its tag, before a fetch replaces its ref.

        Call it only with a commit that passed all checks after the last fetch.
        """
        ref = _KEPT_REFS + commit
        if (self._git.directory / ref).is_file():
            return
        if marked := self._read_marks(commit).get(PUBLISHED_REF):
            self._change_refs(f"update {ref} {marked}", lock=lock)

    @property
    def published(self) -> str:
        """The commit or tag of the last fetch; empty if there is none."""
        return self._read_refs(PUBLISHED_REF).get(PUBLISHED_REF, "")

    def take(
        self, incoming: Git, fetched: str, blobs: Iterable[str], lock: IO[Any]
    ) -> None:
        """Take the commit and some files of another store, and publish it.

        Args:
            incoming: The store that they were fetched into.
            fetched: The commit, or the tag that marks it.
            blobs: The files whose content is taken.
            lock: The store's.
        """
        trees = _list_commits(incoming, (fetched,), *_WITH_TREES)
        self._pack(incoming, dict.fromkeys((*trees, *blobs)), lock)
        _join_history(incoming.directory, self._git.directory)
        self._change_refs(f"update {PUBLISHED_REF} {fetched}", lock=lock)

    def collect(self, lock: IO[Any]) -> None:
        """Collect what no ref of ours leads to, if there is enough garbage."""
        if self._is_due():
            self._repack(lock)

    def forget_published(self, lock: IO[Any]) -> None:
        """Drop the result of a fetch that was too large."""
        with suppress(OSError):
            delete_leftovers(self._git.directory, PUBLISHED_REF)
        self._change_refs(f"delete {PUBLISHED_REF}", lock=lock)
        self._repack(lock)

    def _change_refs(self, *changes: str, lock: IO[Any]) -> None:
        lines = "".join(f"{change}\n" for change in changes)
        self._git.run("update-ref", "--stdin", stdin=lines.encode(), lock=lock)

    def _read_marks(self, commit: str) -> dict[str, str]:
        """Return the refs of ours that lead to a commit, with their objects."""
        refs = self._read_refs(_OUR_REFS)
        words = ("rev-parse", "--verify", "--quiet", f"{PUBLISHED_REF}^{{commit}}")
        published = self._git.run(*words, is_ok=(0, 1, 128)).text
        leading = {_KEPT_REFS + commit, PUBLISHED_REF if published == commit else ""}
        return {ref: held for ref, held in refs.items() if ref in leading}

    def _read_refs(self, under: str) -> dict[str, str]:
        # This reads no object: some may be lost.
        shown = "--format=%(refname) %(objectname)"
        printed = self._git.run("for-each-ref", shown, under).text
        return dict(line.split(" ") for line in printed.splitlines())

    def _filter_present(self, names: Iterable[str]) -> set[str]:
        lines = "".join(f"{name}\n" for name in names)
        checked = self._git.run("cat-file", "--batch-check", stdin=lines.encode())
        rows = [line.split(" ") for line in checked.text.splitlines()]
        return {row[0] for row in rows if row[-1] != "missing"}

    def _is_due(self) -> bool:
        packs, loose = _count_objects(self._git.directory)
        size = measure_objects(self._git.directory)
        most = _MAX_GROWTH * self._read_size() + _GROWTH_ALLOWANCE_BYTES
        return packs > _MAX_PACKS or loose > _MAX_LOOSE_OBJECTS or size > most

    def _repack(self, lock: IO[Any]) -> None:
        if self._find_blobs is None:
            for words in (("repack", "-a", "-d", "-q"), ("prune", "--expire=now")):
                self._run_long(self._git, *words, lock=lock)
        else:
            self._narrow(self._find_blobs, lock)
        size = measure_objects(self._git.directory)
        with suppress(OSError):  # then the next collection is too early
            (self._git.directory / _SIZE_FILE).write_text(str(size), "ascii")

    def _narrow(self, find_blobs: FindBlobs, lock: IO[Any]) -> None:
        """Write one pack of what is needed, and delete all other objects.

        `git repack` would keep every file of the repository.
        """
        store, marked = self._git.directory, self._read_refs(_OUR_REFS).values()
        commits = _list_commits(self._git, marked)
        trees = _list_commits(self._git, marked, *_WITH_TREES)
        heads = _list_commits(self._git, marked, "--no-walk")
        blobs = chain.from_iterable(map(find_blobs, heads))
        name = self._pack(self._git, dict.fromkeys((*commits, *trees, *blobs)), lock)
        _keep_pack(store, name)
        _cut_history(store, frozenset(commits))

    def _pack(self, git: Git, names: Iterable[str], lock: IO[Any]) -> str:
        """Write objects of a store into one pack of ours; return its name."""
        pack = self._git.directory / "objects" / "pack" / "pack"
        words = ("pack-objects", "-q", "--delta-base-offset", os.fspath(pack))
        lines = "".join(f"{name}\n" for name in names)
        return self._run_long(git, *words, stdin=lines.encode(), lock=lock)

    def _run_long(
        self, git: Git, *words: str, lock: IO[Any], stdin: bytes = b""
    ) -> str:
        return git.run(
            *words,
            stdin=stdin,
            lock=lock,
            timeout_seconds=_COLLECTION_TIMEOUT_SECONDS,
            settings=("pack.windowMemory=100m", "repack.writeBitmaps=false"),
        ).text

    def _read_size(self) -> int:
        try:
            return int((self._git.directory / _SIZE_FILE).read_text("ascii"))
        except (OSError, ValueError):
            return 0


def delete_leftovers(store: Path, ref: str) -> None:
    """Delete every lock, every temporary file and every half of a pack.

    Args:
        store: A bare repository.
        ref: The one that is written next: nothing else may stand in its place.

    Raises:
        OSError: Something cannot be deleted.
    """
    for path in tuple(chain(_locks(store), _temporary_objects(store), _halves(store))):
        delete(path)
    place = store / ref
    if place.is_dir() or _is_blank(place):
        delete(place)


def _list_commits(git: Git, marked: Collection[str], *words: str) -> list[str]:
    """Return the commits that these objects lead to, or what the options say."""
    return git.run("rev-list", *words, *marked).text.split() if marked else []


def _keep_pack(store: Path, name: str) -> None:
    """Delete all objects but those of one pack, which other processes may read.

    The index goes first: without it Git does not look for the pack.
    """
    files = sorted((store / "objects" / "pack").iterdir(), key=_is_no_index)
    for path in files:
        if not path.name.startswith(f"pack-{name}."):
            delete(path)
    for folder in (store / "objects").glob("[0-9a-f][0-9a-f]"):
        delete(folder)


def _is_no_index(path: Path) -> bool:
    return path.suffix != ".idx"


def _cut_history(store: Path, commits: Collection[str]) -> None:
    """Let the list of commits without parents name only those that are there."""
    lines = _read_cut(store)
    kept = [line for line in lines if line in commits]
    if kept != lines:
        _write_cut(store, kept)


def _join_history(incoming: Path, store: Path) -> None:
    """Add where the history of one store is cut to that of another one."""
    if cut := _read_cut(incoming):
        _write_cut(store, sorted({*cut, *_read_cut(store)}))


def _read_cut(store: Path) -> list[str]:
    try:
        return (store / "shallow").read_text("ascii").split()
    except (FileNotFoundError, UnicodeDecodeError):
        return []


def _write_cut(store: Path, commits: Iterable[str]) -> None:
    replace_text(store / "shallow", "".join(f"{commit}\n" for commit in commits))


def _count_objects(store: Path) -> tuple[int, int]:
    """Return how many packs there are, and how many objects outside of packs."""
    names = [path for path, _ in find_objects(store)]
    packs = sum(name.endswith(".pack") for name in names)
    loose = sum(len(Path(name).parent.name) == len("ab") for name in names)
    return packs, loose


def _locks(store: Path) -> Iterator[Path]:
    yield from store.rglob("*.lock")
    for pattern in _UNFINISHED:
        yield from store.glob(pattern)


def _temporary_objects(store: Path) -> Iterator[Path]:
    objects = store / "objects"
    for pattern in _UNFINISHED_OBJECTS:
        yield from objects.rglob(pattern)
    yield from objects.glob("pack/*.keep")


def _halves(store: Path) -> Iterator[Path]:
    found: dict[str, list[Path]] = {}
    for path in (store / "objects" / "pack").glob("pack-*"):
        found.setdefault(path.name.partition(".")[0], []).append(path)
    for paths in found.values():
        if not {path.suffix for path in paths} >= _HALVES:
            yield from paths


def _is_blank(path: Path) -> bool:
    """Whether a crash has left a ref without a commit."""
    try:
        return not path.read_bytes().strip(b"\0\n ")
    except (FileNotFoundError, NotADirectoryError):
        return False
