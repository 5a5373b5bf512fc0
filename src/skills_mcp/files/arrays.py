"""Folders of arrays and texts: written atomically, verified when read.

Arrays are read into memory and not mapped: a process with a mapped file is killed
(SIGBUS) when another one truncates it. Files use NumPy's own format and are never
unpickled, so a forged file runs no code. Texts are larger than all the rest; they are
read in parts and verified by the reader.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from threading import Lock
from tokenize import TokenError
from types import MappingProxyType
from typing import IO, Any, Protocol, TypeVar
from weakref import finalize
from zlib import crc32

import numpy as np
from numpy.lib.format import read_array
from numpy.typing import NDArray

from skills_mcp.files.durable import GUARDED_FLAGS

STAGING = ".staging-"

_Number = TypeVar("_Number", bound=np.integer)

_DESCRIPTION_FILE = "about.json"
_TEXT_SUFFIX = ".bin"
_CHECKSUMS = "checksums.json"


class DamagedTextError(ValueError):
    pass


class Sliceable(Protocol):
    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> bytes | memoryview: ...


class TextFile:
    """Long text on the disk, read in parts.

    Another process may shorten or change a part: the reader verifies it.

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
    """Atomically write a folder of arrays, texts and a JSON description.

    Raises:
        OSError: There is no space, no permission, or a folder of this name.
    """
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    staging = Path(tempfile.mkdtemp(prefix=STAGING, dir=folder.parent))
    try:
        for name, array in arrays.items():
            with _written(staging / f"{name}.npy") as handle:
                np.save(handle, array, allow_pickle=False)
        for name, text in texts.items():
            with _written(staging / f"{name}{_TEXT_SUFFIX}") as handle:
                handle.write(text[:])
        with _written(staging / _DESCRIPTION_FILE) as handle:
            handle.write(json.dumps(about).encode())
        sums = {file.name: crc32(file.read_bytes()) for file in _checksummed_files(staging)}
        with _written(staging / _CHECKSUMS) as handle:
            handle.write(json.dumps(sums).encode())
        staging.rename(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def read_arrays(folder: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Description and arrays of a folder, after verifying checksums.

    Raises:
        OSError: There is no such folder, or it cannot be read.
        ValueError: A file is damaged, missing or surplus.
    """
    expected = _read_json_mapping(folder / _CHECKSUMS)
    wrong = {*expected} - {file.name for file in _checksummed_files(folder)}
    arrays = {}
    for file in _checksummed_files(folder):
        data = file.read_bytes()
        if crc32(data) != expected.get(file.name):
            wrong.add(file.name)
        elif file.name != _DESCRIPTION_FILE:
            arrays[file.stem] = _parse_array(data)
    if wrong:
        names = ", ".join(sorted(wrong))
        raise ValueError(f"{names} in {folder} changed since it was written")
    return _read_json_mapping(folder / _DESCRIPTION_FILE), arrays


def open_text(folder: Path, name: str) -> TextFile:
    """Open a text of a folder; not verified, see `TextFile`.

    Raises:
        OSError: There is no such folder, or it cannot be read.
    """
    return TextFile(folder / f"{name}{_TEXT_SUFFIX}")


def _checksummed_files(folder: Path) -> Iterator[Path]:
    return (
        file
        for file in sorted(folder.iterdir())
        if file.name != _CHECKSUMS and file.suffix != _TEXT_SUFFIX
    )


def _read_json_mapping(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_bytes())
    except RecursionError:
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"{file} is no mapping")  # noqa: TRY004 - it is a file
    return found


def _parse_array(data: bytes) -> NDArray[Any]:
    try:
        # Not `load`, which takes an archive for several arrays.
        array: NDArray[Any] = read_array(BytesIO(data), allow_pickle=False)
    except (EOFError, TokenError) as error:
        raise ValueError("a file is no array") from error
    array.flags.writeable = False
    return array


@contextmanager
def _written(file: Path) -> Iterator[IO[bytes]]:
    with file.open("wb") as handle:
        yield handle
        handle.flush()
        # Or a power cut leaves a file of the right length that holds zeros.
        os.fsync(handle.fileno())


def row_offsets(lengths: NDArray[np.integer]) -> NDArray[np.int64]:
    """Compute row offsets from row lengths.

    >>> row_offsets(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    return ends


def expand_ranges(starts: NDArray[np.integer], sizes: NDArray[np.integer]) -> NDArray[np.int64]:
    """Concatenate ranges, each of a start and a size.

    >>> expand_ranges(np.array([7, 2]), np.array([2, 3])).tolist()
    [7, 8, 2, 3, 4]
    """
    shifts = np.cumsum(sizes, dtype=np.int64)
    total = int(shifts[-1]) if len(shifts) else 0
    # In place: a text of a million characters has half a million words.
    np.subtract(sizes, shifts, out=shifts)
    shifts += starts
    positions = np.repeat(shifts, sizes)
    positions += np.arange(total)
    return positions


def unique_sorted(values: NDArray[_Number]) -> NDArray[_Number]:
    """Sort and remove duplicates.

    As `np.unique` does, but that one imports `numpy.ma`: a first answer would wait.

    >>> unique_sorted(np.array([7, 2, 7])).tolist()
    [2, 7]
    """
    ordered = np.sort(values)
    is_first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]
