"""A skill as a line of text, and back.

What a skill says is apart from where it lies: the same text in another commit's folder
is the same line.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path
from typing import NamedTuple, Protocol

from skills_mcp.skills.model import (
    Argument,
    Asset,
    Inventory,
    Scope,
    Script,
    Skill,
    SkillPath,
    Stamp,
)


@dataclass(frozen=True, slots=True)
class Place:
    """A folder on this machine, and where its skills stand in the tree."""

    directory: Path
    prefix: str = ""
    scope: Scope = "org"


class Row(NamedTuple):
    """What is known of a skill without making it."""

    path: SkillPath
    name: str
    category: str
    scope: Scope


class Said(NamedTuple):
    """What a skill says to whoever looks for one."""

    path: SkillPath
    name: str
    description: str
    keywords: Sequence[str]
    body: str
    priority: int
    category: str


class Entry(Protocol):
    """A skill on its way into a table: read from its files, or known before."""

    @property
    def record(self) -> bytes:
        """What it says, wherever it lies (see `encode`)."""
        ...

    @property
    def listed(self) -> Row:
        """What it is called."""
        ...

    @property
    def file(self) -> str:
        """Its Markdown file, relative to the content's root."""
        ...

    @property
    def characters(self) -> int:
        """How long its text is."""
        ...

    @property
    def owns_folder(self) -> bool:
        """Whether it has a folder with files."""
        ...

    @property
    def main(self) -> Stamp:
        """How its Markdown file looks."""
        ...

    @property
    def files(self) -> Mapping[str, Stamp]:
        """Every file that may be read."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A skill that was read from its files: a line, and what is beside it."""

    record: bytes
    listed: Row
    keywords: Sequence[str]
    priority: int
    file: str
    characters: int
    folder: str | None
    """The folder with its files, in its place; None if it has none."""
    main: Stamp
    files: Mapping[str, Stamp]

    @property
    def owns_folder(self) -> bool:
        """Whether it has a folder with files."""
        return self.folder is not None

    @classmethod
    def of(cls, skill: Skill, place: Place, main: Stamp) -> "Read":
        """Return what is kept of a skill."""
        return cls(
            record=encode(skill, place),
            listed=Row(skill.path, skill.name, skill.category, place.scope),
            keywords=skill.keywords,
            priority=skill.priority,
            file=skill.file,
            characters=len(skill.body),
            folder=_folder_of(skill, place),
            main=main,
            files=skill.files,
        )


def encode(skill: Skill, place: Place) -> bytes:
    """Return what a skill says, without where it lies."""
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
        _folder_of(skill, place),
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
    )
    return json.dumps(record, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _folder_of(skill: Skill, place: Place) -> str | None:
    if skill.directory is None:
        return None
    return skill.directory.relative_to(place.directory).as_posix()


def decode(record: bytes, place: Place, stamps: Sequence[Stamp]) -> Skill:
    """Return the skill of a line, with its files as they look in this place."""
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
        scripts=tuple(
            Script(script, about, execution, tuple(starmap(Argument, arguments)))
            for script, about, execution, arguments in scripts
        ),
        directory=None if folder is None else place.directory / folder,
        root=place.directory,
        location=place.directory / file.removeprefix(place.prefix),
        category=category,
        scope=place.scope,
        files=dict(zip(files, stamps, strict=True)),
        inventory=inventory and _inventory(*inventory),
        examples=tuple(examples),
        entry=tuple(entry),
    )


def decode_said(record: bytes) -> Said:
    """Return what routing reads of a line."""
    path, _, name, description, keywords, body, _, priority, *others = json.loads(
        record
    )
    _, _, _, category, *_ = others
    return Said(path, name, description, keywords, body, priority, category)


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
