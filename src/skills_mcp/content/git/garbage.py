"""Refs of this program, and garbage collection of unreferenced objects.

Of a retained commit the store has all trees, and the content of the served files.

Rule 1: the size of a store follows its content, after any number of fetches, failed
ones included.
Rule 2: the caller of every writing method holds the store's lock, which Git's children
inherit. So an unfinished file belongs to no running process.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import IO, Any

from skills_mcp.content.git.command import find_objects, measure_objects
from skills_mcp.content.git.git_runner import Git
from skills_mcp.files.durable import NEW_PREFIX, delete_tree, write_text_atomically

PUBLISHED_REF = "refs/skills/published"

_OUR_REFS = "refs/skills/"
_RETAINED_REFS = f"{_OUR_REFS}kept/"

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
"""File with the store's size after the last collection, in bytes."""


FindBlobs = Callable[[str], Iterable[str]]
"""Lists the blobs of a commit with retained content."""

# Files of an unfinished garbage collection of Git's own, and of our own writes.
_UNFINISHED = ("gc.pid", "gc.log", f"{NEW_PREFIX}*")
_UNFINISHED_OBJECTS = ("tmp_*", ".tmp-*", "incoming-*", "tmp_objdir-*")

# A pack needs both files; one alone was not finished, or is half deleted.
_PACK_SUFFIXES = frozenset({".pack", ".idx"})


class RetainedRefs:
    """Refs of this program in one store."""

    def __init__(self, git: Git, find_blobs: FindBlobs | None) -> None:
        self._git = git
        self._find_blobs = find_blobs

    def find_object(self, commit: str) -> str:
        """Find the tag of a commit, retained first: the last fetch may be refused."""
        marks = self._find_refs_to(commit)
        return marks.get(_RETAINED_REFS + commit) or marks.get(PUBLISHED_REF, commit)

    def retain(self, commits: Iterable[str], lock: IO[Any]) -> None:
        """Retain these commits after a verified fetch, and collect garbage if due."""
        targets = {}
        for commit in commits:
            marks, ref = self._find_refs_to(commit), _RETAINED_REFS + commit
            targets[ref] = marks.get(PUBLISHED_REF) or marks.get(ref, commit)
        present = self._filter_present(targets.values())
        retained = {ref: name for ref, name in targets.items() if name in present}
        stale = self._read_refs(_RETAINED_REFS).keys() - retained.keys()
        self._change_refs(
            *(f"update {ref} {name}" for ref, name in retained.items()),
            *(f"delete {ref}" for ref in stale),
            lock=lock,
        )
        self.collect_garbage(lock)

    def retain_published(self, commit: str, lock: IO[Any]) -> None:
        """Retain a verified commit and its tag before a fetch replaces its ref."""
        ref = _RETAINED_REFS + commit
        if (self._git.directory / ref).is_file():
            return
        if marked := self._find_refs_to(commit).get(PUBLISHED_REF):
            self._change_refs(f"update {ref} {marked}", lock=lock)

    @property
    def published(self) -> str:
        """Commit or tag of the last fetch; empty if there is none."""
        return self._read_refs(PUBLISHED_REF).get(PUBLISHED_REF, "")

    def import_objects(
        self, incoming: Git, fetched: str, blobs: Iterable[str], lock: IO[Any]
    ) -> None:
        """Import a commit or tag with some blobs from another store, and publish it."""
        trees = _list_commits(incoming, (fetched,), *_WITH_TREES)
        self._pack(incoming, dict.fromkeys((*trees, *blobs)), lock)
        _merge_shallow(incoming.directory, self._git.directory)
        self._change_refs(f"update {PUBLISHED_REF} {fetched}", lock=lock)

    def collect_garbage(self, lock: IO[Any]) -> None:
        if self._is_gc_due():
            self._repack(lock)

    def forget_published(self, lock: IO[Any]) -> None:
        """Discard the result of an oversized fetch."""
        with suppress(OSError):
            delete_leftovers(self._git.directory, PUBLISHED_REF)
        self._change_refs(f"delete {PUBLISHED_REF}", lock=lock)
        self._repack(lock)

    def _change_refs(self, *changes: str, lock: IO[Any]) -> None:
        lines = "".join(f"{change}\n" for change in changes)
        self._git.run("update-ref", "--stdin", stdin=lines.encode(), lock=lock)

    def _find_refs_to(self, commit: str) -> dict[str, str]:
        refs = self._read_refs(_OUR_REFS)
        words = ("rev-parse", "--verify", "--quiet", f"{PUBLISHED_REF}^{{commit}}")
        published = self._git.run(*words, is_ok=(0, 1, 128)).text
        leading = {
            _RETAINED_REFS + commit,
            PUBLISHED_REF if published == commit else "",
        }
        return {ref: name for ref, name in refs.items() if ref in leading}

    def _read_refs(self, under: str) -> dict[str, str]:
        # This reads no object: some may be lost.
        fields = "--format=%(refname) %(objectname)"
        printed = self._git.run("for-each-ref", fields, under).text
        return dict(line.split(" ") for line in printed.splitlines())

    def _filter_present(self, names: Iterable[str]) -> set[str]:
        lines = "".join(f"{name}\n" for name in names)
        checked = self._git.run("cat-file", "--batch-check", stdin=lines.encode())
        rows = [line.split(" ") for line in checked.text.splitlines()]
        return {row[0] for row in rows if row[-1] != "missing"}

    def _is_gc_due(self) -> bool:
        packs, loose = _count_objects(self._git.directory)
        size = measure_objects(self._git.directory)
        limit = _MAX_GROWTH * self._read_size() + _GROWTH_ALLOWANCE_BYTES
        return packs > _MAX_PACKS or loose > _MAX_LOOSE_OBJECTS or size > limit

    def _repack(self, lock: IO[Any]) -> None:
        if self._find_blobs is None:
            for words in (("repack", "-a", "-d", "-q"), ("prune", "--expire=now")):
                self._run_long(self._git, *words, lock=lock)
        else:
            self._repack_served(self._find_blobs, lock)
        size = measure_objects(self._git.directory)
        with suppress(OSError):  # then the next collection is too early
            (self._git.directory / _SIZE_FILE).write_text(str(size), "ascii")

    def _repack_served(self, find_blobs: FindBlobs, lock: IO[Any]) -> None:
        """Pack the served objects alone; `git repack` would keep every file."""
        store, marked = self._git.directory, self._read_refs(_OUR_REFS).values()
        commits = _list_commits(self._git, marked)
        trees = _list_commits(self._git, marked, *_WITH_TREES)
        heads = _list_commits(self._git, marked, "--no-walk")
        blobs = chain.from_iterable(map(find_blobs, heads))
        name = self._pack(self._git, dict.fromkeys((*commits, *trees, *blobs)), lock)
        _delete_other_packs(store, name)
        _prune_shallow(store, frozenset(commits))

    def _pack(self, git: Git, names: Iterable[str], lock: IO[Any]) -> str:
        pack = self._git.directory / "objects" / "pack" / "pack"
        words = ("pack-objects", "-q", "--delta-base-offset", os.fspath(pack))
        lines = "".join(f"{name}\n" for name in names)
        return self._run_long(git, *words, stdin=lines.encode(), lock=lock)

    def _run_long(self, git: Git, *words: str, lock: IO[Any], stdin: bytes = b"") -> str:
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
    """Delete all locks, temporary files and incomplete packs.

    Raises:
        OSError: Something cannot be deleted.
    """
    for path in tuple(
        chain(
            _find_locks(store),
            _find_temporary_objects(store),
            _find_partial_packs(store),
        )
    ):
        delete_tree(path)
    ref_path = store / ref
    if ref_path.is_dir() or _is_blank(ref_path):
        delete_tree(ref_path)


