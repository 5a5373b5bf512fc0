"""Scoring, first pass: the coverage of a query by each skill; then a re-rank.

`compute_coverage` sums the weights of matched terms over all skills. The best ones are
re-ranked by `name_coverage` and `term_proximity`, `combine_features` adds the three up,
and `to_score` maps the sum to a score from 0 to 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, islice
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from skills_mcp.routing.task import Query, TermVariant
from skills_mcp.routing.text_index.intersection import intersect
from skills_mcp.routing.text_index.inverted_index import (
    IMPACT_UNIT,
    Documents,
    TextIndex,
)
from skills_mcp.routing.text_index.ragged import unique_sorted

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
