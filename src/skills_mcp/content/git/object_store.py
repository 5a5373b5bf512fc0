"""Files of a commit, and the selection of those to serve.

Rule: a commit is walked exactly like a folder, before anything is written, so that both
have the same skills and the same problems.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple

from skills_mcp.config import Limits
from skills_mcp.content.git.command import Git, find_objects, measure_objects
from skills_mcp.content.git.diagnostics import DamagedStoreError
from skills_mcp.content.source import Surveyed, SurveyedPart, SyncPolicy
from skills_mcp.errors import LimitExceededError
from skills_mcp.files.durable import NEW_PREFIX, delete_tree, write_text_atomically
from skills_mcp.files.paths import is_inside, is_path_component, is_plain_path
from skills_mcp.skills.model import Problem, Stamp
from skills_mcp.skills.plugin_files import find_plugin, find_plugin_files
from skills_mcp.skills.skill_audit import load_audits
from skills_mcp.skills.skill_discovery import Package, RuleFile, SourceWalk, require_total
from skills_mcp.skills.skill_parser import is_skill_md
from skills_mcp.skills.source_layout import (
    MAX_READ_BYTES,
    PLUGIN_MANIFEST,
    EntryKind,
    FolderEntry,
    FolderListing,
    RelativeRoot,
    Selection,
    may_be_link,
)

CONFIG = "config.yaml"
"""Settings file of a repository, at its top or at its first skill root."""

_KINDS: Mapping[str, EntryKind] = {"120000": "link", "160000": "submodule"}
_EXECUTABLE = 0o100

# What Git prints for the size of a blob that is not in the store.
_ABSENT = "BAD"
_UNKNOWN_BYTES = -1


class TreeEntry(NamedTuple):
    """A file, link or submodule of a commit."""

    file: str
    blob: str
    size_bytes: int
    """Negative if the content is not in the store and the size is unknown."""
    is_executable: bool
    kind: EntryKind = "file"

    @property
    def mode(self) -> str:
        regular = "100755" if self.is_executable else "100644"
        return next((m for m, kind in _KINDS.items() if kind == self.kind), regular)


@dataclass(frozen=True, slots=True)
class TreeListing:
    """The served files of a commit, and a survey of the others."""

    entries: tuple[TreeEntry, ...]
    surveyed: Surveyed = field(default_factory=dict)
    links: frozenset[str] = frozenset()
    """The blobs of links that were read."""

    @property
    def blobs(self) -> Iterator[str]:
        return chain((entry.blob for entry in self.entries), self.links)


def parse_listing(
    records: Iterable[bytes], sizes: Mapping[str, int] | None = None
) -> tuple[TreeEntry, ...]:
    """Parse the output of `git ls-tree -r -z [-l] --full-tree`."""
    return tuple(_parse_record(record, sizes or {}) for record in records)


def parse_content_ids(records: Iterable[bytes]) -> dict[str, str]:
    """Map each file of a listing to its blob id and executable bit."""
    entries = (_parse_record(record, {}) for record in records)
    return {e.file: f"{e.blob}+x" if e.is_executable else e.blob for e in entries}


def _parse_record(record: bytes, sizes: Mapping[str, int]) -> TreeEntry:
    header, _, file = record.decode("utf-8", "surrogateescape").partition("\t")
    mode, _, blob, *rest = header.split()
    size = rest[0] if rest else _ABSENT
    kind = _KINDS.get(mode, "file")
    is_executable = bool(int(mode, 8) & _EXECUTABLE)
    return TreeEntry(file, blob, _parse_size(size, blob, sizes), is_executable, kind)


def _parse_size(size: str, blob: str, sizes: Mapping[str, int]) -> int:
    if size == _ABSENT:  # or it was not asked for
        return sizes.get(blob, _UNKNOWN_BYTES)
    return int(size) if size != "-" else 0


ReadBlobs = Callable[[Sequence[str]], Sequence[bytes]]
"""Reads blobs from Git's store, in their order."""


