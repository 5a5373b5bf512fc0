"""Files of skills: content types, and reading whole files or parts.

Nothing here fetches content from Git LFS, so a pointer is an error. Otherwise three
lines about a template would pass for the template.
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

from skills_mcp import errors
from skills_mcp.files.opening import open_inside
from skills_mcp.files.paths import compile_patterns, find_composed_name, parse_relative
from skills_mcp.skills.model import Skill, Stamp

PLUGIN_ROOT = "CLAUDE_PLUGIN_ROOT"

HOST_PATH = re.compile(
    r"(?:\$\{(?=[A-Z_]+\})|\$(?!\{))(?P<variable>CLAUDE_PLUGIN_ROOT|CLAUDE_SKILL_DIR)\}?"
    r"/(?P<path>[\w./-]*[\w-])"
)
"""A file below a folder for which Claude Code has a variable: a plugin, or a skill."""


def resolve_host_path(skill: Skill, file: str) -> str:
    """Resolve a path with a variable of Claude Code, relative to the skill's folder.

    Raises:
        UndeclaredFileError: It is a file of the plugin, outside of the skill.
    """
    found = HOST_PATH.fullmatch(file)
    if not found:
        return file
    if found["variable"] != PLUGIN_ROOT:
        return found["path"]
    parts = found["path"].split("/")
    folder = f"{skill.directory.as_posix()}/" if skill.directory else ""
    for number in range(len(parts) - 1, 1, -1):  # `skills/NAME` is the least
        if parts[0] == "skills" and folder.endswith(f"/{'/'.join(parts[:number])}/"):
            return "/".join(parts[number:])
    raise errors.UndeclaredFileError(
        f"{file!r} is a file of the plugin, outside of the skill {skill.path}, and is not "
        "served: it is not there, is another skill's, or the skill's text does not name it. "
        "Go on without it, or look for it where the plugin is installed."
    )


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
BINARY_EXTENSIONS = frozenset({*MIME_TYPES, ".ico", ".webp"})
"""Always served as Base64."""

MAX_COPY_BYTES = 64 * 1024 * 1024
"""Four times the largest public skill."""

_COPY_CHUNK = 1024 * 1024
_DEFAULT_MIME_TYPE = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class FileContent:
    """The bytes of a file, and their content type."""

    data: bytes = field(repr=False)
    is_binary: bool
    mime_type: str


def derive_mime_type(file: str, content: FileContent) -> str:
    """MIME type of a file: Markdown, plain text, or detected."""
    if content.is_binary:
        return content.mime_type
    return "text/markdown" if file.lower().endswith(".md") else "text/plain"


def is_binary_file(file: str, data: bytes) -> bool:
    """Whether to serve a file as Base64.

    The extension decides first. Other bytes that are not UTF-8 count as binary, too: a
    font or an archive of an unlisted kind would arrive as broken text.
    """
    if _extension(file) in BINARY_EXTENSIONS:
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return False


def binary_mime_type(file: str) -> str:
    return MIME_TYPES.get(_extension(file), _DEFAULT_MIME_TYPE)


def read_skill_file(skill: Skill, file: str, *, max_bytes: int) -> FileContent:
    """Read a file from the skill's folder.

    Raises:
        InvalidPathError: `file` could leave the folder.
        MissingFileError: It is declared, but does not exist.
        ChangedFileError: It has changed since the skills were read.
        LfsPointerError: Its content is in Git LFS.
        FileTooLargeError: It has more than `max_bytes` bytes.
    """
    with open_fetched_file(skill, file) as handle:
        size = os.fstat(handle.fileno()).st_size
        if size > max_bytes:
            raise errors.FileTooLargeError(
                f"{file!r} has {size:,} bytes; the limit is {max_bytes:,}. "
                "The operator can raise assets.max_size_bytes."
            )
        data = handle.read(max_bytes)
    return FileContent(data, is_binary_file(file, data), binary_mime_type(file))


def copy_skill_files(skill: Skill, target: Path) -> None:
    """Copy every file of the skill into an empty folder.

    Pointers of Git LFS are copied as they are: a command may not need them.

    Raises:
        FileTooLargeError: The total exceeds `MAX_COPY_BYTES`.
        OSError: The disk is full, or permission is denied.
        MissingFileError: A file is gone.
        ChangedFileError: A file has changed since the skills were read.
    """
    size = sum(stamp.size_bytes for stamp in skill.files.values())
    if size > MAX_COPY_BYTES:
        raise errors.FileTooLargeError(
            f"{skill.path} has {size:,} bytes; {MAX_COPY_BYTES:,} can be copied. Run "
            "the command in your own shell."
        )
    for file, stamp in skill.files.items():
        copy = target / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        with open_listed_file(skill, file) as handle, copy.open("wb") as written:
            _copy(handle, written, stamp.size_bytes)
            mode = stat.S_IMODE(os.fstat(handle.fileno()).st_mode)
        copy.chmod((mode | stat.S_IWUSR) & 0o777)


@contextmanager
def open_listed_file(skill: Skill, name: str) -> Iterator[BinaryIO]:
    """Open one of `skill.files`, without another look-up.

    Raises:
        MissingFileError: The skill has no folder.
        ChangedFileError: It has changed since the skills were read.
    """
    if skill.directory is None:
        raise _missing_error(skill, name)
    root = skill.root or skill.directory
    inside = skill.directory.relative_to(root).parts
    try:
        handle = open_inside(root, (*inside, *name.split("/")))
    except errors.MissingFileError as error:
        raise _changed_error(name) from error
    with handle:
        _require_same(handle, skill.files[name], name)
        yield handle
        # Another program may have written to it meanwhile.
        _require_same(handle, skill.files[name], name)


@contextmanager
def open_fetched_file(skill: Skill, file: str) -> Iterator[BinaryIO]:
    """Open a file of the skill, unchanged since the skills were read.

    Raises:
        InvalidPathError: `file` could leave the folder.
        MissingFileError: It is declared, but does not exist.
        ChangedFileError: It has changed since the skills were read.
        LfsPointerError: Its content is in Git LFS.
    """
    parse_relative(file)
    name = find_composed_name(skill.files, file)
    if name is None:
        raise _missing_error(skill, file)
    with open_listed_file(skill, name) as handle:
        if is_lfs_pointer(handle.read(MAX_LFS_POINTER_BYTES + 1)):
            raise errors.LfsPointerError(
                f"{file!r} is only a pointer: its content is in Git LFS, which is not "
                f"fetched. Go on without it, and ask the skill's author to {LFS_HINT}"
            )
        handle.seek(0)
        yield handle


def _require_same(handle: BinaryIO, stamp: Stamp, file: str) -> None:
    # An answer that mixes two states of the content would be worse than none.
    if Stamp.of(os.fstat(handle.fileno())) != stamp:
        raise _changed_error(file)


def _copy(source: BinaryIO, target: BinaryIO, size_bytes: int) -> None:
    """Copy up to the recorded size: the file may grow faster than it is read."""
    while size_bytes and (data := source.read(min(size_bytes, _COPY_CHUNK))):
        size_bytes -= target.write(data)


def _changed_error(file: str) -> errors.ChangedFileError:
    return errors.ChangedFileError(
        f"{file!r} has changed since the skills were read. Call refresh_skills, then ask again."
    )


def _missing_error(skill: Skill, file: str) -> errors.MissingFileError:
    return errors.MissingFileError(
        f"{skill.path} declares {file!r}, but its folder has no such file. "
        "Go on without it, and tell the skill's author; if it has come since the "
        "skills were read, call refresh_skills."
    )


def _extension(file: str) -> str:
    return PurePosixPath(file).suffix.lower()


_LFS_PREFIX = b"version https://git-lfs.github.com/spec/"

MAX_LFS_POINTER_BYTES = 1023
"""From the specification of Git LFS."""

LFS_HINT = "keep it in Git itself: git lfs migrate export"


def is_lfs_pointer(data: bytes) -> bool:
    """Whether a whole file is a pointer of Git LFS."""
    return len(data) <= MAX_LFS_POINTER_BYTES and data.startswith(_LFS_PREFIX)


_LINE_ENDS = re.compile(rb"(?<=\n)")


@dataclass(frozen=True, slots=True)
class LineRange:
    """A range of lines."""

    start: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """A part of a file, within the size of a reply."""

    content: FileContent
    truncated: bool
    """Whether the file goes on after this part."""
    size_bytes: int
    """Of the whole file."""
    start_line: int | None = None
    end_line: int | None = None
    total_lines: int | None = None
    """Of the whole file; known only if lines were requested."""

    @property
    def is_line_cut(self) -> bool:
        """Whether its last line exceeds a reply, and so is incomplete."""
        is_text = self.end_line is not None
        ends = self.content.data.endswith((b"\n", b"\r"))
        return is_text and self.truncated and not ends

    def next_line(self, *, max_file_bytes: int) -> int | None:
        """Number of the next line; None if unknown (`max_file_bytes`) or unreadable."""
        is_counted = self.size_bytes <= max_file_bytes
        if self.end_line is None or not self.truncated or not is_counted:
            return None
        total = self.total_lines
        goes_on = not self.is_line_cut if total is None else self.end_line < total
        return self.end_line + 1 if goes_on else None


def read_head(skill: Skill, file: str, *, max_bytes: int) -> FilePart:
    """Read the first bytes of a file, up to the end of a line.

    Raises:
        FileError: The file is unavailable; see the subclasses.
    """
    with open_fetched_file(skill, file) as handle:
        size = os.fstat(handle.fileno()).st_size
        data = handle.read(max_bytes + 1)
    truncated = len(data) > max_bytes
    data = data[:max_bytes]
    text = _drop_partial_character(data) if truncated else data
    is_binary = is_binary_file(file, text)
    if truncated and not is_binary:
        data = _drop_partial_line(text)
    return FilePart(
        content=FileContent(data, is_binary, binary_mime_type(file)),
        truncated=truncated,
        size_bytes=size,
        start_line=None if is_binary else 1,
        end_line=None if is_binary else len(_split_lines(data)),
    )


def read_line_range(
    skill: Skill,
    file: str,
    lines_to_read: LineRange,
    *,
    max_bytes: int,
    max_file_bytes: int,
) -> FilePart:
    """Read some lines of a text file.

    Raises:
        FileError: The file is unavailable; see the subclasses.
        InvalidArgumentsError: It has fewer lines, or is no text.
    """
    with open_fetched_file(skill, file) as handle:
        if os.fstat(handle.fileno()).st_size > max_file_bytes:
            raise errors.FileTooLargeError(
                f"{file!r} is larger than {max_file_bytes:,} bytes, so its lines are "
                "not counted. Leave start_line and max_lines out to read its beginning."
            )
        data = handle.read(max_file_bytes)
    if is_binary_file(file, data):
        raise errors.InvalidArgumentsError(
            f"start_line: {file!r} is no text. Leave start_line and max_lines out."
        )
    lines = _split_lines(data)
    before = lines_to_read.start - 1
    if before > max(0, len(lines) - 1):
        raise errors.InvalidArgumentsError(
            f"start_line: {file!r} has {len(lines)} lines (got {lines_to_read.start})"
        )
    rest = sum(map(len, lines[before:]))
    text = _take_fitting(lines[before : before + lines_to_read.count], max_bytes)
    end_line = before + len(_split_lines(text))
    return FilePart(
        content=FileContent(text, is_binary=False, mime_type=binary_mime_type(file)),
        truncated=len(text) < rest,
        size_bytes=len(data),
        start_line=lines_to_read.start,
        end_line=end_line,
        total_lines=len(lines),
    )


def find_skill_files(
    skill: Skill, *, pattern: str, contains: str, max_file_bytes: int
) -> Iterator[str]:
    """Find files by a glob pattern and by a text in them, in any case.

    `*` also stands for slashes, and `**/` for any folders or none. A binary file, or
    one larger than `max_file_bytes`, contains nothing.

    Raises:
        FileError: A file has changed since the skills were read.
    """
    fits, folded = compile_patterns((pattern,)), contains.casefold()
    for file, stamp in skill.files.items():
        if not fits(file):
            continue
        if not folded:
            yield file
        elif stamp.size_bytes <= max_file_bytes:
            with open_listed_file(skill, file) as handle:
                data = handle.read(max_file_bytes)
            if not is_binary_file(file, data) and folded in data.decode("utf-8").casefold():
                yield file


def _split_lines(data: bytes) -> list[bytes]:
    return [line for line in _LINE_ENDS.split(data) if line]


def _drop_partial_character(data: bytes) -> bytes:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        return decoder.decode(data, final=False).encode("utf-8")
    except UnicodeDecodeError:
        return data  # no text at all


def _drop_partial_line(data: bytes) -> bytes:
    """Drop an incomplete line at the end, unless it is the only one."""
    end = data.rfind(b"\n") + 1
    return data[:end] if end else data


def _take_fitting(lines: list[bytes], max_bytes: int) -> bytes:
    """Take the whole lines within the limit; of the first one a prefix."""
    text = b""
    for line in lines:
        if len(text) + len(line) > max_bytes:
            return text or _drop_partial_character(line[:max_bytes])
        text += line
    return text
