"""Files of a commit, and the selection of those to serve.

Rule: a commit is walked exactly like a folder, before anything is written, so that both
have the same skills and the same problems.
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
from skills_mcp.skills.homes import RelativeRoot, Selection, is_inside
from skills_mcp.skills.model import Problem, Stamp
from skills_mcp.skills.walk import Package, RuleFile, SourceWalk, WalkLimits

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


class CommitTree:
    """The files of a commit as a `FileTree`."""

    def __init__(self, entries: Sequence[TreeEntry], read_blob: Callable[[str], bytes]) -> None:
        self._entries = {entry.file: entry for entry in entries}
        self._read_blob = read_blob
        # No entry for each yet: those of ten thousand folders would take 5 MB.
        self._folders = _group_by_folder(entries)
        self.read_files: set[str] = set()
        """The files whose content was read: manifests of plugins."""

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
        return self._read_blob(entry.blob)


def _group_by_folder(entries: Iterable[TreeEntry]) -> dict[str, list[TreeEntry | str]]:
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


def find_served(tree: CommitTree, policy: SyncPolicy) -> tuple[TreeEntry, ...]:
    """Select the files to serve, as far as their sizes are known.

    Raises:
        LimitExceededError: There are too many files, or too many bytes.
    """
    return _survey(tree, policy)[0]


def select_served(tree: CommitTree, policy: SyncPolicy) -> TreeListing:
    """Select the files to serve, and survey the others.

    Raises:
        LimitExceededError: There are too many files, or too many bytes.
        DamagedStoreError: Git has lost a served file.
    """
    entries, surveyed = _survey(tree, policy)
    for entry in entries:
        if entry.size_bytes < 0:
            raise DamagedStoreError(f"{entry.file!r} is missing from Git's store")
    return TreeListing(entries, {s: _without_empty(p, entries) for s, p in surveyed.items()})


def _survey(
    tree: CommitTree, policy: SyncPolicy
) -> tuple[tuple[TreeEntry, ...], dict[Selection, SurveyedPart]]:
    files: set[str] = set()
    surveyed: dict[Selection, SurveyedPart] = {}
    limits = WalkLimits(
        max_files=policy.max_files,
        max_file_bytes=policy.max_file_bytes,
        max_total_bytes=policy.max_total_bytes,
    )
    for selection in policy.selections:
        survey = SourceWalk(tree, selection, limits)
        problems: list[Problem] = []
        for home in survey.layout.homes:
            files.add(home.below(CONFIG))
            for found in survey.walk(home):
                if isinstance(found, Problem):
                    located = replace(found, file=home.file_prefix + found.file)
                    problems.append(located)
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
    homes = (h for h in part.homes if any(is_inside(e.file, h.folder) for e in entries))
    return replace(part, homes=tuple(homes))


def _files_of(home: RelativeRoot, found: RuleFile | Package) -> set[str]:
    folder = home.below(found.folder)
    inside = f"{folder}/" if folder else ""
    return {home.below(found.file), *(inside + name for name in found.files)}