class CommitTree:
    """The files of a commit as a `FileTree`."""

    def __init__(self, entries: Sequence[TreeEntry], read_blobs: "ReadBlobs") -> None:
        self._entries = {entry.file: entry for entry in entries}
        self._read_blobs = read_blobs
        # No entry for each yet: those of ten thousand folders would take 5 MB.
        self._folders = group_by_folder(entries)
        self.read_files: set[str] = set()
        """The files whose content was read: manifests of plugins."""
        self.read_links: set[str] = set()
        """The blobs of links that were read."""

    def entry(self, file: str) -> TreeEntry | None:
        entry = self._entries.get(file)
        return entry if entry and entry.kind == "file" else None

    def list(self, folder: str, limit: int) -> FolderListing:  # noqa: ARG002
        if folder not in self._folders:
            raise FileNotFoundError(folder)
        found = {_base_name(entry): _describe_entry(entry) for entry in self._folders[folder]}
        return FolderListing({name: found[name] for name in sorted(found)}, len(found))

    def read(self, file: str) -> bytes | None:
        entry = self.entry(file)
        if entry is None or entry.size_bytes > MAX_READ_BYTES:
            return None
        self.read_files.add(file)
        return self._read_blobs((entry.blob,))[0]

    def read_served(self, files: Sequence[str]) -> Sequence[bytes]:
        """Read served files together: their content is in the store."""
        return self._read_blobs([self._entries[file].blob for file in files])

    def resolve(self, link: str) -> str | None:
        waiting, done = link.split("/")[::-1], list[str]()
        links = 0
        while waiting:
            part = waiting.pop()
            if part == ".." and not done:
                return None
            if part == "..":
                done.pop()
            elif part not in {"", "."}:
                done.append(part)
                entry = self._entries.get("/".join(done))
                if entry and entry.kind == "link":
                    links += 1
                    target = self._read_target(entry) if links <= _MAX_LINKS else "/"
                    if target.startswith("/"):
                        return None
                    done.pop()
                    waiting += target.split("/")[::-1]
        found = "/".join(done)
        return found if found in self._folders or found in self._entries else None

    def _read_target(self, entry: TreeEntry) -> str:
        try:
            (target,) = self._read_blobs((entry.blob,))
        except DamagedStoreError:  # a store of before links were read
            return "/"
        self.read_links.add(entry.blob)
        return target.decode("utf-8", "surrogateescape")


def group_by_folder(entries: Iterable[TreeEntry]) -> dict[str, list[TreeEntry | str]]:
    folders: dict[str, list[TreeEntry | str]] = {"": []}
    for entry in entries:
        folder = _folder_of(entry.file)
        missing = []
        while folder not in folders:
            missing.append(folder)
            folder = _folder_of(folder)
        for parent in reversed(missing):
            folders[parent] = []
            folders[_folder_of(parent)].append(parent)
        folders[_folder_of(entry.file)].append(entry)
    return folders


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def _base_name(entry: TreeEntry | str) -> str:
    path = entry if isinstance(entry, str) else entry.file
    return path.rpartition("/")[2]


def _describe_entry(entry: TreeEntry | str) -> FolderEntry:
    if isinstance(entry, str):
        return FolderEntry("folder")
    is_file = entry.kind == "file"
    return FolderEntry(entry.kind, Stamp(entry.size_bytes, 0, 0) if is_file else None)


def select_served(tree: CommitTree, policy: SyncPolicy) -> TreeListing:
    """Select the files to serve, and survey the others.

    Raises:
        LimitExceededError: There are too many files, or too many bytes.
        DamagedStoreError: Git has lost a served file.
    """
    entries, surveyed = _survey(tree, policy)
    entries = _add_plugin_files(tree, entries, policy)
    for entry in entries:
        if entry.size_bytes < 0:
            raise DamagedStoreError(f"{entry.file!r} is missing from Git's store")
    parts = {s: _without_empty(p, entries) for s, p in surveyed.items()}
    return TreeListing(entries, parts, frozenset(tree.read_links))


