"""The terms of an index by number, found by what they are or by what is nearly that."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from skills_mcp.routing.text_index.ragged import Ragged, check, expand

UNKNOWN = -1
"""The number of a term that no document holds."""

# Most libraries have fewer. A dictionary of so many takes 2 MB and 5 ms, once; to find
# a term in it, or that there is none, takes a tenth of a search.
_FEW = 2**14

_LAST_ASCII = 127
_SIZE_BITS = 10  # a term has 64 signs of four bytes at most


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Terms by number; the smaller the number, the smaller the term."""

    terms: Ragged
    """Each in UTF-8."""
    hashes: NDArray[np.uint32]
    """The checksums of the terms, in their own order: a search in numbers takes a
    fraction of one in words, and a dictionary several times the memory."""
    order: NDArray[np.uint32]
    """The number of the term that has each of these checksums."""

    def __post_init__(self) -> None:
        """Refuse arrays that do not fit together.

        Raises:
            ValueError: A file is damaged.
        """
        sizes = {len(self.terms), len(self.hashes), len(self.order)}
        check(len(sizes) == 1, "words are missing")

    @classmethod
    def join(cls, terms: Sequence[str]) -> "Vocabulary":
        """Return the vocabulary of terms that are sorted already."""
        encoded = [term.encode() for term in terms]
        hashes = np.fromiter(map(crc32, encoded), np.uint32, len(encoded))
        order = np.argsort(hashes, kind="stable").astype(np.uint32)
        return cls(Ragged.of(encoded), hashes[order], order)

    def __len__(self) -> int:
        return len(self.terms)

    def term(self, number: int) -> str:
        """Return the term with this number."""
        return self._encoded(number).decode()

    def find(self, term: str) -> int | None:
        """Return the number of a term, or None if there is no such term."""
        return self._find(term)

    def find_known(self, terms: Sequence[str]) -> Iterator[int]:
        """Iterate over the places of those of many terms that are known."""
        if len(self) <= _FEW:
            find = self._find
            yield from (n for n, term in enumerate(terms) if find(term) is not None)
            return
        hashes = map(crc32, map(str.encode, terms))
        wanted = np.fromiter(hashes, np.uint32, len(terms))
        places = self.hashes.searchsorted(wanted)
        is_likely = self.hashes.take(places, mode="clip") == wanted
        for place in is_likely.nonzero()[0].tolist():
            if self._look_up(terms[place]) is not None:
                yield place

    def find_similar(self, terms: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Iterate over pairs of a term and one of ours that may be one error apart.

        Ours are in order. They begin with the same two letters, and differ in size by
        one byte and in the letters that they have by two at most.

        Args:
            terms: Of two ASCII letters or more.
        """
        if not terms:
            return
        wanted = _Shapes.of(Ragged.of([term.encode() for term in terms]))
        ours, order = self._shapes
        first = ours.keys.searchsorted(wanted.keys - 1)
        end = ours.keys.searchsorted(wanted.keys + 1, "right")
        places = expand(first, end - first)
        owners = np.repeat(np.arange(len(terms)), end - first)
        apart = np.bitwise_count(ours.letters[places] ^ wanted.letters[owners])
        is_near = apart <= 2  # noqa: PLR2004 - one letter more, and one less
        owners, numbers = owners[is_near], order[places[is_near]]
        for at in np.lexsort((numbers, owners)).tolist():
            yield terms[owners[at]], self.term(int(numbers[at]))

    def _look_up(self, term: str) -> int | None:
        encoded = term.encode()
        wanted = crc32(encoded)
        place = bisect_left(self._hashes, wanted)
        while place < len(self._hashes) and self._hashes[place] == wanted:
            number = self._order[place]
            if self._encoded(number) == encoded:
                return number
            place += 1
        return None

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
        if len(self) <= _FEW:
            return self.numbers().get
        return lru_cache(maxsize=4096)(self._look_up)  # tasks repeat their words

    # A view answers for one item several times as fast as an array.
    @cached_property
    def _text(self) -> memoryview:
        return self.terms.values.data

    @cached_property
    def _ends(self) -> memoryview:
        return self.terms.ends.data

    @cached_property
    def _hashes(self) -> memoryview:
        return self.hashes.data

    @cached_property
    def _order(self) -> memoryview:
        return self.order.data

    @cached_property
    def _shapes(self) -> tuple["_Shapes", NDArray[np.uint32]]:
        """The shapes of the terms, ordered by key, and the numbers of the terms."""
        shapes = _Shapes.of(self.terms)
        order = np.argsort(shapes.keys, kind="stable").astype(np.uint32)
        return _Shapes(shapes.keys[order], shapes.letters[order]), order


class _Shapes(NamedTuple):
    """What tells most words apart without comparing their letters."""

    keys: NDArray[np.uint32]
    """The first two bytes of each, and behind these its size."""
    letters: NDArray[np.uint32]
    """A bit for each letter that it has."""

    @classmethod
    def of(cls, words: Ragged) -> "_Shapes":
        """Return the shapes of words in UTF-8, none of which is empty."""
        starts, sizes = words.ends[:-1], np.diff(words.ends)
        beginnings = words.values[starts].astype(np.uint32) << 8
        beginnings |= words.values.take(starts + 1, mode="clip") * (sizes > 1)
        # All bytes of other letters are one sign: a letter of those has several.
        bits = np.left_shift(1, words.values & 31, dtype=np.uint32)
        bits[words.values > _LAST_ASCII] = 1
        letters = np.bitwise_or.reduceat(bits, starts) if len(starts) else bits
        keys = np.left_shift(beginnings, _SIZE_BITS, dtype=np.uint32)
        return cls(keys | sizes.astype(np.uint32), letters)
