"""Untrusted archives: claims are validated first, then enforced while unpacking.

`zipfile` and `tarfile` read the formats. Ours are only the refusals: features needed by
no skill and used in attacks on unpackers.
"""

import gzip
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, NoReturn, Self, cast

from skills_mcp.errors import PackageRefusedError
from skills_mcp.files.paths import MAX_PARTS, fold_name, is_desktop_file, is_relative_path
from skills_mcp.text.rendering import abbreviate_value

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_DRIVE = re.compile(r"[A-Za-z]:")
_MAX_NAME = 1024
_MAX_PART_BYTES = 255
_AMBIGUOUS = (
    "is reserved or misread on some system: a device of Windows, .git, an empty part, "
    "a dot or space at an end, or a character that shows nothing"
)


def parse_entry_name(name: str) -> str:
    """Path of an entry, without a folder's trailing slash.

    >>> parse_entry_name("pdf/scripts/")
    'pdf/scripts'

    Raises:
        PackageRefusedError: The name is hostile, or differs between systems.
    """
    path = name.removesuffix("/")
    path = path.removeprefix("./") if path != "." else path
    fault = _find_fault(path)
    if fault:
        raise PackageRefusedError(
            f"The archive has an entry called {abbreviate_value(name)}, which {fault}. "
            "Rename or remove it, and pack the folder again"
        )
    return path


def require_distinct_entries(
    files: Iterable[str], folders: Iterable[str], check_number: Callable[[int], None]
) -> None:
    """Require distinct names on every system.

    `check_number` gets the growing number of entries, including implied folders; it may
    refuse.

    Raises:
        PackageRefusedError: Two entries collide.
    """
    seen: dict[str, tuple[str, bool]] = {}
    for path in files:
        if seen.get(fold_name(path)) == (path, True):
            _refuse_pair(path, path)
        _register(seen, path, check_number, is_file=True)
    for path in folders:
        _register(seen, path, check_number, is_file=False)


def _register(
    seen: dict[str, tuple[str, bool]],
    path: str,
    check_number: Callable[[int], None],
    *,
    is_file: bool,
) -> None:
    """Register a path and its unregistered parents; refuse a collision."""
    folded = fold_name(path)
    while path:
        entry = (path, is_file)
        known = seen.get(folded)
        if known == entry:
            return
        if known:
            _refuse_pair(known[0], path)
        seen[folded] = entry
        check_number(len(seen))
        path, folded = path.rpartition("/")[0], folded.rpartition("/")[0]
        is_file = False


def _refuse_pair(first: str, second: str) -> None:
    if first == second:
        reason = f"has two entries called {abbreviate_value(first)}"
    else:
        reason = (
            f"has {abbreviate_value(first)} and {abbreviate_value(second)}, which are one "
            f"name where "
            "case or accents do not count"
        )
    raise PackageRefusedError(f"The archive {reason}. Keep one of them, and pack the folder again")


def _find_fault(path: str) -> str:
    parts = path.split("/")
    faults = (
        ("\0" in path, "holds a NUL character"),
        (_CONTROL.search(path), "holds a control character"),
        (path.startswith("/"), "is an absolute path"),
        (_DRIVE.match(path), "begins with a drive letter"),
        (".." in parts, "leads out of the folder with .."),
        ("\\" in path, "holds a backslash; archives separate folders with slashes"),
        (len(parts) > MAX_PARTS, f"lies deeper than {MAX_PARTS - 1} folders"),
        (
            len(path) > _MAX_NAME or any(map(_is_long, parts)),
            "is longer than file systems allow",
        ),
        (not is_relative_path(path), _AMBIGUOUS),
    )
    return next((clause for is_so, clause in faults if is_so), "")


def _is_long(part: str) -> bool:
    return len(part.encode("utf-8", "surrogatepass")) > _MAX_PART_BYTES


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    archive_bytes: int
    total_bytes: int
    """Of all files together, including headers of a tar archive."""
    entries: int
    """Files and folders, including implied folders."""


MAX_RATIO = 100
"""Compression ratio limit; text reaches about ten."""

PACKAGE_LIMITS = ArchiveLimits(32 * 1024 * 1024, 64 * 1024 * 1024, 2_000)
"""Of one skill: ten times the largest of a thousand public packages."""

