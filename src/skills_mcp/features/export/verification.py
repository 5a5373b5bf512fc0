"""Compares a folder with its lock, without any source."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from skills_mcp.errors import ExportError
from skills_mcp.features.export.folder import list_files, look_at
from skills_mcp.features.export.lock import LOCK, ExportLock, read_lock

Kind = Literal["edited", "missing", "added", "interrupted"]


@dataclass(frozen=True, slots=True)
class Difference:
    """A file that is not as the lock says."""

    kind: Kind
    file: str
    """Its path in the folder; the lock itself if an export was interrupted."""


def verify_folder(folder: Path) -> tuple[ExportLock, tuple[Difference, ...]]:
    """Return the lock of a folder, and what differs from it.  Nothing is written.

    Folders beside the packages are those of other people, and not looked at.

    Raises:
        ExportError: The folder has no lock, or one that cannot be read.
    """
    lock = read_lock(folder)
    if lock is None:
        raise ExportError(
            f"{folder} has no {LOCK}. Name a folder that skills-mcp export has written."
        )
    try:
        return lock, tuple(_compare(folder, lock))
    except OSError as error:
        place = error.filename or folder
        raise ExportError(
            f"{place} cannot be read: {error.strerror}. Check its permissions."
        ) from error


def _compare(folder: Path, lock: ExportLock) -> Iterator[Difference]:
    if lock.pending:
        yield Difference("interrupted", LOCK)
    wanted = lock.list_files()
    for file, digest in wanted.items():
        found = look_at(folder, file)
        if found is None:
            yield Difference("missing", file)
        elif found != digest:
            yield Difference("edited", file)
    for file in list_files(folder, lock.skills):
        if file not in wanted:
            yield Difference("added", file)
