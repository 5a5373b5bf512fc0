"""What lies in a folder, whether it is on a disk or in a commit.

Rule: no link is followed. A name can become a link at any time, so each question about
an entry is asked of the open folder, and never again by its path.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from skills_mcp.errors import MissingFileError
from skills_mcp.files.opening import HeldFolder, open_inside
from skills_mcp.skills.model import Stamp

EntryKind = Literal["folder", "file", "link", "submodule", "other"]


class FolderEntry(NamedTuple):
    """One name in a folder."""

    kind: EntryKind
    stamp: Stamp | None = None
    """The size and times of a file; None if it cannot be looked at."""


class FolderListing(NamedTuple):
    """The names in a folder."""

    entries: Mapping[str, FolderEntry]
    """In the order of their names; not all of them if there are more than asked for."""
    number: int
    """The number of names, those beyond `entries` included."""


class FileTree(Protocol):
    """Folders and files below one top folder: those of a disk, or of a commit.

    Paths are relative to the top, with slashes; the top itself is empty.
    """

    def list(self, folder: str, most: int) -> FolderListing:
        """List a folder.

        Args:
            folder: A folder that `list` has returned, or the top.
            most: The largest number of entries that is needed.

        Raises:
            OSError: It may not be listed, or is no folder (any more).
        """
        ...

    def read(self, file: str) -> bytes | None:
        """Read a small file; None if there is none, or it is large."""
        ...


class FolderTree:
    """The files below a folder of this machine.  Blocking.

    Args:
        root: The operator's choice; links on the way to it are followed.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._held = HeldFolder(root)

    def list(self, folder: str, most: int) -> FolderListing:
        """List a folder, see `FileTree.list`."""
        with self._held.listed(_split(folder)) as scan:
            found = list(islice(scan, most))  # of millions, no more cost memory
            number = len(found) + sum(1 for _ in scan)
            found.sort(key=_name_of)
            return FolderListing({each.name: _look(each) for each in found}, number)

    def read(self, file: str) -> bytes | None:
        """Read a small file, see `FileTree.read`."""
        try:
            with open_inside(self._root, _split(file)) as handle:
                data = handle.read(MAX_READ_BYTES + 1)
        except (OSError, MissingFileError):
            return None
        return data if len(data) <= MAX_READ_BYTES else None


MAX_READ_BYTES = 1024 * 1024
"""The largest file that `FileTree.read` reads: a manifest of a thousand plugins."""


def has_folder(tree: FileTree, folder: str) -> bool:
    """Whether there is a folder, and not a link in its place."""
    above, _, name = folder.rpartition("/")
    entry = list_quietly(tree, above).get(name)
    return entry is not None and entry.kind == "folder"


def list_quietly(tree: FileTree, folder: str) -> Mapping[str, FolderEntry]:
    """List a folder; nothing if that is not possible: the walk reports why."""
    try:
        return tree.list(folder, MAX_READ_BYTES).entries
    except OSError:
        return {}


def _split(path: str) -> tuple[str, ...]:
    return tuple(path.split("/")) if path else ()


def _look(entry: "os.DirEntry[str]") -> FolderEntry:
    # The kind comes with the name; only files have to be looked at.
    try:
        if entry.is_dir(follow_symlinks=False):
            return _FOLDER
        if entry.is_symlink():
            return _LINK
        if not entry.is_file(follow_symlinks=False):
            return _OTHER
        return FolderEntry("file", Stamp.of(entry.stat(follow_symlinks=False)))
    except OSError:  # deleted since it was listed, or behind a lock
        return _guess(entry)


def _guess(entry: "os.DirEntry[str]") -> FolderEntry:
    """Return the kind that was listed with the name; not every disk has one."""
    with suppress(OSError):
        if entry.is_file(follow_symlinks=False):
            return FolderEntry("file")
    return _OTHER


_FOLDER, _LINK = FolderEntry("folder"), FolderEntry("link")
_OTHER = FolderEntry("other")
_name_of = attrgetter("name")
