"""The distinct terms of an index, in order, without an object for each of them."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np

from skills_mcp.routing.text_index.ragged import Ragged, ends_of


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Terms by number; the smaller the number, the smaller the term."""

    terms: Ragged
    """Each in UTF-8."""

    @classmethod
    def join(cls, terms: Sequence[str]) -> "Vocabulary":
        """Return the vocabulary of terms that are sorted already."""
        return cls(_encode(terms))

    def __len__(self) -> int:
        return len(self.terms)

    def term(self, number: int) -> str:
        """Return the term with this number."""
        return self._encoded(number).decode()

    def find(self, term: str) -> int | None:
        """Return the number of a term, or None if there is no such term."""
        return self._find(term)

    def _look_up(self, term: str) -> int | None:
        place = bisect_left(range(len(self)), term.encode(), key=self._encoded)
        is_there = place < len(self) and self._encoded(place) == term.encode()
        return place if is_there else None

    def numbers(self) -> dict[str, int]:
        """Return the number of each term."""
        text, ends = bytes(self.terms.values), self.terms.ends.tolist()
        return {
            text[start:end].decode(): number
            for number, (start, end) in enumerate(pairwise(ends))
        }

    def _encoded(self, number: int) -> bytes:
        return bytes(self._text[self._ends[number] : self._ends[number + 1]])

    @cached_property
    def _find(self) -> Callable[[str], int | None]:
        return lru_cache(maxsize=4096)(self._look_up)  # tasks repeat their words

    # A view answers for one item several times as fast as an array.
    @cached_property
    def _text(self) -> memoryview:
        return self.terms.values.data

    @cached_property
    def _ends(self) -> memoryview:
        return self.terms.ends.data


def sort_terms(terms: Iterable[str]) -> Iterator[str]:
    """Iterate over the terms in order, without a long pause for other threads."""
    # One sort of a million terms would hold up the whole process for a second.
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for term in terms:
        alike[term[:2]].append(term)
    for beginning in sorted(alike):
        yield from sorted(alike.pop(beginning))


def _encode(terms: Iterable[str]) -> Ragged:
    encoded = [term.encode() for term in terms]
    lengths = np.fromiter(map(len, encoded), np.int64)
    return Ragged(np.frombuffer(b"".join(encoded), np.uint8), ends_of(lengths))
