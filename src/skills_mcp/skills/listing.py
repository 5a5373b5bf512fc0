"""The entries of a folder, as they were while it was open.

A name can be exchanged for a link at any time, so whatever is asked of an entry is
asked of the open folder, and never again by its path.
"""

import heapq
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from skills_mcp.files.opening import listed_inside
from skills_mcp.skills.model import Stamp
from skills_mcp.skills.package import is_main


@dataclass(frozen=True, slots=True)
class Entry:
    """What a folder says of one of its names."""

    mode: int
    """Its kind; 0 if nobody knows."""
    stamp: Stamp | None
    """How it looks; None if nobody may look at it."""
    leads_to_folder: bool
    """Whether it is a folder, or a link to one."""

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder itself."""
        return stat.S_ISDIR(self.mode)

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file itself."""
        return stat.S_ISREG(self.mode)

    @property
    def is_link(self) -> bool:
        """Whether it leads somewhere else."""
        return stat.S_ISLNK(self.mode)


@dataclass(slots=True)
class Listing:
    """A folder."""

    entries: Mapping[str, Entry]
    """The first ones, in the order of their names."""
    count: int = 0
    """How many names it has, those that are not among the entries included."""
    has_main: bool = False
    """Whether one of them makes it a package, listed or not."""


def load_listing(
    root: Path, folder: str, *, skipped: frozenset[str], most: int
) -> Listing:
    """List a folder below `root`; no link on the way is followed.

    Args:
        root: The top of the content.
        folder: From there, with slashes; empty for the root itself.
        skipped: Names that count as if they were not there.
        most: How many entries are looked at, however many there are.

    Raises:
        OSError: There is no such folder, or nobody may list it.
    """
    listing = Listing({})
    with listed_inside(root, _split(folder)) as scan:
        kept = (entry for entry in scan if entry.name not in skipped)
        # A folder of millions of files costs no more memory than the limit.
        first = heapq.nsmallest(most + 1, _count(kept, listing), key=_name_of)
        listing.entries = {entry.name: _look(entry) for entry in first[:most]}
    return listing


def is_package(root: Path, folder: str) -> bool:
    """Whether a folder below `root` has a main file of a package, or a link for one."""
    try:
        with listed_inside(root, _split(folder)) as scan:
            return any(
                is_main(entry.name) and not entry.is_dir(follow_symlinks=False)
                for entry in scan
            )
    except OSError:
        return False


def _split(folder: str) -> tuple[str, ...]:
    return tuple(filter(None, folder.split("/")))


def _count(
    entries: Iterable["os.DirEntry[str]"], listing: Listing
) -> Iterator["os.DirEntry[str]"]:
    for entry in entries:
        listing.count += 1
        listing.has_main |= is_main(entry.name)
        yield entry


def _name_of(entry: "os.DirEntry[str]") -> str:
    return entry.name


def _look(entry: "os.DirEntry[str]") -> Entry:
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:  # deleted since it was listed, or behind a lock
        return Entry(_guess_mode(entry), None, leads_to_folder=False)
    leads_to_folder = stat.S_ISDIR(found.st_mode)
    if stat.S_ISLNK(found.st_mode):
        with suppress(OSError):  # a link to itself
            leads_to_folder = entry.is_dir()
    return Entry(found.st_mode, Stamp.of(found), leads_to_folder)


def _guess_mode(entry: "os.DirEntry[str]") -> int:
    """Return the kind that was listed with the name; not every disk has one."""
    with suppress(OSError):
        if entry.is_dir(follow_symlinks=False):
            return stat.S_IFDIR
        if entry.is_file(follow_symlinks=False):
            return stat.S_IFREG
    return 0
