"""From skills that were read, and those that are known, to a table of them."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from skills_mcp.skills.model import Stamp
from skills_mcp.skills.records import Entry, Place, Read, Row
from skills_mcp.skills.table import Inside, SkillTable

Beside = tuple[Sequence[str], int, Inside]
"""Keywords, priority and files of a skill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A skill that says what it said before, wherever its files lie now."""

    table: SkillTable
    """Where it was before."""
    number: int
    main: Stamp
    files: Mapping[str, Stamp]

    @property
    def listed(self) -> Row:
        """What it is called."""
        return self.table.listed[self.number]

    @property
    def file(self) -> str:
        """Its Markdown file, relative to the content's root."""
        return self.table.file(self.number)

    @property
    def characters(self) -> int:
        """How long its text is."""
        return self.table.characters(self.number)

    @property
    def record(self) -> bytes:
        """What it says."""
        return self.table.record(self.number)

    @property
    def owns_folder(self) -> bool:
        """Whether it has a folder with files."""
        return self.table.owns_folder(self.number)


def pack(placed: Iterable[tuple[int, Entry]], places: Sequence[Place]) -> SkillTable:
    """Return a table of skills.

    Args:
        placed: The number of its place and a skill, in path order.
        places: The folders.
    """
    rows = list(placed)
    entries = [entry for _, entry in rows]
    beside = list(_find_beside(entries))
    stamps = [(e.main, *e.files.values()) for e in entries]
    columns = {
        "paths": [e.listed.path for e in entries],
        "names": [e.listed.name for e in entries],
        "categories": [e.listed.category for e in entries],
        "keywords": [keywords for keywords, _, _ in beside],
        "priorities": [priority for _, priority, _ in beside],
        "inside": [inside for _, _, inside in beside],
        "files": [e.file.removeprefix(places[place].prefix) for place, e in rows],
        "places": [(str(p.directory), p.prefix, p.scope) for p in places],
    }
    return SkillTable(
        {
            **{name: _json(column) for name, column in columns.items()},
            "record_ends": _ends(map(_length, entries), np.uint64),
            "homes": np.array([place for place, _ in rows], np.uint16),
            "stamps": np.array(
                [
                    (stamp.size_bytes, stamp.modified_ns, stamp.changed_ns)
                    for stamp in chain.from_iterable(stamps)
                ],
                np.int64,
            ).reshape(-1, 3),
            "stamp_ends": _ends(map(len, stamps), np.uint32),
            "characters": np.array([e.characters for e in entries], np.uint32),
            "folders": np.array([e.owns_folder for e in entries], np.bool_),
            "checksums": np.array([checksum(e.files) for e in entries], np.uint32),
        },
        b"".join(_join_records(entries)),
    )


def _length(entry: Entry) -> int:
    if isinstance(entry, Kept):
        return entry.table.length(entry.number)
    return len(entry.record)


def _join_records(entries: Sequence[Entry]) -> Iterator[bytes]:
    """Iterate over the records; what stood side by side is read at once."""
    start = 0
    while start < len(entries):
        first, end = entries[start], start + 1
        if isinstance(first, Kept):
            while end < len(entries) and _follows(entries[end - 1], entries[end]):
                end += 1
            yield first.table.records(first.number, first.number + end - start)
        else:
            yield first.record
        start = end


def _follows(one: Entry, other: Entry) -> bool:
    if not isinstance(one, Kept) or not isinstance(other, Kept):
        return False
    return other.number == one.number + 1


def _find_beside(entries: Iterable[Entry]) -> Iterator[Beside]:
    """Iterate over what is beside each record and in no row."""
    before: list[Beside] = []
    for entry in entries:
        if isinstance(entry, Kept):
            table = entry.table
            before = before or list(_zip_beside(table))
            yield before[entry.number]
        elif isinstance(entry, Read):
            yield entry.keywords, entry.priority, (entry.folder, list(entry.files))


def _zip_beside(table: SkillTable) -> Iterator[Beside]:
    columns = (table.column(name) for name in ("keywords", "priorities", "inside"))
    return zip(*columns, strict=True)


def checksum(files: Iterable[str]) -> int:
    """Return what changes with the names of files."""
    return crc32("\0".join(files).encode("utf-8", "surrogatepass"))


def _ends(lengths: Iterable[int], kind: type[np.unsignedinteger[Any]]) -> NDArray[Any]:
    return np.fromiter(accumulate(lengths, initial=0), kind)


def _json(value: object) -> NDArray[np.uint8]:
    text = json.dumps(value, ensure_ascii=False)
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
