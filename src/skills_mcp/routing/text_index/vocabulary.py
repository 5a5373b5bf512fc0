"""The terms of an index by number, with exact and approximate look-up."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from skills_mcp.routing.text_index.ragged import (
    RaggedArray,
    expand_ranges,
    require_consistent,
)

UNKNOWN_TERM = -1
"""The number of a term absent from all documents."""

# Most libraries have fewer. A dictionary of so many takes 2 MB and 5 ms, once; to find
# a term in it, or that there is none, takes a tenth of a search.
_SMALL_VOCABULARY = 2**14

_LAST_ASCII = 127
_SIZE_BITS = 10  # a term has 64 signs of four bytes at most


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Terms by number, in lexicographic order."""

    terms: RaggedArray
    hashes: NDArray[np.uint32]
    """CRC-32 of the terms, sorted: a search in numbers takes a fraction of one in
    words, and a dictionary several times the memory.
    """
    order: NDArray[np.uint32]

    def __post_init__(self) -> None:
        """Validate; a damaged file is a ValueError."""
        sizes = {len(self.terms), len(self.hashes), len(self.order)}
        require_consistent(len(sizes) == 1, "words are missing")

    @classmethod
    def join(cls, terms: Sequence[str]) -> "Vocabulary":
        encoded = [term.encode() for term in terms]
        hashes = np.fromiter(map(crc32, encoded), np.uint32, len(encoded))
        order = np.argsort(hashes, kind="stable").astype(np.uint32)
        return cls(RaggedArray.of(encoded), hashes[order], order)

    def __len__(self) -> int:
        return len(self.terms)

    def term(self, number: int) -> str:
        return self._encoded(number).decode()

    def find(self, term: str) -> int | None:
        return self._find(term)

    def find_known(self, terms: Sequence[str]) -> Iterator[int]:
        """Yield the positions of the known ones among many terms."""
        if len(self) <= _SMALL_VOCABULARY:
            find = self._find
            yield from (n for n, term in enumerate(terms) if find(term) is not None)
            return
        hashes = map(crc32, map(str.encode, terms))
        term_hashes = np.fromiter(hashes, np.uint32, len(terms))
        positions = self.hashes.searchsorted(term_hashes)
        is_likely = self.hashes.take(positions, mode="clip") == term_hashes
        for position in is_likely.nonzero()[0].tolist():
            if self._look_up(terms[position]) is not None:
                yield position

    def find_similar(self, terms: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield pairs of a term and one of ours at a possible edit distance of one.

        Ours are in order, of the same first two ASCII letters, and differ in size by
        one byte and in the set of letters by two at most.
        """
        if not terms:
            return
        signatures = _Signatures.of(RaggedArray.of([term.encode() for term in terms]))
        ours, order = self._signatures
        first = ours.keys.searchsorted(signatures.keys - 1)
        end = ours.keys.searchsorted(signatures.keys + 1, "right")
        positions = expand_ranges(first, end - first)
        owners = np.repeat(np.arange(len(terms)), end - first)
        apart = np.bitwise_count(ours.letters[positions] ^ signatures.letters[owners])
        is_near = apart <= 2  # noqa: PLR2004 - one letter more, and one less
        owners, numbers = owners[is_near], order[positions[is_near]]
        for at in np.lexsort((numbers, owners)).tolist():
            yield terms[owners[at]], self.term(int(numbers[at]))

    def _look_up(self, term: str) -> int | None:
        encoded = term.encode()
        term_hash = crc32(encoded)
        position = bisect_left(self._hashes, term_hash)
        while position < len(self._hashes) and self._hashes[position] == term_hash:
            number = self._order[position]
            if self._encoded(number) == encoded:
                return number
            position += 1
        return None

    def numbers(self) -> dict[str, int]:
        text, ends = bytes(self.terms.values), self.terms.ends.tolist()
        return {
            text[start:end].decode(): number for number, (start, end) in enumerate(pairwise(ends))
        }

    def _encoded(self, number: int) -> bytes:
        return bytes(self._text[self._ends[number] : self._ends[number + 1]])

    @cached_property
    def _find(self) -> Callable[[str], int | None]:
        if len(self) <= _SMALL_VOCABULARY:
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
    def _signatures(self) -> tuple["_Signatures", NDArray[np.uint32]]:
        shapes = _Signatures.of(self.terms)
        order = np.argsort(shapes.keys, kind="stable").astype(np.uint32)
        return _Signatures(shapes.keys[order], shapes.letters[order]), order


class _Signatures(NamedTuple):
    """Signatures to tell most words apart without comparing letters."""

    keys: NDArray[np.uint32]
    """First two bytes, then the size."""
    letters: NDArray[np.uint32]

    @classmethod
    def of(cls, words: RaggedArray) -> "_Signatures":
        starts, sizes = words.ends[:-1], np.diff(words.ends)
        beginnings = words.values[starts].astype(np.uint32) << 8
        beginnings |= words.values.take(starts + 1, mode="clip") * (sizes > 1)
        # All bytes of other letters are one sign: a letter of those has several.
        bits = np.left_shift(1, words.values & 31, dtype=np.uint32)
        bits[words.values > _LAST_ASCII] = 1
        letters = np.bitwise_or.reduceat(bits, starts) if len(starts) else bits
        keys = np.left_shift(beginnings, _SIZE_BITS, dtype=np.uint32)
        return cls(keys | sizes.astype(np.uint32), letters)