def _survey(
    tree: CommitTree, policy: SyncPolicy
) -> tuple[tuple[TreeEntry, ...], dict[Selection, SurveyedPart]]:
    audits = tuple(load_audits())
    root_files = {CONFIG}.union(*(audit.root_files for audit in audits))
    files: set[str] = set()
    surveyed: dict[Selection, SurveyedPart] = {}
    limits = Limits.model_construct(  # an export has no limits that a setting may have
        max_files=policy.max_files,
        max_file_bytes=policy.max_file_bytes,
        max_total_bytes=policy.max_total_bytes,
    )
    for selection in policy.selections:
        survey = SourceWalk(tree, selection, limits)
        problems: list[Problem] = []
        for home in survey.layout.homes:
            files |= {home.below(file) for file in root_files}
            for found in survey.walk(home):
                if isinstance(found, Problem):
                    problems.append(replace(found, file=home.file_prefix + found.file))
                else:
                    files.update(_files_of(home, found))
        problems += survey.outside()
        surveyed[selection] = SurveyedPart(survey.layout.homes, tuple(problems))
    files |= {*root_files, *tree.read_files}
    files.update(*(audit.top_files for audit in audits))
    safe = (file for file in sorted(files) if _is_safe(file))
    return tuple(filter(None, map(tree.entry, safe))), surveyed


def _add_plugin_files(
    tree: CommitTree, entries: tuple[TreeEntry, ...], policy: SyncPolicy
) -> tuple[TreeEntry, ...]:
    """Add the files of plugins that the packages name.

    Raises:
        LimitExceededError: There are too many bytes then.
        DamagedStoreError: Git has lost a package.
    """
    mains = [entry.file for entry in entries if is_skill_md(_base_name(entry))]
    plugins = {file: find_plugin(tree, _folder_of(file)) for file in mains}
    mains = [file for file in mains if plugins[file] is not None]
    found: set[str] = set()
    for start in range(0, len(mains), _TEXTS_AT_ONCE):
        files = mains[start : start + _TEXTS_AT_ONCE]
        for file, raw in zip(files, tree.read_served(files), strict=True):
            text, folder = raw.decode("utf-8", "replace"), _folder_of(file)
            named = find_plugin_files(tree, text, folder, plugins[file] or "")
            found.update(name for name, stamp in named if stamp.size_bytes <= policy.max_file_bytes)
    if not found:
        return entries
    found |= {f"{plugin}/{PLUGIN_MANIFEST}".lstrip("/") for plugin in plugins.values()}
    known = {entry.file: entry for entry in entries}
    known |= {entry.file: entry for entry in map(tree.entry, filter(_is_safe, found)) if entry}
    require_total(sum(e.size_bytes for e in known.values()), policy.max_total_bytes)
    return tuple(known[file] for file in sorted(known))


_TEXTS_AT_ONCE = 256
"""Packages read for the names of files: all of ten thousand would fill the memory."""


def _is_safe(file: str) -> bool:
    # Nearly all are plain. To remember the others' names is worth it; to remember all
    # would keep ten thousand texts in memory for good.
    return is_plain_path(file) or all(map(is_path_component, file.split("/")))


def _without_empty(part: SurveyedPart, entries: Sequence[TreeEntry]) -> SurveyedPart:
    homes = (h for h in part.homes if any(is_inside(e.file, h.folder) for e in entries))
    return replace(part, homes=tuple(homes))


def _files_of(home: RelativeRoot, found: RuleFile | Package) -> set[str]:
    folder = home.below(found.folder)
    inside = f"{folder}/" if folder else ""
    return {home.below(found.file), *(inside + name for name in found.files)}


PUBLISHED_REF = "refs/skills/published"

