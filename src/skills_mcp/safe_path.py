"""Relative paths that cannot escape the folder they are joined to (001 §12.1).

Two guards, both needed: `parse_relative` looks at the words of a path and never
at the disk; `open_inside` looks at the disk and never follows a link.
"""

import os
import re
import stat
import unicodedata
from pathlib import Path
from typing import BinaryIO

from skills_mcp.errors import InvalidPathError, MissingFileError

# What a file system, a terminal or a log could misread. Cc: control characters,
# Cf: invisible marks such as the bidirectional overrides, Cs: lone surrogates.
_FORBIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_DEVICE = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|clock\$|(?:com|lpt)[^a-z])", re.IGNORECASE
)
_NO_NAMES = frozenset({"", ".", ".."})
_MAX_LENGTH = 1024
_MAX_PART_BYTES = 255  # the limit of every common file system


def parse_relative(text: str) -> tuple[str, ...]:
    r"""Return the components of a relative path, or refuse it.

    The same rules hold on every operating system, so that a path that Windows
    would read differently is refused on Linux, too.

    >>> parse_relative("assets/flow.svg")
    ('assets', 'flow.svg')

    Raises:
        InvalidPathError: For an absolute path, `..`, an empty component, a
            backslash, a drive, a device name or an unprintable character.
    """
    parts = text.split("/")
    if not text or len(text) > _MAX_LENGTH or any(map(_is_unsafe, parts)):
        raise InvalidPathError(
            "This is not a path inside the skill's folder. Use a file exactly as the "
            "skill lists it, relative and with forward slashes: assets/example.txt"
        )
    return tuple(parts)


def open_inside(directory: Path, parts: tuple[str, ...]) -> BinaryIO:
    """Open a regular file below `directory` without following any link.

    Raises:
        MissingFileError: There is no regular file at this path.
    """
    name = "/".join(parts)
    try:
        handle = _open_file(directory, parts)
    except (OSError, ValueError) as error:
        raise MissingFileError(f"There is no readable file {name!r}") from error
    if not stat.S_ISREG(os.fstat(handle.fileno()).st_mode):
        handle.close()
        raise MissingFileError(f"{name!r} is not a regular file")
    return handle


def _is_unsafe(part: str) -> bool:
    return (
        part in _NO_NAMES
        or part != part.strip()
        or part.endswith(".")
        or any(character in '\\:*?"<>|' for character in part)
        or any(unicodedata.category(c) in _FORBIDDEN_CATEGORIES for c in part)
        or len(part.encode("utf-8")) > _MAX_PART_BYTES
        or part.lower() == ".git"
        or part.lower().startswith("git~")  # what Windows calls .git, too
        or _is_device(part)
    )


def _is_device(part: str) -> bool:
    """Whether Windows takes the name for a device, whatever its extension."""
    return _DEVICE.fullmatch(part.partition(".")[0].rstrip()) is not None


def _open_file(directory: Path, parts: tuple[str, ...]) -> BinaryIO:
    if not parts or any(part in _NO_NAMES or "/" in part for part in parts):
        raise FileNotFoundError(parts)
    if os.open not in os.supports_dir_fd:
        return _open_checked(directory, parts)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            inner = os.open(part, flags | os.O_DIRECTORY, dir_fd=folder)
            os.close(folder)
            folder = inner
        # Without O_NONBLOCK a named pipe would block the open itself.
        file = os.open(parts[-1], flags | os.O_NONBLOCK, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        return os.fdopen(file, "rb")
    except OSError:  # a folder: nobody else would close it
        os.close(file)
        raise


def _open_checked(directory: Path, parts: tuple[str, ...]) -> BinaryIO:
    """Open where the system has no directory descriptors (Windows)."""
    path = directory.joinpath(*parts)
    if path.resolve() != directory.resolve().joinpath(*parts):
        raise FileNotFoundError(path)
    return path.open("rb")
