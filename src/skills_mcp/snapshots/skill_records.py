"""Records of rule files and packages, keyed by content.

Rule: a key covers all inputs of a reading: the path in the tree, and the content of
every file of the skill. Equal keys are never read again, in any later state, commit or
process.
"""

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from hashlib import blake2b
from itertools import accumulate, chain, starmap
from operator import add
from pathlib import Path
from typing import Any, NamedTuple, overload
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from skills_mcp.errors import ContentUnavailableError
from skills_mcp.files.arrays import DamagedTextError, Sliceable
from skills_mcp.routing.matcher import SkillText, declares_keywords
from skills_mcp.skills.lifecycle import inherit_lifecycles, with_lifecycle
from skills_mcp.skills.model import (
    NO_LIFECYCLE,
    Applicability,
    Argument,
    Asset,
    Execution,
    Inventory,
    Lifecycle,
    Problem,
    Scope,
    Script,
    Skill,
    SkillPath,
    Stamp,
)
from skills_mcp.skills.skill_discovery import Package, ReadSkill, RuleFile
from skills_mcp.skills.source_layout import SkillRoot

RECORD_KEY_BYTES = 16
"""128 bits of a hash: no two contents share a key by chance."""

NO_KEY = bytes(RECORD_KEY_BYTES)
"""Key of an unreadable file: it is always read again."""

ContentId = Callable[[str], str]
"""Content id of a file, by its path in its skill root.

For a file of a commit this is its blob: Git gives the same content the same id in every
commit. A file in a folder has no id; its stamp tells whether it is unchanged.
"""


class ListedSkill(NamedTuple):
    """Fields of a skill available without decoding."""

    path: SkillPath
    name: str
    category: str
    scope: Scope
    always_apply: bool = False
    user_only: bool = False
    lifecycle: Lifecycle = NO_LIFECYCLE
    """With what the folders above declare."""


class StoredText(NamedTuple):
    """A slice of a longer text, possibly on disk; read on demand."""

    source: Sliceable
    start: int
    end: int
    checksum: int

    @classmethod
    def of(cls, text: bytes) -> "StoredText":
        return cls(text, 0, len(text), crc32(text))

    @property
    def size_bytes(self) -> int:
        return self.end - self.start

    def read(self) -> bytes:
        """Read the text.

        Raises:
            DamagedTextError: Its file was changed, cut off, or cannot be read.
        """
        try:
            text = bytes(self.source[self.start : self.end])
        except OSError as error:
            raise DamagedTextError(f"a text cannot be read: {error}") from error
        if crc32(text) != self.checksum:
            raise DamagedTextError("a text changed since it was written")
        return text


class RecordedSkill(NamedTuple):
    """A stored skill, without its folder."""

    path: SkillPath
    name: str
    category: str
    keywords: Sequence[str]
    priority: int
    file: str
    """The Markdown file, relative to its skill root."""
    stamps: Sequence[Stamp]
    characters: int
    always_apply: bool
    user_only: bool
    lifecycle: Lifecycle
    """As declared."""
    text: "StoredText"
    """The encoded skill, see `encode_skill`."""


@dataclass(frozen=True, slots=True)
class ContentRecord:
    """The result of reading one rule file or package: a skill, or its problems."""

    key: bytes
    file: str
    """The Markdown file, relative to the content's root."""
    skill: RecordedSkill | None
    problems: tuple[Problem, ...] = ()

    @classmethod
    def of(cls, key: bytes, home: SkillRoot, file: str, read: ReadSkill) -> "ContentRecord":
        skill, problems = read
        recorded = _record_skill(skill, home) if skill else None
        return cls(key, home.file_prefix + file, recorded, problems)


def derive_record_key(found: RuleFile | Package, home: SkillRoot, content_id: ContentId) -> bytes:
    """Derive the key of a rule file or package from content ids and stamps.

    The stamps are needed, too: the files of a commit may be edited in place.
    """
    if found.stamp is None:
        return NO_KEY
    folder = found.folder
    owns_folder = isinstance(found, Package) or found.owns_folder
    above = f"{folder}/" if folder else ""
    names = sorted(found.files)
    files = [found.file, *(above + name for name in names)]
    stamps = [found.stamp, *map(found.files.__getitem__, names)]
    kind = f"{type(found).__name__}\0{home.prefix}\0{home.file_prefix}\0{owns_folder}"
    lines = "\n".join((kind, *files, *map(content_id, files)))
    digest = blake2b(lines.encode("utf-8", "surrogatepass"), digest_size=RECORD_KEY_BYTES)
    # A name and an id hold no NUL, so where the numbers begin is certain.
    digest.update(b"\0" + array("q", chain.from_iterable(stamps)).tobytes())
    return digest.digest()


