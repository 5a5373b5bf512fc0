"""Verify a folder against its lock, without any source."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from skills_mcp.errors import ExportError
from skills_mcp.features.export.folder import hash_regular_file, list_package_files
from skills_mcp.features.export.lock import EXPORT_LOCK_FILE, ExportLock, read_lock

DifferenceKind = Literal["edited", "missing", "added", "interrupted"]


@dataclass(frozen=True, slots=True)
class Difference:
    kind: DifferenceKind
    file: str
    """Relative path; the lock itself after an interrupted export."""


def verify_folder(folder: Path) -> tuple[ExportLock, tuple[Difference, ...]]:
    """Compare a folder with its lock, read-only.

    Folders next to the packages are ignored.

    Raises:
        ExportError: The folder has no lock, or an invalid one.
    """
    lock = read_lock(folder)
    if lock is None:
        raise ExportError(
            f"{folder} has no {EXPORT_LOCK_FILE}. Name a folder that skills-mcp export has written."
        )
    try:
        return lock, tuple(_find_differences(folder, lock))
    except OSError as error:
        location = error.filename or folder
        raise ExportError(
            f"{location} cannot be read: {error.strerror}. Check its permissions."
        ) from error


def _find_differences(folder: Path, lock: ExportLock) -> Iterator[Difference]:
    if lock.pending:
        yield Difference("interrupted", EXPORT_LOCK_FILE)
    expected = lock.list_files()
    for file, digest in expected.items():
        found = hash_regular_file(folder, file)
        if found is None:
            yield Difference("missing", file)
        elif found != digest:
            yield Difference("edited", file)
    for file in list_package_files(folder, lock.skills):
        if file not in expected:
            yield Difference("added", file)
