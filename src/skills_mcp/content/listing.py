"""The files of a commit, as Git lists them."""

from dataclasses import dataclass

from skills_mcp.errors import InvalidPathError
from skills_mcp.safe_path import parse_relative


@dataclass(frozen=True, slots=True)
class Entry:
    """A regular file in a commit."""

    file: str
    blob: str


@dataclass(frozen=True, slots=True)
class Listing:
    """What is in a commit, and what of it is never written to a disk.

    A link could point anywhere, a submodule is another repository, and some names
    mean something else on another system.
    """

    entries: tuple[Entry, ...]
    left_out: tuple[str, ...]


def parse_listing(raw: bytes) -> Listing:
    """Return the files of what `git ls-tree -r -z` prints."""
    entries, left_out = [], []
    for line in raw.decode("utf-8", "surrogateescape").split("\0")[:-1]:
        header, _, file = line.partition("\t")
        mode, _, blob = header.split(" ")
        if mode.startswith("100") and _is_safe(file):
            entries.append(Entry(file, blob))
        else:
            left_out.append(file)
    return Listing(tuple(entries), tuple(left_out))


def _is_safe(file: str) -> bool:
    try:
        parse_relative(file)
    except InvalidPathError:
        return False
    return True