_OUR_REFS = "refs/skills/"
_RETAINED_REFS = f"{_OUR_REFS}kept/"
_PUBLISHED_COMMIT = f"{PUBLISHED_REF}^{{commit}}"

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
        refs, published = self._read_refs(), self._find_published(commit)
        return refs.get(_RETAINED_REFS + commit) or refs.get(published, commit)

    def retain(self, commits: Collection[str], lock: IO[Any]) -> None:
        """Retain these commits after a verified fetch, and collect garbage if due."""
        refs = self._read_refs()
        wanted = {commit: refs.get(_RETAINED_REFS + commit, commit) for commit in commits}
        present = self._find_present((*wanted.values(), _PUBLISHED_COMMIT))
        wanted = {commit: name for commit, name in wanted.items() if name in present}
        newest = present.get(_PUBLISHED_COMMIT, "")
        if newest in commits:
            wanted[newest] = refs[PUBLISHED_REF]
        kept = {ref: name for ref, name in refs.items() if ref.startswith(_RETAINED_REFS)}
        retained = {_RETAINED_REFS + commit: name for commit, name in wanted.items()}
        self._change_refs(
            *(f"update {ref} {name}" for ref, name in retained.items() - kept.items()),
            *(f"delete {ref}" for ref in kept.keys() - retained.keys()),
            lock=lock,
        )
        self.collect_garbage(lock)

    def retain_published(self, commit: str, lock: IO[Any]) -> None:
        """Retain a verified commit and its tag before a fetch replaces its ref."""
        ref = _RETAINED_REFS + commit
        if (self._git.directory / ref).is_file():
            return
        if published := self._find_published(commit):
            self._change_refs(f"update {ref} {published}", lock=lock)

    def import_objects(
        self, incoming: Git, fetched: str, blobs: Iterable[str], lock: IO[Any] | None
    ) -> None:
        """Import a commit or tag with some blobs from another store, and publish it."""
        trees = _list_commits(incoming, (fetched,), *_WITH_TREES)
        self._pack(incoming, dict.fromkeys((*trees, *blobs)), lock)
        _merge_shallow(incoming.directory, self._git.directory)
        self._change_refs(f"update {PUBLISHED_REF} {fetched}", lock=lock)

    def collect_garbage(self, lock: IO[Any]) -> None:
        if self._is_gc_due():
            self._repack(lock)

    def forget_published(self, lock: IO[Any] | None) -> None:
        """Discard the result of an oversized fetch."""
        with suppress(OSError):
            delete_leftovers(self._git.directory, PUBLISHED_REF)
        self._change_refs(f"delete {PUBLISHED_REF}", lock=lock)
        self._repack(lock)

    def _change_refs(self, *changes: str, lock: IO[Any] | None) -> None:
        if not changes:
            return
        lines = "".join(f"{change}\n" for change in changes)
        self._git.run("update-ref", "--stdin", stdin=lines.encode(), lock=lock)

    def _find_published(self, commit: str) -> str:
        """Name the ref of the last fetch, if it leads to this commit; else empty."""
        found = self._find_present((_PUBLISHED_COMMIT,)).get(_PUBLISHED_COMMIT)
        return PUBLISHED_REF if found == commit else ""

    def _read_refs(self) -> dict[str, str]:
        # This reads no object: some may be lost.
        fields = "--format=%(refname) %(objectname)"
        printed = self._git.run("for-each-ref", fields, _OUR_REFS).text
        return dict(line.split(" ") for line in printed.splitlines())

    def _find_present(self, names: Collection[str]) -> dict[str, str]:
        """Map the names, or expressions, of objects that are here to their ids."""
        lines = "".join(f"{name}\n" for name in names)
        checked = self._git.run("cat-file", "--batch-check=%(objectname)", stdin=lines.encode())
        found = zip(names, checked.text.splitlines(), strict=True)
        return {name: row for name, row in found if not row.endswith(" missing")}

    def _is_gc_due(self) -> bool:
        packs, loose = _count_objects(self._git.directory)
        size = measure_objects(self._git.directory)
        limit = _MAX_GROWTH * self._read_size() + _GROWTH_ALLOWANCE_BYTES
        return packs > _MAX_PACKS or loose > _MAX_LOOSE_OBJECTS or size > limit

    def _repack(self, lock: IO[Any] | None) -> None:
        if self._find_blobs is None:
            for words in (("repack", "-a", "-d", "-q"), ("prune", "--expire=now")):
                self._run_long(self._git, *words, lock=lock)
        else:
            self._repack_served(self._find_blobs, lock)
        size = measure_objects(self._git.directory)
        with suppress(OSError):  # then the next collection is too early
            (self._git.directory / _SIZE_FILE).write_text(str(size), "ascii")

    def _repack_served(self, find_blobs: FindBlobs, lock: IO[Any] | None) -> None:
        """Pack the served objects alone; `git repack` would keep every file."""
        store, marked = self._git.directory, self._read_refs().values()
        commits = _list_commits(self._git, marked)
        trees = _list_commits(self._git, marked, *_WITH_TREES)
        heads = _list_commits(self._git, marked, "--no-walk")
        blobs = chain.from_iterable(map(find_blobs, heads))
        name = self._pack(self._git, dict.fromkeys((*commits, *trees, *blobs)), lock)
        _delete_other_packs(store, name)
        _prune_shallow(store, frozenset(commits))

    def _pack(self, git: Git, names: Iterable[str], lock: IO[Any] | None) -> str:
        pack = self._git.directory / "objects" / "pack" / "pack"
        words = ("pack-objects", "-q", "--delta-base-offset", os.fspath(pack))
        lines = "".join(f"{name}\n" for name in names)
        return self._run_long(git, *words, stdin=lines.encode(), lock=lock)

    def _run_long(self, git: Git, *words: str, lock: IO[Any] | None, stdin: bytes = b"") -> str:
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


