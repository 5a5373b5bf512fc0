"""Files and folders below a folder, opened without following any link.

Between a look at a path and its opening somebody can put a link there. So nothing is
looked at first: each step starts from a descriptor that is held already, by the kernel
in one call where it can (`openat2`), and name by name elsewhere.
"""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import BinaryIO

from skills_mcp.errors import MissingFileError
from skills_mcp.files.safe_path import kernel
from skills_mcp.files.safe_path.names import find_name

Opener = Callable[[int, Sequence[str], int], int]
"""Opens names below the descriptor of a folder, with flags; returns a descriptor."""

_NO_NAMES = frozenset({"", ".", ".."})
_HAS_DESCRIPTORS = os.open in os.supports_dir_fd and os.scandir in os.supports_fd

# Windows has none of these. Without O_NONBLOCK a named pipe would block the open
# itself; with O_NOCTTY no terminal becomes ours.
_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_NONBLOCK", 0)
)
_FOLDER = _FLAGS | getattr(os, "O_DIRECTORY", 0)
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)


def open_inside(
    directory: Path, parts: Sequence[str], opener: Opener | None = None
) -> BinaryIO:
    """Open a regular file below `directory` without following any link.

    Args:
        directory: The operator's choice; links on the way to it are followed.
        parts: The names from there to the file.
        opener: How; the best one that this system has, if nobody says.

    Raises:
        MissingFileError: There is no regular file at this path.
    """
    name = "/".join(parts)
    try:
        number = _open(directory, parts, _FLAGS, opener)
    except (OSError, ValueError) as error:
        raise MissingFileError(f"There is no readable file {name!r}") from error
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise MissingFileError(f"{name!r} is not a regular file")
    return os.fdopen(number, "rb")


@contextmanager
def listed_inside(
    directory: Path, parts: Sequence[str]
) -> Iterator[Iterator["os.DirEntry[str]"]]:
    """List a folder below `directory` without following any link.

    What the entries say of themselves is asked while the block lasts.

    Raises:
        OSError: There is no folder at this path, or nobody may list it.
    """
    if not _HAS_DESCRIPTORS:
        with os.scandir(_check(directory, parts)) as scan:
            yield scan
        return
    number = _open(directory, parts, _FOLDER)
    try:
        with os.scandir(number) as scan:
            yield scan
    finally:
        os.close(number)


def find_spelling(directory: Path, parts: Sequence[str]) -> tuple[str, ...]:
    """Return a path as the disk writes it, where only the encoding of accents differs.

    What the disk does not have, or has twice, stays as it is asked for.
    """
    spelling: tuple[str, ...] = ()
    for part in parts:
        found = None if part.isascii() else _find_in(directory, spelling, part)
        spelling += (found or part,)
    return spelling


def open_by_walk(folder: int, names: Sequence[str], flags: int) -> int:
    """Open name by name; on every system that has descriptors of folders.

    Raises:
        OSError: A name is not there, or is a link.
    """
    held = folder
    try:
        for name in names[:-1]:
            inner = os.open(name, _FOLDER | _NO_FOLLOW, dir_fd=held)
            _close_unless(folder, held)
            held = inner
        return os.open(names[-1], flags | _NO_FOLLOW, dir_fd=held)
    finally:
        _close_unless(folder, held)


def open_by_kernel(folder: int, names: Sequence[str], flags: int) -> int:
    """Open in one call, during which nothing on the way can be exchanged.

    Raises:
        OSError: A name is not there, or is a link.
    """
    path = os.fsencode("/".join(names))
    if len(path) > kernel.MAX_PATH_BYTES:
        return open_by_walk(folder, names, flags)
    return kernel.open_beneath(folder, path, flags)


OPENERS: dict[str, Opener] = {"openat2": open_by_kernel, "walk": open_by_walk}
"""Every way to open, the best one first; this machine may lack the first."""


@cache
def choose_opener() -> Opener:
    """Return the best way to open that this machine has; asks the kernel once."""
    return OPENERS["openat2" if kernel.is_able() else "walk"]


def _open(
    directory: Path, parts: Sequence[str], flags: int, opener: Opener | None = None
) -> int:
    if not _HAS_DESCRIPTORS:
        return os.open(_check(directory, parts), flags)
    _require_names(parts)
    folder = os.open(directory, _FOLDER)
    if not parts:
        return folder
    try:
        return (opener or choose_opener())(folder, parts, flags)
    finally:
        os.close(folder)


def _find_in(directory: Path, folder: Sequence[str], name: str) -> str | None:
    try:
        with listed_inside(directory, folder) as entries:
            return find_name((entry.name for entry in entries), name)
    except OSError:
        return None


def _check(directory: Path, parts: Sequence[str]) -> Path:
    """Return a path that has no link now: all that Windows lets anybody know."""
    _require_names(parts)
    path = directory.joinpath(*parts)
    if path.resolve() != directory.resolve().joinpath(*parts):
        raise FileNotFoundError(path)
    return path


def _require_names(parts: Sequence[str]) -> None:
    if any(part in _NO_NAMES or "/" in part for part in parts):
        raise FileNotFoundError(parts)


def _close_unless(kept: int, number: int) -> None:
    if number != kept:
        os.close(number)
