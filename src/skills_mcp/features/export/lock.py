"""`skills.lock`: which commit a folder is from, and the digest of each file.

Rule: the same commit and the same settings give the same bytes, on every machine.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from skills_mcp.errors import ExportError, InvalidPathError
from skills_mcp.files.durable import read_regular, replacing
from skills_mcp.files.paths import parse_relative
from skills_mcp.skills.homes import EXPORT_LOCK
from skills_mcp.text.rendering import shorten

LOCK = EXPORT_LOCK

_VERSION = 1
_MAX_BYTES = 256 * 1024 * 1024  # 100,000 skills have some 30 MB
_MODE = 0o644


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LockedSource(_Part):
    """A source, and what was taken of it."""

    mount: str
    """The prefix of its skills' paths; empty for the top."""
    name: str
    """The address of the repository; of a folder only its last name."""
    commit: str | None
    """None for a folder, which has none."""
    signer: str | None
    """Who has signed the commit, if signatures are demanded."""


class LockedSkill(_Part):
    """A package, and the digest of each of its files."""

    path: str
    """Of the skill in the tree, from which its name was made."""
    files: Mapping[str, str]
    """The SHA-256 of each file in hexadecimal, by its path in the package."""


class LockedSettings(_Part):
    """The options that decide what is written."""

    format: str
    raw: bool
    select: Sequence[str]


class ExportLock(_Part):
    """What a folder was written from, and what it has to hold."""

    version: int = _VERSION
    sources: Sequence[LockedSource]
    settings: LockedSettings
    skills: Mapping[str, LockedSkill]
    """By the folder of the package, which ends in its name."""
    files: Mapping[str, str] = {}
    """The digest of each file that is no package's, such as a list of them."""
    pending: Mapping[str, str] = {}
    """What an export is writing, so that the next one knows its files if it dies."""

    def list_files(self) -> Mapping[str, str]:
        """Return the digest of each file, by its path in the folder."""
        of_skills = {
            f"{folder}/{file}": digest
            for folder, skill in self.skills.items()
            for file, digest in skill.files.items()
        }
        return {**of_skills, **self.files}

    def render(self) -> str:
        """Return it as JSON with sorted keys, each skill on a line of its own."""
        data = self.model_dump(mode="json")
        parts = [
            f'"{key}": {_render_rows(data[key])}'
            for key in sorted(data)
            if data[key] or key not in {"files", "pending"}
        ]
        return "{\n" + ",\n".join(parts) + "\n}\n"

    def write(self, folder: Path) -> None:
        """Replace the lock of a folder.

        Raises:
            OSError: There is no room or no permission; the old lock is as it was.
        """
        with replacing(folder / LOCK, _MODE) as handle:
            handle.write(self.render().encode())


def _render_rows(value: Any) -> str:
    """Return a value; the entries of a mapping one below the other."""
    if not isinstance(value, dict):
        return _render(value)
    rows = (f"  {_render(key)}: {_render(value[key])}" for key in sorted(value))
    return "{\n" + ",\n".join(rows) + "\n}"


def _render(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _require_inside(folder: Path, name: str) -> None:
    """Make sure that a lock, which others may have written, names no file elsewhere.

    Raises:
        ExportError: It does.
    """
    try:
        is_inside = "/".join(parse_relative(name)) == name
    except InvalidPathError:
        is_inside = False
    if not is_inside:
        raise ExportError(
            f"{folder / LOCK} names {shorten(name)}, which is no path in the folder. "
            "Restore it from Git."
        )


def read_lock(folder: Path) -> ExportLock | None:
    """Return the lock of a folder; None if it has none.

    Raises:
        ExportError: There is one that cannot be understood.
    """
    if not (folder / LOCK).exists():
        return None
    raw = read_regular(folder / LOCK, _MAX_BYTES)
    try:
        data: dict[str, Any] = json.loads(raw or b"")
        lock = ExportLock.model_validate(data)
    except (ValueError, ValidationError) as error:
        raise ExportError(
            f"{folder / LOCK} cannot be read. Restore it from Git, or delete it: then "
            "files that are here are kept."
        ) from error
    for name in (*lock.list_files(), *lock.pending):
        _require_inside(folder, name)
    if lock.version != _VERSION:
        raise ExportError(
            f"{folder / LOCK} was written by a newer skills-mcp. Install that version."
        )
    return lock
