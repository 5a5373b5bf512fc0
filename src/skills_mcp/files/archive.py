"""Archives from strangers: what they claim is checked first, then counted as it comes.

The formats are read by `zipfile` and `tarfile`. Ours is only what is refused: all that
no skill needs, and that has been used to harm programs that unpack.
"""

import gzip
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, NoReturn, Self, cast

from skills_mcp.errors import PackageRefusedError
from skills_mcp.files.entry_names import parse_entry_name, require_distinct
from skills_mcp.text.rendering import shorten


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """How much an archive may hold."""

    archive_bytes: int
    total_bytes: int
    """Of all files together, and of the headers of a tar archive with them."""
    entries: int
    """Files and folders, those that only a path implies included."""


MAX_RATIO = 100
"""How often larger the content may be than the archive; text reaches about ten."""

PACKAGE_LIMITS = ArchiveLimits(32 * 1024 * 1024, 64 * 1024 * 1024, 2_000)
"""Of one skill: ten times the largest of a thousand public packages."""

_RATIO_COUNTS_FROM = 4 * 1024 * 1024  # less harms no machine, however well packed
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
_ENCRYPTED = 0x1 | 0x40  # of the whole entry, and "strong encryption"
_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})

_DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OverflowError,
    gzip.BadGzipFile,
)
"""What the standard library raises for a damaged or an unknown form."""


@dataclass(frozen=True, slots=True)
class PackedFile:
    """One file of an archive."""

    path: str
    size_bytes: int
    """As the archive claims; what comes is counted again."""
    is_executable: bool
    open: Callable[[], IO[bytes]]


@contextmanager
def opened_archive(
    path: Path, scratch: Path, limits: ArchiveLimits = PACKAGE_LIMITS
) -> Iterator[Sequence[PackedFile]]:
    """Yield the files of a `.zip` or `.tar.gz`, all names and sizes checked.

    Args:
        path: The archive.
        scratch: A private folder, in which a tar archive is decompressed.
        limits: How much it may hold.

    Raises:
        PackageRefusedError: It is no such archive, damaged, or unsafe.
    """
    try:
        with path.open("rb") as handle:
            size = handle.seek(0, 2)
            if size > limits.archive_bytes:
                _refuse(f"has {size:,} bytes; {limits.archive_bytes:,} are allowed")
            handle.seek(0)
            start = handle.read(4)
            handle.seek(0)
            opened = _opened_as(start, path.name)
            with opened(handle, scratch, _Measure(size, limits)) as files:
                yield files
    except _DAMAGED as error:
        raise PackageRefusedError(
            f"The archive is damaged or incomplete: {shorten(str(error))}. Pack the "
            "folder again"
        ) from error
    except OSError as error:
        raise PackageRefusedError(
            f"The archive cannot be read: {error.strerror or error}. Check the path, "
            "its permissions, and the room in the temporary folder"
        ) from error


def unpack(
    files: Sequence[PackedFile],
    strip: str,
    folder: Path,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Write the files below a private folder, and count what comes.

    Args:
        files: Files of an archive that is open.
        strip: What stands before each path that is wanted, such as `pdf/`.
        folder: A folder that exists and is empty.
        check: Called before each file; it may end the work.

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
class _Measure:
    """The size of an archive, and what it may hold."""

    size: int
    limits: ArchiveLimits

    def check_number(self, number: int) -> None:
        if number > self.limits.entries:
            _refuse(f"has more than {self.limits.entries:,} entries")

    def check_growth(self, total: int) -> None:
        if total > self.limits.total_bytes:
            _refuse(f"holds more than {self.limits.total_bytes:,} bytes")
        if total > _RATIO_COUNTS_FROM and total > self.size * MAX_RATIO:
            _refuse(f"unpacks to more than {MAX_RATIO} times its size")


_Opener = Callable[[IO[bytes], Path, _Measure], _Files]


def _opened_as(start: bytes, name: str) -> _Opener:
    """Choose the reader by how the file begins, which its name has to confirm."""
    if start.startswith(_ZIP_START) and name.lower().endswith(".zip"):
        return _opened_zip
    if start.startswith(_GZIP_START) and name.lower().endswith((".tar.gz", ".tgz")):
        return _opened_tar
    raise PackageRefusedError(
        f"{shorten(name)} is not what its name says, or no archive that is taken. "
        "Pack the folder of the skill as .zip or as .tar.gz"
    )


@contextmanager
def _opened_zip(
    handle: IO[bytes], _scratch: Path, measure: _Measure
) -> Iterator[Sequence[PackedFile]]:
    _check_directory(handle, measure)
    with zipfile.ZipFile(handle) as archive:
        entries = archive.infolist()
        measure.check_number(len(entries))
        _check_layout(entries, archive.start_dir)
        for entry in entries:
            parse_entry_name(entry.orig_filename)  # first: an empty one has no kind
            _check_zip_entry(entry)
        files = [
            PackedFile(
                parse_entry_name(each.orig_filename),
                each.file_size,
                bool(each.external_attr >> 16 & stat.S_IXUSR),
                partial(archive.open, each),
            )
            for each in entries
            if not each.is_dir()
        ]
        folders = [parse_entry_name(e.orig_filename) for e in entries if e.is_dir()]
        yield _check_all(files, folders, measure)


def _check_directory(handle: IO[bytes], measure: _Measure) -> None:
    """Check the end of a zip, before a list of a million entries fills the memory."""
    handle.seek(max(0, measure.size - _ZIP_TAIL_BYTES))
    tail = handle.read()
    place = len(tail) - _ZIP_END_BYTES
    if not (tail[place:].startswith(_ZIP_END) and tail.endswith(b"\0\0")):
        place = tail.rfind(_ZIP_END)
    end = tail[max(0, place) : place + _ZIP_END_BYTES]
    if place < 0 or len(end) < _ZIP_END_BYTES:
        raise EOFError("its end is missing")
    if place + _ZIP_END_BYTES + int.from_bytes(end[20:22], "little") != len(tail):
        _refuse("has other data behind its end")
    is_zip64 = tail[max(0, place - 20) : place].startswith(_ZIP64)
    most = measure.limits.entries
    is_large = int.from_bytes(end[12:16], "little") > most * _DIRECTORY_ENTRY_BYTES
    if is_zip64 or is_large:
        _refuse(f"has more than {most:,} entries, or is a zip64")


def _check_layout(entries: Sequence[zipfile.ZipInfo], end: int) -> None:
    """Check that the entries lie one after the other, from the first byte on."""
    place = 0
    for entry in sorted(entries, key=lambda each: each.header_offset):
        if not place and entry.header_offset:
            _refuse("has other data before its first entry")
        if entry.header_offset < place:
            _refuse("has entries that overlap")
        name = len(entry.orig_filename.encode("utf-8", "surrogatepass"))
        least = min(name, len(entry.orig_filename))  # of an older code page
        place = entry.header_offset + _ZIP_HEADER_BYTES + least + entry.compress_size
    if place > end:
        _refuse("has entries that overlap")


def _check_zip_entry(entry: zipfile.ZipInfo) -> None:
    shown = shorten(entry.orig_filename)
    if entry.flag_bits & _ENCRYPTED:
        _refuse(f"is encrypted: {shown} needs a password")
    if entry.compress_type not in _METHODS:
        _refuse(f"packs {shown} in a way that is not common; use plain zip")
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind == stat.S_IFLNK:
        _refuse(f"holds a symbolic link: {shown}")
    if kind not in {0, stat.S_IFREG, stat.S_IFDIR}:
        _refuse(f"holds a device or another special file: {shown}")


@contextmanager
def _opened_tar(
    handle: IO[bytes], scratch: Path, measure: _Measure
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
                parse_entry_name(each.name),
                each.size,
                bool(each.mode & stat.S_IXUSR),
                partial(_open_tar_file, archive, each),
            )
            for each in entries
            if each.isfile()
        ]
        folders = [e.name for e in entries if e.isdir() and e.name not in {".", "./"}]
        yield _check_all(files, [parse_entry_name(each) for each in folders], measure)


