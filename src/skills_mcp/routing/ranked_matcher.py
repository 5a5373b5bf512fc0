"""The ranked algorithm: scores every term of a skill's text.

Two passes (see `scoring`): coverage of the query for all skills, then a re-rank of the
best ones by name and proximity.
"""

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skills_mcp.routing import scoring
from skills_mcp.routing.decision import PRIORITY_UNIT
from skills_mcp.routing.inverted_index import (
    FIELDS,
    SCORED_FIELDS,
    UNKNOWN_TERM,
    IndexedDocument,
    TextIndex,
)
from skills_mcp.routing.matcher import (
    Candidate,
    Evidence,
    Mask,
    TermWeight,
    VisibleSkills,
)
from skills_mcp.routing.query import Query, QueryParser
from skills_mcp.routing.scoring import (
    PostingsLookup,
    TermPostings,
    compute_coverage,
    find_heaviest_rows,
    find_matched_words,
)
from skills_mcp.routing.search import NameIndex, strip_mention
from skills_mcp.skills.model import Skill, SkillPath
from skills_mcp.skills.skill_index import INDEX, ROOT

_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n+")
_REFUSAL = re.compile(
    r"(?:please )?(?:do not|don[\u2019']t|never) (?:use|trigger|invoke|activate|load)\b"
    r"|not (?:intended |meant )?for\b"
    r"|skip (?:this )?(?:when|if|for)\b",
    re.IGNORECASE,
)


def drop_exclusions(description: str) -> str:
    """Drop the sentences of a description with a refusal at the start.

    Authors delegate: "Do NOT use for flows (use acme-flow)". Indexed, these words would
    match the tasks of another skill. A pointer without a refusal stays: "For A/B tests,
    see cro" is near the subject. So does a description of nothing else.

    >>> drop_exclusions("Builds flows. DO NOT USE FOR: forms (use acme-form).")
    'Builds flows.'
    >>> drop_exclusions("Builds flows. For forms, see acme-form.")
    'Builds flows. For forms, see acme-form.'
    """
    if not _REFUSAL.search(description):
        return description
    sentences = _SENTENCES.split(description)
    statements = [sentence for sentence in sentences if not _REFUSAL.match(sentence)]
    return " ".join(statements) or description


_HEADING = re.compile(r"^#{1,6}[ \t]+(.+)$", re.MULTILINE)

_SCORE_UNIT = 10**6
_PRIORITY_STEP = int(_SCORE_UNIT * PRIORITY_UNIT)
_PRIORITY_SCORE = float(PRIORITY_UNIT)

# Of a long text some parts are read, and the best of them again (see `focus`).
_QUERY_CACHE_SIZE = 4

_ROUNDING_ERROR = 2e-6  # scores are shown to a millionth

_FIELD_LABELS = {"labels": "keywords"}  # as an author calls it
_FIELD_NAMES = tuple(_FIELD_LABELS.get(field, field) for field in SCORED_FIELDS)

_NO_SKILLS = np.zeros(0, np.int64)


class _Ranking(NamedTuple):
    """Skill numbers in any order, and scores in millionths."""

    numbers: NDArray[np.int64]
    scores: NDArray[np.int64]


class _TwoPassRanking(NamedTuple):
    """The result of both passes."""

    ranking: _Ranking
    first: NDArray[np.int64]
    weight: scoring.EvidenceWeight


class SkillText(NamedTuple):
    """The indexed text of a skill; the rest need not be decoded."""

    path: SkillPath
    name: str
    description: str
    keywords: Sequence[str]
    body: str
    priority: int
    category: str


def to_indexed_document(skill: Skill | SkillText) -> IndexedDocument:
    """Split the text of a skill into index fields."""
    folder, _, last = skill.path.rpartition("/")
    # `ui/react/_index` is about react, not about indexes.
    name = folder.rpartition("/")[2] if last in {INDEX, ROOT} else skill.name
    return IndexedDocument(
        name=name,
        labels="\n".join((*skill.keywords, skill.category)),
        description=drop_exclusions(skill.description),
        # A comment in code is taken for a heading, too; leaving it out finds no more.
        headings="\n".join(_HEADING.findall(skill.body)),
        body=skill.body,
        priority=skill.priority,
    )


