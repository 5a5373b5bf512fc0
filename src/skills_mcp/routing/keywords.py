"""The keyword algorithm of the specification, without its triple loop."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from skills_mcp.routing.decision import PRIORITY_UNIT
from skills_mcp.routing.keyword_index import (
    KeywordIndex,
    KeywordNumbers,
    normalize_keyword,
)
from skills_mcp.routing.matcher import (
    Candidate,
    Evidence,
    Mask,
    TermWeight,
)
from skills_mcp.routing.seen_skills import VisibleSkills
from skills_mcp.routing.text_index.ragged import unique_sorted
from skills_mcp.routing.tokens import tokenize
from skills_mcp.skills.model import Skill

_TOKEN_CACHE_SIZE = 4096  # tasks share their words

# Scores differ by far more than floats are wrong, or are compared exactly.
_MARGIN = 1e-9

# So few skills with a matching keyword are counted one by one, more all at once.
_SPARSE = 4

_Matches = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Skill numbers, and their counts of matching keywords."""


class KeywordMatcher:
    """Scores tasks against the keywords of one set of skills. Immutable."""

    algorithm: Final = "keyword"

    def __init__(
        self,
        index: KeywordIndex,
        skills: Sequence[Skill],
        tie_break_ranks: NDArray[np.int64] | None = None,
        mask: Mask = None,
    ) -> None:
        self._index = index
        self._skills = skills
        self._tie_break_ranks = (
            np.arange(len(skills)) if tie_break_ranks is None else tie_break_ranks
        )
        self._match = lru_cache(maxsize=_TOKEN_CACHE_SIZE)(index.match)
        self._mask = mask

    def seen(self, seen: VisibleSkills) -> "KeywordMatcher":
        """Restrict the matcher to visible skills, as if there were no others."""
        other = KeywordMatcher(self._index, seen.skills, seen.places, seen.mask)
        other._match = self._match
        return other

    def quick_score(self, context: str, *, within: Mask = None) -> float:
        best = self.score(context, limit=1, within=within)
        return float(best[0].score) if best else 0.0

    def score(
        self,
        context: str,
        *,
        min_score: Fraction | None = None,
        limit: int | None = None,
        within: Mask = None,
    ) -> tuple[Candidate, ...]:
        """Score all skills with a matching keyword, best first.

        The exact share of matching keywords, plus a thousandth of the priority.
        """
        tokens = tokenize(context)
        keywords = self._find(tokens)
        matched = {self._index.words[keyword] for keyword in keywords.tolist()}
        found = self._count(keywords)
        if within is not None:
            found = _select(found, within[found[0]])
        found = self._shortlist(found, min_score, limit)
        scores, ranks = self._score(found)
        if min_score is not None:
            is_enough = np.fromiter((s >= min_score for s in scores), bool)[ranks]
            found, ranks = _select(found, is_enough), ranks[is_enough]
        order = np.lexsort((self._tie_break_ranks[found[0]], ranks))[:limit]
        best = zip(found[0][order].tolist(), ranks[order].tolist(), strict=True)
        return tuple(_to_candidate(self._skills[n], scores[r], matched) for n, r in best)

    def weigh_terms(self, context: str) -> tuple[TermWeight, ...]:
        tokens = tokenize(context)
        return tuple(
            TermWeight(
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
        by_token = {
            token: {self._index.words[number] for number in self._match(token).tolist()}
            for token in tokenize(context)
        }
        share = 1 / max(len(skill.keywords), 1)
        found = [
            Evidence(word=token, where="keyword", found=keyword, worth=share)
            for keyword in skill.keywords
            for token in [_first_match(normalize_keyword(keyword), by_token)]
            if token
        ]
        if found and skill.priority:
            worth = skill.priority / 1000
            text = str(skill.priority)
            found.append(Evidence(word="", where="priority", found=text, worth=worth))
        return tuple(found)

    def find_unmatchable(self) -> Iterator[tuple[int, str]]:
        """Yield skill number and folded keyword of each unmatchable keyword."""
        for keyword in self._index.unmatchable.tolist():
            number = np.array([keyword], np.uint32)
            for skill in self._index.declared.of(number).tolist():
                yield skill, self._index.words[keyword]

    def _find(self, tokens: Sequence[str]) -> KeywordNumbers:
        found = [self._match(token) for token in tokens]
        if not found:
            return np.zeros(0, np.uint32)
        return unique_sorted(np.concatenate(found))

    def _count(self, keywords: KeywordNumbers) -> _Matches:
        declared = self._index.declared.of(keywords)
        if self._mask is not None:
            declared = declared[self._mask[declared]]
        if len(declared) * _SPARSE < len(self._index.counts):
            skills, counts = np.unique(declared, return_counts=True)
            return skills.astype(np.int64), counts.astype(np.int64)
        counts_by_skill = np.bincount(declared, minlength=len(self._index.counts))
        some = np.flatnonzero(counts_by_skill)
        return some.astype(np.int64), counts_by_skill[some].astype(np.int64)

    def _shortlist(
        self, found: _Matches, min_score: Fraction | None, limit: int | None
    ) -> _Matches:
        """Drop certain losers; floats are precise enough to do so."""
        skills, counts = found
        scores = counts / self._index.counts[skills]
        scores = scores + self._index.priorities[skills] / 1000
        floor = -np.inf if min_score is None else float(min_score)
        if limit is not None and 0 < limit < len(scores):
            floor = max(floor, np.partition(scores, -limit)[-limit])
        return _select(found, scores >= floor - _MARGIN)

    def _score(self, found: _Matches) -> tuple[list[Fraction], NDArray[np.int64]]:
        skills, counts = found
        totals, priorities = self._index.counts[skills], self._index.priorities[skills]
        # Most skills share their numbers with others, and fractions are slow.
        base = int(totals.max(initial=0)) + 1
        lowest = int(priorities.min(initial=0))
        span = int(priorities.max(initial=0)) - lowest + 1
        keys = (counts * base + totals) * span + (priorities - lowest)
        distinct, which = np.unique(keys, return_inverse=True)
        exact = [_to_score_fraction(*_unpack_key(key, base, span, lowest)) for key in distinct]
        scores = sorted(set(exact), reverse=True)
        ranks = {score: rank for rank, score in enumerate(scores)}
        return scores, np.fromiter((ranks[s] for s in exact), np.int64)[which]


def _unpack_key(key: int, base: int, span: int, lowest: int) -> tuple[int, int, int]:
    rest, priority = divmod(int(key), span)
    matches, total = divmod(rest, base)
    return matches, total, priority + lowest


def _to_candidate(skill: Skill, score: Fraction, matched: set[str]) -> Candidate:
    words = tuple(word for word in skill.keywords if normalize_keyword(word) in matched)
    return Candidate(skill, score, words)


def _to_score_fraction(matches: int, total: int, priority: int) -> Fraction:
    return Fraction(matches, total) + priority * PRIORITY_UNIT


def _select(found: _Matches, selected: NDArray[Any]) -> _Matches:
    skills, counts = found
    return skills[selected], counts[selected]


def _first_match(keyword: str, by_token: dict[str, set[str]]) -> str:
    return next((token for token, found in by_token.items() if keyword in found), "")
