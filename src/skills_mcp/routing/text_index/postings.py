"""Which documents hold a term, in which fields, and how well each explains it: BM25F.

What a term is worth to a document depends on that document alone: lengths are
compared with fixed ones, not with averages. So a task only adds up what is stored.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skills_mcp.routing.text_index.ragged import Ragged, check, ends_of, expand
from skills_mcp.routing.text_index.sequences import FIELDS

# Measured on real skills and real tasks (docs/explanation/routing.md).
WEIGHTS = np.array([5, 2, 1, 0.5, 0.1])  # in the order of FIELDS
USUAL_LENGTHS = np.array([3, 8, 40, 40, 600])  # in words that say something
SATURATION = 2.5  # k1: the greater, the more a term counts that occurs again
LENGTH_SHARE = 0.75  # b: how far it counts less in a text that is long

SHARE_UNIT = 2**16 - 1
"""Shares are stored in so many parts of 1; finer ones find nothing else."""

_TERMS_AT_ONCE = 400_000  # bounds the memory of a build
_FIELD_COUNT = len(FIELDS)
_FIELD_BITS = np.left_shift(1, np.arange(_FIELD_COUNT)).astype(np.uint8)


class Entries(NamedTuple):
    """Terms in documents, ordered by term and then by document."""

    terms: NDArray[np.uint32]
    documents: NDArray[np.uint32]
    shares: NDArray[np.uint16]
    fields: NDArray[np.uint8]


_NO_ENTRIES = Entries(
    np.zeros(0, np.uint32),
    np.zeros(0, np.uint32),
    np.zeros(0, np.uint16),
    np.zeros(0, np.uint8),
)


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """For each term a row of documents, in order; never changes."""

    documents: Ragged
    shares: NDArray[np.uint16]
    """How well the document explains the term, 0 to `SHARE_UNIT`."""
    fields: NDArray[np.uint8]
    """A bit for each field that holds the term, the first field's is 1."""

    def __post_init__(self) -> None:
        """Refuse arrays that do not fit together.

        Raises:
            ValueError: A file is damaged.
        """
        shape = self.documents.values.shape
        check(shape == self.shares.shape == self.fields.shape, "postings are cut")

    def span(self, term: int) -> slice:
        """Return where the documents of a term are, and their shares and fields."""
        return slice(*self.documents.ends[term : term + 2].tolist())

    def count(self, term: int) -> int:
        """Return how many documents hold a term."""
        return int(self.documents.ends[term + 1] - self.documents.ends[term])

    def holds(self, term: int, document: int) -> bool:
        """Return whether a document holds a term; no one holds a negative one."""
        if term < 0:
            return False
        its = self.documents.values[self.span(term)]
        place = int(its.searchsorted(np.uint32(document)))
        return place < len(its) and int(its[place]) == document

    def count_holders(self, terms: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many documents hold each term; 0 for a negative one."""
        counts = np.zeros(len(terms), np.int64)
        is_known = terms >= 0
        known = terms[is_known]
        counts[is_known] = self.documents.ends[known + 1] - self.documents.ends[known]
        return counts

    @classmethod
    def invert(cls, sequences: Ragged, term_count: int) -> "Postings":
        """Return the postings of documents whose fields are these rows."""
        parts = list(_weigh(sequences))
        counts = np.zeros(term_count, np.int64)
        for part in parts:
            counts += np.bincount(part.terms, minlength=term_count)
        ends = ends_of(counts)
        documents = np.empty(ends[-1], np.uint32)
        shares = np.empty(ends[-1], np.uint16)
        fields = np.empty(ends[-1], np.uint8)
        places = ends[:-1].copy()
        while parts:  # each is let go when it is copied
            part = parts.pop(0)
            to = _take_places(places, part.terms)
            documents[to] = part.documents
            shares[to] = part.shares
            fields[to] = part.fields
        return cls(Ragged(documents, ends), shares, fields)


def _weigh(sequences: Ragged) -> Iterator[Entries]:
    """Iterate over the entries of a few documents after the other."""
    row_count = len(sequences)
    start = 0
    while start < row_count:
        limit = int(sequences.ends[start]) + _TERMS_AT_ONCE
        fitting = int(np.searchsorted(sequences.ends, limit, "right")) - 1
        end = max(fitting // _FIELD_COUNT * _FIELD_COUNT, start + _FIELD_COUNT)
        ends = sequences.ends[start : end + 1]
        terms = sequences.values[ends[0] : ends[-1]]
        found = weigh(Ragged(terms, ends - ends[0]))
        first = np.uint32(start // _FIELD_COUNT)
        yield found._replace(documents=found.documents + first)
        start = end


def weigh(sequences: Ragged) -> Entries:
    """Return the entries of documents whose fields are these rows."""
    terms, rows = sequences.values, len(sequences)
    lengths = np.diff(sequences.ends)
    if not len(terms):
        return _NO_ENTRIES
    keys = np.repeat(np.arange(rows), lengths)
    keys += terms.astype(np.int64) * rows
    keys.sort()
    starts = _starts(keys)
    counts = np.diff(starts, append=len(keys))
    term, row = np.divmod(keys[starts], rows)
    frequencies = counts * _factors(lengths)[row]
    document = row // _FIELD_COUNT
    starts = _starts(term * rows + document)
    frequency = np.add.reduceat(frequencies, starts)
    fields = np.bitwise_or.reduceat(_FIELD_BITS[row % _FIELD_COUNT], starts)
    share = frequency / (SATURATION + frequency) * SHARE_UNIT
    return Entries(
        term[starts].astype(np.uint32),
        document[starts].astype(np.uint32),
        np.rint(share).astype(np.uint16),
        fields,
    )


def _factors(lengths: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return what a term counts that stands once in each of these fields."""
    relative = lengths.reshape(-1, _FIELD_COUNT) / USUAL_LENGTHS
    factors: NDArray[np.float64] = WEIGHTS / (
        1 - LENGTH_SHARE + LENGTH_SHARE * relative
    )
    return factors.ravel()


def _starts(ordered: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where the runs of equal numbers begin."""
    return np.flatnonzero(np.diff(ordered, prepend=-1))


def _take_places(
    places: NDArray[np.int64], terms: NDArray[np.uint32]
) -> NDArray[np.int64]:
    """Return where the next entries of ordered terms stand, and take these places."""
    starts = _starts(terms.astype(np.int64))
    counts = np.diff(starts, append=len(terms))
    found = terms[starts]
    taken = expand(places[found], counts)
    places[found] += counts
    return taken
