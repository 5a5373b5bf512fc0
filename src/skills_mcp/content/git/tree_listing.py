"""The files of a commit, as Git lists them, and which of them are served.

Rule: a commit is walked as a folder is, before anything is written, so that both have
the same skills and the same problems.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from skills_mcp.content.git.failures import DamagedStoreError
from skills_mcp.content.source import Surveyed, SurveyedPart
from skills_mcp.content.sync_policy import SyncPolicy
from skills_mcp.files.paths import is_path_component, is_plain_path
from skills_mcp.skills.file_tree import (
    MAX_READ_BYTES,
    EntryKind,
    FolderEntry,
    FolderListing,
)
from skills_mcp.skills.homes import HomeFolder, Selection, lies_in
from skills_mcp.skills.model import Problem, Stamp
from skills_mcp.skills.walk import Package, RuleFile, Survey, WalkLimits

CONFIG = "config.yaml"
"""The settings that a repository brings, at its top or where its skills begin."""

_KINDS: Mapping[str, EntryKind] = {"120000": "link", "160000": "submodule"}
_EXECUTABLE = 0o100

# What Git prints for the size of a blob that is not in the store.
_ABSENT = "BAD"
_UNKNOWN_BYTES = -1


class TreeEntry(NamedTuple):
    """A file in a commit, or a link or submodule in its place."""

    file: str
    blob: str
    size_bytes: int
    """Negative if its content is not in the store, and its size is not known."""
    is_executable: bool
    kind: EntryKind = "file"

    @property
    def mode(self) -> str:
        """The mode that Git writes for such an entry."""
        regular = "100755" if self.is_executable else "100644"
        return next((m for m, kind in _KINDS.items() if kind == self.kind), regular)


@dataclass(frozen=True, slots=True)
class TreeListing:
    """The files of a commit that are served, and what is known of the others."""

    entries: tuple[TreeEntry, ...]
    surveyed: Surveyed = field(default_factory=dict)


def parse_listing(
    records: Iterable[bytes], sizes: Mapping[str, int] | None = None
) -> tuple[TreeEntry, ...]:
    """Return the files of what `git ls-tree -r -z [-l] --full-tree` prints.

    Args:
        records: What it prints, split at each NUL.
        sizes: Those of blobs that it does not know, by their names.
    """
    return tuple(_parse_record(record, sizes or {}) for record in records)


def parse_content_ids(records: Iterable[bytes]) -> dict[str, str]:
    """Return what names the content of each file of a listing, see `parse_listing`.

    Its blob, and whether it is executable.
    """
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


class CommitTree:
    """The files of a commit as a `FileTree`.

    Args:
        entries: All files.
        read_blob: Returns the content of a blob.
    """

    def __init__(
        self, entries: Sequence[TreeEntry], read_blob: Callable[[str], bytes]
    ) -> None:
        self._entries = {entry.file: entry for entry in entries}
        self._read_blob = read_blob
        # No entry for each yet: those of ten thousand folders would take 5 MB.
        self._folders = _group(entries)
        self.read_files: set[str] = set()
        """The files whose content was read: manifests of plugins."""

    def entry(self, file: str) -> TreeEntry | None:
        """Return a file of the commit; None if there is none of this name."""
        entry = self._entries.get(file)
        return entry if entry and entry.kind == "file" else None

    def list(self, folder: str, most: int) -> FolderListing:  # noqa: ARG002
        """List a folder, see `FileTree.list`."""
        if folder not in self._folders:
            raise FileNotFoundError(folder)
        found = {_name(each): _look(each) for each in self._folders[folder]}
        return FolderListing({name: found[name] for name in sorted(found)}, len(found))

    def read(self, file: str) -> bytes | None:
        """Read a small file, see `FileTree.read`."""
        entry = self.entry(file)
        if entry is None or entry.size_bytes > MAX_READ_BYTES:
            return None
        self.read_files.add(file)
        return self._read_blob(entry.blob)


def _group(entries: Iterable[TreeEntry]) -> dict[str, list[TreeEntry | str]]:
    """Return the files and the folders in each folder, all by their paths."""
    folders: dict[str, list[TreeEntry | str]] = {"": []}
    for entry in entries:
        folder = _folder_of(entry.file)
        missing = []
        while folder not in folders:
            missing.append(folder)
            folder = _folder_of(folder)
        for each in reversed(missing):
            folders[each] = []
            folders[_folder_of(each)].append(each)
        folders[_folder_of(entry.file)].append(entry)
    return folders


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def _name(entry: TreeEntry | str) -> str:
    path = entry if isinstance(entry, str) else entry.file
    return path.rpartition("/")[2]


def _look(entry: TreeEntry | str) -> FolderEntry:
    if isinstance(entry, str):
        return FolderEntry("folder")
    is_file = entry.kind == "file"
    return FolderEntry(entry.kind, Stamp(entry.size_bytes, 0, 0) if is_file else None)


def find_served(tree: CommitTree, policy: SyncPolicy) -> tuple[TreeEntry, ...]:
    """Return the files that may be served, as far as their sizes are known.

    Raises:
        LimitExceededError: There are too many files, or too many bytes.
    """
    return _survey(tree, policy)[0]


def select(tree: CommitTree, policy: SyncPolicy) -> TreeListing:
    """Return the files of a commit that are served, and what is known of the others.

    Raises:
        LimitExceededError: There are too many files, or too many bytes.
        DamagedStoreError: Git has lost a file that is served.
    """
    entries, surveyed = _survey(tree, policy)
    for entry in entries:
        if entry.size_bytes < 0:
            raise DamagedStoreError(f"{entry.file!r} is missing from Git's store")
    return TreeListing(
        entries, {s: _without_empty(p, entries) for s, p in surveyed.items()}
    )


def _survey(
    tree: CommitTree, policy: SyncPolicy
) -> tuple[tuple[TreeEntry, ...], dict[Selection, SurveyedPart]]:
    """Return the files that are served, and what is known of each selection."""
    files: set[str] = set()
    surveyed: dict[Selection, SurveyedPart] = {}
    limits = WalkLimits(
        max_files=policy.max_files,
        max_file_bytes=policy.max_file_bytes,
        max_total_bytes=policy.max_total_bytes,
    )
    for selection in policy.selections:
        survey = Survey(tree, selection, limits)
        problems: list[Problem] = []
        for home in survey.layout.homes:
            files.add(home.below(CONFIG))
            for found in survey.walk(home):
                if isinstance(found, Problem):
                    shown = replace(found, file=home.shown + found.file)
                    problems.append(shown)
                else:
                    files.update(_files_of(home, found))
        problems += survey.outside()
        surveyed[selection] = SurveyedPart(survey.layout.homes, tuple(problems))
    files |= {CONFIG, *tree.read_files}
    safe = (file for file in sorted(files) if _is_safe(file))
    return tuple(filter(None, map(tree.entry, safe))), surveyed


def _is_safe(file: str) -> bool:
    # Nearly all are plain. To remember the others' names is worth it; to remember all
    # would keep ten thousand texts in memory for good.
    return is_plain_path(file) or all(map(is_path_component, file.split("/")))


def _without_empty(part: SurveyedPart, entries: Sequence[TreeEntry]) -> SurveyedPart:
    """Return the part without homes of which nothing is written to the disk."""
    homes = (h for h in part.homes if any(lies_in(e.file, h.folder) for e in entries))
    return replace(part, homes=tuple(homes))


def _files_of(home: HomeFolder, found: RuleFile | Package) -> set[str]:
    folder = home.below(found.folder)
    inside = f"{folder}/" if folder else ""
    return {home.below(found.file), *(inside + name for name in found.files)}
