"""Vectors of skills, cached on disk: one process sends each text once.

```text
<cache>/embeddings/<space>/     0700; one per address, model and dimensions
  lock                          held by the process that asks the provider
  <digest>.npy                  vectors with the digests of their texts
```

A file never changes once it has its name, a hash of its keys. It ends with the CRC-32
of all before, and is read into memory: a process with a mapped file is killed (SIGBUS)
when another one shortens it.
"""

import logging
import math
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.lib.format import read_array
from numpy.typing import NDArray

from skills_mcp.features.embeddings.client import MAX_DIMENSIONS, Matrix, Vector
from skills_mcp.files.durable import NEW_PREFIX, atomic_write
from skills_mcp.files.locks import (
    FileLock,
    StaleLockDetector,
    acquire_lock,
    lock_heartbeat,
)

logger = logging.getLogger(__name__)

VectorTable = NDArray[np.void]
"""Records of a `key` and a `vector`."""

_KEY_BYTES = 32
_CHECKSUM_BYTES = 4

# Some 80,000 vectors of the commonest length, 1,536: more than any library has skills.
MAX_CACHE_BYTES = 512 * 1024 * 1024

# A file that is unfinished for so long was left by a process that has died.
_ABANDONED_SECONDS = 60 * 60.0

_POLL_SECONDS = 0.5
_LENGTH_TOLERANCE = 1e-3


class VectorStore:
    """The cached vectors of one space. Every method is safe between processes."""

    def __init__(self, root: Path, space: str, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self._root = root
        self._directory = root / space
        self._max_bytes = max_bytes

    def load(self, keys: Sequence[bytes]) -> "Matrix | None":
        """Load the vectors of exactly these texts, if there is such a file."""
        path = self._file(keys)
        table = _open_or_discard(path)
        if table is None:
            return None
        if table["key"].tobytes() != b"".join(keys):
            _discard(path)
            return None
        with suppress(OSError):
            os.utime(path)  # what is in use is the last to be deleted
        matrix: Matrix = table["vector"]
        return matrix

    def collect(self, keys: Collection[bytes]) -> dict[bytes, Vector]:
        """Collect the vectors of these texts from all files of the same dimensions."""
        found: dict[bytes, Vector] = {}
        length = 0
        for path in self._newest_first():
            table = _open_or_discard(path)
            if table is None:
                continue
            vectors: Matrix = table["vector"]
            length = length or vectors.shape[1]
            if vectors.shape[1] != length:
                continue  # of a model that has changed under the same name
            for number, key in enumerate(map(bytes, table["key"])):
                if key in keys:
                    found.setdefault(key, vectors[number])
        return found

    def save(self, keys: Sequence[bytes], matrix: Matrix) -> Path | None:
        """Write vectors for `load` and `collect`.

        Returns:
            The file, or None if the disk did not take it.
        """
        path = self._file(keys)
        table = np.empty(len(keys), _record(matrix.shape[1]))
        table["key"] = np.frombuffer(b"".join(keys), np.uint8).reshape(-1, _KEY_BYTES)
        table["vector"] = matrix
        try:
            _write_table(path, table)
            self._prune(path)
        except OSError as error:
            logger.warning("The vectors are not kept: %s", error.strerror)
            return None
        return path

    def forget(self) -> None:
        for path in self._newest_first():
            _discard(path)

    @contextmanager
    def exclusive(self, wait: Callable[[float], bool]) -> Iterator[bool]:
        """Hold the lock for asking the provider; yields whether it is held.

        It is not held if `wait` returned true while another process held it. If that
        process was stopped, or the disk has no locks, it counts as held: at worst a
        text is sent twice.
        """
        has_lock = True
        lock: FileLock | None = None
        path = self._directory / "lock"
        signs = StaleLockDetector(path)
        try:
            lock = acquire_lock(
                path,
                timeout_seconds=math.inf,
                wait=lambda _: wait(_POLL_SECONDS) or signs.check_holder(),
            )
        except BlockingIOError:
            has_lock = signs.is_stale
        except OSError as error:
            logger.debug("Asking for vectors without a lock: %s", error)
        if lock is None:
            yield has_lock
            return
        with lock, lock_heartbeat(lock):
            yield has_lock

    def _file(self, keys: Sequence[bytes]) -> Path:
        name = sha256(b"".join(keys)).hexdigest()[:32]
        return self._directory / f"{name}.npy"

    def _newest_first(self) -> list[Path]:
        return [path for _, _, path in _list_newest_first(self._directory)]

    def _prune(self, current: Path) -> None:
        files = sorted(
            (entry for folder in self._root.iterdir() for entry in _list_newest_first(folder)),
            reverse=True,
        )
        size = 0
        for _, size_bytes, path in files:
            size += size_bytes
            if size > self._max_bytes and path != current:
                _discard(path)
        for leftover in self._directory.glob(f"{NEW_PREFIX}*"):
            with suppress(OSError):
                if time.time() - leftover.stat().st_mtime > _ABANDONED_SECONDS:
                    leftover.unlink()


def _record(length: int) -> np.dtype[np.void]:
    fields: list[Any] = [("key", "u1", (_KEY_BYTES,)), ("vector", "<f4", (length,))]
    return np.dtype(fields)


def _list_newest_first(folder: Path) -> list[tuple[float, int, Path]]:
    entries = []
    for path in folder.glob("*.npy"):
        with suppress(OSError):
            found = path.stat()
            entries.append((found.st_mtime, found.st_size, path))
    return sorted(entries, reverse=True)


def _open_or_discard(path: Path) -> VectorTable | None:
    try:
        return _read_table(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        _discard(path)
        return None


def _read_table(path: Path) -> VectorTable:
    data = path.read_bytes()
    content, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    if crc32(content).to_bytes(_CHECKSUM_BYTES) != checksum:
        raise ValueError(f"{path} changed since it was written")
    table: VectorTable = read_array(BytesIO(content), allow_pickle=False)
    if not _is_usable(table):
        raise ValueError(f"{path} holds no vectors")
    return table


def _is_usable(table: Any) -> bool:
    names = getattr(table, "dtype", np.dtype(bool)).names
    if names != ("key", "vector") or table.ndim != 1 or not len(table):
        return False
    length = (*table.dtype["vector"].shape, 0)[0]
    if not 0 < length <= MAX_DIMENSIONS or table.dtype != _record(length):
        return False
    vectors = table["vector"]
    with np.errstate(all="ignore"):  # the numbers of another version may be anything
        squares = np.einsum("nd,nd->n", vectors, vectors)
        return bool((np.abs(squares - 1) < _LENGTH_TOLERANCE).all())


def _write_table(path: Path, table: VectorTable) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    content = BytesIO()
    np.save(content, table, allow_pickle=False)
    with atomic_write(path) as handle:
        handle.write(content.getbuffer())
        handle.write(crc32(content.getbuffer()).to_bytes(_CHECKSUM_BYTES))


def _discard(path: Path) -> None:
    with suppress(OSError):  # on Windows another process may have it open
        path.unlink(missing_ok=True)
