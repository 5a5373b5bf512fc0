"""The ranked algorithm: scores every term of a skill's text, in two passes.

`compute_coverage` sums the weights of matched terms over all skills. The best ones are
re-ranked by `name_coverage` and `term_proximity`, `combine_features` adds the three up,
and `to_score` maps the sum to a score from 0 to 1.
"""

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from itertools import chain, islice
from math import exp
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skills_mcp.files.arrays import unique_sorted
from skills_mcp.routing.decision import PRIORITY_UNIT
from skills_mcp.routing.inverted_index import (
    FIELDS,
    IMPACT_UNIT,
    SCORED_FIELDS,
    SHORT_FIELDS,
    UNKNOWN_TERM,
    Documents,
    IndexedDocument,
    PostedDocuments,
    TermNumbers,
    TextIndex,
    intersect,
)
from skills_mcp.routing.lexicon import SAME_WEIGHT
from skills_mcp.routing.matcher import (
    Candidate,
    Evidence,
    Mask,
    NegatedScope,
    SkillText,
    TermWeight,
    VisibleSkills,
)
from skills_mcp.routing.negation import find_negations, leave_out
from skills_mcp.routing.query import Query, QueryParser, QueryWord, TermVariant, idf
from skills_mcp.routing.search import NamedSkill, NameIndex
from skills_mcp.skills.model import Skill, SkillPath
from skills_mcp.skills.skill_index import INDEX, ROOT

PostingPositions = NDArray[np.int64]

_MAX_MATCHED_WORDS = 10  # words that are shown of a skill
_MAX_SEARCHED_TERMS = 64  # of a long task, whose other words say little

# Where thousands compete, many have a word by the way: what a skill says of itself
# decides. 2 to 3.5 are much the same; measured.
_SHORT_FIELD_POWER = 2.5

# In rows of so many on average, to search is faster than to read.
_BINARY_SEARCH_LENGTH = 500

# Of terms by documents: 2 MB, which are still near the processor.
_CELLS_PER_BATCH = 2**18


@dataclass(frozen=True, slots=True, eq=False)
class TermPostings:
    """The postings of a query's terms and variants, as concatenated rows for speed."""

    terms: NDArray[np.int64]
    relatives: Sequence[TermVariant | None]
    """The variant of each row; None for the term itself."""
    slots: NDArray[np.int64]
    """For each row the ordinal of its term among those with postings."""
    several: int
    """Terms with more than one row; they come first."""
    sizes: NDArray[np.int64]
    documents: Documents
    """Document numbers; sorted within each row."""
    worth: NDArray[np.float64]
    """The weight of the term in that document."""

    def find(
        self, numbers: NDArray[np.integer], total: int
    ) -> tuple[PostingPositions, NDArray[np.integer]]:
        """Find the positions of some documents, and their index in `numbers`."""
        if len(self.documents) > _BINARY_SEARCH_LENGTH * len(self.sizes):
            return self._binary_search(numbers)
        order = np.full(total, len(numbers), np.int32)
        order[numbers] = np.arange(len(numbers))
        found = order.take(self.documents)
        [positions] = (found < len(numbers)).nonzero()
        return positions, found[positions]

    def _binary_search(
        self, numbers: NDArray[np.integer]
    ) -> tuple[PostingPositions, PostingPositions]:
        targets = numbers.astype(self.documents.dtype)  # or each search casts its row
        ends = np.cumsum(self.sizes)
        starts = ends - self.sizes
        spans = zip(starts.tolist(), ends.tolist(), strict=True)
        found = [self.documents[a:b].searchsorted(targets) for a, b in spans]
        positions = np.concatenate(found).reshape(len(found), -1) + starts[:, np.newaxis]
        is_match = self.documents.take(positions, mode="clip") == targets
        is_match &= positions < ends[:, np.newaxis]
        return positions[is_match], is_match.nonzero()[1]

    def find_rows(self, positions: PostingPositions) -> PostingPositions:
        return np.cumsum(self.sizes).searchsorted(positions, "right")


_PostingRow: TypeAlias = tuple[int, TermVariant | None, float, *PostedDocuments]


