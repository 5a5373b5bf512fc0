"""Words and meanings in one score: a task that paraphrases finds its skill, too.

`TaskVectors` asks for the vector of a task while an agent waits: soon, or not at all.
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

from skills_mcp.features.embeddings.client import (
    EmbeddingError,
    Matrix,
    Vector,
    make_sendable,
)
from skills_mcp.routing.decision import derive_places
from skills_mcp.routing.excerpt import LONGEST_WHOLE
from skills_mcp.routing.matcher import Candidate, Evidence, Mask, Matcher, WordEvidence
from skills_mcp.routing.seen_skills import SeenSkills
from skills_mcp.skills.model import Skill, SkillPath

logger = logging.getLogger(__name__)

# An agent asks again with the same words: to pick a candidate, or in the next window.
_REMEMBERED = 256

# No task is sent for so long after a failure: as long as an agent works on one step.
PAUSE_SECONDS = 30.0

# As much as is scored as it is: of a longer task a part is taken, and it may be 30 long
# words (see `focus`).
_MAX_TASK_CHARACTERS = LONGEST_WHOLE["ranked"]

MILLION = 1_000_000
"""Likeness is counted in millionths, so that equal ones are equal."""

# The closeness of the library counts as much as this many skills: with fewer than ten
# skills, a task's cosines are mostly those of the skills that it means.
_PRIOR_SKILLS = 4

# A model that finds all texts alike says nothing; the scale must not divide by 0.
_LARGEST_FLOOR = 0.99

# Measured: the first 50 by words and by meaning give the same answers as all skills.
_FROM_EACH_SIDE = 50

# Half of a library is nearer to a task than its average skill. A skill that shares no
# word with the task is found only if it is far above that; with less it would not even
# be a near miss.
_MIN_LIKENESS = 200_000

# The likeness that is worth as much as a score of 0.5 by words. With it, a score means
# the same as one by words: it is right as often, and as much is refused. Measured with
# 16 sets of tasks, as is the power below; each set left out once, the others choose the
# same two.
_HALF_LIKENESS = 0.25

_CERTAIN = 1
"""The score of a skill that the task names."""

_MOST_WORDS = 1 - 1e-6
"""The largest score by words that has odds."""


def compose_task_text(context: str) -> str:
    """Return the text that is sent for a task."""
    return make_sendable(" ".join(context.split())[:_MAX_TASK_CHARACTERS])


class TaskVectors:
    """Asks for vectors of tasks, and remembers them in memory only.

    Args:
        ask: Returns the vector of a text; blocking.
        timeout_seconds: How long a caller waits at most.
        clock: Seconds that only ever grow.
    """

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
        self._known: OrderedDict[str, Vector] = OrderedDict()
        self._paused_until = float("-inf")
        self._told = ""

    def embed(self, text: str) -> "Vector | None":
        """Return the vector of a task, or None if there is none now.  Blocking."""
        known = self._remember(text)
        if known is not None:
            return known
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
        """Send no task for a while, and log once why."""
        pause = max(PAUSE_SECONDS, error.retry_after_seconds or 0.0)
        with self._guard:
            self._paused_until = self._clock() + pause
            is_news = self._told != str(error)
            self._told = str(error)
        if is_news:
            logger.warning("Tasks are compared by their words alone: %s", error)

    def _recover(self) -> None:
        with self._guard:
            had_failed, self._told = bool(self._told), ""
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
                self._known[text] = vector
                if len(self._known) > _REMEMBERED:
                    self._known.popitem(last=False)
            waiting.set_result(vector)

    def _remember(self, text: str) -> "Vector | None":
        with self._guard:
            vector = self._known.get(text)
            if vector is not None:
                self._known.move_to_end(text)
            return vector


@dataclass(frozen=True, slots=True, eq=False)
class Meanings:
    """The vectors of one set of skills.  Never changes."""

    vectors: Matrix
    numbers: Mapping[SkillPath, int]
    """The number of each skill, which is the row of its vector."""
    places: NDArray[np.int64]
    """The order of skills with equal scores."""
    total: Vector
    """The sum of the vectors."""
    closeness: float
    """The mean cosine of two different skills."""

    @classmethod
    def of(cls, paths: Sequence[SkillPath], vectors: Matrix) -> "Meanings":
        """Return the meanings of skills in path order."""
        total, closeness = _sum_up(vectors)
        numbers = {path: number for number, path in enumerate(paths)}
        return cls(vectors, numbers, derive_places(paths), total, closeness)

    def seen(self, seen: SeenSkills) -> "Meanings":
        """Return the meanings of some of the skills, which keep their rows."""
        # In path order: a sum of floats depends on it.
        total, closeness = _sum_up(self.vectors[seen.numbers])
        numbers = dict(zip(seen.paths, seen.numbers.tolist(), strict=True))
        return Meanings(self.vectors, numbers, seen.places, total, closeness)

    def compare(self, vector: Vector) -> NDArray[np.int64]:
        """Return how like each skill a task is, in millionths.

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
        likeness = np.clip((cosines - floor) / (1 - floor), 0, 1)
        millionths: NDArray[np.int64] = np.rint(likeness * MILLION).astype(np.int64)
        return millionths

    def _floor(self, summed: float) -> float:
        """Return the cosine that counts as 0: that of the average skill."""
        count = len(self.numbers)
        average = (summed + _PRIOR_SKILLS * self.closeness) / (count + _PRIOR_SKILLS)
        return min(max(average, 0.0), _LARGEST_FLOOR)


