"""Lock of an exported folder."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from skills_mcp.errors import ExportError, InvalidPathError
from skills_mcp.files.durable import atomic_write, read_regular
from skills_mcp.files.paths import parse_relative
from skills_mcp.skills.homes import EXPORT_LOCK
from skills_mcp.text.rendering import abbreviate_value

EXPORT_LOCK_FILE = EXPORT_LOCK

_VERSION = 1
_MAX_BYTES = 256 * 1024 * 1024  # 100,000 skills have some 30 MB
_MODE = 0o644


class _FrozenModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LockedSource(_FrozenModel):
    mount: str
    name: str
    """Address of the repository; of a folder only its last name."""
    commit: str | None
    signer: str | None


class LockedSkill(_FrozenModel):
    path: str
    files: Mapping[str, str]
    """SHA-256 in hexadecimal, by path in the package."""


class LockedSettings(_FrozenModel):
    format: str
    raw: bool
    select: Sequence[str]


class ExportLock(_FrozenModel):
    """Sources and digests of an exported folder."""

    version: int = _VERSION
    sources: Sequence[LockedSource]
    settings: LockedSettings
    skills: Mapping[str, LockedSkill]
    files: Mapping[str, str] = {}
    """Digests of files outside packages, such as an index."""
    pending: Mapping[str, str] = {}
    """Files about to be written, for recovery after a crash."""

    def list_files(self) -> Mapping[str, str]:
        """Map all files to their digests, relative to the folder."""
        of_skills = {
            f"{folder}/{file}": digest
            for folder, skill in self.skills.items()
            for file, digest in skill.files.items()
        }
        return {**of_skills, **self.files}

    def render(self) -> str:
        """Serialise as JSON with sorted keys, one line per skill."""
        data = self.model_dump(mode="json")
        parts = [
            f'"{key}": {_render_rows(data[key])}'
            for key in sorted(data)
            if data[key] or key not in {"files", "pending"}
        ]
        return "{\n" + ",\n".join(parts) + "\n}\n"

    def write(self, folder: Path) -> None:
        """Write the lock atomically.

        Raises:
            OSError: The disk is full or permission is denied; the old lock is
            unchanged.
        """
        with atomic_write(folder / EXPORT_LOCK_FILE, _MODE) as handle:
            handle.write(self.render().encode())


def _render_rows(value: Any) -> str:
    if not isinstance(value, dict):
        return _dump_json(value)
    rows = (f"  {_dump_json(key)}: {_dump_json(value[key])}" for key in sorted(value))
    return "{\n" + ",\n".join(rows) + "\n}"


def _dump_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _require_inside(folder: Path, name: str) -> None:
    """Refuse path traversal: others may have written the lock."""
    try:
        is_inside = "/".join(parse_relative(name)) == name
    except InvalidPathError:
        is_inside = False
    if not is_inside:
        raise ExportError(
            f"{folder / EXPORT_LOCK_FILE} names {abbreviate_value(name)}, which is no path in "
            f"the folder. "
            "Restore it from Git."
        )


def read_lock(folder: Path) -> ExportLock | None:
    """Load the lock of a folder; None if missing.

    Raises:
        ExportError: It is invalid.
    """
    if not (folder / EXPORT_LOCK_FILE).exists():
        return None
    raw = read_regular(folder / EXPORT_LOCK_FILE, _MAX_BYTES)
    try:
        data: dict[str, Any] = json.loads(raw or b"")
        lock = ExportLock.model_validate(data)
    except (ValueError, ValidationError) as error:
        raise ExportError(
            f"{folder / EXPORT_LOCK_FILE} cannot be read. Restore it from Git, or delete it: then "
            "files that are here are kept."
        ) from error
    for name in (*lock.list_files(), *lock.pending):
        _require_inside(folder, name)
    if lock.version != _VERSION:
        raise ExportError(
            f"{folder / EXPORT_LOCK_FILE} was written by a newer skills-mcp. Install that version."
        )
    return lock