class PostingsLookup:
    """Looks up the postings of queries, with a cache for repeated terms."""

    def __init__(self, index: TextIndex) -> None:
        self._postings = index.postings
        self._intersect = lru_cache(index.cache_size // 4)(partial(intersect, index.postings))

    def find(self, query: Query) -> TermPostings:
        spans = self._postings.spans(query.numbers)
        information = query.information.tolist()
        can_find = (t for t in query.order.tolist() if spans[t] is not None or query.relatives[t])
        found = [
            self._find_rows(term, information[term], spans[term], query.relatives[term])
            for term in islice(can_find, _MAX_SEARCHED_TERMS)
        ]
        found.sort(key=lambda rows: len(rows) == 1)
        return self._concatenate(found, query.matching.crowding)

    def _find_rows(
        self, term: int, information: float, span: slice | None, variants: Sequence[TermVariant]
    ) -> list[_PostingRow]:
        rows: list[_PostingRow] = [
            (term, variant, variant.information, *self._intersect(variant.terms))
            for variant in variants
        ]
        if span is not None:
            rows.insert(0, (term, None, information, *self._postings.read(span)))
        return rows

    def _concatenate(self, found: Sequence[Sequence[_PostingRow]], gain: float) -> TermPostings:
        # With an empty row at the end, for there may be no other.
        last = (0, None, 0.0, *self._postings.read(slice(0)))
        columns = zip(*chain.from_iterable(found), last, strict=True)
        terms, relatives, information, documents, shares, fields = columns
        sizes = np.array([*map(len, documents)])
        units = np.array(information) / IMPACT_UNIT
        saturated = _saturate(np.concatenate(shares), np.concatenate(fields), gain)
        return TermPostings(
            terms=np.array(terms),
            relatives=relatives,
            slots=np.arange(len(found) + 1).repeat([*map(len, found), 1]),
            several=sum(len(rows) > 1 for rows in found),
            sizes=sizes,
            documents=np.concatenate(documents),
            worth=saturated * units.repeat(sizes),
        )


def _saturate(
    shares: NDArray[np.uint16], fields: NDArray[np.uint8], gain: float
) -> NDArray[np.uint16] | NDArray[np.float32]:
    """Convert impacts to those of frequencies that are `gain` times as high.

    In a short field they are higher by a power of it.
    """
    if gain == 1:
        return shares
    factors = np.array([1 / gain, gain**-_SHORT_FIELD_POWER], np.float32)
    saturated = factors.take(fields & SHORT_FIELDS > 0)
    saturated *= IMPACT_UNIT - shares
    saturated += shares
    saturated /= IMPACT_UNIT
    return np.divide(shares, saturated, out=saturated)


def compute_coverage(query: Query, postings: TermPostings, total: int) -> NDArray[np.float64]:
    """Compute for each document the covered share of the query."""
    coverage = np.zeros(total)
    step = max(_CELLS_PER_BATCH // (total or 1), 1)
    for start in range(0, postings.several, step):
        stop = min(start + step, postings.several)
        coverage += _find_heaviest(postings, start, stop, total).sum(axis=0)
    rows = int(postings.slots.searchsorted(postings.several))
    alone = int(postings.sizes[:rows].sum())
    coverage += np.bincount(postings.documents[alone:], postings.worth[alone:], total)
    coverage /= query.whole or 1
    return np.minimum(coverage, 1, out=coverage)


def _find_heaviest(
    postings: TermPostings, start: int, stop: int, total: int
) -> NDArray[np.float64]:
    """Take for each term its heaviest match per document: by itself or a variant."""
    rows = slice(*postings.slots.searchsorted((start, stop)).tolist())
    sizes = postings.sizes[rows]
    first = int(postings.sizes[: rows.start].sum())
    values = slice(first, first + int(sizes.sum()))
    best = np.zeros((stop - start, total))
    cells = ((postings.slots[rows] - start) * total).repeat(sizes) + postings.documents[values]
    np.maximum.at(best.reshape(-1), cells, postings.worth[values])
    return best


def find_matched_words(
    query: Query, postings: TermPostings, numbers: NDArray[np.int64], total: int
) -> list[tuple[str, ...]]:
    order = query.order
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    positions, which = postings.find(numbers, total)
    rows = postings.find_rows(positions)
    # A word that is found by itself and by its relatives is shown once.
    keys = unique_sorted(ranks[postings.terms[rows]] * len(numbers) + which)
    matched: list[list[str]] = [[] for _ in numbers]
    for key in keys.tolist():
        rank, skill = divmod(key, len(numbers))
        matched[skill].append(query.words[order[rank]].typed)
    return [tuple(words[:_MAX_MATCHED_WORDS]) for words in matched]


def find_heaviest_rows(postings: TermPostings, number: int) -> dict[int, tuple[int, float]]:
    [positions] = (postings.documents == number).nonzero()
    rows = postings.find_rows(positions).tolist()
    best: dict[int, tuple[int, float]] = {}
    for row, worth in zip(rows, postings.worth[positions].tolist(), strict=True):
        term = int(postings.terms[row])
        if worth > best.get(term, (row, 0.0))[1]:
            best[term] = row, worth
    return best


SkillNumbers = NDArray[np.int64]
FeatureValues = NDArray[np.float64]

RERANK_LIMIT = 30
"""Skills to re-rank: 20 find a little less, and 50 nothing more."""

# What each feature counts, beside 1 for the explained share of the task; measured.
NAME_WEIGHT = 0.25
PROXIMITY_WEIGHT = 0.5
TOTAL_WEIGHT = 1 + NAME_WEIGHT + PROXIMITY_WEIGHT

# The evidence that is half of a whole. With it, a score is about how often the skill
# that has it is the right one, where it is the best; measured.
_HALF_SCORE_EVIDENCE = 0.17

# The more text there is, the more matches by chance: the same prompts need twice the
# evidence among ten times the text. It is counted in postings of the skills with any term
# of the task, so that a skill about something else changes nothing; measured.
_REFERENCE_POSTINGS = 12_000
_MIN_POSTINGS = 500
_SIZE_EXPONENT = 0.3

# So fast evidence vanishes with the share of the task that names other technologies. An
# eighth is left in any case: a task may name them on the way ("our app in GitHub"), and
# then the skill that serves it stays a near miss.
_MISSING_DECAY = 6
_MIN_MISSING_FACTOR = 1 / 8

# The task has so much of a name, by idf, and less of it in what is asked: the negated
# words name that skill. With 0.7 or 0.9, and 0.4 or 0.7, it is much the same; measured.
_NEGATED_NAME_SHARE = 0.8
_ASKED_NAME_SHARE = 0.6

_PROXIMITY_WINDOW = 6  # words of a skill that are further apart have little to do with each other

_NAME_FIELD = FIELDS.index("name")
# A heading is a part of the body.
_HEADINGS_FIELD = FIELDS.index("headings")

_NO_TERM = -1

_TermPositions = NDArray[np.signedinteger]


@dataclass(frozen=True, slots=True, eq=False)
class Proximity:
    """Proximity of the query's term pairs in some skills."""

    pairs: FeatureValues
    """A row per skill, a column per pair: 1 if adjacent, 0 if far apart."""
    weights: FeatureValues
    """The weight of each pair; they sum to 1, or to 0 without pairs."""

    @property
    def scores(self) -> FeatureValues:
        return self.pairs @ self.weights


def combine_features(
    coverage: FeatureValues,
    name_share: FeatureValues | float = 0,
    proximity: FeatureValues | float = 0,
) -> FeatureValues:
    """Combine coverage, name coverage and proximity, each from 0 to 1, to one."""
    total = coverage * (1 + name_bonus(name_share)) + PROXIMITY_WEIGHT * proximity
    return total / TOTAL_WEIGHT


def name_bonus(name_share: FeatureValues | float) -> FeatureValues | float:
    """Weigh the matched share of a name; words shared by many names say little."""
    return NAME_WEIGHT * name_share**2


class EvidenceWeight(NamedTuple):
    """The weight of evidence for one query: the same for all skills."""

    plain: float
    missing: tuple[int, ...] = ()
    """Technology terms of the query absent from the best skill."""
    share: float = 0.0

    @property
    def value(self) -> float:
        return self.plain * max(exp(-_MISSING_DECAY * self.share), _MIN_MISSING_FACTOR)


def evidence_weight(query: Query) -> EvidenceWeight:
    """Weigh evidence by the length of the query and by the text that it matches.

    Much of a long task is noise, so the same share is more evidence; and much text
    matches much by chance, so it is less.
    """
    text = max(query.matching.postings, _MIN_POSTINGS) / _REFERENCE_POSTINGS
    return EvidenceWeight(query.size / (_HALF_SCORE_EVIDENCE * text**_SIZE_EXPONENT))


def penalize_missing_technologies(
    index: TextIndex, query: Query, weight: EvidenceWeight, best: int
) -> EvidenceWeight:
    missing = tuple(
        term
        for term in np.flatnonzero(query.is_technology).tolist()
        if not any(
            all(index.postings.holds(number, best) for number in terms)
            for terms in _find_technology_names(query, term)
        )
    )
    share = float(query.information[list(missing)].sum()) / (query.whole or 1)
    return weight._replace(missing=missing, share=share)


def _find_technology_names(query: Query, term: int) -> Iterator[tuple[int, ...]]:
    yield (int(query.numbers[term]),)
    for variant in query.relatives[term]:
        if variant.nearness >= SAME_WEIGHT:
            yield variant.terms


def to_score(combined: FeatureValues, weight: float) -> FeatureValues:
    """Map combined features to scores from 0 to 1; monotonic."""
    evidence = weight * combined**2
    return evidence / (evidence + 1)


def name_coverage(
    index: TextIndex,
    query: Query,
    documents: SkillNumbers,
    nearest: Mapping[int, tuple[int, float]] | None = None,
) -> FeatureValues:
    """Compute the share of each skill's name in a query's terms and variants, by idf.

    `nearest` has the terms and variants of more than the query.
    """
    nearest = query.nearest if nearest is None else nearest
    if not len(documents):
        return np.zeros(0)
    names = [index.sequences.read(document).field(_NAME_FIELD) for document in documents.tolist()]
    owners = np.arange(len(names)).repeat([*map(len, names)])
    terms = np.concatenate(names).astype(np.int64)
    # Each term of a name counts once.
    keys = unique_sorted(owners * len(index.vocabulary) + terms)
    owners, terms = np.divmod(keys, len(index.vocabulary) or 1)
    information = idf(index.postings.count_documents(terms), query.matching.documents)
    similarities = (nearest.get(term, (0, 0.0))[1] for term in terms.tolist())
    covered = information * np.fromiter(similarities, np.float64)
    total = np.bincount(owners, information, len(documents))
    named = np.bincount(owners, covered, len(documents))
    return np.divide(named, total, out=np.zeros(len(documents)), where=total > 0)


def term_proximity(index: TextIndex, query: Query, documents: SkillNumbers) -> Proximity:
    """Compute the proximity of the query's term pairs in each skill."""
    count = len(query.pairs)
    weights = query.information.take(query.pairs).sum(axis=1) * query.nearness
    weights /= weights.sum() or 1
    found = np.zeros((len(documents), count))
    if not found.size:
        return Proximity(found, weights)
    positions, terms, nearness, owners = _find_term_positions(index, query, documents)
    size = len(query.words)
    by_terms = np.full(size * size, _NO_TERM, np.int16)  # a few hundred pairs
    one, other = query.pairs.T
    by_terms[one * size + other] = np.arange(count)
    by_terms[other * size + one] = np.arange(count)
    first, second = _find_close_positions(positions)
    pairs = by_terms.take((terms * size).take(first) + terms.take(second))
    [is_pair] = (pairs >= 0).nonzero()
    first, second, pairs = (column.take(is_pair) for column in (first, second, pairs))
    distance = positions.take(second) - positions.take(first)
    worth = nearness.take(first) * nearness.take(second) / distance
    cells = owners.take(first) * count + pairs
    np.maximum.at(found.reshape(-1), cells, worth)
    return Proximity(found, weights)


def _find_close_positions(
    positions: _TermPositions,
) -> tuple[_TermPositions, _TermPositions]:
    first: list[_TermPositions] = []
    second: list[_TermPositions] = []
    # Every word of the task with those that follow it.
    for step in range(1, _PROXIMITY_WINDOW + 1):
        [starts] = (positions[step:] - positions[:-step] <= _PROXIMITY_WINDOW).nonzero()
        first.append(starts)
        second.append(starts + step)
    return np.concatenate(first), np.concatenate(second)


def _find_term_positions(
    index: TextIndex, query: Query, documents: SkillNumbers
) -> tuple[_TermPositions, _TermPositions, FeatureValues, _TermPositions]:
    """Find the positions of the query's terms and variants in the documents.

    Positions count through all fields of all documents, with a gap between fields.
    Returns positions, query terms, similarities and documents.
    """
    read = [index.sequences.read(document) for document in documents.tolist()]
    texts: list[TermNumbers] = []
    for terms_of_document, ends in read:
        texts += (
            terms_of_document[: ends[_HEADINGS_FIELD]],
            terms_of_document[ends[_HEADINGS_FIELD + 1] :],
        )
    stops = np.array([ends for _, ends in read], np.int32)
    sizes = stops[:, 1:] - stops[:, :-1]
    sizes[:, _HEADINGS_FIELD] = 0
    known = query.nearest
    # The smaller its numbers are, the more of the table is where the processor is.
    slots = np.full(len(index.vocabulary), _NO_TERM, np.min_scalar_type(-len(known) - 1))
    slots[list(known)] = np.arange(len(known))
    # `take` looks them up in a third of the time that brackets need.
    found = slots.take(np.concatenate(texts))
    # Small numbers: there may be tens of thousands, and each is read six times.
    positions = (found >= 0).nonzero()[0].astype(np.int32)
    counts = positions.searchsorted(np.cumsum(sizes, dtype=np.int32))
    counts[1:] -= counts[:-1].copy()
    fields = np.arange(sizes.size, dtype=np.int32).repeat(counts)
    terms = np.array([term for term, _ in known.values()], np.int32)
    nearness = np.array([similarity for _, similarity in known.values()], np.float64)
    slot, owners = found.take(positions), fields // len(FIELDS)
    return (
        positions + fields * _PROXIMITY_WINDOW,
        terms.take(slot),
        nearness.take(slot),
        owners,
    )


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

# Of a long text some parts are read, and the best of them again, beside the whole (see
# `select_texts`). Among 50,000 skills the postings of one are 3 MB.
_QUERY_CACHE_SIZE = 12
_LOOK_UP_CACHE_SIZE = 3

_ROUNDING_ERROR = 2e-6  # scores are shown to a millionth

# As an author calls them.
_FIELD_NAMES = tuple("keywords" if field == "labels" else field for field in SCORED_FIELDS)

_NO_SKILLS = np.zeros(0, np.int64)


class _Ranking(NamedTuple):
    """Skill numbers in any order, and scores in millionths."""

    numbers: NDArray[np.int64]
    scores: NDArray[np.int64]


class _TwoPassRanking(NamedTuple):
    """The result of both passes."""

    ranking: _Ranking
    first: NDArray[np.int64]
    weight: EvidenceWeight


class _Negated(NamedTuple):
    """The negated part of a task, without words that are asked for, too."""

    words: tuple[str, ...]
    alone: Query


class _Task(NamedTuple):
    """The asked and the negated part of a task, as queries."""

    asked: Query
    negated: _Negated | None = None


class _Reranked(NamedTuple):
    """The best skills of the first pass, and their features after the second."""

    coverage: NDArray[np.float64]
    first: NDArray[np.int64]
    combined: NDArray[np.float64]
    weight: EvidenceWeight


class _LookedUp(NamedTuple):
    """The asked part of a task, with its postings in the index."""

    query: Query
    postings: TermPostings
    coverage: NDArray[np.float64]
    """Of all skills, visible or not."""
    reranked: list[_Reranked]
    """Among all skills, once it is known: near-copies make a decision ask for more of them."""


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
        read = partial(_read_task, index, QueryParser(index, synonyms))
        self._read_task = lru_cache(maxsize=_QUERY_CACHE_SIZE)(read)
        self._negated_skills: dict[str, NDArray[np.int64]] = {}
        self._postings = PostingsLookup(index)
        look_up = partial(_look_up, self._read_task, self._postings, len(index.priorities))
        self._look_up = lru_cache(maxsize=_LOOK_UP_CACHE_SIZE)(look_up)
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
            only = Candidate(self._skills[named.number], Fraction(1), (named.word,))
            return (only,) if min_score is None or min_score <= 1 else ()
        found = self._look_up(context)
        floor = 0 if min_score is None else math.ceil(min_score * _SCORE_UNIT)
        within = self._without_negated(context, found, within)
        passes = self._rank_in_two_passes(found, within, limit)
        best = self._take_best(passes.ranking, floor, limit)
        query, postings, *_ = found
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
        found = self._look_up(context)
        within = self._without_negated(context, found, within)
        best = self._select_eligible(found.coverage, within).max(initial=0)
        weight = evidence_weight(found.query)
        return float(to_score(combine_features(best), weight.value))

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
        query = self._read_task(context).asked
        shares = query.information / (query.whole or 1)
        rows = zip(query.words, shares.tolist(), query.holders.tolist(), strict=True)
        return tuple(
            TermWeight(typed=word.typed, term=word.term, weight=share, skills=frequency)
            for word, share, frequency in rows
        )

    def find_negated(self, context: str) -> NegatedScope:
        negated = self._read_task(context).negated
        numbers = self._find_negated(context)
        if negated is None or numbers is None or self._find_named(context, None) is not None:
            return NegatedScope()
        paths = frozenset(map(self._find_path, numbers.tolist()))
        return NegatedScope(negated.words, paths)

    def explain(self, context: str, skill: Skill, *, within: Mask = None) -> tuple[Evidence, ...]:
        number = self._find_number(skill)
        named = self._find_named(context, within)
        if number is None or (named is not None and named.number != number):
            return ()
        if named is not None:
            return (Evidence(word=named.word, where="name", found=skill.name, worth=1),)
        looked_up = self._look_up(context)
        query, postings, *_ = looked_up
        within = self._without_negated(context, looked_up, within)
        passes = self._rank_in_two_passes(looked_up, within, None)
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

    def _find_named(self, context: str, within: Mask) -> NamedSkill | None:
        if self._names is None:
            return None
        named = self._names.find_unique(context, within)
        if named is None and self._read_task(context).negated is None:
            named = self._names.find_mentioned(context, within)
        return named

    def _find_path(self, number: int) -> SkillPath:
        # Without decoding the skill: of those that are negated none may be a candidate.
        names = self._names
        return self._skills[number].path if names is None else SkillPath(names.path(number))

    def _without_negated(self, context: str, found: _LookedUp, within: Mask) -> Mask:
        """Take the skills of the negated words out of the eligible ones."""
        excluded = self._find_negated(context, found)
        if excluded is None:
            return within
        mask = self._seen.mask if within is None and self._seen else within
        eligible = np.ones(len(self._index.priorities), np.bool_) if mask is None else mask.copy()
        eligible[excluded] = False
        return eligible

    def _find_negated(
        self, context: str, looked_up: _LookedUp | None = None
    ) -> NDArray[np.int64] | None:
        """Find the skills of the negated words; a task is asked several times."""
        negated = self._read_task(context).negated
        if negated is None:
            return None
        found = self._negated_skills.get(context)
        if found is None:
            found = self._compare_sides(looked_up or self._look_up(context), negated)
            if len(self._negated_skills) >= _QUERY_CACHE_SIZE:
                self._negated_skills.clear()
            self._negated_skills[context] = found
        return found

    def _compare_sides(self, found: _LookedUp, negated: _Negated) -> NDArray[np.int64]:
        query, total = found.query, len(self._index.priorities)
        coverage = compute_coverage(negated.alone, self._postings.find(negated.alone), total)
        coverage = self._select_eligible(coverage, None)
        near = self._select_for_rerank(negated.alone, coverage)
        nearest = _merge_nearest(query, negated.alone)
        named = name_coverage(self._index, query, near, nearest)
        asked_share = name_coverage(self._index, query, near)
        is_named = (named >= _NEGATED_NAME_SHARE) & (asked_share < _ASKED_NAME_SHARE)
        against = self._score_alone(negated.alone, near, coverage)
        asked = self._score_alone(query, near, found.coverage)
        return near[is_named | (against > asked)]

    def _score_alone(
        self, query: Query, numbers: NDArray[np.int64], coverage: NDArray[np.float64]
    ) -> FeatureValues:
        named = name_coverage(self._index, query, numbers)
        proximity = term_proximity(self._index, query, numbers).scores
        combined = combine_features(coverage[numbers], named, proximity)
        return to_score(combined, evidence_weight(query).value)

    def _rank_in_two_passes(
        self, found: _LookedUp, within: Mask, limit: int | None
    ) -> _TwoPassRanking:
        if within is None and not found.reranked:
            found.reranked.append(self._rerank(found, within))
        reranked = found.reranked[0] if within is None else self._rerank(found, within)
        coverage, first, combined, weight = reranked
        ranking = self._to_ranking(weight, first, combined)
        if limit is not None and limit <= len(first) and not self._has_priorities:
            return _TwoPassRanking(ranking, first, weight)
        # A priority may lift any skill, and more so where the evidence counts little.
        is_other = coverage > 0
        is_other[first] = False
        [rest] = is_other.nonzero()
        others = self._to_ranking(weight, rest, combine_features(coverage[rest]))
        ranking_of_all = _Ranking(*map(np.concatenate, zip(ranking, others, strict=True)))
        return _TwoPassRanking(ranking_of_all, first, weight)

    def _rerank(self, found: _LookedUp, within: Mask) -> _Reranked:
        query = found.query
        coverage = self._select_eligible(found.coverage, within)
        first = self._select_for_rerank(query, coverage)
        named = name_coverage(self._index, query, first)
        proximity = term_proximity(self._index, query, first).scores
        combined = combine_features(coverage[first], named, proximity)
        weight = evidence_weight(query)
        if len(first):
            best = int(first[combined.argmax()])
            weight = penalize_missing_technologies(self._index, query, weight, best)
        return _Reranked(coverage, first, combined, weight)

    def _select_eligible(self, coverage: NDArray[np.float64], within: Mask) -> NDArray[np.float64]:
        if within is None and self._seen:
            within = self._seen.mask
        return coverage if within is None else np.where(within, coverage, 0)

    def _select_for_rerank(self, query: Query, coverage: NDArray[np.float64]) -> NDArray[np.int64]:
        scores = coverage
        weight = evidence_weight(query)
        if self._has_priorities:
            scores = to_score(combine_features(coverage), weight.value)
            scores += np.where(coverage > 0, self._index.priorities * _PRIORITY_SCORE, 0)
        found, floor = _NO_SKILLS, float(scores.max(initial=0))
        # To sort what is far below the best ones would take longer than all the rest.
        while len(found) < RERANK_LIMIT and floor > 1 / _SCORE_UNIT:
            floor /= 4
            found = np.flatnonzero(scores >= floor)
        if len(found) < RERANK_LIMIT:
            found = np.flatnonzero(coverage)
        elif len(found) > RERANK_LIMIT:
            among = scores[found]
            last = np.partition(among, -RERANK_LIMIT)[-RERANK_LIMIT]
            found = found[among >= last]
        ranking = self._to_ranking(weight, found, combine_features(coverage[found]))
        return self._take_best(ranking, 0, RERANK_LIMIT).numbers

    def _take_best(self, ranking: _Ranking, floor: int, limit: int | None) -> _Ranking:
        if limit is not None and len(ranking.scores) > limit > 0:
            # To sort all that share a word with a long task would take longer than the rest.
            floor = max(floor, int(np.partition(ranking.scores, -limit)[-limit]))
        is_enough = ranking.scores >= floor
        numbers, scores = ranking.numbers[is_enough], ranking.scores[is_enough]
        order = np.lexsort((self._tie_break_ranks[numbers], -scores))[:limit]
        return _Ranking(numbers[order], scores[order])

    def _to_ranking(
        self,
        weight: EvidenceWeight,
        numbers: NDArray[np.int64],
        combined: NDArray[np.float64],
    ) -> _Ranking:
        final = to_score(combined, weight.value)
        scores = np.maximum(np.rint(final * _SCORE_UNIT).astype(np.int64), 1)
        scores += self._index.priorities[numbers].astype(np.int64) * _PRIORITY_STEP
        return _Ranking(numbers, np.minimum(np.maximum(scores, 0), _SCORE_UNIT))


def _look_up(
    read_task: Callable[[str], _Task], postings: PostingsLookup, total: int, context: str
) -> _LookedUp:
    query = read_task(context).asked
    found = postings.find(query)
    return _LookedUp(query, found, compute_coverage(query, found, total), [])


def _read_task(index: TextIndex, parser: QueryParser, context: str) -> _Task:
    read = parser.read
    found = [
        each
        for each in find_negations(context)
        if each.is_strong or _names_anything(index, read(context[each.start : each.end], context))
    ]
    if not found:
        return _Task(read(context))
    rest = read(leave_out(context, [each.whole for each in found]), context)
    if not any(map(_says_something, rest.words)):
        return _Task(read(context))  # nothing but a negation: what it is about is asked
    asked = read(leave_out(context, [each[:2] for each in found]), context)
    scopes = " ".join(context[each.start : each.end] for each in found)
    asked_terms = {word.term for word in asked.words}
    # A word that is asked for, too, speaks for no side.
    words = (word for word in parser.read_words(scopes, context) if word.term not in asked_terms)
    typed = tuple({word.term: word.typed for word in words}.values())
    return _Task(asked, _Negated(typed, parser.read(" ".join(typed), context)))


def _says_something(word: QueryWord) -> bool:
    """Whether a word may state the request, even if unknown: "adyen, not stripe"."""
    # Characters that no skill has may be the end of a verb that negates.
    return word.number != UNKNOWN_TERM or (word.ordinary == 1 and not word.is_unsegmented)


def _merge_nearest(one: Query, other: Query) -> Mapping[int, tuple[int, float]]:
    """The terms and variants of both, each with its greater similarity."""
    found = dict(one.nearest)
    for number, nearness in other.nearest.items():
        found[number] = max(found.get(number, nearness), nearness, key=itemgetter(1))
    return found


def _names_anything(index: TextIndex, query: Query) -> bool:
    """Whether words name a technology, or wholly a skill."""
    known = [number for number in query.numbers.tolist() if number != UNKNOWN_TERM]
    if query.is_technology.any() or not known:
        return bool(known)
    bit = SCORED_FIELDS.index("name")
    rows = (index.postings.holders(number) for number in known)
    named = [documents[(fields >> bit & 1).nonzero()] for documents, _, fields in rows]
    holders = np.unique(np.concatenate(named)).astype(np.int64)
    return bool((name_coverage(index, query, holders) >= _NEGATED_NAME_SHARE).any())


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
    weight: EvidenceWeight,
    priority: int,
) -> Iterator[Evidence]:
    combined = np.array([math.fsum(reason.worth for reason in reasons)])
    [plain] = to_score(combined, weight.plain).tolist()
    for reason in reasons:
        yield replace(reason, worth=reason.worth * plain / float(combined[0]))
    if weight.missing:
        [final] = to_score(combined, weight.value).tolist()
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
        typed, variant = query.words[term].typed, postings.relatives[row]
        if variant:
            where, matched = "synonym", " ".join(map(index.vocabulary.term, variant.terms))
        else:
            where = _find_heaviest_field(index, int(query.numbers[term]), number)
            matched = typed
        share = worth / query.whole / TOTAL_WEIGHT
        yield Evidence(word=typed, where=where, found=matched, worth=share)


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
    [covered] = name_coverage(index, query, np.array([number])).tolist()
    if covered:
        row = index.sequences.read(number).field(FIELDS.index("name"))
        name = dict.fromkeys(map(index.vocabulary.term, row.tolist()))
        typed = [word.typed for word in query.words if word.term in name]
        yield Evidence(
            word=" ".join(typed),
            where="name",
            found=f"{covered:.0%} of the name",
            worth=coverage * float(name_bonus(covered)),
        )


def _explain_proximity(index: TextIndex, query: Query, number: int) -> Iterator[Evidence]:
    proximity = term_proximity(index, query, np.array([number]))
    worth = proximity.pairs[0] * proximity.weights * PROXIMITY_WEIGHT / TOTAL_WEIGHT
    for pair in np.flatnonzero(worth).tolist():
        both = " ".join(query.words[term].typed for term in query.pairs[pair].tolist())
        distance = "side by side" if proximity.pairs[0, pair] == 1 else "near each other"
        yield Evidence(word=both, where="pair", found=distance, worth=float(worth[pair]))
