"""Scoring, first pass: the coverage of a query by each skill; then a re-rank.

`compute_coverage` sums the weights of matched terms over all skills. The best ones are
re-ranked by `name_coverage` and `term_proximity`, `combine_features` adds the three up,
and `to_score` maps the sum to a score from 0 to 1.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, islice
from math import exp
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skills_mcp.routing import lexicon
from skills_mcp.routing.inverted_index import (
    FIELDS,
    IMPACT_UNIT,
    Documents,
    TermNumbers,
    TextIndex,
    intersect,
    unique_sorted,
)
from skills_mcp.routing.query import Query, TermVariant, idf

PostingPositions = NDArray[np.int64]

_MAX_MATCHED_WORDS = 10  # words that are shown of a skill
_MAX_SEARCHED_TERMS = 64  # of a long task, whose other words say little

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


_PostingRow: TypeAlias = tuple[int, TermVariant | None, float, Documents, NDArray[np.uint16]]


class PostingsLookup:
    """Looks up the postings of queries, with a cache for repeated terms."""

    def __init__(self, index: TextIndex) -> None:
        self._postings = index.postings
        self._intersect = lru_cache(maxsize=index.cache_size // 2)(
            partial(intersect, index.postings)
        )

    def find(self, query: Query) -> TermPostings:
        spans = self._postings.spans(query.numbers)
        information = query.information.tolist()
        can_find = (
            term
            for term in query.order.tolist()
            if spans[term] is not None or query.relatives[term]
        )
        found = [
            [
                *self._find_own(term, information[term], spans[term]),
                *self._find_variants(term, query.relatives[term]),
            ]
            for term in islice(can_find, _MAX_SEARCHED_TERMS)
        ]
        found.sort(key=_has_single_row)
        return self._concatenate(found)

    def _find_own(
        self, term: int, information: float, span: slice | None
    ) -> tuple[_PostingRow, ...]:
        if span is None:
            return ()
        documents = self._postings.documents.values[span]
        return ((term, None, information, documents, self._postings.shares[span]),)

    def _find_variants(self, term: int, variants: Sequence[TermVariant]) -> list[_PostingRow]:
        return [
            (term, variant, variant.information, *self._intersect(variant.terms))
            for variant in variants
        ]

    def _concatenate(self, found: Sequence[Sequence[_PostingRow]]) -> TermPostings:
        postings = self._postings
        # With an empty row at the end, for there may be no other.
        last = (0, None, 0.0, postings.documents.values[:0], postings.shares[:0])
        columns = zip(*chain.from_iterable(found), last, strict=True)
        terms, relatives, information, documents, shares = columns
        sizes = np.array([*map(len, documents)])
        units = np.array(information) / IMPACT_UNIT
        return TermPostings(
            terms=np.array(terms),
            relatives=relatives,
            slots=np.arange(len(found) + 1).repeat([*map(len, found), 1]),
            several=sum(not _has_single_row(rows) for rows in found),
            sizes=sizes,
            documents=np.concatenate(documents),
            worth=np.concatenate(shares) * units.repeat(sizes),
        )


def _has_single_row(rows: Sequence[_PostingRow]) -> bool:
    return len(rows) == 1


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
# evidence among ten times the text. It is counted in postings; measured.
_REFERENCE_POSTINGS = 20_000
_MIN_POSTINGS = 500
_SIZE_EXPONENT = 0.3

# So fast evidence vanishes with the share of the task that names other technologies. An
# eighth is left in any case: a task may name them on the way ("our app in GitHub"), and
# then the skill that serves it stays a near miss.
_MISSING_DECAY = 6
_MIN_MISSING_FACTOR = 1 / 8

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


def evidence_weight(index: TextIndex, query: Query) -> EvidenceWeight:
    """Weigh evidence by the length of the query and by the size of the index.

    Much of a long task is noise, so the same share is more evidence; and much text
    matches much by chance, so it is less.
    """
    text = max(index.postings.total, _MIN_POSTINGS) / _REFERENCE_POSTINGS
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
        if variant.nearness >= lexicon.SAME_WEIGHT:
            yield variant.terms


def to_score(combined: FeatureValues, weight: float) -> FeatureValues:
    """Map combined features to scores from 0 to 1; monotonic."""
    evidence = weight * combined**2
    return evidence / (evidence + 1)


def name_coverage(index: TextIndex, query: Query, documents: SkillNumbers) -> FeatureValues:
    """Compute the share of each skill's name in the query, by idf."""
    if not len(documents):
        return np.zeros(0)
    names = [index.sequences.read(document).field(_NAME_FIELD) for document in documents.tolist()]
    owners = np.arange(len(names)).repeat([*map(len, names)])
    terms = np.concatenate(names).astype(np.int64)
    # Each term of a name counts once.
    keys = unique_sorted(owners * len(index.vocabulary) + terms)
    owners, terms = np.divmod(keys, len(index.vocabulary) or 1)
    information = idf(index.postings.count_documents(terms), len(index))
    similarities = (query.nearest.get(term, (0, 0.0))[1] for term in terms.tolist())
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