def _sum_up(vectors: Matrix) -> tuple[Vector, float]:
    """Return the sum of vectors, and the mean cosine of two of them."""
    count = len(vectors)
    total: Vector = vectors.sum(axis=0, dtype=np.float32)
    pairs = count * (count - 1)
    return total, (float(total @ total) - count) / pairs if pairs else 0.0


class Fit(NamedTuple):
    """How well a skill fits a task, and what makes it fit."""

    by_words: float
    by_meaning: float

    @property
    def millionths(self) -> int:
        """The score, from 0 to a million; 0 only without any fit."""
        fit = self.by_words + self.by_meaning
        return max(round(MILLION * fit * fit / (fit * fit + 1)), int(fit > 0))

    @property
    def share_of_words(self) -> float:
        """The part of the score that the words make, from 0 to 1."""
        return self.by_words / (self.by_words + self.by_meaning or 1)


def derive_fit(words: Fraction, likeness: int, weight: float) -> Fit:
    """Return how well a skill fits.

    The square of the fit is the odds of the score, for words alone and for both. So the
    two add up where they are evidence, as the parts of a score by words do.

    Args:
        words: The score by words.
        likeness: In millionths.
        weight: The share of the meaning, from 0 to 1.
    """
    known = min(float(words), _MOST_WORDS)
    # To the power of 1.5: what is hardly alike is so by chance.
    alike = likeness / MILLION / _HALF_LIKENESS
    return Fit((1 - weight) * sqrt(known / (1 - known)), weight * alike * sqrt(alike))