def _list_commits(git: Git, marked: Collection[str], *words: str) -> list[str]:
    return git.run("rev-list", *words, *marked).text.split() if marked else []


def _delete_other_packs(store: Path, name: str) -> None:
    """Delete all other packs, index first: without it Git ignores a pack."""
    files = sorted((store / "objects" / "pack").iterdir(), key=_is_not_index)
    for path in files:
        if not path.name.startswith(f"pack-{name}."):
            delete_tree(path)
    for folder in (store / "objects").glob("[0-9a-f][0-9a-f]"):
        delete_tree(folder)


def _is_not_index(path: Path) -> bool:
    return path.suffix != ".idx"


def _prune_shallow(store: Path, commits: Collection[str]) -> None:
    lines = _read_shallow(store)
    remaining = [line for line in lines if line in commits]
    if remaining != lines:
        _write_shallow(store, remaining)


def _merge_shallow(incoming: Path, store: Path) -> None:
    if cut := _read_shallow(incoming):
        _write_shallow(store, sorted({*cut, *_read_shallow(store)}))


def _read_shallow(store: Path) -> list[str]:
    try:
        return (store / "shallow").read_text("ascii").split()
    except (FileNotFoundError, UnicodeDecodeError):
        return []


def _write_shallow(store: Path, commits: Iterable[str]) -> None:
    write_text_atomically(store / "shallow", "".join(f"{commit}\n" for commit in commits))


def _count_objects(store: Path) -> tuple[int, int]:
    names = [path for path, _ in find_objects(store)]
    packs = sum(name.endswith(".pack") for name in names)
    loose = sum(len(Path(name).parent.name) == len("ab") for name in names)
    return packs, loose


def _find_locks(store: Path) -> Iterator[Path]:
    yield from store.rglob("*.lock")
    for pattern in _UNFINISHED:
        yield from store.glob(pattern)


def _find_temporary_objects(store: Path) -> Iterator[Path]:
    objects = store / "objects"
    for pattern in _UNFINISHED_OBJECTS:
        yield from objects.rglob(pattern)
    yield from objects.glob("pack/*.keep")


def _find_partial_packs(store: Path) -> Iterator[Path]:
    found: dict[str, list[Path]] = {}
    for path in (store / "objects" / "pack").glob("pack-*"):
        found.setdefault(path.name.partition(".")[0], []).append(path)
    for paths in found.values():
        if not {path.suffix for path in paths} >= _PACK_SUFFIXES:
            yield from paths


def _is_blank(path: Path) -> bool:
    """Whether a crash has left an empty ref."""
    try:
        return not path.read_bytes().strip(b"\0\n ")
    except (FileNotFoundError, NotADirectoryError):
        return False
