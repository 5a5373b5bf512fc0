"""The distinct terms of an index, in order, without an object for each of them."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

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
        place = self.place(term)
        is_there = place < len(self) and self._encoded(place) == term.encode()
        return place if is_there else None

    def place(self, term: str) -> int:
        """Return the number that a term has, or would have."""
        return bisect_left(range(len(self)), term.encode(), key=self._encoded)

    def change(
        self, added: Sequence[str], is_held: NDArray[np.bool_]
    ) -> tuple["Vocabulary", NDArray[np.int64]]:
        """Return the vocabulary of a changed set of documents.

        Args:
            added: New terms, in any order. They are numbered behind these ones.
            is_held: Which of both occur; the others are left out.

        Returns:
            The vocabulary, and for each of its terms the number it had.
        """
        ordered = sorted(range(len(added)), key=added.__getitem__)
        places = [self.place(added[number]) for number in ordered]
        behind = np.array(ordered, np.int64) + len(self)
        order = np.insert(np.arange(len(self)), places, behind)
        order = order[is_held[order]]
        return Vocabulary(self.terms.arrange(_encode(added), order)), order

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
