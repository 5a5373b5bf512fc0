"""Arrays and texts in a folder: written whole or not at all, and checked when read.

Arrays are read into memory and not mapped: a process that maps a file is killed
(SIGBUS) when another one shortens it. A file holds numbers in NumPy's own format and is
never unpickled, so a forged file runs no code. Texts are larger than all the rest and
are read in parts, each of which its reader has to check.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from threading import Lock
from tokenize import TokenError
from types import MappingProxyType
from typing import Any, Protocol
from weakref import finalize
from zlib import crc32

import numpy as np
from numpy.lib.format import read_array
from numpy.typing import NDArray

from skills_mcp.files.durable import GUARDED_FLAGS

STAGING = ".staging-"
"""How the name of a folder begins that is not complete yet."""

_ABOUT = "about.json"
_TEXT_SUFFIX = ".bin"
_CHECKSUMS = "checksums.json"


class DamagedTextError(ValueError):
    """A text on the disk is not what was written there."""


class Sliceable(Protocol):
    """A text that can be sliced: in memory, or on the disk."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> bytes | memoryview: ...


class TextFile:
    """A long text on the disk that is read in parts.

    A part may come back shorter, or changed, if another process has written to the
    file: its reader has to check it.

    Args:
        file: It may be deleted afterwards, where the system allows that.

    Raises:
        OSError: It cannot be opened.
    """

    def __init__(self, file: Path) -> None:
        self._descriptor = os.open(file, os.O_RDONLY | GUARDED_FLAGS)
        finalize(self, os.close, self._descriptor)
        self._size = os.fstat(self._descriptor).st_size
        self._lock = Lock()

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> bytes:
        start, end, _ = part.indices(self._size)
        if hasattr(os, "pread"):
            return os.pread(self._descriptor, end - start, start)
        with self._lock:  # not every system can read at a place
            os.lseek(self._descriptor, start, os.SEEK_SET)
            return os.read(self._descriptor, end - start)


def write_arrays(
    folder: Path,
    arrays: Mapping[str, NDArray[Any]],
    about: Mapping[str, Any],
    texts: Mapping[str, Sliceable] = MappingProxyType({}),
) -> None:
    """Write a folder of arrays, a description of them as JSON, and texts.

    The folder has its name only when everything in it is on the disk.

    Raises:
        OSError: There is no room, no permission, or a folder of this name.
    """
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    staging = Path(tempfile.mkdtemp(prefix=STAGING, dir=folder.parent))
    try:
        for name, array in arrays.items():
            with (staging / f"{name}.npy").open("wb") as handle:
                np.save(handle, array, allow_pickle=False)
                _settle(handle.fileno())
        for name, text in texts.items():
            with (staging / f"{name}{_TEXT_SUFFIX}").open("wb") as handle:
                handle.write(text[:])
                _settle(handle.fileno())
        _write_json(staging / _ABOUT, about)
        sums = {file.name: crc32(file.read_bytes()) for file in _find_files(staging)}
        _write_json(staging / _CHECKSUMS, sums)
        staging.rename(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def read_arrays(folder: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the description and the arrays of a folder, if they are as written.

    Each file is read once and compared with its checksum before it is parsed.

    Raises:
        OSError: There is no such folder, or it cannot be read.
        ValueError: A file is damaged, missing or too many.
    """
    expected = _read_mapping(folder / _CHECKSUMS)
    wrong = {*expected} - {file.name for file in _find_files(folder)}
    arrays = {}
    for file in _find_files(folder):
        data = file.read_bytes()
        if crc32(data) != expected.get(file.name):
            wrong.add(file.name)
        elif file.name != _ABOUT:
            arrays[file.stem] = _parse(data)
    if wrong:
        names = ", ".join(sorted(wrong))
        raise ValueError(f"{names} in {folder} changed since it was written")
    return _read_mapping(folder / _ABOUT), arrays


def open_text(folder: Path, name: str) -> TextFile:
    """Open a text of a folder; it has no checksum, see `TextFile`.

    Raises:
        OSError: There is no such folder, or it cannot be read.
    """
    return TextFile(folder / f"{name}{_TEXT_SUFFIX}")


def _find_files(folder: Path) -> Iterator[Path]:
    """Yield the files that have a checksum: all but the texts."""
    return (
        each
        for each in sorted(folder.iterdir())
        if each.name != _CHECKSUMS and each.suffix != _TEXT_SUFFIX
    )


def _read_mapping(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_bytes())
    except RecursionError:
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"{file} is no mapping")  # noqa: TRY004 - it is a file
    return found


def _parse(data: bytes) -> NDArray[Any]:
    try:
        # Not `load`, which takes an archive for several arrays.
        array: NDArray[Any] = read_array(BytesIO(data), allow_pickle=False)
    except (EOFError, TokenError) as error:
        raise ValueError("a file is no array") from error
    array.flags.writeable = False
    return array


def _write_json(file: Path, value: object) -> None:
    with file.open("w", encoding="utf-8") as handle:
        json.dump(value, handle)
        _settle(handle.fileno())


def _settle(descriptor: int) -> None:
    # Or a power cut leaves a file of the right length that holds zeros.
    os.fsync(descriptor)
