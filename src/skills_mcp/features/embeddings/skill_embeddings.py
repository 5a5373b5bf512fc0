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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from threading import Event
from typing import Any
from weakref import WeakKeyDictionary
from zlib import crc32

import numpy as np
from numpy.lib.format import read_array
from numpy.typing import NDArray

from skills_mcp.config import Embedding
from skills_mcp.features.embeddings.client import (
    MAX_DIMENSIONS,
    EmbeddingClient,
    EmbeddingError,
    EmbeddingProvider,
    Matrix,
    Vector,
    remove_surrogates,
)
from skills_mcp.features.embeddings.hybrid_matcher import HybridMatcher, QueryEmbedder, VectorIndex
from skills_mcp.files.durable import NEW_PREFIX, atomic_write
from skills_mcp.files.locks import FileLock, StaleLockDetector, acquire_lock, lock_heartbeat
from skills_mcp.processes.retry import derive_backoff
from skills_mcp.routing.matcher import Matcher, VisibleSkills
from skills_mcp.skills.model import Skill

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


# No agent waits for it, and a model on a laptop takes seconds for a full batch.
_TIMEOUT_SECONDS = 60.0

# With pauses of up to 2, 4, 8 and 16 seconds: past a moment of too many requests.
_ATTEMPTS = 5
_FIRST_PAUSE_SECONDS = 2.0

# For a laptop that is offline, or a provider that is down.
_PAUSE_SECONDS = 300.0

# At most so many vectors are lost if this process dies. The log tells the progress as
# often.
_VECTORS_PER_FILE = 1_024

# Measured: a longer part of the body adds little, and many models read no more
# than 512 tokens.
MAX_BODY_CHARACTERS = 1_500

# A description may be as long as its author likes; the standard allows 1,024.
_MAX_DESCRIPTION_CHARACTERS = 1_500


def compose_embedded_text(skill: Skill) -> str:
    name = skill.name.replace("-", " ").replace("_", " ")
    description = skill.description[:_MAX_DESCRIPTION_CHARACTERS]
    body = skill.body[:MAX_BODY_CHARACTERS]
    return remove_surrogates(f"{name}\n{description}\n{body}")


class EmbeddedSkills:
    """The vectors of a set of skills; until `prepare` is done, words decide alone."""

    def __init__(  # noqa: PLR0913 - the parts that bootstrap would otherwise know
        self,
        skills: Sequence[Skill],
        *,
        provider: EmbeddingProvider,
        rules: Embedding,
        client: EmbeddingClient,
        query_embedder: QueryEmbedder,
        store: VectorStore,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._skills = skills
        self._provider = provider
        self._rules = rules
        self._client = client
        self._query_embedder = query_embedder
        self._store = store
        self._closed = Event()
        self._wait = wait or self._closed.wait
        self._vectors: VectorIndex | None = None
        self._seen: WeakKeyDictionary[VisibleSkills, VectorIndex] = WeakKeyDictionary()

    @property
    def is_ready(self) -> bool:
        return self._vectors is not None

    def fuse(self, matcher: Matcher, seen: VisibleSkills | None = None) -> Matcher:
        """Wrap a ranked matcher in a hybrid one; keep a keyword matcher."""
        if matcher.algorithm == "keyword":
            return matcher
        return HybridMatcher(
            matcher,
            seen.skills if seen else self._skills,
            find_vectors=partial(self._find_vectors, seen),
            query_embedder=self._query_embedder,
            weight=self._rules.weight,
            model=self._provider.model,
            seen=seen,
        )

    def _find_vectors(self, seen: VisibleSkills | None) -> VectorIndex | None:
        if seen is None or self._vectors is None:
            return self._vectors
        if seen not in self._seen and len(seen):
            self._seen[seen] = self._vectors.seen(seen)
        return self._seen.get(seen)

    def prepare(self) -> bool:
        """Fetch the vectors of all skills; return the success. Takes long.

        Retries until it succeeds, is closed, or the operator has to change something.
        Never raises: words find skills without it.
        """
        logged = ""
        while not self._closed.is_set():
            try:
                return self._prepare()
            except EmbeddingError as error:
                if str(error) != logged:
                    logged = str(error)
                    logger.warning("There are no vectors of the skills: %s", error)
                if not error.is_passing or self._wait(_PAUSE_SECONDS):
                    return False
        return False

    def close(self) -> None:
        """Stop `prepare` at its next step: the skills are not served any more."""
        self._closed.set()

    def _prepare(self) -> bool:
        digests = [
            self._provider.digest(compose_embedded_text(skill_to_embed))
            for skill_to_embed in self._skills
        ]
        if not digests:
            return False
        matrix = self._store.load(digests)
        if matrix is None:
            with self._store.exclusive(self._wait) as has_lock:
                if not has_lock:
                    return False
                # Look again: the process that held the lock may have asked, too.
                matrix = self._store.load(digests)
                if matrix is None:
                    matrix = self._build(digests)
        if matrix is None:
            return False
        self._vectors = VectorIndex.of([skill.path for skill in self._skills], matrix)
        logger.info("Comparing meanings of %d skills", len(digests))
        return True

    def _build(self, digests: Sequence[bytes]) -> "Matrix | None":
        numbers = {digest: number for number, digest in enumerate(digests)}
        known = self._store.collect(numbers)
        missing = {key: at for key, at in numbers.items() if key not in known}
        parts: list[Path | None] = []
        if missing:
            host = self._provider.address
            logger.info("Sending %d skills to %s", len(missing), host)
        for fresh in self._fetch_batches(missing):
            known |= fresh
            parts.append(self._store.save(list(fresh), np.stack(list(fresh.values()))))
            logger.info("%d of %d skills have vectors", len(known), len(numbers))
        if known.keys() != numbers.keys():
            return None
        if len({len(vector) for vector in known.values()}) > 1:
            self._store.forget()
            raise EmbeddingError("the model has changed its vectors", is_passing=True)
        matrix: Matrix = np.stack([known[digest] for digest in digests])
        saved = self._store.save(digests, matrix)
        for part in parts:
            if saved and part and part != saved:
                part.unlink(missing_ok=True)
        mapped = self._store.load(digests)
        return matrix if mapped is None else mapped

    def _fetch_batches(self, missing: Mapping[bytes, int]) -> Iterator[dict[bytes, Vector]]:
        fresh: dict[bytes, Vector] = {}
        keys, size = list(missing), self._rules.batch_size
        for batch in (keys[at : at + size] for at in range(0, len(keys), size)):
            texts = [compose_embedded_text(self._skills[missing[key]]) for key in batch]
            try:
                vectors = None if self._closed.is_set() else self._fetch(texts)
            except EmbeddingError:
                if fresh:
                    yield fresh  # what was paid for is kept
                raise
            if vectors is None:
                break
            fresh |= dict(zip(batch, vectors, strict=True))
            if len(fresh) >= _VECTORS_PER_FILE:
                yield fresh
                fresh = {}
        if fresh:
            yield fresh

    def _fetch(self, texts: Sequence[str]) -> "Matrix | None":
        for attempt in range(_ATTEMPTS):
            try:
                return self._client.embed(texts, timeout_seconds=_TIMEOUT_SECONDS)
            except EmbeddingError as error:
                if not error.is_passing or attempt == _ATTEMPTS - 1:
                    raise
                pause = derive_backoff(
                    attempt + 1,
                    first_seconds=_FIRST_PAUSE_SECONDS,
                    longest_seconds=_PAUSE_SECONDS,
                    retry_after_seconds=error.retry_after_seconds,
                )
                if self._wait(pause):
                    return None
        return None