def prepare_store(git: Git, ref: str) -> None:
    """Make a missing store, and delete the leftovers of killed processes.

    Raises:
        OSError: Something cannot be deleted, or there is no permission.
    """
    git.directory.mkdir(parents=True, exist_ok=True)
    delete_leftovers(git.directory, ref)
    if not (git.directory / "HEAD").is_file():
        git.init()


def delete_leftovers(store: Path, ref: str) -> None:
    """Delete all locks, temporary files and incomplete packs.

    Raises:
        OSError: Something cannot be deleted.
    """
    finders = (_find_locks, _find_temporary_objects, _find_partial_packs)
    for path in [path for find in finders for path in find(store)]:
        delete_tree(path)
    ref_path = store / ref
    if ref_path.is_dir() or _is_blank(ref_path):
        delete_tree(ref_path)


def _list_commits(git: Git, marked: Collection[str], *words: str) -> list[str]:
    return git.run("rev-list", *words, *marked).text.split() if marked else []


def _delete_other_packs(store: Path, name: str) -> None:
    """Delete all other packs, index first: without it Git ignores a pack."""
    packs = (store / "objects" / "pack").iterdir()
    for path in sorted(packs, key=lambda path: path.suffix != ".idx"):
        if not path.name.startswith(f"pack-{name}."):
            delete_tree(path)
    for folder in (store / "objects").glob("[0-9a-f][0-9a-f]"):
        delete_tree(folder)


def _prune_shallow(store: Path, commits: Collection[str]) -> None:
    lines = _read_undamaged_shallow(store)
    remaining = [line for line in lines if line in commits]
    if remaining != lines:
        write_shallow(store, remaining)


def _merge_shallow(incoming: Path, store: Path) -> None:
    if cut := _read_undamaged_shallow(incoming):
        write_shallow(store, sorted({*cut, *_read_undamaged_shallow(store)}))


def _read_undamaged_shallow(store: Path) -> list[str]:
    try:
        return read_shallow(store)
    except UnicodeDecodeError:
        return []


def read_shallow(store: Path) -> list[str]:
    """Read the shallow boundary: the commits whose parents were not fetched.

    Raises:
        OSError: It cannot be read.
        UnicodeDecodeError: It is damaged.
    """
    try:
        return (store / "shallow").read_text("ascii").split()
    except FileNotFoundError:
        return []


def write_shallow(store: Path, commits: Iterable[str]) -> None:
    """Make these commits the shallow boundary."""
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


BLOBLESS_FILTER = "--filter=blob:none"

# They say where the skills are, so they are fetched at once before others are chosen.
_MANIFESTS = ("/plugin.json", "/marketplace.json")

_MAX_LINKS = 40
"""Of one path, as in Linux."""

_PIECE_BYTES = 256 * 1024

# A few trees, one in the other, stand for billions. A million takes 300 MB, and the
# largest public repositories have half as many.
_MAX_LISTED_FILES = 1_000_000
_MAX_RECORD_BYTES = 256  # on average: twice what they have there

FetchBlobs = Callable[[Collection[str]], None]
"""Fetches the content of these blobs into the incoming store."""


