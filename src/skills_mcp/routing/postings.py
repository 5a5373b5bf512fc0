"""Which documents hold a term, and what it is worth to each of them: BM25F.

What a term is worth to a document does not depend on what is asked, so it is
computed once, and a question only adds up.
"""

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate, chain

from skills_mcp.routing.words import derive_words, split_text

# Measured on real skills and real tasks.
_SATURATION = 2.5  # k1: the greater, the more a term counts that occurs again
_LENGTH_SHARE = 0.75  # b: how far it counts less in a text that is long


class Postings:
    """The terms of documents that have the same fields; never changes."""

    def __init__(
        self, documents: Iterable[Sequence[str]], weights: Sequence[float]
    ) -> None:
        """Read the documents.

        Args:
            documents: The texts of each document's fields.
            weights: What a term in each of the fields counts.
        """
        self._rows, fields = _count(documents, weights)
        self._total = len(fields[0].lengths)
        # Flat, one term after the other: most terms occur once, and an array for
        # each of them would be larger than what it holds.
        self._ends = array("I", accumulate(_count_documents(fields), initial=0))
        self._numbers = array("I", bytes(4 * self._ends[-1]))
        self._shares = array("f", bytes(4 * self._ends[-1]))
        self._fill(_weigh(fields))

    def information(self, term: str) -> float:
        """Return how much a term says, its idf: the rarer, the more; never 0."""
        start, end = self._span(term)
        found = end - start
        return math.log(1 + (self._total - found + 0.5) / (found + 0.5))

    def holders(self, term: str) -> "array[int]":
        """Return the numbers of the documents that hold a term."""
        return self._numbers[slice(*self._span(term))]

    def shares(self, term: str) -> Iterator[tuple[int, float]]:
        """Iterate over the documents that hold a term, and how well each explains it.

        0 would be not at all, and 1 a document of nothing else.
        """
        its = slice(*self._span(term))
        return zip(self._numbers[its], self._shares[its], strict=True)

    def _span(self, term: str) -> Sequence[int]:
        row = self._rows.get(term)
        return (0, 0) if row is None else self._ends[row : row + 2]

    def _fill(self, documents: Iterable[Mapping[int, float]]) -> None:
        places = self._ends[:]
        for number, frequencies in enumerate(documents):
            for row, frequency in frequencies.items():
                place = places[row]
                places[row] = place + 1
                self._numbers[place] = number
                self._shares[place] = frequency / (_SATURATION + frequency)


class _Field:
    """How often each term stands in one field of every document.

    Flat, one document after the other, and a term is the number of its row.
    """

    def __init__(self, weight: float) -> None:
        self._weight = weight
        self._rows = array("I")
        self._counts = array("I")
        self._ends = array("I", [0])
        self.lengths = array("I")

    def append(self, rows: Iterable[int]) -> None:
        """Add what stands in the field of one more document."""
        counts = Counter(rows)
        self._rows.extend(counts.keys())
        self._counts.extend(counts.values())
        self._ends.append(len(self._rows))
        self.lengths.append(counts.total())

    def rows(self, number: int) -> "array[int]":
        """Return the terms in the field of a document, each once."""
        return self._rows[slice(*self._ends[number : number + 2])]

    def counts(self, number: int) -> "array[int]":
        """Return how often each of `rows` stands there."""
        return self._counts[slice(*self._ends[number : number + 2])]

    def factors(self) -> Iterator[float]:
        """Iterate over what a term in the field of each document counts."""
        filled = sum(1 for length in self.lengths if length)
        mean = sum(self.lengths) / filled if filled else 1
        for length in self.lengths:
            relative = 1 - _LENGTH_SHARE + _LENGTH_SHARE * length / mean
            yield self._weight / relative


def _count(
    documents: Iterable[Sequence[str]], weights: Iterable[float]
) -> tuple[dict[str, int], list[_Field]]:
    """Return the row of every term, and the fields."""
    rows: dict[str, int] = {}

    @cache  # texts share most of their words
    def derive(piece: str) -> tuple[int, ...]:
        terms = (word.term for word in derive_words(piece))
        return tuple(rows.setdefault(term, len(rows)) for term in terms)

    fields = [_Field(weight) for weight in weights]
    for texts in documents:
        for field, text in zip(fields, texts, strict=True):
            field.append(chain.from_iterable(map(derive, split_text(text))))
    return rows, fields


def _count_documents(fields: Sequence[_Field]) -> list[int]:
    """Return for each row how many documents hold the term, in whatever field."""
    found: Counter[int] = Counter()
    for number in range(len(fields[0].lengths)):
        found.update(set(chain.from_iterable(f.rows(number) for f in fields)))
    return [found[row] for row in range(len(found))]


def _weigh(fields: Sequence[_Field]) -> Iterator[dict[int, float]]:
    """Iterate over the documents: how often each holds its terms, fields weighted."""
    factors = zip(*(field.factors() for field in fields), strict=True)
    for number, every in enumerate(factors):
        weighted: defaultdict[int, float] = defaultdict(float)
        for field, factor in zip(fields, every, strict=True):
            counted = zip(field.rows(number), field.counts(number), strict=True)
            for row, count in counted:
                weighted[row] += factor * count
        yield weighted
