"""What was read of each rule file and package, keyed by the content it was read from.

Rule: a key names all that a reading depends on: the place in the tree, and the content
of every file that belongs to the skill. What has the same key is not read again, in any
later state, commit or process.
"""

import json
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain, starmap
from typing import Any, NamedTuple
from zlib import crc32

from skills_mcp.files.arrays import DamagedTextError, Sliceable
from skills_mcp.routing.ranked import SkillText
from skills_mcp.skills.discovery import Described
from skills_mcp.skills.homes import Home
from skills_mcp.skills.model import (
    Argument,
    Asset,
    Execution,
    Inventory,
    Problem,
    Scope,
    Script,
    Skill,
    SkillPath,
    Stamp,
)
from skills_mcp.skills.walk import Package, RuleFile

KEY_BYTES = 16
"""128 bits of a hash: no two contents share a key by chance."""

NO_KEY = bytes(KEY_BYTES)
"""The key of a file that could not be looked at: it is always read."""

ContentId = Callable[[str], str]
"""Returns the id of a file's content, by the path of the file in its home.

For a file of a commit this is its blob: Git gives the same content the same id in every
commit. A file in a folder has no id; its stamp tells whether it is unchanged.
"""


class ListedSkill(NamedTuple):
    """What is known of a skill without decoding it."""

    path: SkillPath
    name: str
    category: str
    scope: Scope
    always_apply: bool = False


class StoredText(NamedTuple):
    """A part of a longer text that may lie on the disk; it is read when it is needed.

    A table is compared and packed without the texts of ten thousand skills in memory.
    """

    source: Sliceable
    start: int
    end: int
    checksum: int
    """The CRC-32 of the part."""

    @classmethod
    def of(cls, text: bytes) -> "StoredText":
        """Return a text that is in memory."""
        return cls(text, 0, len(text), crc32(text))

    @property
    def size_bytes(self) -> int:
        """The length of the text."""
        return self.end - self.start

    def read(self) -> bytes:
        """Return the text.

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
    """A skill as it is stored; the folder that it lies in is not part of it."""

    path: SkillPath
    name: str
    category: str
    keywords: Sequence[str]
    priority: int
    file: str
    """The Markdown file, relative to its home."""
    stamps: Sequence[Stamp]
    """The stamps of the skill's files, in the order of their names."""
    characters: int
    """The length of its text."""
    always_apply: bool
    owner: str
    text: "StoredText"
    """Everything that it says, see `encode`."""


@dataclass(frozen=True, slots=True)
class ContentRecord:
    """What one rule file or package was read as: a skill, or the reason why not."""

    key: bytes
    file: str
    """The Markdown file, relative to the content's root."""
    skill: RecordedSkill | None
    problems: tuple[Problem, ...] = ()

    @classmethod
    def of(cls, key: bytes, home: Home, file: str, read: Described) -> "ContentRecord":
        """Return the record of a file, relative to its home, and what was read."""
        skill, problems = read
        recorded = _record_skill(skill, home) if skill else None
        return cls(key, home.file_prefix + file, recorded, problems)


def derive_key(found: RuleFile | Package, home: Home, content_id: ContentId) -> bytes:
    """Return the key of what a walk has found.

    The id names the content of a file, and the stamp tells that the file on the disk
    still has that content: the files of a commit may be edited in place.

    Args:
        found: The rule file or package.
        home: Where it lies.
        content_id: Names the content of files.
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
    whole = blake2b(lines.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES)
    # A name and an id hold no NUL, so where the numbers begin is certain.
    whole.update(b"\0" + array("q", chain.from_iterable(stamps)).tobytes())
    return whole.digest()


def _record_skill(skill: Skill, home: Home) -> RecordedSkill:
    text = encode(skill, home)
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
        owner=skill.owner,
        text=StoredText.of(text),
    )


def encode(skill: Skill, home: Home) -> bytes:
    """Return everything that a skill says, without the folder that it lies in."""
    inventory = skill.inventory
    record = (
        skill.path,
        skill.file,
        skill.name,
        skill.description,
        skill.keywords,
        skill.body,
        skill.inherit,
        skill.priority,
        [(a.file, a.description, a.type) for a in skill.assets],
        [
            (
                s.file,
                s.description,
                s.execution,
                [(a.name, a.description, a.required) for a in s.args],
            )
            for s in skill.scripts
        ],
        _folder_of(skill, home),
        skill.category,
        list(skill.files),
        inventory
        and (
            inventory.script_files,
            inventory.reference_files,
            inventory.template_files,
            inventory.total_files,
            inventory.total_size_bytes,
        ),
        skill.examples,
        skill.entry,
        skill.always_apply,
        skill.owner,
    )
    return json.dumps(record, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _folder_of(skill: Skill, home: Home) -> str | None:
    if skill.directory is None:
        return None
    return skill.directory.relative_to(home.directory).as_posix()


def decode(record: bytes, home: Home, stamps: Sequence[Stamp]) -> Skill:
    """Return the skill of a record that lies in this home, with these stamps."""
    (
        path,
        file,
        name,
        description,
        keywords,
        body,
        inherit,
        priority,
        assets,
        scripts,
        folder,
        category,
        files,
        inventory,
        examples,
        entry,
        always_apply,
        owner,
    ) = json.loads(record)
    return Skill(
        path=path,
        file=file,
        name=name,
        description=description,
        keywords=tuple(keywords),
        body=body,
        inherit=inherit,
        priority=priority,
        assets=tuple(starmap(Asset, assets)),
        scripts=tuple(starmap(_script, scripts)),
        directory=None if folder is None else home.directory / folder,
        root=home.directory,
        location=home.directory / file.removeprefix(home.file_prefix),
        category=category,
        owner=owner,
        scope=home.scope,
        files=dict(zip(files, stamps, strict=True)),
        inventory=inventory and _inventory(*inventory),
        examples=tuple(examples),
        entry=tuple(entry),
        always_apply=always_apply,
    )


def _script(
    file: str, about: str, execution: Execution, arguments: Sequence[Sequence[Any]]
) -> Script:
    return Script(file, about, execution, tuple(starmap(Argument, arguments)))


def decode_text(record: bytes) -> SkillText:
    """Return what routing reads of a record."""
    path, _, name, description, keywords, body, _, priority, *others = json.loads(
        record
    )
    _, _, _, category, *_ = others
    return SkillText(path, name, description, keywords, body, priority, category)


def _inventory(
    scripts: list[str], references: list[str], templates: list[str], *totals: int
) -> Inventory:
    total_files, total_size_bytes = totals
    return Inventory(
        script_files=tuple(scripts),
        reference_files=tuple(references),
        template_files=tuple(templates),
        total_files=total_files,
        total_size_bytes=total_size_bytes,
    )
