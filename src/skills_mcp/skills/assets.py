"""Files that skills hand out: what they are, and reading them."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from skills_mcp.errors import (
    ChangedFileError,
    FileTooLargeError,
    LfsPointerError,
    MissingFileError,
)
from skills_mcp.files.opening import open_inside
from skills_mcp.files.paths import find_name, parse_relative
from skills_mcp.skills import lfs
from skills_mcp.skills.model import Skill, Stamp

BINARY_EXTENSIONS = frozenset(
    [
        ".png",
        ".jpg",
        ".jpeg",
        ".gif",
        ".svg",
        ".ico",
        ".webp",
        ".pdf",
        ".zip",
        ".woff",
        ".woff2",
    ]
)
"""Files that are always served as Base64."""

MIME_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".svg": "image/svg+xml",
    ".pdf": "application/pdf",
    ".zip": "application/zip",
    ".woff": "font/woff",
    ".woff2": "font/woff2",
}
MAX_COPY_BYTES = 64 * 1024 * 1024
"""Four times the largest public skill."""

_COPIED_AT_ONCE = 1024 * 1024
_OTHER_MIME_TYPE = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class FileContent:
    """The bytes of a file, and how they are to be shown."""

    data: bytes
    is_binary: bool
    mime_type: str


def is_binary(file: str, data: bytes) -> bool:
    """Whether the file is served as Base64.

    The extension decides first. Other bytes that are not UTF-8 count as binary, too:
    a font or an archive of an unlisted kind would arrive as broken text.
    """
    return _extension(file) in BINARY_EXTENSIONS or not _is_text(data)


def mime_type(file: str) -> str:
    """Return the MIME type of a binary file."""
    return MIME_TYPES.get(_extension(file), _OTHER_MIME_TYPE)


def read_file(skill: Skill, file: str, *, max_bytes: int) -> FileContent:
    """Read a file from the skill's folder.

    Raises:
        InvalidPathError: `file` could leave the folder.
        MissingFileError: It is declared, but not there.
        ChangedFileError: It is not what it was when the skills were read.
        LfsPointerError: Its content is in Git LFS.
        FileTooLargeError: It has more than `max_bytes` bytes.
    """
    with opened_whole(skill, file) as handle:
        size = os.fstat(handle.fileno()).st_size
        if size > max_bytes:
            raise FileTooLargeError(
                f"{file!r} has {size:,} bytes; the limit is {max_bytes:,}. "
                "The operator can raise assets.max_size_bytes."
            )
        data = handle.read(max_bytes)
    return FileContent(data, is_binary(file, data), mime_type(file))


def copy_files(skill: Skill, target: Path) -> None:
    """Copy every file of the skill into an empty folder.

    One whose content is in Git LFS is copied as it is: a command need not want it.

    Raises:
        FileTooLargeError: All of them together are too large to be copied.
        OSError: There is no room, or no permission.
        MissingFileError: One is gone.
        ChangedFileError: One is not what it was when the skills were read.
    """
    size = sum(stamp.size_bytes for stamp in skill.files.values())
    if size > MAX_COPY_BYTES:
        raise FileTooLargeError(
            f"{skill.path} has {size:,} bytes; {MAX_COPY_BYTES:,} can be copied. Run "
            "the command in your own shell."
        )
    for file, stamp in skill.files.items():
        copy = target / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        with opened_listed(skill, file) as handle, copy.open("wb") as written:
            _copy(handle, written, stamp.size_bytes)
            mode = stat.S_IMODE(os.fstat(handle.fileno()).st_mode)
        copy.chmod((mode | stat.S_IWUSR) & 0o777)


@contextmanager
def opened(skill: Skill, file: str) -> Iterator[BinaryIO]:
    """Open a file of the skill as it was when the skills were read.

    Raises:
        InvalidPathError: `file` could leave the folder.
        MissingFileError: It is declared, but not there.
        ChangedFileError: It is not what it was when the skills were read.
    """
    parse_relative(file)
    name = find_name(skill.files, file)
    if name is None:
        raise _missing(skill, file)
    with opened_listed(skill, name) as handle:
        yield handle


@contextmanager
def opened_listed(skill: Skill, name: str) -> Iterator[BinaryIO]:
    """Open one of `skill.files`, without another look-up.

    Raises:
        MissingFileError: The skill has no folder.
        ChangedFileError: It is not what it was when the skills were read.
    """
    if skill.directory is None:
        raise _missing(skill, name)
    root = skill.root or skill.directory
    inside = skill.directory.relative_to(root).parts
    try:
        handle = open_inside(root, (*inside, *name.split("/")))
    except MissingFileError as error:
        raise _changed(name) from error
    with handle:
        _require_same(handle, skill.files[name], name)
        yield handle
        # Another program may have written to it meanwhile.
        _require_same(handle, skill.files[name], name)


@contextmanager
def opened_whole(skill: Skill, file: str) -> Iterator[BinaryIO]:
    """Open a file of the skill if its content is here.

    Raises:
        LfsPointerError: Its content is in Git LFS.
        FileError: Everything that `opened` raises.
    """
    with opened(skill, file) as handle:
        if lfs.is_pointer(handle.read(lfs.MAX_POINTER_BYTES + 1)):
            raise LfsPointerError(
                f"{file!r} is only a pointer: its content is in Git LFS, which is not "
                f"fetched. Go on without it, and ask the skill's author to {lfs.HINT}"
            )
        handle.seek(0)
        yield handle


def _require_same(handle: BinaryIO, stamp: Stamp, file: str) -> None:
    # An answer that mixes two states of the content would be worse than none.
    if Stamp.of(os.fstat(handle.fileno())) != stamp:
        raise _changed(file)


def _copy(source: BinaryIO, target: BinaryIO, size_bytes: int) -> None:
    """Copy as much as the file has had: it may grow faster than it is read."""
    while size_bytes and (data := source.read(min(size_bytes, _COPIED_AT_ONCE))):
        size_bytes -= target.write(data)


def _changed(file: str) -> ChangedFileError:
    return ChangedFileError(
        f"{file!r} has changed since the skills were read. Call refresh_skills, then "
        "ask again."
    )


def _missing(skill: Skill, file: str) -> MissingFileError:
    return MissingFileError(
        f"{skill.path} declares {file!r}, but its folder has no such file. "
        "Go on without it, and tell the skill's author; if it has come since the "
        "skills were read, call refresh_skills."
    )


def _extension(file: str) -> str:
    return PurePosixPath(file).suffix.lower()


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