class PartialFetch:
    """Blobs of a commit, in the store of a running fetch or an earlier one."""

    def __init__(
        self, incoming: Git, store: Git, fetch: FetchBlobs, *, new: ReadBlobs, stored: ReadBlobs
    ) -> None:
        self._incoming = incoming
        self._store = store
        self._fetch = fetch
        self._read_new, self._read_stored = new, stored
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
        is_package = any(is_skill_md(entry.file) for entry in entries)
        about = (entry for entry in entries if _is_about_layout(entry, is_package=is_package))
        self._fetch_missing(entry.blob for entry in about)
        served, _ = _survey(CommitTree(entries, self._read), policy)
        self._fetch_missing(entry.blob for entry in served)
        served = _add_plugin_files(CommitTree(entries, self._read), served, policy)
        self._fetch_missing(entry.blob for entry in served)
        sizes = self._known | self._arrived
        entries = tuple(e._replace(size_bytes=sizes.get(e.blob, _UNKNOWN_BYTES)) for e in entries)
        return entries, select_served(CommitTree(entries, self._read), policy)

    def _list(self, commit: str) -> tuple[TreeEntry, ...]:
        # Without -l: to know the sizes, Git would fetch one file after the other.
        with list_tree(self._incoming, commit) as records:
            return parse_listing(records, self._arrived)

    def _fetch_missing(self, blobs: Iterable[str]) -> None:
        """Fetch the blobs missing on this machine."""
        requested = dict.fromkeys(blob for blob in blobs if blob not in self._arrived)
        self._known |= _find_sizes(self._store, requested)
        if missing := requested.keys() - self._known.keys():
            self._fetch(missing)
            self._arrived = _list_sizes(self._incoming)

    def _read(self, blobs: Sequence[str]) -> Sequence[bytes]:
        self._fetch_missing(blobs)
        new, stored, arrived = self._read_new, self._read_stored, self._arrived
        return [(new if blob in arrived else stored)((blob,))[0] for blob in blobs]


def _is_about_layout(entry: TreeEntry, *, is_package: bool) -> bool:
    """Whether the content of an entry determines the layout; `is_package` has a top `SKILL.md`."""
    file = f"/{entry.file}"
    is_at_top = is_package and "/" not in entry.file and file.endswith(".md")
    is_named_so = is_at_top or file.endswith(_MANIFESTS) or may_be_link(file)
    return entry.kind == "link" or (is_named_so and entry.kind == "file")


def _list_sizes(store: Git) -> dict[str, int]:
    form = "--batch-check=%(objectname) %(objectsize)"
    printed = store.run("cat-file", "--batch-all-objects", "--unordered", form)
    return parse_sizes(printed.text)


def _find_sizes(store: Git, blobs: Collection[str]) -> dict[str, int]:
    if not blobs:
        return {}
    form = "--batch-check=%(objectname) %(objectsize)"
    lines = "".join(f"{blob}\n" for blob in blobs)
    return parse_sizes(store.run("cat-file", form, stdin=lines.encode()).text)


def parse_sizes(text: str) -> dict[str, int]:
    rows = map(str.split, text.splitlines())
    return {name: int(size) for name, size in rows if size != "missing"}


@contextmanager
def list_tree(git: Git, treeish: str, *options: str) -> Iterator[Iterator[bytes]]:
    """Stream the records of all files of a commit, by `git ls-tree`.

    Raises:
        DamagedStoreError: The commit is not in the store.
        LimitExceededError: There are too many files.
    """
    with git.stream("ls-tree", "-r", "-z", *options, "--full-tree", treeish) as output:
        yield _split_records(output, max(_MAX_LISTED_FILES, git.policy.max_files))


def _split_records(output: IO[bytes], max_files: int) -> Iterator[bytes]:
    rest, count, size = b"", 0, 0
    while piece := output.read(_PIECE_BYTES):
        *records, rest = (rest + piece).split(b"\0")
        count, size = count + len(records), size + len(piece)
        if count > max_files or size > max_files * _MAX_RECORD_BYTES:
            raise LimitExceededError(
                f"the repository has more than {max_files:,} files, or very long names. Follow "
                "another one, or raise limits.max_files beyond their number"
            )
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


@contextmanager
def opened_blobs(git: Git) -> Iterator[ReadBlobs]:
    """Read blobs on demand, by one process of Git, until a sync's deadline.

    Raises:
        DamagedStoreError: One is missing or damaged.
    """
    source, end = os.pipe()
    with os.fdopen(end, "wb", 0) as sink, git.stream("cat-file", "--batch", stdin=source) as output:

        def read(blob: str) -> bytes:
            with suppress(BrokenPipeError):  # it has ended, as at an object that is damaged
                sink.write(f"{blob}\n".encode())
            return _read_blob(output)

        yield lambda blobs: [*map(read, blobs)]
        sink.close()  # or the process would wait for the next one


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
