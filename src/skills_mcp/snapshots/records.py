"""Records of rule files and packages, keyed by content.

Rule: a key covers all inputs of a reading: the path in the tree, and the content of
every file of the skill. Equal keys are never read again, in any later state, commit or
process.
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
from skills_mcp.skills.discovery import ReadSkill
from skills_mcp.skills.homes import SkillRoot
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
    owner: str
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
        owner=skill.owner,
        text=StoredText.of(text),
    )


def encode_skill(skill: Skill, home: SkillRoot) -> bytes:
    """Encode a skill as JSON, without its folder."""
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


def _folder_of(skill: Skill, home: SkillRoot) -> str | None:
    if skill.directory is None:
        return None
    return skill.directory.relative_to(home.directory).as_posix()


def decode_skill(record: bytes, home: SkillRoot, stamps: Sequence[Stamp]) -> Skill:
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
        scripts=tuple(starmap(_parse_script, scripts)),
        directory=None if folder is None else home.directory / folder,
        root=home.directory,
        location=home.directory / file.removeprefix(home.file_prefix),
        category=category,
        owner=owner,
        scope=home.scope,
        files=dict(zip(files, stamps, strict=True)),
        inventory=inventory and _parse_inventory(*inventory),
        examples=tuple(examples),
        entry=tuple(entry),
        always_apply=always_apply,
    )


def _parse_script(
    file: str, about: str, execution: Execution, arguments: Sequence[Sequence[Any]]
) -> Script:
    return Script(file, about, execution, tuple(starmap(Argument, arguments)))


def decode_skill_text(record: bytes) -> SkillText:
    path, _, name, description, keywords, body, _, priority, *others = json.loads(record)
    _, _, _, category, *_ = others
    return SkillText(path, name, description, keywords, body, priority, category)


def _parse_inventory(
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