_MIN_BYTES_FOR_RATIO = 4 * 1024 * 1024  # less harms no machine, however well packed
_CHUNK = 64 * 1024
_ZIP_START, _ZIP_END = b"PK\x03\x04", b"PK\x05\x06"
_ZIP64 = b"PK\x06\x07"
_ZIP_END_BYTES = 22
_ZIP_TAIL_BYTES = _ZIP_END_BYTES + 65_536  # with the longest comment
_DIRECTORY_ENTRY_BYTES = 512  # 46, a name, times, an owner
_ZIP_HEADER_BYTES = 30
_GZIP_START = b"\x1f\x8b"
_TAR_BLOCK = 512
_TAR_SIZE = slice(124, 136)
_TAR_TYPE = slice(156, 157)
_TAR_EXTENDED = frozenset({b"x", b"g", b"X", b"L", b"K"})  # of pax, Solaris and GNU

# `tarfile` searches them with expressions that take the square of the time for long
# runs of digits (CVE-2024-6232), and cannot be interrupted. A path of 1,024
# characters and the attributes of a desktop need less.
_MAX_HEADER_BYTES = 4096
_UTF8_NAME = 0x800  # a flag of an entry of a zip
_UNICODE_NAME = 0x7075  # an extra field of Info-ZIP
_FIELD_BYTES = 4  # its kind and size
_ENCRYPTED = 0x1 | 0x40  # of the whole entry, and "strong encryption"
_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})

_DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    EOFError,
    RuntimeError,
    ValueError,
    OverflowError,
    gzip.BadGzipFile,
)


@dataclass(frozen=True, slots=True)
class PackedFile:
    path: str
    size_bytes: int
    """As claimed; enforced while unpacking."""
    is_executable: bool
    open: Callable[[], IO[bytes]]
    is_name_guessed: bool = False
    """Whether nothing says in which code page its name is."""


@contextmanager
def open_archive(
    path: Path, scratch: Path, limits: ArchiveLimits = PACKAGE_LIMITS
) -> Iterator[Sequence[PackedFile]]:
    """Files of a `.zip` or `.tar.gz`, with validated names and sizes.

    A tar archive is decompressed in `scratch`, a private folder.

    Raises:
        PackageRefusedError: It is no such archive, damaged, or unsafe.
    """
    try:
        with path.open("rb") as handle:
            size = handle.seek(0, 2)
            if size > limits.archive_bytes:
                _refuse_archive(f"has {size:,} bytes; {limits.archive_bytes:,} are allowed")
            handle.seek(0)
            start = handle.read(4)
            handle.seek(0)
            opened = _choose_opener(start, path.name)
            with opened(handle, scratch, _SizeCheck(size, limits)) as files:
                yield files
    except _DAMAGED as error:
        raise PackageRefusedError(
            f"The archive is damaged or incomplete: {abbreviate_value(str(error))}. Pack the "
            "folder again"
        ) from error
    except OSError as error:
        raise PackageRefusedError(
            f"The archive cannot be read: {error.strerror or error}. Check the path, "
            "its permissions, and the room in the temporary folder"
        ) from error