class RankedMatcher:
    """Scores tasks against all the terms of one set of skills. Immutable.

    Args:
        skills: In the order of the index; only results are accessed.
        names: A task that is nothing but the name of one skill is answered by it;
            without names all tasks are ranked.
        seen: Visible skills, if the index has others, too.
    """

    algorithm: Final = "ranked"

    def __init__(  # noqa: PLR0913 - what there is, and what is said of it
        self,
        index: TextIndex,
        skills: Sequence[Skill],
        *,
        names: NameIndex | None = None,
        tie_break_ranks: NDArray[np.int64] | None = None,
        seen: VisibleSkills | None = None,
        synonyms: tuple[str, ...] = (),
    ) -> None:
        self._index = index
        self._skills = skills
        self._names = names
        self._tie_break_ranks = (
            np.arange(len(index)) if tie_break_ranks is None else tie_break_ranks
        )
        self._seen = seen
        self._synonyms = synonyms
        # Not of ourselves: a cycle is freed by nothing but the garbage collector.
        self._parse_query = lru_cache(maxsize=_QUERY_CACHE_SIZE)(QueryParser(index, synonyms).read)
        self._postings = PostingsLookup(index)
        self._has_priorities = index.has_priorities

    def score(
        self,
        context: str,
        *,
        min_score: Fraction | None = None,
        limit: int | None = None,
        within: Mask = None,
    ) -> tuple[Candidate, ...]:
        """Score the skills with any coverage of the task, best first.

        The score is from 0 to 1, to a millionth: the covered share of the task's idf,
        weighted by the quality of the evidence, plus a thousandth of the skill's
        priority. `matched_keywords` are words of the task, those of the highest idf
        first.
        """
        named = self._find_named(context, within)
        if named is not None:
            found = Candidate(self._skills[named], Fraction(1), (strip_mention(context),))
            return (found,) if min_score is None or min_score <= 1 else ()
        query = self._parse_query(context)
        postings = self._postings.find(query)
        floor = 0 if min_score is None else math.ceil(min_score * _SCORE_UNIT)
        passes = self._rank_in_two_passes(query, postings, within, limit)
        best = self._take_best(passes.ranking, floor, limit)
        matched = find_matched_words(query, postings, best.numbers, len(self._index.priorities))
        scored = zip(best.numbers.tolist(), best.scores.tolist(), matched, strict=True)
        return tuple(
            Candidate(self._skills[number], Fraction(score, _SCORE_UNIT), words)
            for number, score, words in scored
        )

    def quick_score(self, context: str, *, within: Mask = None) -> float:
        """Score the best skill after the first pass, without priorities."""
        if self._find_named(context, within) is not None:
            return 1.0
        query = self._parse_query(context)
        postings = self._postings.find(query)
        best = self._compute_coverage(query, postings, within).max(initial=0)
        weight = scoring.evidence_weight(self._index, query)
        return float(scoring.to_score(scoring.combine_features(best), weight.value))

    def seen(self, seen: VisibleSkills) -> "RankedMatcher":
        """Restrict the matcher to visible skills, as if there were no others."""
        order = seen.numbers if seen.moved else None
        return RankedMatcher(
            self._index.seen(seen.mask, order),
            seen.skills,
            names=self._names.seen(seen) if self._names else None,
            tie_break_ranks=seen.places,
            seen=seen,
            synonyms=self._synonyms,
        )

    def without_names(self) -> "RankedMatcher":
        other = copy(self)
        other._names = None  # noqa: SLF001 - it is one of us
        return other

    def weigh_terms(self, context: str) -> tuple[TermWeight, ...]:
        query = self._parse_query(context)
        shares = query.information / (query.whole or 1)
        rows = zip(query.words, shares.tolist(), query.holders.tolist(), strict=True)
        return tuple(
            TermWeight(typed=word.typed, term=word.term, weight=share, skills=frequency)
            for word, share, frequency in rows
        )

    def explain(self, context: str, skill: Skill, *, within: Mask = None) -> tuple[Evidence, ...]:
        number = self._find_number(skill)
        named = self._find_named(context, within)
        if number is None or named not in {None, number}:
            return ()
        if named is not None:
            word = strip_mention(context)
            return (Evidence(word=word, where="name", found=skill.name, worth=1),)
        query = self._parse_query(context)
        postings = self._postings.find(query)
        passes = self._rank_in_two_passes(query, postings, within, None)
        scores = passes.ranking.scores[passes.ranking.numbers == number].tolist()
        if not scores:
            return ()
        found = _explain_features(
            self._index, query, postings, number, is_reranked=number in passes.first
        )
        reasons = _scale_to_score(list(found), query, passes.weight, skill.priority)
        return tuple(_explain_clamping(reasons, scores[0] / _SCORE_UNIT))

    def _find_number(self, skill: Skill) -> int | None:
        numbers = self._seen.numbers if self._seen else range(len(self._index))
        position = bisect_left(numbers, skill.path, key=lambda n: self._skills[n].path)
        if position == len(numbers) or self._skills[numbers[position]].path != skill.path:
            return None
        return int(numbers[position])

    def _find_named(self, context: str, within: Mask) -> int | None:
        return self._names.find_unique(context, within) if self._names else None

    def _rank_in_two_passes(
        self,
        query: Query,
        postings: TermPostings,
        within: Mask,
        limit: int | None,
    ) -> _TwoPassRanking:
        coverage = self._compute_coverage(query, postings, within)
        first = self._select_for_rerank(query, coverage)
        name_coverage = scoring.name_coverage(self._index, query, first)
        proximity = scoring.term_proximity(self._index, query, first).scores
        combined = scoring.combine_features(coverage[first], name_coverage, proximity)
        weight = scoring.evidence_weight(self._index, query)
        if len(first):
            best = int(first[combined.argmax()])
            weight = scoring.penalize_missing_technologies(self._index, query, weight, best)
        ranking = self._to_ranking(weight, first, combined)
        if limit is not None and limit <= len(first) and not self._has_priorities:
            return _TwoPassRanking(ranking, first, weight)
        # A priority may lift any skill, and more so where the evidence counts little.
        rest = np.setdiff1d(np.flatnonzero(coverage), first, assume_unique=True)
        others = self._to_ranking(weight, rest, scoring.combine_features(coverage[rest]))
        ranking_of_all = _Ranking(*map(np.concatenate, zip(ranking, others, strict=True)))
        return _TwoPassRanking(ranking_of_all, first, weight)

    def _compute_coverage(
        self, query: Query, postings: TermPostings, within: Mask
    ) -> NDArray[np.float64]:
        coverage = compute_coverage(query, postings, len(self._index.priorities))
        if within is None and self._seen:
            within = self._seen.mask
        return coverage if within is None else np.where(within, coverage, 0)

    def _select_for_rerank(self, query: Query, coverage: NDArray[np.float64]) -> NDArray[np.int64]:
        scores = coverage
        weight = scoring.evidence_weight(self._index, query)
        if self._has_priorities:
            scores = scoring.to_score(scoring.combine_features(coverage), weight.value)
            scores += np.where(coverage > 0, self._index.priorities * _PRIORITY_SCORE, 0)
        found, floor = _NO_SKILLS, float(scores.max(initial=0))
        # To sort what is far below the best ones would take longer than all the rest.
        while len(found) < scoring.RERANK_LIMIT and floor > 1 / _SCORE_UNIT:
            floor /= 4
            found = np.flatnonzero(scores >= floor)
        if len(found) < scoring.RERANK_LIMIT:
            found = np.flatnonzero(coverage)
        elif len(found) > scoring.RERANK_LIMIT:
            among = scores[found]
            last = np.partition(among, -scoring.RERANK_LIMIT)[-scoring.RERANK_LIMIT]
            found = found[among >= last]
        ranking = self._to_ranking(weight, found, scoring.combine_features(coverage[found]))
        return self._take_best(ranking, 0, scoring.RERANK_LIMIT).numbers

    def _take_best(self, ranking: _Ranking, floor: int, limit: int | None) -> _Ranking:
        is_enough = ranking.scores >= floor
        numbers, scores = ranking.numbers[is_enough], ranking.scores[is_enough]
        order = np.lexsort((self._tie_break_ranks[numbers], -scores))[:limit]
        return _Ranking(numbers[order], scores[order])

    def _to_ranking(
        self,
        weight: scoring.EvidenceWeight,
        numbers: NDArray[np.int64],
        combined: NDArray[np.float64],
    ) -> _Ranking:
        final = scoring.to_score(combined, weight.value)
        scores = np.maximum(np.rint(final * _SCORE_UNIT).astype(np.int64), 1)
        scores += self._index.priorities[numbers].astype(np.int64) * _PRIORITY_STEP
        return _Ranking(numbers, np.minimum(np.maximum(scores, 0), _SCORE_UNIT))


