"""Many skills in little memory: each is decoded on access.

Ten thousand skills as objects are larger than all the rest of the server. Here they are
records in a few arrays, which a file can hold; a skill is a slice. Fields needed of all
skills at once (paths, names, categories) are columns of their own.

The texts of the records may lie on a disk, within reach of other processes. So each has
a checksum, and a damaged one is taken from a rebuilt table.
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
from skills_mcp.skills.homes import SkillRoot
from skills_mcp.skills.model import Skill, Stamp
from skills_mcp.snapshots.records import (
    NO_KEY,
    RECORD_KEY_BYTES,
    ContentRecord,
    ListedSkill,
    RecordedSkill,
    StoredText,
    decode_skill,
    decode_skill_text,
)

Arrays = Mapping[str, NDArray[Any]]

Rebuild = Callable[[], "SkillTable"]
"""Rereads the same skills; raises `DamagedTextError` if none are served yet."""

# More than one reply needs, so that the rules of a folder are decoded once for all of
# its skills.
_CACHE_SIZE = 256


class SkillTable(Sequence[Skill]):
    """The skills of one state of the content, in path order.  Immutable.

    Raises:
        ValueError: The arrays do not belong together.
    """

    def __init__(self, arrays: Arrays, text: Sliceable, rebuild: Rebuild | None = None) -> None:
        _require_consistent(arrays, text)
        self.arrays = arrays
        self.text = text
        self._lines = _RecordTexts(arrays, text, rebuild)
        # Not of ourselves: a cycle is freed by nothing but the garbage collector.
        self._get = lru_cache(maxsize=_CACHE_SIZE)(self._lines.decode)

    @classmethod
    def pack(
        cls, placed: Sequence[tuple[int, ContentRecord]], homes: Sequence[SkillRoot]
    ) -> "SkillTable":
        """Pack records into a table."""
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
                (str(h.directory), h.prefix, h.packages_only, h.scope, h.file_prefix) for h in homes
            ],
        }
        arrays: dict[str, NDArray[Any]] = {
            **{name: _to_json(column) for name, column in columns.items()},
            "keys": np.frombuffer(keys, np.uint8).reshape(-1, RECORD_KEY_BYTES),
            "homes": np.array(numbers, np.uint16),
            "record_ends": _ends((s.text.size_bytes for s in skills), np.uint64),
            "record_sums": np.array([s.text.checksum for s in skills], np.uint32),
            "stamps": np.array(stamps, np.int64).reshape(-1, 3),
            "stamp_ends": _ends((len(s.stamps) for s in skills), np.uint32),
            "characters": np.array([s.characters for s in skills], np.uint32),
        }
        return cls(arrays, b"".join(s.text.read() for s in skills))

    def has_packed(
        self, placed: Sequence[tuple[int, ContentRecord]], homes: Sequence[SkillRoot]
    ) -> bool:
        """Whether `pack` would produce the same table, by comparing keys."""
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
        """Fields of all skills available without decoding."""
        columns = (self.column(name) for name in ("paths", "names", "categories"))
        scopes = [home.scope for home in self.homes]
        home_scopes = map(scopes.__getitem__, self.arrays["homes"].tolist())
        core = self.column("always_apply")
        return tuple(starmap(ListedSkill, zip(*columns, home_scopes, core, strict=True)))

    def declared(self) -> Iterator[tuple[list[str], int]]:
        return zip(self.column("keywords"), self.column("priorities"), strict=True)

    @property
    def homes(self) -> tuple[SkillRoot, ...]:
        return self._lines.homes

    @property
    def keys(self) -> list[bytes]:
        """Keys of the records: a new list each time, as caching it takes memory."""
        return self._lines.keys

    def files(self) -> list[str]:
        """List the Markdown files, relative to the content's root; uncached."""
        prefixes = [home.file_prefix for home in self.homes]
        homes = map(prefixes.__getitem__, self.arrays["homes"].tolist())
        return list(map(add, homes, self.column("files")))

    def text_of(self, number: int) -> SkillText:
        """Decode the fields for routing of one skill."""
        return decode_skill_text(self._lines.record(number))

    def reread(self, number: int) -> SkillText:
        """Decode the fields for routing of one skill, from a rebuilt table.

        Raises:
            ContentUnavailableError: The skill has changed meanwhile.
            DamagedTextError: There is nothing to build a table from.
        """
        return decode_skill_text(self._lines.restore(number))

    def record_of(self, key: bytes) -> bytes | None:
        keys = self.keys
        if key == NO_KEY or key not in keys:
            return None
        return self._lines.record(keys.index(key))

    def records(self) -> Iterator[ContentRecord]:
        listed, files = self.listed, self.column("files")
        columns = (
            (row.path for row in listed),
            (row.name for row in listed),
            (row.category for row in listed),
            *(self.column(name) for name in ("keywords", "priorities")),
            files,
            map(self._lines.stamps, range(len(self))),
            self.arrays["characters"].tolist(),
            (row.always_apply for row in listed),
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
        column: list[Any] = json.loads(bytes(self.arrays[name]))
        return column


class _RecordTexts:
    def __init__(self, arrays: Arrays, text: Sliceable, rebuild: Rebuild | None) -> None:
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
        self.homes = tuple(SkillRoot(Path(at), *others) for at, *others in homes)

    def __len__(self) -> int:
        return len(self._sums)

    @property
    def keys(self) -> list[bytes]:
        data = self._keys.tobytes()
        starts = range(0, len(data), RECORD_KEY_BYTES)
        return [data[start : start + RECORD_KEY_BYTES] for start in starts]

    def stored(self, number: int) -> StoredText:
        start, end = self._ends[number : number + 2]
        return StoredText(self._text, start, end, self._sums[number])

    def record(self, number: int) -> bytes:
        try:
            return self.stored(number).read()
        except DamagedTextError:
            return self.restore(number)

    def restore(self, number: int) -> bytes:
        """Restore a damaged text from a rebuilt table."""
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
        span = slice(*self._stamp_ends[number : number + 2])
        return list(starmap(Stamp, self._stamps[span].tolist()))

    def decode(self, number: int) -> Skill:
        home = self.homes[int(self._homes[number])]
        return decode_skill(self.record(number), home, self.stamps(number))


def _ends(lengths: Iterable[int], kind: type[np.unsignedinteger[Any]]) -> NDArray[Any]:
    return np.fromiter(accumulate(lengths, initial=0), kind)


def _to_json(value: object) -> NDArray[np.uint8]:
    text = json.dumps(value, ensure_ascii=False)
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)


def _require_consistent(arrays: Arrays, text: Sliceable) -> None:
    """Refuse inconsistent arrays: a file may be damaged."""
    count = len(arrays["record_ends"]) - 1
    ends = (
        (arrays["record_ends"], text),
        (arrays["stamp_ends"], arrays["stamps"]),
    )
    fits = all(
        len(offsets) == count + 1
        and int(offsets[0]) == 0
        and int(offsets[-1]) == len(values)
        and bool((offsets[1:] >= offsets[:-1]).all())
        for offsets, values in ends
    )
    values = ("homes", "characters", "keys", "record_sums")
    lengths = {len(arrays[name]) for name in values}
    widths = arrays["stamps"].shape[1:], arrays["keys"].shape[1:]
    if not fits or lengths != {count} or widths != ((3,), (RECORD_KEY_BYTES,)):
        raise ValueError("the arrays of a table do not fit together")
