"""Source layout: file trees on a disk or in a commit, and the roots of skills in them.

No link is followed. A name can become a link at any time, so each question about an
entry is asked of the open folder, and never again by its path.

Skills begin in `skills/`, in hidden folders, in plugins, or at the top. Words of a
layout, such as `plugins` and `skills`, are no part of a skill's path. See
docs/how-to/whole-repositories.md.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from skills_mcp.errors import MissingFileError
from skills_mcp.files.opening import OpenFolder, open_inside
from skills_mcp.skills.model import Stamp

EntryKind = Literal["folder", "file", "link", "submodule", "other"]


class FolderEntry(NamedTuple):
    kind: EntryKind
    stamp: Stamp | None = None


class FolderListing(NamedTuple):
    """Directory entries, up to a limit."""

    entries: Mapping[str, FolderEntry]
    """Sorted by name; incomplete beyond the limit."""
    number: int
    """The number of names, those beyond `entries` included."""


class FileTree(Protocol):
    """Folders and files below one top folder, on a disk or in a commit.

    Paths are relative to the top, with slashes; the top itself is empty.
    """

    def list(self, folder: str, limit: int) -> FolderListing:
        """List a folder, with `limit` entries at most.

        Raises:
            OSError: Permission is denied, or it is no folder (any more).
        """
        ...

    def read(self, file: str) -> bytes | None:
        """Read a file up to `MAX_READ_BYTES`; None without one, or beyond."""
        ...


class FolderTree:
    """A file tree on this machine; follows links on the way to `root`. Blocking."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._held = OpenFolder(root)

    def list(self, folder: str, limit: int) -> FolderListing:
        with self._held.scan_folder(_split_path(folder)) as scan:
            found = list(islice(scan, limit))  # of millions, no more cost memory
            number = len(found) + sum(1 for _ in scan)
            found.sort(key=_name_of)
            return FolderListing({entry.name: _to_entry(entry) for entry in found}, number)

    def read(self, file: str) -> bytes | None:
        try:
            with open_inside(self._root, _split_path(file)) as handle:
                data = handle.read(MAX_READ_BYTES + 1)
        except (OSError, MissingFileError):
            return None
        return data if len(data) <= MAX_READ_BYTES else None


MAX_READ_BYTES = 1024 * 1024
"""Limit of `FileTree.read`: a manifest of a thousand plugins."""


def has_folder(tree: FileTree, folder: str) -> bool:
    above, _, name = folder.rpartition("/")
    entry = list_or_empty(tree, above).get(name)
    return entry is not None and entry.kind == "folder"


def list_or_empty(tree: FileTree, folder: str) -> Mapping[str, FolderEntry]:
    """List a folder; empty on errors: the walk reports them."""
    try:
        return tree.list(folder, MAX_READ_BYTES).entries
    except OSError:
        return {}


def _split_path(path: str) -> tuple[str, ...]:
    return tuple(path.split("/")) if path else ()


def _to_entry(entry: "os.DirEntry[str]") -> FolderEntry:
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
        return _to_listed_entry(entry)


def _to_listed_entry(entry: "os.DirEntry[str]") -> FolderEntry:
    with suppress(OSError):
        if entry.is_file(follow_symlinks=False):
            return FolderEntry("file")
    return _OTHER


_FOLDER, _LINK = FolderEntry("folder"), FolderEntry("link")
_OTHER = FolderEntry("other")
_name_of = attrgetter("name")