def _explain_features(
    index: TextIndex,
    query: Query,
    postings: TermPostings,
    number: int,
    *,
    is_reranked: bool,
) -> Iterator[Evidence]:
    words = list(_explain_words(index, query, postings, number))
    yield from words
    if is_reranked:
        yield from _explain_name(index, query, number, sum(item.worth for item in words))
        yield from _explain_proximity(index, query, number)


def _scale_to_score(
    reasons: Sequence[Evidence],
    query: Query,
    weight: scoring.EvidenceWeight,
    priority: int,
) -> Iterator[Evidence]:
    combined = np.array([math.fsum(reason.worth for reason in reasons)])
    [plain] = scoring.to_score(combined, weight.plain).tolist()
    for reason in reasons:
        yield replace(reason, worth=reason.worth * plain / float(combined[0]))
    if weight.missing:
        [final] = scoring.to_score(combined, weight.value).tolist()
        words = " ".join(query.words[term].typed for term in weight.missing)
        found = "the best skill says nothing of it"
        worth = final - plain
        yield Evidence(word=words, where="missing", found=found, worth=worth)
    if priority:
        worth = priority * _PRIORITY_SCORE
        yield Evidence(word="", where="priority", found=str(priority), worth=worth)


def _explain_clamping(reasons: Iterable[Evidence], score: float) -> Iterator[Evidence]:
    total = 0.0
    for reason in reasons:
        total += reason.worth
        yield reason
    if abs(score - total) > _ROUNDING_ERROR:
        found = "a score is from 0 to 1"
        yield Evidence(word="", where="limit", found=found, worth=score - total)