class FusedMatcher:
    """Adds meanings to a matcher of words; without vectors it answers as that matcher.

    It adds up what fits (see `derive_fit`), and does not fuse ranks, which gains
    nothing if one side is much stronger.

    Args:
        lexical: Compares words.
        skills: In path order; only those that are returned are asked for.
        meanings: Returns the vectors of the skills, None while there are none.
        task_vectors: Asks for the vector of a task.
        weight: The share of the meaning, from 0 to 1.
        model: Its name, as evidence shows it.
        seen: Which of the skills are seen, if there are others, too.
    """

    def __init__(  # noqa: PLR0913 - what is fused, and how
        self,
        lexical: Matcher,
        skills: Sequence[Skill],
        *,
        meanings: Callable[[], Meanings | None],
        task_vectors: TaskVectors,
        weight: float,
        model: str,
        seen: SeenSkills | None = None,
    ) -> None:
        self.algorithm = lexical.algorithm
        self._lexical = lexical
        self._skills = skills
        self._meanings = meanings
        self._task_vectors = task_vectors
        self._weight = weight
        self._model = model
        self._mask = seen.mask if seen else None

    def score(
        self,
        context: str,
        *,
        least: Fraction | None = None,
        most: int | None = None,
        within: Mask = None,
    ) -> tuple[Candidate, ...]:
        """Return candidates as `Matcher.score` does.

        Blocking: it waits for a provider, but never longer than the operator allows.
        """
        plain = self._lexical.score(context, least=least, most=most, within=within)
        compared = self._compare(context, plain)
        if compared is None:
            return plain
        found = self._find(context, compared, most, within)
        floor = 0 if least is None else ceil(least * MILLION)
        found = [each for each in found if each.millionths >= floor]
        return tuple(map(self._candidate, found[:most]))

    def rate(self, context: str, *, within: Mask = None) -> float:
        """Return how well words alone fit: a vector of each text would take long."""
        return self._lexical.rate(context, within=within)

    def weigh(self, context: str) -> tuple[WordEvidence, ...]:
        """Return the words of the task as `Matcher.weigh` does."""
        return self._lexical.weigh(context)

    def explain(
        self, context: str, skill: Skill, *, within: Mask = None
    ) -> tuple[Evidence, ...]:
        """Return the words' evidence with their share, and that of the meaning."""
        evidence = self._lexical.explain(context, skill, within=within)
        worded = self._lexical.score(context, most=1, within=within)
        compared = self._compare(context, worded)
        if compared is None or skill.path not in compared.meanings.numbers:
            return evidence
        number = compared.meanings.numbers[skill.path]
        # Among the best ones, as the caller was told; and among all, if it is behind.
        ways = (self._find(context, compared, most, within) for most in (1, None))
        every = (each for way in ways for each in way)
        found = next((each for each in every if each.number == number), None)
        return tuple(self._share_out(found, evidence)) if found else ()

    def _share_out(
        self, found: "_Scored", evidence: Sequence[Evidence]
    ) -> Iterator[Evidence]:
        """Iterate over the evidence of a skill, which adds up to its score."""
        score, fit = found.millionths / MILLION, found.fit
        share = score * fit.share_of_words
        by_words = fsum(each.worth for each in evidence)
        for each in evidence:
            # A priority may take all away that the words are worth.
            yield replace(each, worth=each.worth * share / by_words if share else 0.0)
        if fit.by_meaning:
            worth = score - share
            yield Evidence(word="", where="embedding", found=self._model, worth=worth)

    def _compare(self, context: str, worded: Sequence[Candidate]) -> "_Compared | None":
        """Compare the task with the skills; None if words decide alone."""
        meanings = self._meanings()
        is_named = bool(worded) and worded[0].score >= _CERTAIN
        if meanings is None or is_named:
            return None
        vector = self._task_vectors.embed(compose_task_text(context))
        if vector is None:
            return None
        try:
            return _Compared(meanings, meanings.compare(vector))
        except EmbeddingError as error:
            self._task_vectors.fail(error)
            return None

    def _find(
        self,
        context: str,
        compared: "_Compared",
        most: int | None,
        within: Mask,
    ) -> list["_Scored"]:
        """Return the best skills by words and by meaning, best first."""
        likeness = compared.likeness
        wide = len(likeness) if most is None else max(most, _FROM_EACH_SIDE)
        places = compared.meanings.places
        eligible = self._mask if within is None else within
        near = find_nearest(likeness, wide, _MIN_LIKENESS, eligible, places)
        worded = self._score_words(context, compared, near, wide, within)
        found = []
        for number in dict.fromkeys((*worded, *near)):
            candidate = worded.get(number)
            words = candidate.score if candidate else Fraction(0)
            fit = derive_fit(words, int(likeness[number]), self._weight)
            found.append(_Scored(number, candidate, fit, fit.millionths))
        return sorted(found, key=lambda each: (-each.millionths, places[each.number]))

    def _score_words(
        self,
        context: str,
        compared: "_Compared",
        near: Sequence[int],
        wide: int,
        within: Mask,
    ) -> dict[int, Candidate]:
        """Return the best candidates by words, and those of the nearest skills."""
        best = self._lexical.score(context, most=wide, within=within)
        numbers = compared.meanings.numbers
        worded = {numbers[each.skill.path]: each for each in best}
        others = [number for number in near if number not in worded]
        if len(best) < wide or not others:
            return worded  # no other skill has a word of the task
        mask = np.zeros(len(self._skills), np.bool_)
        mask[others] = True
        for each in self._lexical.score(context, within=mask):
            # Among fewer skills a task may become the name of one, but not here.
            score = min(each.score, best[-1].score)
            worded[numbers[each.skill.path]] = replace(each, score=score)
        return worded

    def _candidate(self, found: "_Scored") -> Candidate:
        score = Fraction(found.millionths, MILLION)
        if found.candidate:
            return replace(found.candidate, score=score)
        return Candidate(self._skills[found.number], score, ())


@dataclass(frozen=True, slots=True, eq=False)
class _Compared:
    """How like each skill a task is."""

    meanings: Meanings
    likeness: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Scored:
    number: int
    candidate: Candidate | None
    """The candidate by words, if there is one."""
    fit: Fit
    millionths: int
    """The score."""


def find_nearest(
    likeness: NDArray[np.int64],
    most: int,
    least: int,
    within: NDArray[np.bool_] | None,
    places: NDArray[np.int64],
) -> list[int]:
    """Return the numbers of the skills that are most alike, best first.

    Args:
        likeness: Of each skill.
        most: How many to return.
        least: The smallest likeness to return.
        within: The skills that may be found; None for all.
        places: The order of equals.
    """
    eligible = likeness >= least
    if within is not None:
        eligible &= within
    numbers = np.flatnonzero(eligible)
    if len(numbers) > most:
        chosen = likeness[numbers]
        last = np.partition(chosen, len(chosen) - most)[len(chosen) - most]
        numbers = numbers[chosen >= last]  # equals of the last one, too
    order = np.lexsort((places[numbers], -likeness[numbers]))
    found: list[int] = numbers[order][:most].tolist()
    return found
