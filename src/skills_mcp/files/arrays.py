"""Arrays and a text in a folder: written whole or not at all, and mapped, not loaded.

Arrays are mapped, so that processes share their pages. A file holds numbers in NumPy's
own format and is never unpickled, so a forged file runs no code. The text is read in
parts; if it were mapped, it would soon be in memory as a whole.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from tokenize import TokenError
from typing import Any, Protocol
from weakref import finalize
from zlib import crc32

import numpy as np
from numpy.lib.format import open_memmap, read_array
from numpy.typing import NDArray

from skills_mcp.files.durable import GUARDED_FLAGS

STAGING = ".staging-"
"""How the name of a folder begins that is not complete yet."""

_ABOUT = "about.json"
_TEXT = "text.bin"
_CHECKSUMS = "checksums.json"

_CHUNK_BYTES = 1024 * 1024

_PAGE_BYTES = 4096
"""A smaller file is not worth a mapping, and an empty one cannot have one."""


class Sliceable(Protocol):
    """A text that can be sliced: in memory, or on the disk."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> bytes: ...


class TextFile:
    """A long text on the disk that is read in parts.

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
    text: Sliceable = b"",
) -> None:
    """Write a folder of arrays, a description of them as JSON, and a text.

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
        with (staging / _TEXT).open("wb") as handle:
            handle.write(text[:])
            _settle(handle.fileno())
        _write_json(staging / _ABOUT, about)
        _write_json(staging / _CHECKSUMS, _compute_checksums(staging))
        staging.rename(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def verify(folder: Path) -> None:
    """Make sure that each file of a folder is as it was written.

    The files are read in pieces and not mapped: that costs time, and no memory.

    Raises:
        OSError: There is no such folder, or it cannot be read.
        ValueError: A file is damaged, missing or too many.
    """
    expected = json.loads((folder / _CHECKSUMS).read_bytes())
    found = _compute_checksums(folder)
    if found != expected:
        names = sorted(set(found) | set(expected))
        wrong = [name for name in names if found.get(name) != expected.get(name)]
        raise ValueError(f"{', '.join(wrong)} in {folder} changed since it was written")


def read_about(folder: Path) -> dict[str, Any]:
    """Return the description of the arrays of a folder.

    Raises:
        OSError: There is no such folder.
        ValueError: It was not written by `write_arrays`.
    """
    about = json.loads((folder / _ABOUT).read_bytes())
    if not isinstance(about, dict):
        raise ValueError(f"{folder / _ABOUT} is no mapping")  # noqa: TRY004 - it is a file
    return about


def map_arrays(folder: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a folder without reading them.

    Raises:
        OSError: There is no such folder, or it cannot be read.
        ValueError: A file in it is damaged.
    """
    return {file.stem: _map(file) for file in sorted(folder.glob("*.npy"))}


def open_text(folder: Path) -> TextFile:
    """Open the text of a folder.

    Raises:
        OSError: There is no such folder, or it cannot be read.
    """
    return TextFile(folder / _TEXT)


def _map(file: Path) -> NDArray[Any]:
    is_large = file.stat().st_size > _PAGE_BYTES
    try:
        # Not `load`, which takes an archive for several arrays.
        if is_large:
            array: NDArray[Any] = open_memmap(file, mode="r")
        else:
            with file.open("rb") as handle:
                array = read_array(handle, allow_pickle=False)
    except (EOFError, TokenError) as error:
        raise ValueError(f"{file} is no array") from error
    # A plain view, because slices of the class of mapped arrays are slow.
    return np.asarray(array).view(np.ndarray)


def _compute_checksums(folder: Path) -> dict[str, int]:
    """Return the CRC-32 of each file of a folder, by its name."""
    files = (each for each in folder.iterdir() if each.name != _CHECKSUMS)
    return {file.name: _compute_checksum(file) for file in sorted(files)}


def _compute_checksum(file: Path) -> int:
    checksum, piece = 0, bytearray(_CHUNK_BYTES)
    with file.open("rb", buffering=0) as handle:
        while size := handle.readinto(piece):
            checksum = crc32(memoryview(piece)[:size], checksum)
    return checksum


def _write_json(file: Path, value: object) -> None:
    with file.open("w", encoding="utf-8") as handle:
        json.dump(value, handle)
        _settle(handle.fileno())


def _settle(descriptor: int) -> None:
    # Or a power cut leaves a file of the right length that holds zeros.
    os.fsync(descriptor)