def _explain_words(
    index: TextIndex, query: Query, postings: TermPostings, number: int
) -> Iterator[Evidence]:
    for term, (row, worth) in sorted(find_heaviest_rows(postings, number).items()):
        where, matched = (
            _find_heaviest_field(index, int(query.numbers[term]), number),
            "",
        )
        matched = query.words[term].typed
        variant = postings.relatives[row]
        if variant:
            terms = map(index.vocabulary.term, variant.terms)
            where, matched = "synonym", " ".join(terms)
        yield Evidence(
            word=query.words[term].typed,
            where=where,
            found=matched,
            worth=worth / query.whole / scoring.TOTAL_WEIGHT,
        )


def _find_heaviest_field(index: TextIndex, term: int, number: int) -> str:
    if term == UNKNOWN_TERM:
        return ""
    span = index.postings.span(term)
    documents = index.postings.documents.values[span]
    position = documents.searchsorted(documents.dtype.type(number))
    bits = int(index.postings.fields[span][position : position + 1].sum())
    return next((name for n, name in enumerate(_FIELD_NAMES) if bits >> n & 1), "")


def _explain_name(
    index: TextIndex, query: Query, number: int, coverage: float
) -> Iterator[Evidence]:
    [covered] = scoring.name_coverage(index, query, np.array([number])).tolist()
    if covered:
        row = index.sequences.read(number).field(FIELDS.index("name"))
        name = dict.fromkeys(map(index.vocabulary.term, row.tolist()))
        typed = [word.typed for word in query.words if word.term in name]
        yield Evidence(
            word=" ".join(typed),
            where="name",
            found=f"{covered:.0%} of the name",
            worth=coverage * float(scoring.name_bonus(covered)),
        )


def _explain_proximity(index: TextIndex, query: Query, number: int) -> Iterator[Evidence]:
    proximity = scoring.term_proximity(index, query, np.array([number]))
    worth = proximity.pairs[0] * proximity.weights * scoring.PROXIMITY_WEIGHT / scoring.TOTAL_WEIGHT
    for pair in np.flatnonzero(worth).tolist():
        both = " ".join(query.words[term].typed for term in query.pairs[pair].tolist())
        distance = "side by side" if proximity.pairs[0, pair] == 1 else "near each other"
        yield Evidence(word=both, where="pair", found=distance, worth=float(worth[pair]))
