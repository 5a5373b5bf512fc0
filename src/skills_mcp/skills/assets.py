"""Files that skills hand out: what they are, and reading them, whole or in part.

Nothing here fetches the content that a pointer of Git LFS stands for, so a reader is
told. Otherwise three lines about a template would pass for the template.
"""

import codecs
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from skills_mcp.errors import (
    ChangedFileError,
    FileTooLargeError,
    InvalidArgumentsError,
    LfsPointerError,
    MissingFileError,
)
from skills_mcp.files.opening import open_inside
from skills_mcp.files.paths import find_name, parse_relative
from skills_mcp.files.patterns import compile_patterns
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

    data: bytes = field(repr=False)
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
        if is_lfs_pointer(handle.read(MAX_LFS_POINTER_BYTES + 1)):
            raise LfsPointerError(
                f"{file!r} is only a pointer: its content is in Git LFS, which is not "
                f"fetched. Go on without it, and ask the skill's author to {LFS_HINT}"
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


_LFS_BEGINNING = b"version https://git-lfs.github.com/spec/"

MAX_LFS_POINTER_BYTES = 1023
"""Of a pointer, as the specification of Git LFS has it."""

LFS_HINT = "keep it in Git itself: git lfs migrate export"
"""What its author can do."""


def is_lfs_pointer(data: bytes) -> bool:
    """Whether this is a whole file that says where its content is."""
    return len(data) <= MAX_LFS_POINTER_BYTES and data.startswith(_LFS_BEGINNING)


_LINE_ENDS = re.compile(rb"(?<=\n)")


@dataclass(frozen=True, slots=True)
class Lines:
    """Some lines of a file."""

    start: int
    """The first one, counted from 1."""
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """A part of a file, as large as a reply may be."""

    content: FileContent
    truncated: bool
    """Whether the file goes on after this part."""
    size_bytes: int
    """Of the whole file."""
    start_line: int | None = None
    end_line: int | None = None
    total_lines: int | None = None
    """Of the whole file; known only if lines were asked for."""

    @property
    def is_line_cut(self) -> bool:
        """Whether its last line is longer than a reply may be, and so not whole."""
        is_text = self.end_line is not None
        ends = self.content.data.endswith((b"\n", b"\r"))
        return is_text and self.truncated and not ends

    def next_line(self, *, max_file_bytes: int) -> int | None:
        """Return where the text goes on, if there surely is a line that can be read.

        Args:
            max_file_bytes: The lines of a larger file are not counted.
        """
        is_counted = self.size_bytes <= max_file_bytes
        if self.end_line is None or not self.truncated or not is_counted:
            return None
        total = self.total_lines
        goes_on = not self.is_line_cut if total is None else self.end_line < total
        return self.end_line + 1 if goes_on else None


def read_beginning(skill: Skill, file: str, *, max_bytes: int) -> FilePart:
    """Read the first bytes of a file, up to the end of a line.

    Raises:
        FileError: It cannot be handed out; the subclass says why.
    """
    with opened_whole(skill, file) as handle:
        size = os.fstat(handle.fileno()).st_size
        data = handle.read(max_bytes + 1)
    truncated = len(data) > max_bytes
    data = data[:max_bytes]
    text = _whole_characters(data) if truncated else data
    if is_binary(file, text):
        content = FileContent(data, is_binary=True, mime_type=mime_type(file))
        return FilePart(content=content, truncated=truncated, size_bytes=size)
    if truncated:
        text = _whole_lines(text)
    content = FileContent(text, is_binary=False, mime_type=mime_type(file))
    return FilePart(
        content=content,
        truncated=truncated,
        size_bytes=size,
        start_line=1,
        end_line=len(_split(text)),
    )


def read_lines(
    skill: Skill, file: str, wanted: Lines, *, max_bytes: int, max_file_bytes: int
) -> FilePart:
    """Read some lines of a text.

    Raises:
        FileError: It cannot be handed out; the subclass says why.
        InvalidArgumentsError: It has fewer lines, or is no text.
    """
    with opened_whole(skill, file) as handle:
        if os.fstat(handle.fileno()).st_size > max_file_bytes:
            raise FileTooLargeError(
                f"{file!r} is larger than {max_file_bytes:,} bytes, so its lines are "
                "not counted. Leave start_line and max_lines out to read its beginning."
            )
        data = handle.read(max_file_bytes)
    if is_binary(file, data):
        raise InvalidArgumentsError(
            f"start_line: {file!r} is no text. Leave start_line and max_lines out."
        )
    lines = _split(data)
    before = wanted.start - 1
    if before > max(0, len(lines) - 1):
        raise InvalidArgumentsError(
            f"start_line: {file!r} has {len(lines)} lines (got {wanted.start})"
        )
    rest = sum(map(len, lines[before:]))
    text = _fitting(lines[before : before + wanted.count], max_bytes)
    end_line = before + len(_split(text))
    return FilePart(
        content=FileContent(text, is_binary=False, mime_type=mime_type(file)),
        truncated=len(text) < rest,
        size_bytes=len(data),
        start_line=wanted.start,
        end_line=end_line,
        total_lines=len(lines),
    )


def find_files(
    skill: Skill, *, pattern: str, contains: str, max_file_bytes: int
) -> Iterator[str]:
    """Find files by a pattern of their path and a text in them, in any case.

    `*` also stands for slashes, and `**/` for any folders or none. A file that is
    no text, or larger than `max_file_bytes`, contains nothing.

    Raises:
        FileError: One has changed since the skills were read.
    """
    fits = compile_patterns((pattern,))
    for file, stamp in skill.files.items():
        if not fits(file):
            continue
        if not contains:
            yield file
        elif stamp.size_bytes <= max_file_bytes:
            with opened_listed(skill, file) as handle:
                data = handle.read(max_file_bytes)
            if not is_binary(file, data) and _contains(data, contains):
                yield file


def _contains(data: bytes, wanted: str) -> bool:
    return wanted.casefold() in data.decode("utf-8").casefold()


def _split(data: bytes) -> list[bytes]:
    """Return the lines with their ends; a carriage return alone ends none."""
    return [line for line in _LINE_ENDS.split(data) if line]


def _whole_characters(data: bytes) -> bytes:
    """Leave out a character of which only a part was read."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        return decoder.decode(data, final=False).encode("utf-8")
    except UnicodeDecodeError:
        return data  # no text at all


def _whole_lines(data: bytes) -> bytes:
    """Leave out a line of which only a part was read, unless it is the only one."""
    end = data.rfind(b"\n") + 1
    return data[:end] if end else data


def _fitting(lines: list[bytes], max_bytes: int) -> bytes:
    """Return as many whole lines as fit; of the first one as much as fits."""
    text = b""
    for line in lines:
        if len(text) + len(line) > max_bytes:
            return text or _whole_characters(line[:max_bytes])
        text += line
    return text
