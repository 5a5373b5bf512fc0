"""Many skills in little memory: each is decoded when it is asked for.

Ten thousand skills as objects are larger than all the rest of the server. Here they
are records in a few arrays, which a file can hold; a skill is a slice of them. What all
skills are asked for at once (paths, names, categories) is beside the records.

The texts of the records may lie on a disk, where other processes can reach them. So
each has a checksum, and one that is damaged is taken from a table that is built anew.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate, chain, starmap
from operator import add
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from skills_mcp.errors import ContentUnavailableError
from skills_mcp.files.arrays import DamagedTextError, Sliceable
from skills_mcp.routing.ranked import SkillText
from skills_mcp.skills.homes import Home
from skills_mcp.skills.model import Skill, Stamp
from skills_mcp.snapshots.records import (
    KEY_BYTES,
    NO_KEY,
    ContentRecord,
    ListedSkill,
    RecordedSkill,
    StoredText,
    decode,
    decode_text,
)

Arrays = Mapping[str, NDArray[Any]]

Rebuild = Callable[[], "SkillTable"]
"""Reads the skills of the same content again.

It raises a `DamagedTextError` if the table is not served yet.
"""

# More than one reply needs, so that the rules of a folder are decoded once for all of
# its skills.
_REMEMBERED = 256


class SkillTable(Sequence[Skill]):
    """The skills of one state of the content, in path order.  Never changes.

    Args:
        arrays: As `pack` made them, here or in another process.
        text: The texts of the records, one after the other; the same.
        rebuild: Called once if a text is damaged; None if that cannot be.

    Raises:
        ValueError: The arrays do not belong together.
    """

    def __init__(
        self, arrays: Arrays, text: Sliceable, rebuild: Rebuild | None = None
    ) -> None:
        _check(arrays, text)
        self.arrays = arrays
        self.text = text
        self._lines = _Lines(arrays, text, rebuild)
        # Not of ourselves: a cycle is freed by nothing but the garbage collector.
        self._get = lru_cache(maxsize=_REMEMBERED)(self._lines.decode)

    @classmethod
    def pack(
        cls, placed: Sequence[tuple[int, ContentRecord]], homes: Sequence[Home]
    ) -> "SkillTable":
        """Return the table of records.

        Args:
            placed: The number of its home and a record with a skill, in path order.
            homes: The folders that the skills lie in.
        """
        numbers = [home for home, _ in placed]
        keys = b"".join(record.key for _, record in placed)
        skills = [record.skill for _, record in placed if record.skill]
        stamps = [
            (stamp.size_bytes, stamp.modified_ns, stamp.changed_ns)
            for stamp in chain.from_iterable(skill.stamps for skill in skills)
        ]
        columns = {
            "paths": [s.path for s in skills],
            "names": [s.name for s in skills],
            "categories": [s.category for s in skills],
            "keywords": [s.keywords for s in skills],
            "priorities": [s.priority for s in skills],
            "files": [s.file for s in skills],
            "always_apply": [s.always_apply for s in skills],
            "owners": [s.owner for s in skills],
            "places": [
                (str(h.directory), h.prefix, h.packages_only, h.scope, h.file_prefix)
                for h in homes
            ],
        }
        arrays: dict[str, NDArray[Any]] = {
            **{name: _to_json(column) for name, column in columns.items()},
            "keys": np.frombuffer(keys, np.uint8).reshape(-1, KEY_BYTES),
            "homes": np.array(numbers, np.uint16),
            "record_ends": _ends((s.text.size_bytes for s in skills), np.uint64),
            "record_sums": np.array([s.text.checksum for s in skills], np.uint32),
            "stamps": np.array(stamps, np.int64).reshape(-1, 3),
            "stamp_ends": _ends((len(s.stamps) for s in skills), np.uint32),
            "characters": np.array([s.characters for s in skills], np.uint32),
        }
        return cls(arrays, b"".join(s.text.read() for s in skills))

    def has_packed(
        self, placed: Sequence[tuple[int, ContentRecord]], homes: Sequence[Home]
    ) -> bool:
        """Whether `pack` would return the same table, as the keys tell."""
        keys = [record.key for _, record in placed]
        return (
            NO_KEY not in keys
            and keys == self.keys
            and [home for home, _ in placed] == self.arrays["homes"].tolist()
            and tuple(homes) == self.homes
        )

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, number: int) -> Skill: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[Skill, ...]: ...
    def __getitem__(self, number: int | slice) -> Skill | tuple[Skill, ...]:
        if isinstance(number, slice):
            return tuple(map(self._lines.decode, range(*number.indices(len(self)))))
        if not -len(self) <= number < len(self):
            raise IndexError(number)
        return self._get(number % len(self))

    def __iter__(self) -> Iterator[Skill]:
        # Not from the cache, which holds what is in use.
        return map(self._lines.decode, range(len(self)))

    @cached_property
    def listed(self) -> tuple[ListedSkill, ...]:
        """What is known of the skills without decoding them."""
        columns = (self.column(name) for name in ("paths", "names", "categories"))
        scopes = [home.scope for home in self.homes]
        its = map(scopes.__getitem__, self.arrays["homes"].tolist())
        core = self.column("always_apply")
        return tuple(starmap(ListedSkill, zip(*columns, its, core, strict=True)))

    def declared(self) -> Iterator[tuple[list[str], int]]:
        """Iterate over the keywords and the priority of each skill."""
        return zip(self.column("keywords"), self.column("priorities"), strict=True)

    @property
    def homes(self) -> tuple[Home, ...]:
        """The folders that the skills lie in."""
        return self._lines.homes

    @property
    def keys(self) -> list[bytes]:
        """The keys of the records: a new list each time, as keeping it takes memory."""
        return self._lines.keys

    def files(self) -> list[str]:
        """Return the Markdown file of each skill, relative to the content's root.

        A new list each time, as keeping it takes memory.
        """
        prefixes = [home.file_prefix for home in self.homes]
        homes = map(prefixes.__getitem__, self.arrays["homes"].tolist())
        return list(map(add, homes, self.column("files")))

    def text_of(self, number: int) -> SkillText:
        """Return what routing reads of a skill; the rest is not decoded."""
        return decode_text(self._lines.record(number))

    def reread(self, number: int) -> SkillText:
        """Return what routing reads of a skill, from a table that is built anew.

        Raises:
            ContentUnavailableError: The skill has changed meanwhile.
            DamagedTextError: There is nothing to build a table from.
        """
        return decode_text(self._lines.restore(number))

    def record_of(self, key: bytes) -> bytes | None:
        """Return the text of the record with a key; None if there is none."""
        keys = self.keys
        if key == NO_KEY or key not in keys:
            return None
        return self._lines.record(keys.index(key))

    def records(self) -> Iterator[ContentRecord]:
        """Iterate over the records as they were packed, but for their problems."""
        listed, files = self.listed, self.column("files")
        columns = (
            (each.path for each in listed),
            (each.name for each in listed),
            (each.category for each in listed),
            *(self.column(name) for name in ("keywords", "priorities")),
            files,
            map(self._lines.stamps, range(len(self))),
            self.arrays["characters"].tolist(),
            (each.always_apply for each in listed),
            self.column("owners"),
            map(self._lines.stored, range(len(self))),
        )
        skills = starmap(RecordedSkill, zip(*columns, strict=True))
        prefixes = [home.file_prefix for home in self.homes]
        homes = map(prefixes.__getitem__, self.arrays["homes"].tolist())
        rows = zip(self.keys, homes, files, skills, strict=True)
        for key, prefix, file, skill in rows:
            yield ContentRecord(key, prefix + file, skill)

    def column(self, name: str) -> list[Any]:
        """Return one property of all skills."""
        column: list[Any] = json.loads(bytes(self.arrays[name]))
        return column


class _Lines:
    """The texts of the records, and the stamps of each skill's files."""

    def __init__(
        self, arrays: Arrays, text: Sliceable, rebuild: Rebuild | None
    ) -> None:
        # Views, as lists of these numbers would take ten times the memory; and a view
        # answers for one item several times as fast as an array.
        self._ends = arrays["record_ends"].data
        self._sums = arrays["record_sums"].data
        self._keys = arrays["keys"]
        self._text = text
        self._rebuild = rebuild
        self._rebuilt: SkillTable | None = None
        self._stamps = arrays["stamps"]
        self._stamp_ends = arrays["stamp_ends"].data
        self._homes = arrays["homes"]
        homes = json.loads(bytes(arrays["places"]))
        self.homes = tuple(Home(Path(at), *others) for at, *others in homes)

    def __len__(self) -> int:
        return len(self._sums)

    @property
    def keys(self) -> list[bytes]:
        whole = self._keys.tobytes()
        starts = range(0, len(whole), KEY_BYTES)
        return [whole[start : start + KEY_BYTES] for start in starts]

    def stored(self, number: int) -> StoredText:
        start, end = self._ends[number : number + 2]
        return StoredText(self._text, start, end, self._sums[number])

    def record(self, number: int) -> bytes:
        try:
            return self.stored(number).read()
        except DamagedTextError:
            return self.restore(number)

    def restore(self, number: int) -> bytes:
        """Return a text from a table that is built anew, as something is damaged."""
        if self._rebuild is None:
            raise DamagedTextError("the kept index is damaged")
        # No lock: who rebuilds may wait for another thread that needs this record, too.
        self._rebuilt = self._rebuilt or self._rebuild()
        found = self._rebuilt.record_of(self.keys[number])
        if found is None:
            raise ContentUnavailableError(
                "The index that is kept on this machine was damaged, and this skill "
                "has changed meanwhile. All skills were read again: repeat the call."
            )
        return found

    def stamps(self, number: int) -> list[Stamp]:
        its = slice(*self._stamp_ends[number : number + 2])
        return list(starmap(Stamp, self._stamps[its].tolist()))

    def decode(self, number: int) -> Skill:
        home = self.homes[int(self._homes[number])]
        return decode(self.record(number), home, self.stamps(number))


def _ends(lengths: Iterable[int], kind: type[np.unsignedinteger[Any]]) -> NDArray[Any]:
    return np.fromiter(accumulate(lengths, initial=0), kind)


def _to_json(value: object) -> NDArray[np.uint8]:
    text = json.dumps(value, ensure_ascii=False)
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)


def _check(arrays: Arrays, text: Sliceable) -> None:
    """Refuse arrays that are not of one table: a file may be damaged."""
    count = len(arrays["record_ends"]) - 1
    ends = (
        (arrays["record_ends"], text),
        (arrays["stamp_ends"], arrays["stamps"]),
    )
    fits = all(
        len(each) == count + 1
        and int(each[0]) == 0
        and int(each[-1]) == len(whole)
        and bool((each[1:] >= each[:-1]).all())
        for each, whole in ends
    )
    whole = ("homes", "characters", "keys", "record_sums")
    lengths = {len(arrays[name]) for name in whole}
    widths = arrays["stamps"].shape[1:], arrays["keys"].shape[1:]
    if not fits or lengths != {count} or widths != ((3,), (KEY_BYTES,)):
        raise ValueError("the arrays of a table do not fit together")