def _record_skill(skill: Skill, home: SkillRoot) -> RecordedSkill:
    text = encode_skill(skill, home)
    return RecordedSkill(
        path=skill.path,
        name=skill.name,
        category=skill.category,
        keywords=skill.keywords,
        priority=skill.priority,
        file=skill.file.removeprefix(home.file_prefix),
        stamps=tuple(skill.files.values()),
        characters=len(skill.body),
        always_apply=skill.always_apply,
        user_only=skill.user_only,
        lifecycle=skill.lifecycle,
        text=StoredText.of(text),
    )


_FIELDS = (
    *("path", "file", "name", "description", "keywords", "inherit", "priority"),
    *("assets", "scripts", "directory", "category", "files", "inventory"),
    *("examples", "entry", "always_apply", "user_only", "lifecycle"),
    *("requires", "related", "applies_to"),
)
"""Order of a record, before the body; a change needs another `FORMAT` of the index on disk."""


def encode_skill(skill: Skill, home: SkillRoot) -> bytes:
    """Encode a skill without its folder: a line of JSON, and the body as it is."""
    fields = {name: getattr(skill, name) for name in _FIELDS}
    record = fields | {"directory": _folder_of(skill, home), "files": list(skill.files)}
    line = json.dumps(list(record.values()), ensure_ascii=False, default=_list_fields)
    return f"{line}\n{skill.body}".encode("utf-8", "surrogatepass")


def _parse_record(record: bytes) -> dict[str, Any]:
    # Most of a record is its body; as JSON that would take half of the time to decode a skill.
    line, _, body = record.decode("utf-8", "surrogatepass").partition("\n")
    return dict(zip(_FIELDS, json.loads(line), strict=True), body=body)


def _list_fields(value: Any) -> list[Any]:
    # `astuple` copies what is in a field, too, in ten times the time.
    return [getattr(value, name) for name in value.__slots__]


def _folder_of(skill: Skill, home: SkillRoot) -> str | None:
    if skill.directory is None:
        return None
    return skill.directory.relative_to(home.directory).as_posix()


def decode_skill(record: bytes, home: SkillRoot, stamps: Sequence[Stamp]) -> Skill:
    fields = _parse_record(record)
    folder, inventory = fields["directory"], fields["inventory"]
    decoded = {
        "keywords": tuple(fields["keywords"]),
        "assets": tuple(starmap(Asset, fields["assets"])),
        "scripts": tuple(starmap(_parse_script, fields["scripts"])),
        "directory": None if folder is None else home.directory / folder,
        "files": dict(zip(fields["files"], stamps, strict=True)),
        "inventory": inventory and _parse_inventory(*inventory),
        "examples": tuple(fields["examples"]),
        "entry": tuple(fields["entry"]),
        "lifecycle": Lifecycle(*fields["lifecycle"]),
        "requires": tuple(fields["requires"]),
        "related": tuple(fields["related"]),
        "applies_to": tuple(starmap(Applicability, fields["applies_to"])),
    }
    location = home.directory / fields["file"].removeprefix(home.file_prefix)
    return Skill(**fields | decoded, root=home.directory, location=location, scope=home.scope)


def _parse_script(
    file: str, about: str, execution: Execution, arguments: Sequence[Sequence[Any]]
) -> Script:
    return Script(file, about, execution, tuple(starmap(Argument, arguments)))


def _parse_inventory(
    scripts: list[str], references: list[str], templates: list[str], files: int, size_bytes: int
) -> Inventory:
    return Inventory(
        script_files=tuple(scripts),
        reference_files=tuple(references),
        template_files=tuple(templates),
        total_files=files,
        total_size_bytes=size_bytes,
    )


def decode_skill_text(record: bytes) -> SkillText:
    fields = _parse_record(record)
    return SkillText(*map(fields.__getitem__, SkillText._fields))


