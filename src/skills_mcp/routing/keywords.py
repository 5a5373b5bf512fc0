"""The keyword algorithm of the specification, without its triple loop."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from skills_mcp.routing.decision import PRIORITY_UNIT
from skills_mcp.routing.keyword_index import KeywordIndex, Numbers, clean
from skills_mcp.routing.matcher import (
    Candidate,
    Evidence,
    Mask,
    WordEvidence,
)
from skills_mcp.routing.seen_skills import SeenSkills
from skills_mcp.routing.text_index.ragged import drop_repeated
from skills_mcp.routing.tokens import tokenize
from skills_mcp.skills.model import Skill

_REMEMBERED_TOKENS = 4096  # tasks share their words

# Scores differ by far more than floats are wrong, or are compared exactly.
_MARGIN = 1e-9

# So few skills with a matching keyword are counted one by one, more all at once.
_SPARSE = 4

_Found = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Skills by number, and how many of their keywords match."""


class KeywordMatcher:
    """Scores tasks against the keywords of one set of skills; never changes.

    Args:
        index: Their keywords.
        skills: The same skills, in the same order; only what is found is asked for.
        places: The order of skills that tie (see `derive_places`); that of their
            numbers if there are none.
        mask: Which of them are seen, if the index holds others, too.
    """

    algorithm: Final = "keyword"

    def __init__(
        self,
        index: KeywordIndex,
        skills: Sequence[Skill],
        places: NDArray[np.int64] | None = None,
        mask: Mask = None,
    ) -> None:
        self._index = index
        self._skills = skills
        self._places = np.arange(len(skills)) if places is None else places
        self._match = lru_cache(maxsize=_REMEMBERED_TOKENS)(index.match)
        self._mask = mask

    def seen(self, seen: SeenSkills) -> "KeywordMatcher":
        """Return a matcher of some of the skills, as if there were no others."""
        other = KeywordMatcher(self._index, seen.skills, seen.places, seen.mask)
        other._match = self._match
        return other

    def rate(self, context: str, *, within: Mask = None) -> float:
        """Return the best score that some skill has."""
        best = self.score(context, most=1, within=within)
        return float(best[0].score) if best else 0.0

    def score(
        self,
        context: str,
        *,
        least: Fraction | None = None,
        most: int | None = None,
        within: Mask = None,
    ) -> tuple[Candidate, ...]:
        """Return the skills of which at least one keyword matches, best first.

        The score is the share of the skill's keywords that match, plus a thousandth
        of its priority, exactly.
        """
        tokens = tokenize(context)
        keywords = self._find(tokens)
        matched = {self._index.words[keyword] for keyword in keywords.tolist()}
        found = self._count(keywords)
        if within is not None:
            found = _choose(found, within[found[0]])
        found = self._shortlist(found, least, most)
        scores, ranks = self._score(found)
        if least is not None:
            is_enough = np.fromiter((s >= least for s in scores), bool)[ranks]
            found, ranks = _choose(found, is_enough), ranks[is_enough]
        order = np.lexsort((self._places[found[0]], ranks))[:most]
        best = zip(found[0][order].tolist(), ranks[order].tolist(), strict=True)
        return tuple(_candidate(self._skills[n], scores[r], matched) for n, r in best)

    def weigh(self, context: str) -> tuple[WordEvidence, ...]:
        """Return the words of the task that count, and what each is worth."""
        tokens = tokenize(context)
        return tuple(
            WordEvidence(
                typed=token,
                term=token,
                weight=1 / len(tokens),
                skills=len(self._count(self._match(token))[0]),
            )
            for token in tokens
        )

    def explain(
        self,
        context: str,
        skill: Skill,
        *,
        within: Mask = None,  # noqa: ARG002 - no other skill counts here
    ) -> tuple[Evidence, ...]:
        """Return what speaks for a skill; it adds up to the skill's score."""
        by_token = {
            token: {self._index.words[number] for number in self._match(token).tolist()}
            for token in tokenize(context)
        }
        share = 1 / max(len(skill.keywords), 1)
        found = [
            Evidence(word=token, where="keyword", found=keyword, worth=share)
            for keyword in skill.keywords
            for token in [_first_match(clean(keyword), by_token)]
            if token
        ]
        if found and skill.priority:
            worth = skill.priority / 1000
            text = str(skill.priority)
            found.append(Evidence(word="", where="priority", found=text, worth=worth))
        return tuple(found)

    def find_unmatchable(self) -> Iterator[tuple[int, str]]:
        """Iterate over keywords that not even a task of the same words can match.

        Yields the number of a skill, and its keyword as it is compared.
        """
        for keyword in self._index.unmatchable.tolist():
            number = np.array([keyword], np.uint32)
            for skill in self._index.declared.of(number).tolist():
                yield skill, self._index.words[keyword]

    def _find(self, tokens: Sequence[str]) -> Numbers:
        """Return the keywords that any token matches."""
        found = [self._match(token) for token in tokens]
        if not found:
            return np.zeros(0, np.uint32)
        return drop_repeated(np.concatenate(found))

    def _count(self, keywords: Numbers) -> _Found:
        declared = self._index.declared.of(keywords)
        if self._mask is not None:
            declared = declared[self._mask[declared]]
        if len(declared) * _SPARSE < len(self._index.counts):
            skills, counts = np.unique(declared, return_counts=True)
            return skills.astype(np.int64), counts.astype(np.int64)
        every = np.bincount(declared, minlength=len(self._index.counts))
        some = np.flatnonzero(every)
        return some.astype(np.int64), every[some].astype(np.int64)

    def _shortlist(
        self, found: _Found, least: Fraction | None, most: int | None
    ) -> _Found:
        """Leave out what is certainly too low; floats are near enough for that."""
        skills, counts = found
        scores = counts / self._index.counts[skills]
        scores = scores + self._index.priorities[skills] / 1000
        floor = -np.inf if least is None else float(least)
        if most is not None and 0 < most < len(scores):
            floor = max(floor, np.partition(scores, -most)[-most])
        return _choose(found, scores >= floor - _MARGIN)

    def _score(self, found: _Found) -> tuple[list[Fraction], NDArray[np.int64]]:
        """Return the distinct scores, best first, and for each skill which it has."""
        skills, counts = found
        totals, priorities = self._index.counts[skills], self._index.priorities[skills]
        # Most skills share their numbers with others, and fractions are slow.
        base = int(totals.max(initial=0)) + 1
        lowest = int(priorities.min(initial=0))
        span = int(priorities.max(initial=0)) - lowest + 1
        keys = (counts * base + totals) * span + (priorities - lowest)
        distinct, which = np.unique(keys, return_inverse=True)
        exact = [_score(*_take_apart(key, base, span, lowest)) for key in distinct]
        scores = sorted(set(exact), reverse=True)
        ranks = {score: rank for rank, score in enumerate(scores)}
        return scores, np.fromiter((ranks[s] for s in exact), np.int64)[which]


def _take_apart(key: int, base: int, span: int, lowest: int) -> tuple[int, int, int]:
    rest, priority = divmod(int(key), span)
    matches, total = divmod(rest, base)
    return matches, total, priority + lowest


def _candidate(skill: Skill, score: Fraction, matched: set[str]) -> Candidate:
    words = tuple(word for word in skill.keywords if clean(word) in matched)
    return Candidate(skill, score, words)


def _score(matches: int, total: int, priority: int) -> Fraction:
    return Fraction(matches, total) + priority * PRIORITY_UNIT


def _choose(found: _Found, wanted: NDArray[Any]) -> _Found:
    skills, counts = found
    return skills[wanted], counts[wanted]


def _first_match(keyword: str, by_token: dict[str, set[str]]) -> str:
    return next((token for token, found in by_token.items() if keyword in found), "")