class _CheckedEntry(tarfile.TarInfo):
    """An entry whose extended header is checked before it is parsed."""

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> Self:
        """Read the next entry."""
        _check_header(cast("IO[bytes]", tarfile.fileobj))
        return super().fromtarfile(tarfile)


def _check_header(archive: IO[bytes]) -> None:
    """Refuse an extended header that would take long; the place stays the same."""
    place = archive.tell()
    block = archive.read(_TAR_BLOCK)
    if block[_TAR_TYPE] in _TAR_EXTENDED:
        size = int(block[_TAR_SIZE].strip(b"\0 ") or b"0", 8)
        if size > _MAX_HEADER_BYTES:
            _refuse(
                f"has a header of more than {_MAX_HEADER_BYTES:,} bytes: leave "
                "extended attributes out"
            )
        if b"GNU.sparse" in archive.read(size):
            _refuse("holds a sparse file")
    archive.seek(place)


def _inflate(source: gzip.GzipFile, sink: IO[bytes], measure: _Measure) -> None:
    written = 0
    while chunk := source.read(_CHUNK):
        written += len(chunk)
        measure.check_growth(written)
        sink.write(chunk)


def _check_tar_entry(entry: tarfile.TarInfo) -> None:
    shown = shorten(entry.name)
    if entry.issym():
        _refuse(f"holds a symbolic link: {shown}")
    if entry.islnk():
        _refuse(f"holds a hard link: {shown}")
    if entry.issparse() or not (entry.isreg() or entry.isdir()):
        _refuse(f"holds a device or another special file: {shown}")
    if entry.name not in {".", "./"}:
        parse_entry_name(entry.name)
    tarfile.data_filter(entry, "/nowhere")


def _check_end(plain: Path, end: int, measure: _Measure) -> None:
    """Check that the archive ends with zeros: not before, and with nothing else."""
    with plain.open("rb") as handle:
        handle.seek(end)
        rest = handle.read(measure.limits.total_bytes)
    if not rest:
        raise EOFError("its end is missing")
    if rest.strip(b"\0"):
        _refuse("has other data behind its end")


def _open_tar_file(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> IO[bytes]:
    opened = archive.extractfile(entry)
    if opened is None:
        raise EOFError("a file has no content")
    return opened


def _check_all(
    files: Sequence[PackedFile], folders: Sequence[str], measure: _Measure
) -> Sequence[PackedFile]:
    """Check the names and sizes of all entries, and leave out what systems add."""
    require_distinct([f.path for f in files], folders, measure.check_number)
    measure.check_growth(sum(file.size_bytes for file in files))
    return [file for file in files if not _is_junk(file.path)]


def _is_junk(path: str) -> bool:
    return path.startswith("__MACOSX/") or path.rpartition("/")[2] == ".DS_Store"


def _copy(source: IO[bytes], sink: IO[bytes], claimed: int, path: str) -> None:
    written = 0
    while chunk := source.read(_CHUNK):
        written += len(chunk)
        if written > claimed:
            _refuse(f"holds more than it says in {shorten(path)}")
        sink.write(chunk)
    if written < claimed:
        raise EOFError(f"{path} is cut off")


def _refuse(reason: str) -> NoReturn:
    raise PackageRefusedError(
        f"The archive {reason}. Pack only the files of the skills"
    )