class StoredSkill(Skill):
    """A skill that is decoded when another field than those of a `ListedSkill` is read.

    Of those that compete for a task, few are looked at. The table remembers the decoded
    ones: here, the candidates of thousands of tasks would hold as many texts.
    """

    __slots__ = ("_decode",)
    __class__ = Skill  # type: ignore[assignment]  # a copy, or what is equal, is a plain one

    def __init__(self, listed: ListedSkill, decode: Callable[[], Skill]) -> None:
        for name, value in zip(("_decode", *listed._fields), (decode, *listed), strict=True):
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._decode(), name)


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
        stamps = list(chain.from_iterable(skill.stamps for skill in skills))
        columns = {
            "paths": [s.path for s in skills],
            "names": [s.name for s in skills],
            "categories": [s.category for s in skills],
            "keywords": [s.keywords for s in skills],
            "priorities": [s.priority for s in skills],
            "files": [s.file for s in skills],
            "always_apply": [s.always_apply for s in skills],
            "user_only": [s.user_only for s in skills],
            "lifecycles": {s.path: s.lifecycle for s in skills if s.lifecycle != NO_LIFECYCLE},
            "places": [
                (str(h.directory), h.prefix, h.packages_only, h.scope, h.file_prefix) for h in homes
            ],
        }
        arrays: dict[str, NDArray[Any]] = {
            **{name: _to_json(column) for name, column in columns.items()},
            "keys": np.frombuffer(keys, np.uint8).reshape(-1, RECORD_KEY_BYTES),
            "homes": np.array(numbers, np.uint16),
            "declared": np.array(
                [
                    declares_keywords(record.skill.keywords, record.file, record.skill.path)
                    for _, record in placed
                    if record.skill
                ],
                bool,
            ),
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
        number %= len(self)
        return StoredSkill(self.listed[number], partial(self._get, number))

    def __iter__(self) -> Iterator[Skill]:
        # Not from the cache, which holds what is in use.
        return map(self._lines.decode, range(len(self)))

    @cached_property
    def listed(self) -> tuple[ListedSkill, ...]:
        """Fields of all skills available without decoding."""
        columns = (self.column(name) for name in ("paths", "names", "categories"))
        scopes = [home.scope for home in self.homes]
        home_scopes = map(scopes.__getitem__, self.arrays["homes"].tolist())
        flags = map(self.column, ("always_apply", "user_only"))
        derived = self._lines.lifecycles
        lifecycles = (derived.get(path, NO_LIFECYCLE) for path in self.column("paths"))
        rows = zip(*columns, home_scopes, *flags, lifecycles, strict=True)
        return tuple(starmap(ListedSkill, rows))

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
        listed, declared = self.listed, self._lines.declared_lifecycles()
        columns = (
            (row.path for row in listed),
            (row.name for row in listed),
            (row.category for row in listed),
            *(self.column(name) for name in ("keywords", "priorities")),
            self.column("files"),
            map(self._lines.stamps, range(len(self))),
            self.arrays["characters"].tolist(),
            (row.always_apply for row in listed),
            (row.user_only for row in listed),
            (declared.get(row.path, NO_LIFECYCLE) for row in listed),
            map(self._lines.stored, range(len(self))),
        )
        skills = starmap(RecordedSkill, zip(*columns, strict=True))
        return starmap(ContentRecord, zip(self.keys, self.files(), skills, strict=True))

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
        self._paths, self._lifecycles = arrays["paths"], arrays["lifecycles"]
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

    def declared_lifecycles(self) -> dict[SkillPath, Lifecycle]:
        fields: dict[SkillPath, list[Any]] = json.loads(bytes(self._lifecycles))
        return {path: Lifecycle(*values) for path, values in fields.items()}

    @cached_property
    def lifecycles(self) -> dict[SkillPath, Lifecycle]:
        declared = self.declared_lifecycles()
        paths = json.loads(bytes(self._paths)) if declared else ()
        return inherit_lifecycles(paths, declared)

    def decode(self, number: int) -> Skill:
        home = self.homes[int(self._homes[number])]
        skill = decode_skill(self.record(number), home, self.stamps(number))
        lifecycle = self.lifecycles.get(skill.path)
        return with_lifecycle(skill, lifecycle) if lifecycle else skill


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
    values = ("homes", "characters", "keys", "record_sums", "declared")
    lengths = {len(arrays[name]) for name in values}
    widths = arrays["stamps"].shape[1:], arrays["keys"].shape[1:]
    if not fits or lengths != {count} or widths != ((3,), (RECORD_KEY_BYTES,)):
        raise ValueError("the arrays of a table do not fit together")
