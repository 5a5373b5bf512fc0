"""Vectors of skills and tasks, and the matcher that adds their similarity to words.

`QueryEmbedder` embeds a task while an agent waits: soon, or not at all. Vectors of skills
are cached on disk, so that one process sends each text once:

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
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from functools import partial
from hashlib import sha256
from io import BytesIO
from math import ceil, fsum, sqrt
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary
from zlib import crc32

import numpy as np
from numpy.lib.format import read_array
from numpy.typing import NDArray

from skills_mcp.features.embeddings.client import (
    MAX_DIMENSIONS,
    EmbeddingClient,
    EmbeddingError,
    EmbeddingProvider,
    Matrix,
    Vector,
    remove_surrogates,
)
from skills_mcp.files.durable import NEW_PREFIX, atomic_write
from skills_mcp.files.locks import FileLock, StaleLockDetector, acquire_lock, lock_heartbeat
from skills_mcp.processes.retry import derive_backoff
from skills_mcp.routing.decision import MAX_UNCUT_CHARACTERS
from skills_mcp.routing.matcher import (
    Algorithm,
    Candidate,
    Evidence,
    Mask,
    Matcher,
    NegatedScope,
    TermWeight,
    VisibleSkills,
    tie_break_ranks,
)
from skills_mcp.skills.model import Skill, SkillPath

logger = logging.getLogger(__name__)

# An agent asks again with the same words: to pick a candidate, or in the next window.
_CACHED_QUERIES = 256

# No task is sent for so long after a failure: as long as an agent works on one step.
QUERY_PAUSE_SECONDS = 30.0

# As much as is scored as it is: of a longer task a part is taken, and it may be 30 long
# words (see `focus`).
_MAX_TASK_CHARACTERS = MAX_UNCUT_CHARACTERS["ranked"]

MILLION = 1_000_000
"""Similarities are in millionths, so that equal ones are equal."""

# The closeness of the library counts as much as this many skills: with fewer than ten
# skills, a task's cosines are mostly those of the skills that it means.
_PRIOR_SKILLS = 4

# A model that finds all texts alike says nothing; the scale must not divide by 0.
_MAX_FLOOR = 0.99

# Measured: the first 50 by words and by meaning give the same answers as all skills.
_MIN_CANDIDATES = 50

# Half of a library is nearer to a task than its average skill. A skill that shares no
# word with the task is found only if it is far above that; with less it would not even
# be a near miss.
_MIN_SIMILARITY = 200_000

# The likeness that is worth as much as a score of 0.5 by words. With it, a score means
# the same as one by words: it is right as often, and as much is refused. Measured with
# 16 sets of tasks, as is the power below; each set left out once, the others choose the
# same two.
_HALF_SCORE_SIMILARITY = 0.25

# With 0.2 to 0.4 the right skill is the first as often, within 0.6 in a hundred. Measured.
MEANING_WEIGHT = 0.3
"""The weight of the meaning in a score; the words have the rest."""

_NAMED_SCORE = 1
"""The score of a skill named by the task."""

_MAX_LEXICAL_SCORE = 1 - 1e-6
"""The largest lexical score with finite odds."""


def compose_query_text(context: str) -> str:
    return remove_surrogates(" ".join(context.split())[:_MAX_TASK_CHARACTERS])


class QueryEmbedder:
    """Embeds tasks, with an LRU cache in memory."""

    def __init__(
        self,
        ask: Callable[[str], Vector],
        timeout_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._guard = Lock()
        self._cached: OrderedDict[str, Vector] = OrderedDict()
        self._paused_until = float("-inf")
        self._logged_reason = ""

    def embed(self, text: str) -> "Vector | None":
        """Embed a task; None if there is no vector now. Blocking."""
        cached = self._look_up(text)
        if cached is not None:
            return cached
        if not text or self._clock() < self._paused_until:
            return None
        waiting: Future[Vector] = Future()
        # A thread of its own, because nothing else bounds the look-up of a host's
        # address; it ends by itself, and a late answer is remembered.
        Thread(target=self._answer, args=(text, waiting), daemon=True).start()
        try:
            vector = waiting.result(self._timeout_seconds)
        except TimeoutError:
            self.fail(EmbeddingError(f"no vector in {self._timeout_seconds:g} seconds"))
            return None
        except EmbeddingError as error:
            self.fail(error)
            return None
        self._recover()
        return vector

    def fail(self, error: EmbeddingError) -> None:
        """Pause requests, and log a new reason once."""
        pause = max(QUERY_PAUSE_SECONDS, error.retry_after_seconds or 0.0)
        with self._guard:
            self._paused_until = self._clock() + pause
            is_new = self._logged_reason != str(error)
            self._logged_reason = str(error)
        if is_new:
            logger.warning("Tasks are compared by their words alone: %s", error)

    def _recover(self) -> None:
        with self._guard:
            had_failed, self._logged_reason = bool(self._logged_reason), ""
        if had_failed:
            logger.info("Tasks are compared by their meanings again")

    def _answer(self, text: str, waiting: "Future[Vector]") -> None:
        try:
            vector = self._ask(text)
        except EmbeddingError as error:
            waiting.set_exception(error)
        except Exception:
            logger.exception("Asking for a vector failed")
            waiting.set_exception(EmbeddingError("a fault of this program, see above"))
        else:
            with self._guard:
                self._cached[text] = vector
                if len(self._cached) > _CACHED_QUERIES:
                    self._cached.popitem(last=False)
            waiting.set_result(vector)

    def _look_up(self, text: str) -> "Vector | None":
        with self._guard:
            vector = self._cached.get(text)
            if vector is not None:
                self._cached.move_to_end(text)
            return vector


@dataclass(frozen=True, slots=True, eq=False)
class VectorIndex:
    """The vectors of one set of skills, for exact search. Immutable."""

    vectors: Matrix
    numbers: Mapping[SkillPath, int]
    places: NDArray[np.int64]
    total: Vector
    """The sum of the vectors."""
    closeness: float
    """The mean cosine of two different skills."""

    @classmethod
    def of(cls, paths: Sequence[SkillPath], vectors: Matrix) -> "VectorIndex":
        total, closeness = _compute_sum_and_closeness(vectors)
        numbers = {path: number for number, path in enumerate(paths)}
        return cls(vectors, numbers, tie_break_ranks(paths), total, closeness)

    def seen(self, seen: VisibleSkills) -> "VectorIndex":
        # In path order: a sum of floats depends on it.
        total, closeness = _compute_sum_and_closeness(self.vectors[seen.numbers])
        numbers = dict(zip(seen.paths, seen.numbers.tolist(), strict=True))
        return VectorIndex(self.vectors, numbers, seen.places, total, closeness)

    def compare(self, vector: Vector) -> NDArray[np.int64]:
        """Compute the similarity of a query to each skill, in millionths.

        A cosine means something else in every model: 0.5 is far apart for one and
        nearly equal for another. Therefore the cosine of the average skill counts as 0,
        and the same direction as a million.

        Raises:
            EmbeddingError: The vector is of another model.
        """
        if vector.shape != self.total.shape:
            raise EmbeddingError(
                f"the vector of the task has {len(vector)} dimensions, those of the "
                f"skills have {len(self.total)}: delete the folder embeddings of the cache"
            )
        # Not a product of matrices: that adds up in another order for each row, so a
        # skill would be as like a task as its number makes it.
        cosines = np.einsum("ij,j->i", self.vectors, vector)
        floor = self._floor(float(self.total @ vector))
        similarities = np.clip((cosines - floor) / (1 - floor), 0, 1)
        millionths: NDArray[np.int64] = np.rint(similarities * MILLION).astype(np.int64)
        return millionths

    def _floor(self, summed: float) -> float:
        """Estimate the cosine of the average skill, smoothed by the library's mean."""
        count = len(self.numbers)
        average = (summed + _PRIOR_SKILLS * self.closeness) / (count + _PRIOR_SKILLS)
        return min(max(average, 0.0), _MAX_FLOOR)


