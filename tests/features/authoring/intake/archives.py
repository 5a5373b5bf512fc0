"""Archives that tests make, good and hostile."""

import gzip
import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from tests.packages import package_text

GOOD: Mapping[str, str] = {
    "SKILL.md": package_text(),
    "scripts/fill.py": "print('filled')\n",
}


def write_zip(path: Path, files: Mapping[str, str | bytes] = GOOD) -> Path:
    """Write a zip archive."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def write_entry(path: Path, entry: zipfile.ZipInfo, data: bytes = b"x") -> Path:
    """Write a zip archive of a good skill and one more entry."""
    write_zip(path)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(entry, data)
    return path


def write_unnamed(path: Path, name: str = "") -> Path:
    """Write a zip archive of a good skill and an entry that `ZipInfo` would refuse."""
    write_zip(path)
    entry = zipfile.ZipInfo("x")
    entry.filename = name
    with zipfile.ZipFile(path, "a") as archive, archive.open(entry, "w") as member:
        member.write(b"x")
    return path


def write_tar(
    path: Path,
    files: Mapping[str, str | bytes] = GOOD,
    *more: tarfile.TarInfo,
) -> Path:
    """Write a compressed tar archive, with more entries that have no content."""
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            data = text.encode() if isinstance(text, str) else text
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        for entry in more:
            archive.addfile(entry)
    return path


def write_header(path: Path, data: bytes, kind: bytes = tarfile.XHDTYPE) -> Path:
    """Write a tar archive of a good skill behind an extended header of any bytes."""
    header = tarfile.TarInfo("header")
    header.type, header.size = kind, len(data)
    block = header.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % 512)
    path.write_bytes(gzip.compress(block + gzip.decompress(write_tar(path).read_bytes())))
    return path


def special(kind: bytes, name: str = "odd", link: str = "") -> tarfile.TarInfo:
    """Return an entry that is no file."""
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, link
    return entry
