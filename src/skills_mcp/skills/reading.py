"""Parts of a skill's files: the first bytes, some lines, or those that match."""

import codecs
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from skills_mcp.errors import FileTooLargeError, InvalidArgumentsError
from skills_mcp.skills.assets import (
    FileContent,
    is_binary,
    mime_type,
    opened_listed,
    opened_whole,
)
from skills_mcp.skills.model import Skill
from skills_mcp.skills.patterns import fits

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
    for file, stamp in skill.files.items():
        if not fits(file, pattern):
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