def _compute_sum_and_closeness(vectors: Matrix) -> tuple[Vector, float]:
    count = len(vectors)
    total: Vector = vectors.sum(axis=0, dtype=np.float32)
    pairs = count * (count - 1)
    return total, (float(total @ total) - count) / pairs if pairs else 0.0


class FusedScore(NamedTuple):
    """A fused score in its two parts."""

    lexical: float
    semantic: float

    @property
    def millionths(self) -> int:
        """The score, from 0 to a million; 0 only without any evidence."""
        fit = self.lexical + self.semantic
        return max(round(MILLION * fit * fit / (fit * fit + 1)), int(fit > 0))

    @property
    def lexical_share(self) -> float:
        return self.lexical / (self.lexical + self.semantic or 1)


def fuse_scores(words: Fraction, similarity: int) -> FusedScore:
    """Fuse a lexical score and a similarity in millionths.

    The square of the sum is the odds of the score, for words alone and for both. So the
    two add up as evidence, like the parts of a lexical score.
    """
    known = min(float(words), _MAX_LEXICAL_SCORE)
    # To the power of 1.5: what is hardly alike is so by chance.
    scaled = similarity / MILLION / _HALF_SCORE_SIMILARITY
    lexical = (1 - MEANING_WEIGHT) * sqrt(known / (1 - known))
    return FusedScore(lexical, MEANING_WEIGHT * scaled * sqrt(scaled))


