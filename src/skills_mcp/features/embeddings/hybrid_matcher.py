"""Hybrid matching: lexical scores fused with vector similarity, for paraphrases.

`QueryEmbedder` embeds a task while an agent waits: soon, or not at all.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, fsum, sqrt
from threading import Lock, Thread
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skills_mcp.features.embeddings.client import EmbeddingError, Matrix, Vector, remove_surrogates
from skills_mcp.routing.decision import MAX_UNCUT_CHARACTERS
from skills_mcp.routing.matcher import (
    Candidate,
    Evidence,
    Mask,
    Matcher,
    TermWeight,
    VisibleSkills,
    tie_break_ranks,
)
from skills_mcp.skills.model import Skill, SkillPath

logger = logging.getLogger(__name__)

# An agent asks again with the same words: to pick a candidate, or in the next window.
_CACHED_QUERIES = 256

# No task is sent for so long after a failure: as long as an agent works on one step.
PAUSE_SECONDS = 30.0

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
        work = Thread(target=self._answer, args=(text, waiting), daemon=True)
        work.start()
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
        pause = max(PAUSE_SECONDS, error.retry_after_seconds or 0.0)
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
                f"skills have {len(self.total)}: delete cache/embeddings"
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


def fuse_scores(words: Fraction, similarity: int, weight: float) -> FusedScore:
    """Fuse a lexical score and a similarity in millionths.

    The square of the sum is the odds of the score, for words alone and for both. So the
    two add up as evidence, like the parts of a lexical score.
    """
    known = min(float(words), _MAX_LEXICAL_SCORE)
    # To the power of 1.5: what is hardly alike is so by chance.
    scaled = similarity / MILLION / _HALF_SCORE_SIMILARITY
    return FusedScore((1 - weight) * sqrt(known / (1 - known)), weight * scaled * sqrt(scaled))


class HybridMatcher:
    """Adds vector similarity to a lexical matcher; without vectors it changes nothing.

    It adds evidence (see `fuse_scores`) instead of ranks: rank fusion gains nothing if
    one side is much stronger.
    """

    def __init__(  # noqa: PLR0913 - what is fused, and how
        self,
        lexical: Matcher,
        skills: Sequence[Skill],
        *,
        find_vectors: Callable[[], VectorIndex | None],
        query_embedder: QueryEmbedder,
        weight: float,
        model: str,
        seen: VisibleSkills | None = None,
    ) -> None:
        self.algorithm = lexical.algorithm
        self._lexical = lexical
        self._skills = skills
        self._find_vectors = find_vectors
        self._query_embedder = query_embedder
        self._weight = weight
        self._model = model
        self._mask = seen.mask if seen else None

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
        plain = self._lexical.score(context, min_score=min_score, limit=limit, within=within)
        compared = self._compute_similarities(context, plain)
        if compared is None:
            return plain
        found = self._rank_union(context, compared, limit, within)
        floor = 0 if min_score is None else ceil(min_score * MILLION)
        found = [scored for scored in found if scored.millionths >= floor]
        return tuple(map(self._to_candidate, found[:limit]))

    def quick_score(self, context: str, *, within: Mask = None) -> float:
        """Score by words alone: a vector of each text would take long."""
        return self._lexical.quick_score(context, within=within)

    def weigh_terms(self, context: str) -> tuple[TermWeight, ...]:
        return self._lexical.weigh_terms(context)

    def explain(self, context: str, skill: Skill, *, within: Mask = None) -> tuple[Evidence, ...]:
        evidence = self._lexical.explain(context, skill, within=within)
        worded = self._lexical.score(context, limit=1, within=within)
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
            yield Evidence(word="", where="embedding", found=self._model, worth=worth)

    def _compute_similarities(
        self, context: str, worded: Sequence[Candidate]
    ) -> "_Similarities | None":
        """Compute similarities; None if words decide alone."""
        vectors = self._find_vectors()
        is_named = bool(worded) and worded[0].score >= _NAMED_SCORE
        if vectors is None or is_named:
            return None
        vector = self._query_embedder.embed(compose_query_text(context))
        if vector is None:
            return None
        try:
            return _Similarities(vectors, vectors.compare(vector))
        except EmbeddingError as error:
            self._query_embedder.fail(error)
            return None

    def _rank_union(
        self, context: str, compared: "_Similarities", limit: int | None, within: Mask
    ) -> list["_ScoredSkill"]:
        similarities = compared.similarities
        wide = len(similarities) if limit is None else max(limit, _MIN_CANDIDATES)
        tie_break_ranks = compared.vectors.places
        eligible = self._mask if within is None else within
        near = find_nearest_neighbors(
            similarities, wide, _MIN_SIMILARITY, eligible, tie_break_ranks
        )
        worded = self._score_words(context, compared, near, wide, within)
        found = []
        for number in dict.fromkeys((*worded, *near)):
            candidate = worded.get(number)
            words = candidate.score if candidate else Fraction(0)
            fit = fuse_scores(words, int(similarities[number]), self._weight)
            found.append(_ScoredSkill(number, candidate, fit, fit.millionths))
        return sorted(
            found, key=lambda scored: (-scored.millionths, tie_break_ranks[scored.number])
        )

    def _score_words(
        self, context: str, compared: "_Similarities", near: Sequence[int], wide: int, within: Mask
    ) -> dict[int, Candidate]:
        best = self._lexical.score(context, limit=wide, within=within)
        numbers = compared.vectors.numbers
        worded = {numbers[candidate.skill.path]: candidate for candidate in best}
        others = [number for number in near if number not in worded]
        if len(best) < wide or not others:
            return worded  # no other skill has a word of the task
        mask = np.zeros(len(self._skills), np.bool_)
        mask[others] = True
        for candidate in self._lexical.score(context, within=mask):
            # Among fewer skills a task may become the name of one, but not here.
            score = min(candidate.score, best[-1].score)
            worded[numbers[candidate.skill.path]] = replace(candidate, score=score)
        return worded

    def _to_candidate(self, found: "_ScoredSkill") -> Candidate:
        score = Fraction(found.millionths, MILLION)
        if found.candidate:
            return replace(found.candidate, score=score)
        return Candidate(self._skills[found.number], score, ())


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
