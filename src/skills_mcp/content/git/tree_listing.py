"""The files of a commit, as Git lists them, and which of them are left out.

Rule 1: limits are checked before anything is written.
Rule 2: a name that some file system could misread is left out on all systems, and
reported.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

from skills_mcp.content.git.failures import DamagedStoreError
from skills_mcp.content.source import LeftOut, LeftOutKind
from skills_mcp.content.sync_policy import SyncPolicy
from skills_mcp.errors import InvalidPathError, LimitExceededError
from skills_mcp.files.paths import parse_relative

_UNWRITTEN: dict[str, LeftOutKind] = {"120000": "link", "160000": "submodule"}
_EXECUTABLE = 0o100

# The size of a blob that Git has lost.
_UNREADABLE = "BAD"

# A fast way for names like `ui/some-rules.md`, which break no rule: letters and digits,
# and too long for a device or not like one. Nine in ten are like that, and checking
# each letter takes most of the time.
_PLAIN_STEM = r"(?:[\w-]{5,80}|(?!con|prn|aux|nul|com|lpt)[\w-]{1,4})"
_PLAIN_PART = rf"{_PLAIN_STEM}(?:\.[\w-]{{1,80}})?"
_PLAIN = re.compile(
    rf"(?:{_PLAIN_PART}/){{0,5}}{_PLAIN_PART}", re.ASCII | re.IGNORECASE
)

_REMEDY = "Serve a part of the repository with subfolder, or raise"


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A regular file in a commit."""

    file: str
    blob: str
    size_bytes: int
    is_executable: bool


@dataclass(frozen=True, slots=True)
class TreeListing:
    """The files of a commit, and those that are left out.

    A link could point anywhere, a submodule is another repository, and some names
    mean something else on another system.
    """

    entries: tuple[TreeEntry, ...]
    left_out: tuple[LeftOut, ...]


def parse_listing(records: Iterable[bytes], policy: SyncPolicy) -> TreeListing:
    """Return the files of what `git ls-tree -r -z -l --full-tree` prints.

    Args:
        records: What it prints, split at each NUL; read no further than needed.
        policy: Its limits.

    Raises:
        LimitExceededError: There are too many files, or too many bytes.
        DamagedStoreError: Git has lost a file of the commit.
    """
    entries: list[TreeEntry] = []
    left_out: list[LeftOut] = []
    for number, record in enumerate(records):
        if number == policy.max_files:
            raise LimitExceededError(
                f"the commit has more than {policy.max_files:,} files. {_REMEDY} "
                "limits.max_files"
            )
        match _parse_record(record, policy.max_file_bytes):
            case TreeEntry() as entry:
                entries.append(entry)
            case LeftOut() as other:
                left_out.append(other)
    entries, collisions = _separate(entries)
    _check_total(entries, policy.max_total_bytes)
    left_out = sorted((*left_out, *collisions), key=attrgetter("file"))
    return TreeListing(tuple(entries), tuple(left_out))


def _check_total(entries: Sequence[TreeEntry], max_total_bytes: int) -> None:
    total = sum(entry.size_bytes for entry in entries)
    if total > max_total_bytes:
        raise LimitExceededError(
            f"the commit has {total:,} bytes; the limit is {max_total_bytes:,}. "
            f"{_REMEDY} limits.max_total_bytes"
        )


def _parse_record(record: bytes, max_file_bytes: int) -> TreeEntry | LeftOut:
    header, _, file = record.decode("utf-8", "surrogateescape").partition("\t")
    mode, _, blob, size = header.split()
    if kind := _UNWRITTEN.get(mode):
        return LeftOut(file, kind)
    if not _is_safe(file):
        return LeftOut(file, "name")
    if size == _UNREADABLE:
        raise DamagedStoreError(f"{file!r} is missing from Git's store")
    if int(size) > max_file_bytes:
        return LeftOut(file, "size")
    return TreeEntry(file, blob, int(size), bool(int(mode, 8) & _EXECUTABLE))


def _is_safe(file: str) -> bool:
    return _PLAIN.fullmatch(file) is not None or _breaks_no_rule(file)


def _breaks_no_rule(path: str) -> bool:
    try:
        parse_relative(path)
    except InvalidPathError:
        return False
    return True


def _separate(entries: Sequence[TreeEntry]) -> tuple[list[TreeEntry], list[LeftOut]]:
    """Separate the files whose names collide on some file system.

    None of those is written: which one a system would keep depends on the order.
    """
    colliding = _find_collisions(entries)
    if not colliding:
        return list(entries), []
    kept, left_out = [], []
    for entry in entries:
        if any(_fold(path) in colliding for path in _find_steps(entry.file)):
            left_out.append(LeftOut(entry.file, "collision"))
        else:
            kept.append(entry)
    return kept, left_out


def _find_collisions(entries: Iterable[TreeEntry]) -> frozenset[str]:
    """Return the folded paths that several files or folders share."""
    spellings: dict[str, str] = {}
    folders: set[str] = set()
    colliding: set[str] = set()
    for entry in entries:
        key = _fold(entry.file)
        # A tree that was made by hand may name a file twice, or one like a folder.
        if key in spellings:
            colliding.add(key)
        spellings[key] = entry.file
        for folder in _find_steps(entry.file.rpartition("/")[0]):
            if folder in folders:
                break  # and so are those above it
            folders.add(folder)
            key = _fold(folder)
            if spellings.setdefault(key, f"{folder}/") != f"{folder}/":
                colliding.add(key)
    return frozenset(colliding)


def _find_steps(path: str) -> Iterator[str]:
    """Iterate over a path and the folders above it.

    >>> list(_find_steps("a/b/c"))
    ['a/b/c', 'a/b', 'a']
    """
    while path:
        yield path
        path = path.rpartition("/")[0]


def _fold(path: str) -> str:
    """Return what a file system that ignores case and composition compares."""
    if path.isascii():
        return path.lower()
    composed = unicodedata.normalize("NFC", path)
    return unicodedata.normalize("NFC", composed.casefold())
