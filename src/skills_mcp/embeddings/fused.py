"""Words and meanings in one score (notes: the gain is with tasks that paraphrase)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from skills_mcp.embeddings.meanings import MILLION, Meanings, find_nearest
from skills_mcp.embeddings.questions import Questions
from skills_mcp.embeddings.reply import EmbeddingError
from skills_mcp.embeddings.texts import compose_question
from skills_mcp.routing.decision import Candidate
from skills_mcp.routing.evidence import Evidence, Word
from skills_mcp.routing.matcher import Mask, Matcher
from skills_mcp.skills.model import Skill

# Measured: over the first 50 the fusion answers as over all skills.
_FROM_EACH_SIDE = 50

# Half of a library is more like a task than its average skill: without any word in
# common only what is far above that is found.
_LEAST_ALIKE = 200_000

_CERTAIN = 1
"""The score of a skill that the task names."""


class FusedMatcher:
    """Adds meanings to a matcher of words; without vectors it answers as that one.

    Score: `(1 - weight) * words + weight * meaning`, both from 0 to 1. A sum and not
    a fusion of ranks, which gains nothing where one side is much stronger.

    Args:
        lexical: Compares words.
        skills: In path order; only those that are returned are asked for.
        meanings: Returns the vectors of the skills, None while there are none.
        questions: Asks for the vector of a task.
        weight: The share of the meaning, from 0 to 1.
        model: Its name, as evidence shows it.
    """

    def __init__(  # noqa: PLR0913 - what is fused, and how
        self,
        lexical: Matcher,
        skills: Sequence[Skill],
        *,
        meanings: Callable[[], Meanings | None],
        questions: Questions,
        weight: Fraction,
        model: str,
    ) -> None:
        self.algorithm = lexical.algorithm
        self._lexical = lexical
        self._skills = skills
        self._meanings = meanings
        self._questions = questions
        self._weight = weight
        self._model = model

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
        found = [each for each in found if least is None or each.score >= least]
        return tuple(map(self._candidate, found[:most]))

    def weigh(self, context: str) -> tuple[Word, ...]:
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
        share = float(1 - self._weight)
        words = tuple(replace(each, worth=each.worth * share) for each in evidence)
        alike = int(compared.likeness[compared.meanings.numbers[skill.path]])
        if not alike or (not evidence and alike < _LEAST_ALIKE):
            return words
        worth = float(self._weight * alike / MILLION)
        meaning = Evidence(word="", where="embedding", found=self._model, worth=worth)
        return (*words, meaning)

    def _compare(self, context: str, worded: Sequence[Candidate]) -> "_Compared | None":
        """Return how like the task the skills are; None if words decide alone."""
        meanings = self._meanings()
        is_named = bool(worded) and worded[0].score >= _CERTAIN
        if meanings is None or is_named:
            return None
        vector = self._questions.embed(compose_question(context))
        if vector is None:
            return None
        try:
            return _Compared(meanings, meanings.compare(vector))
        except EmbeddingError as error:
            self._questions.fail(error)
            return None

    def _find(
        self,
        context: str,
        compared: "_Compared",
        most: int | None,
        within: Mask,
    ) -> list["_Found"]:
        """Return the best of both sides, best first."""
        likeness = compared.likeness
        wide = len(likeness) if most is None else max(most, _FROM_EACH_SIDE)
        near = find_nearest(likeness, wide, _LEAST_ALIKE, within)
        worded = self._score_words(context, compared, near, wide, within)
        found = []
        for number in dict.fromkeys((*worded, *near)):
            candidate = worded.get(number)
            words = candidate.score if candidate else Fraction(0)
            meaning = Fraction(int(likeness[number]), MILLION)
            score = (1 - self._weight) * words + self._weight * meaning
            found.append(_Found(score, number, candidate))
        places = compared.meanings.places
        return sorted(found, key=lambda each: (-each.score, int(places[each.number])))

    def _score_words(
        self,
        context: str,
        compared: "_Compared",
        near: Sequence[int],
        wide: int,
        within: Mask,
    ) -> dict[int, Candidate]:
        """Return the best by words, and what the words say of the nearest skills."""
        best = self._lexical.score(context, most=wide, within=within)
        numbers = compared.meanings.numbers
        worded = {numbers[each.skill.path]: each for each in best}
        others = [number for number in near if number not in worded]
        if len(best) < wide or not others:
            return worded  # the words speak for no other skill
        mask = np.zeros(len(self._skills), np.bool_)
        mask[others] = True
        for each in self._lexical.score(context, within=mask):
            # Narrowing may turn a task into somebody's name, but not here.
            score = min(each.score, best[-1].score)
            worded[numbers[each.skill.path]] = replace(each, score=score)
        return worded

    def _candidate(self, found: "_Found") -> Candidate:
        if found.candidate:
            return replace(found.candidate, score=found.score)
        return Candidate(self._skills[found.number], found.score, ())


@dataclass(frozen=True, slots=True, eq=False)
class _Compared:
    """A task beside the meanings of skills."""

    meanings: Meanings
    likeness: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Found:
    score: Fraction
    number: int
    candidate: Candidate | None
    """What the words say of it, if they say anything."""