@dataclass(frozen=True, slots=True, eq=False)
class HybridMatcher:
    """Adds vector similarity to a lexical matcher; without vectors it changes nothing.

    It adds evidence (see `fuse_scores`) instead of ranks: rank fusion gains nothing if
    one side is much stronger.
    """

    lexical: Matcher
    skills: Sequence[Skill]
    _: KW_ONLY
    find_vectors: Callable[[], VectorIndex | None]
    query_embedder: QueryEmbedder
    model: str
    seen: VisibleSkills | None = None

    @property
    def algorithm(self) -> Algorithm:
        return self.lexical.algorithm

    def score(
        self,
        context: str,
        *,
        min_score: Fraction | None = None,
        limit: int | None = None,
        within: Mask = None,
    ) -> tuple[Candidate, ...]:
        """Score as `Matcher.score` does.

        Blocking: it waits for a provider, but never longer than the operator allows.
        """
        plain = self.lexical.score(context, min_score=min_score, limit=limit, within=within)
        compared = self._compute_similarities(context, plain)
        if compared is None:
            return plain
        found = self._rank_union(context, compared, limit, within)
        floor = 0 if min_score is None else ceil(min_score * MILLION)
        found = [scored for scored in found if scored.millionths >= floor]
        return tuple(map(self._to_candidate, found[:limit]))

    def quick_score(self, context: str, *, within: Mask = None) -> float:
        """Score by words alone: a vector of each text would take long."""
        return self.lexical.quick_score(context, within=within)

    def weigh_terms(self, context: str) -> tuple[TermWeight, ...]:
        return self.lexical.weigh_terms(context)

    def find_negated(self, context: str) -> NegatedScope:
        return self.lexical.find_negated(context)

    def explain(self, context: str, skill: Skill, *, within: Mask = None) -> tuple[Evidence, ...]:
        evidence = self.lexical.explain(context, skill, within=within)
        worded = self.lexical.score(context, limit=1, within=within)
        compared = self._compute_similarities(context, worded)
        if compared is None or skill.path not in compared.vectors.numbers:
            return evidence
        number = compared.vectors.numbers[skill.path]
        # Among the best ones, as the caller was told; and among all, if it is behind.
        rankings = (self._rank_union(context, compared, limit, within) for limit in (1, None))
        candidates = (scored for ranking in rankings for scored in ranking)
        found = next((scored for scored in candidates if scored.number == number), None)
        return tuple(self._scale_evidence(found, evidence)) if found else ()

    def _scale_evidence(
        self, found: "_ScoredSkill", evidence: Sequence[Evidence]
    ) -> Iterator[Evidence]:
        score, fit = found.millionths / MILLION, found.fit
        share = score * fit.lexical_share
        by_words = fsum(item.worth for item in evidence)
        for item in evidence:
            # A priority may take all away that the words are worth.
            yield replace(item, worth=item.worth * share / by_words if share else 0.0)
        if fit.semantic:
            worth = score - share
            yield Evidence(word="", where="embedding", found=self.model, worth=worth)

    def _compute_similarities(
        self, context: str, worded: Sequence[Candidate]
    ) -> "_Similarities | None":
        """Compute similarities; None if words decide alone."""
        vectors = self.find_vectors()
        is_named = bool(worded) and worded[0].exact_score >= _NAMED_SCORE
        if vectors is None or is_named:
            return None
        vector = self.query_embedder.embed(compose_query_text(context))
        if vector is None:
            return None
        try:
            return _Similarities(vectors, vectors.compare(vector))
        except EmbeddingError as error:
            self.query_embedder.fail(error)
            return None

    def _rank_union(
        self, context: str, compared: "_Similarities", limit: int | None, within: Mask
    ) -> list["_ScoredSkill"]:
        similarities = compared.similarities
        wide = len(similarities) if limit is None else max(limit, _MIN_CANDIDATES)
        tie_break_ranks = compared.vectors.places
        eligible = self.seen.mask if within is None and self.seen else within
        near = find_nearest_neighbors(
            similarities, wide, _MIN_SIMILARITY, eligible, tie_break_ranks
        )
        negated = self.lexical.find_negated(context).paths
        near = [number for number in near if self.skills[number].path not in negated]
        worded = self._score_words(context, compared, near, wide, within)
        found = []
        for number in dict.fromkeys((*worded, *near)):
            candidate = worded.get(number)
            words = candidate.exact_score if candidate else Fraction(0)
            fit = fuse_scores(words, int(similarities[number]))
            found.append(_ScoredSkill(number, candidate, fit, fit.millionths))
        return sorted(
            found, key=lambda scored: (-scored.millionths, tie_break_ranks[scored.number])
        )

    def _score_words(
        self, context: str, compared: "_Similarities", near: Sequence[int], wide: int, within: Mask
    ) -> dict[int, Candidate]:
        best = self.lexical.score(context, limit=wide, within=within)
        numbers = compared.vectors.numbers
        worded = {numbers[candidate.skill.path]: candidate for candidate in best}
        others = [number for number in near if number not in worded]
        if len(best) < wide or not others:
            return worded  # no other skill has a word of the task
        mask = np.zeros(len(self.skills), np.bool_)
        mask[others] = True
        for candidate in self.lexical.score(context, within=mask):
            # Among fewer skills a task may become the name of one, but not here.
            score = min(candidate.exact_score, best[-1].exact_score)
            worded[numbers[candidate.skill.path]] = replace(candidate, exact_score=score)
        return worded

    def _to_candidate(self, found: "_ScoredSkill") -> Candidate:
        score = Fraction(found.millionths, MILLION)
        if found.candidate:
            return replace(found.candidate, exact_score=score)
        return Candidate(self.skills[found.number], score, ())