def unpack_archive(
    files: Sequence[PackedFile],
    strip: str,
    folder: Path,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Write the files below an empty private folder, enforcing claimed sizes.

    `strip` is removed from each path; `check` is called before each file, and may
    raise.

    Raises:
        PackageRefusedError: More comes than was claimed.
    """
    for file in files:
        check()
        target = folder / file.path.removeprefix(strip)
        target.parent.mkdir(parents=True, exist_ok=True)
        with file.open() as source, target.open("xb") as sink:
            _copy(source, sink, file.size_bytes, file.path)
        target.chmod(0o755 if file.is_executable else 0o644)


_Files = AbstractContextManager[Sequence[PackedFile]]


@dataclass(frozen=True, slots=True)
class _SizeCheck:
    size: int
    limits: ArchiveLimits

    def check_number(self, number: int) -> None:
        if number > self.limits.entries:
            _refuse_archive(f"has more than {self.limits.entries:,} entries")

    def check_growth(self, total: int) -> None:
        if total > self.limits.total_bytes:
            _refuse_archive(f"holds more than {self.limits.total_bytes:,} bytes")
        if total > _MIN_BYTES_FOR_RATIO and total > self.size * MAX_RATIO:
            _refuse_archive(f"unpacks to more than {MAX_RATIO} times its size")


_Opener = Callable[[IO[bytes], Path, _SizeCheck], _Files]


def _choose_opener(start: bytes, name: str) -> _Opener:
    """Reader by magic number, confirmed by the file name."""
    if start.startswith(_ZIP_START) and name.lower().endswith((".zip", ".skill")):
        return _open_zip
    if start.startswith(_GZIP_START) and name.lower().endswith((".tar.gz", ".tgz")):
        return _open_tar
    raise PackageRefusedError(
        f"{abbreviate_value(name)} is not what its name says, or no archive that is taken. "
        "Pack the folder of the skill as .zip or as .tar.gz"
    )


@contextmanager
def _open_zip(
    handle: IO[bytes], _scratch: Path, measure: _SizeCheck
) -> Iterator[Sequence[PackedFile]]:
    _check_directory(handle, measure)
    with zipfile.ZipFile(handle) as archive:
        entries = archive.infolist()
        measure.check_number(len(entries))
        _check_layout(entries, archive.start_dir)
        for entry in entries:
            parse_entry_name(_decode_name(entry)[0])  # first: an empty one has no kind
            _check_zip_entry(entry)
        files = [_pack_zip_entry(archive, info) for info in entries if not info.is_dir()]
        folders = [parse_entry_name(_decode_name(e)[0]) for e in entries if e.is_dir()]
        yield _check_entries(files, folders, measure)


def _pack_zip_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> PackedFile:
    name, is_guessed = _decode_name(entry)
    is_executable = bool(entry.external_attr >> 16 & stat.S_IXUSR)
    path, open_entry = parse_entry_name(name), partial(archive.open, entry)
    return PackedFile(path, entry.file_size, is_executable, open_entry, is_guessed)


def _decode_name(entry: zipfile.ZipInfo) -> tuple[str, bool]:
    """Name of an entry, and whether it is guessed: cp437 where its bytes are no UTF-8."""
    name = entry.orig_filename
    if entry.flag_bits & _UTF8_NAME:
        return name, False
    raw = name.encode("cp437")
    try:
        return _find_unicode_name(entry.extra, raw) or raw.decode("utf-8"), False
    except UnicodeError:
        return name, True


def _find_unicode_name(extra: bytes, name: bytes) -> str | None:
    """Name in UTF-8 of the field 0x7075 (APPNOTE 4.6.9); None without one for this name.

    Raises:
        PackageRefusedError: It is damaged, so that programs read different names.
    """
    while len(extra) >= _FIELD_BYTES:
        kind, size = struct.unpack_from("<HH", extra)
        field, extra = extra[_FIELD_BYTES : _FIELD_BYTES + size], extra[_FIELD_BYTES + size :]
        if kind == _UNICODE_NAME and field[:5] == struct.pack("<BI", 1, zlib.crc32(name)):
            found = field[5:].decode("utf-8", "replace")
            if len(field) < size or not {"\0", "\ufffd"}.isdisjoint(found):
                _refuse_archive("has a Unicode name (0x7075) that is damaged")
            return found
    return None


def _check_directory(handle: IO[bytes], measure: _SizeCheck) -> None:
    """Check the end of a zip, before a list of a million entries fills the memory."""
    handle.seek(max(0, measure.size - _ZIP_TAIL_BYTES))
    tail = handle.read()
    offset = len(tail) - _ZIP_END_BYTES
    if not (tail[offset:].startswith(_ZIP_END) and tail.endswith(b"\0\0")):
        offset = tail.rfind(_ZIP_END)
    end = tail[max(0, offset) : offset + _ZIP_END_BYTES]
    if offset < 0 or len(end) < _ZIP_END_BYTES:
        raise EOFError("its end is missing")
    if offset + _ZIP_END_BYTES + int.from_bytes(end[20:22], "little") != len(tail):
        _refuse_archive("has other data behind its end")
    is_zip64 = tail[max(0, offset - 20) : offset].startswith(_ZIP64)
    limit = measure.limits.entries
    is_large = int.from_bytes(end[12:16], "little") > limit * _DIRECTORY_ENTRY_BYTES
    if is_zip64 or is_large:
        _refuse_archive(f"has more than {limit:,} entries, or is a zip64")


def _check_layout(entries: Sequence[zipfile.ZipInfo], end: int) -> None:
    offset = 0
    for entry in sorted(entries, key=lambda info: info.header_offset):
        if not offset and entry.header_offset:
            _refuse_archive("has other data before its first entry")
        if entry.header_offset < offset:
            _refuse_archive("has entries that overlap")
        name = len(entry.orig_filename.encode("utf-8", "surrogatepass"))
        name_bytes = min(name, len(entry.orig_filename))  # of an older code page
        offset = entry.header_offset + _ZIP_HEADER_BYTES + name_bytes + entry.compress_size
    if offset > end:
        _refuse_archive("has entries that overlap")


def _check_zip_entry(entry: zipfile.ZipInfo) -> None:
    label = abbreviate_value(entry.orig_filename)
    if entry.flag_bits & _ENCRYPTED:
        _refuse_archive(f"is encrypted: {label} needs a password")
    if entry.compress_type not in _METHODS:
        _refuse_archive(f"packs {label} in a way that is not common; use plain zip")
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind == stat.S_IFLNK:
        _refuse_archive(f"holds a symbolic link: {label}")
    if kind not in {0, stat.S_IFREG, stat.S_IFDIR}:
        _refuse_archive(f"holds a device or another special file: {label}")


@contextmanager
def _open_tar(
    handle: IO[bytes], scratch: Path, measure: _SizeCheck
) -> Iterator[Sequence[PackedFile]]:
    plain = scratch / "archive.tar"
    with gzip.GzipFile(fileobj=handle) as source, plain.open("xb") as sink:
        _inflate(source, sink, measure)
    with tarfile.open(plain, "r:", tarinfo=_CheckedEntry) as archive:
        entries: list[tarfile.TarInfo] = []
        for entry in archive:
            measure.check_number(len(entries) + 1)
            _check_tar_entry(entry)
            entries.append(entry)
        _check_end(plain, archive.offset, measure)
        files = [
            PackedFile(
                parse_entry_name(member.name),
                member.size,
                bool(member.mode & stat.S_IXUSR),
                partial(_open_tar_file, archive, member),
            )
            for member in entries
            if member.isfile()
        ]
        folders = [e.name for e in entries if e.isdir() and e.name not in {".", "./"}]
        yield _check_entries(files, [parse_entry_name(member) for member in folders], measure)


class _CheckedEntry(tarfile.TarInfo):
    """Checks an extended header before parsing."""

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> Self:
        _check_header(cast("IO[bytes]", tarfile.fileobj))
        return super().fromtarfile(tarfile)


def _check_header(archive: IO[bytes]) -> None:
    """Refuse slow extended headers, keeping the file position."""
    offset = archive.tell()
    block = archive.read(_TAR_BLOCK)
    if block[_TAR_TYPE] in _TAR_EXTENDED:
        size = int(block[_TAR_SIZE].strip(b"\0 ") or b"0", 8)
        if size > _MAX_HEADER_BYTES:
            _refuse_archive(
                f"has a header of more than {_MAX_HEADER_BYTES:,} bytes: leave "
                "extended attributes out"
            )
        if b"GNU.sparse" in archive.read(size):
            _refuse_archive("holds a sparse file")
    archive.seek(offset)


def _inflate(source: gzip.GzipFile, sink: IO[bytes], measure: _SizeCheck) -> None:
    written = 0
    while chunk := source.read(_CHUNK):
        written += len(chunk)
        measure.check_growth(written)
        sink.write(chunk)


def _check_tar_entry(entry: tarfile.TarInfo) -> None:
    label = abbreviate_value(entry.name)
    if entry.issym():
        _refuse_archive(f"holds a symbolic link: {label}")
    if entry.islnk():
        _refuse_archive(f"holds a hard link: {label}")
    if entry.issparse() or not (entry.isreg() or entry.isdir()):
        _refuse_archive(f"holds a device or another special file: {label}")
    if entry.name not in {".", "./"}:
        parse_entry_name(entry.name)
    tarfile.data_filter(entry, "/nowhere")


def _check_end(plain: Path, end: int, measure: _SizeCheck) -> None:
    """Require trailing zeros only."""
    with plain.open("rb") as handle:
        handle.seek(end)
        rest = handle.read(measure.limits.total_bytes)
    if not rest:
        raise EOFError("its end is missing")
    if rest.strip(b"\0"):
        _refuse_archive("has other data behind its end")


def _open_tar_file(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> IO[bytes]:
    opened = archive.extractfile(entry)
    if opened is None:
        raise EOFError("a file has no content")
    return opened


def _check_entries(
    files: Sequence[PackedFile], folders: Sequence[str], measure: _SizeCheck
) -> Sequence[PackedFile]:
    require_distinct_entries([f.path for f in files], folders, measure.check_number)
    measure.check_growth(sum(file.size_bytes for file in files))
    return [file for file in files if not _is_junk(file.path)]


def _is_junk(path: str) -> bool:
    parts = path.split("/")
    return "__MACOSX" in parts or any(map(is_desktop_file, parts))


def _copy(source: IO[bytes], sink: IO[bytes], claimed: int, path: str) -> None:
    written = 0
    while chunk := source.read(_CHUNK):
        written += len(chunk)
        if written > claimed:
            _refuse_archive(f"holds more than it says in {abbreviate_value(path)}")
        sink.write(chunk)
    if written < claimed:
        raise EOFError(f"{path} is cut off")


def _refuse_archive(reason: str) -> NoReturn:
    raise PackageRefusedError(f"The archive {reason}. Pack only the files of the skills")