@dataclass(frozen=True, slots=True, eq=False)
class _Similarities:
    vectors: VectorIndex
    similarities: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _ScoredSkill:
    number: int
    candidate: Candidate | None
    fit: FusedScore
    millionths: int


def find_nearest_neighbors(
    similarities: NDArray[np.int64],
    limit: int,
    min_similarity: int,
    within: NDArray[np.bool_] | None,
    tie_break_ranks: NDArray[np.int64],
) -> list[int]:
    """Find the nearest neighbours, best first."""
    eligible = similarities >= min_similarity
    if within is not None:
        eligible &= within
    numbers = np.flatnonzero(eligible)
    if len(numbers) > limit:
        chosen = similarities[numbers]
        last = np.partition(chosen, len(chosen) - limit)[len(chosen) - limit]
        numbers = numbers[chosen >= last]  # equals of the last one, too
    order = np.lexsort((tie_break_ranks[numbers], -similarities[numbers]))
    found: list[int] = numbers[order][:limit].tolist()
    return found


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

# To read the reply of 64 long vectors takes 10 ms, in which nothing else runs.
_BATCH_SIZE = 32

# With pauses of up to 2, 4, 8 and 16 seconds: past a moment of too many requests.
_ATTEMPTS = 5
_FIRST_PAUSE_SECONDS = 2.0

# For a laptop that is offline, or a provider that is down.
_RETRY_SECONDS = 300.0

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


@dataclass(slots=True, eq=False)
class EmbeddedSkills:
    """The vectors of a set of skills; until `prepare` is done, words decide alone."""

    skills: Sequence[Skill]
    _: KW_ONLY
    provider: EmbeddingProvider
    client: EmbeddingClient
    query_embedder: QueryEmbedder
    store: VectorStore
    wait: Callable[[float], bool] | None = None
    batch_size: int = _BATCH_SIZE
    _closed: Event = field(default_factory=Event, init=False)
    _vectors: VectorIndex | None = field(default=None, init=False)
    _seen: WeakKeyDictionary[VisibleSkills, VectorIndex] = field(
        default_factory=WeakKeyDictionary, init=False
    )

    @property
    def is_ready(self) -> bool:
        return self._vectors is not None

    def fuse(self, matcher: Matcher, seen: VisibleSkills | None = None) -> Matcher:
        """Wrap a ranked matcher in a hybrid one; keep a keyword matcher."""
        if matcher.algorithm == "keyword":
            return matcher
        return HybridMatcher(
            matcher,
            seen.skills if seen else self.skills,
            find_vectors=partial(self._find_vectors, seen),
            query_embedder=self.query_embedder,
            model=self.provider.model,
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
                if not error.is_passing or self._pause(_RETRY_SECONDS):
                    return False
        return False

    def _pause(self, seconds: float) -> bool:
        return (self.wait or self._closed.wait)(seconds)

    def close(self) -> None:
        """Stop `prepare` at its next step: the skills are not served any more."""
        self._closed.set()

    def _prepare(self) -> bool:
        digests = [
            self.provider.digest(compose_embedded_text(skill_to_embed))
            for skill_to_embed in self.skills
        ]
        if not digests:
            return False
        matrix = self.store.load(digests)
        if matrix is None:
            with self.store.exclusive(self._pause) as has_lock:
                if not has_lock:
                    return False
                # Look again: the process that held the lock may have asked, too.
                matrix = self.store.load(digests)
                if matrix is None:
                    matrix = self._build(digests)
        if matrix is None:
            return False
        self._vectors = VectorIndex.of([skill.path for skill in self.skills], matrix)
        logger.info("Comparing meanings of %d skills", len(digests))
        return True

    def _build(self, digests: Sequence[bytes]) -> "Matrix | None":
        numbers = {digest: number for number, digest in enumerate(digests)}
        known = self.store.collect(numbers)
        missing = {key: at for key, at in numbers.items() if key not in known}
        parts: list[Path | None] = []
        if missing:
            host = self.provider.address
            logger.info("Sending %d skills to %s", len(missing), host)
        for fresh in self._fetch_batches(missing):
            known |= fresh
            if len({len(vector) for vector in known.values()}) > 1:
                self.store.forget()
                raise EmbeddingError("the model has changed its vectors", is_passing=True)
            parts.append(self.store.save(list(fresh), np.stack(list(fresh.values()))))
            logger.info("%d of %d skills have vectors", len(known), len(numbers))
        if known.keys() != numbers.keys():
            return None
        matrix: Matrix = np.stack([known[digest] for digest in digests])
        saved = self.store.save(digests, matrix)
        for part in parts:
            if saved and part and part != saved:
                part.unlink(missing_ok=True)
        mapped = self.store.load(digests)
        return matrix if mapped is None else mapped

    def _fetch_batches(self, missing: Mapping[bytes, int]) -> Iterator[dict[bytes, Vector]]:
        fresh: dict[bytes, Vector] = {}
        keys, size = list(missing), self.batch_size
        for batch in (keys[at : at + size] for at in range(0, len(keys), size)):
            texts = [compose_embedded_text(self.skills[missing[key]]) for key in batch]
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
                return self.client.embed(texts, timeout_seconds=_TIMEOUT_SECONDS)
            except EmbeddingError as error:
                if not error.is_passing or attempt == _ATTEMPTS - 1:
                    raise
                pause = derive_backoff(
                    attempt + 1,
                    first_seconds=_FIRST_PAUSE_SECONDS,
                    longest_seconds=_RETRY_SECONDS,
                    retry_after_seconds=error.retry_after_seconds,
                )
                if self._pause(pause):
                    return None
        return None
