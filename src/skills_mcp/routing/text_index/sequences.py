"""The terms of documents in their order."""

from collections.abc import Callable
from functools import lru_cache, partial
from itertools import accumulate, pairwise
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from skills_mcp.files.arrays import DamagedTextError, Sliceable
from skills_mcp.routing.text_index.ragged import RaggedArray, require_consistent

TermNumbers = NDArray[np.unsignedinteger]

MAX_FIELD_TERMS = 4096
"""Terms read per field: a text without an end may not hold up an answer."""

_CACHED_DOCUMENTS = 256  # documents: all of a small library, some 2 KB each in a large one

_TERM = np.dtype(np.uint32)

FIELD_COUNT = 5


RestoreTerms = Callable[[int], bytes]
"""Derives the terms of a document again, from its text."""


class LeadingTerms(NamedTuple):
    """The first terms of each field of a document, in their order."""

    whole: TermNumbers
    ends: tuple[int, ...]

    def field(self, number: int) -> TermNumbers:
        return self.whole[self.ends[number] : self.ends[number + 1]]


class TermSequences:
    """The term sequences of documents, a row per field. Immutable.

    The largest part of an index; a query needs those of some thirty documents. So they
    may stay on the disk, open to other processes: each document has a checksum, and a
    damaged one is derived anew from its text by `restore`.

    Raises:
        ValueError: A file is damaged.
    """

    def __init__(
        self,
        ends: NDArray[np.int64],
        sums: NDArray[np.uint32],
        source: Sliceable,
        restore: RestoreTerms | None = None,
    ) -> None:
        require_consistent(len(ends) == len(sums) * FIELD_COUNT + 1, "documents are missing")
        require_consistent(int(ends[0]) == 0, "the first row is cut")
        require_consistent(bool((ends[1:] >= ends[:-1]).all()), "a row ends too early")
        require_consistent(int(ends[-1]) * _TERM.itemsize == len(source), "the last row is cut")
        self.ends = ends
        self.sums = sums
        self.source = source
        self._restore = restore
        # Not of ourselves: a cycle is freed by nothing but the garbage collector.
        # A view answers for one item several times as fast as an array.
        read = partial(_read_leading_terms, ends.data, sums.data, source, restore)
        self._read = lru_cache(maxsize=_CACHED_DOCUMENTS)(read)

    @classmethod
    def of(cls, rows: RaggedArray) -> "TermSequences":
        source = rows.values.astype(_TERM, copy=False).data.cast("B")
        ends = rows.ends[::FIELD_COUNT] * _TERM.itemsize
        sums = [crc32(source[start:end]) for start, end in pairwise(ends.tolist())]
        return cls(rows.ends, np.array(sums, np.uint32), source)

    def __len__(self) -> int:
        return len(self.sums)

    def read(self, document: int) -> LeadingTerms:
        """Read the first terms of a document.

        Raises:
            DamagedTextError: It is damaged, and cannot be restored.
        """
        return self._read(document)

    def load(self) -> RaggedArray:
        """Read all rows.

        Raises:
            DamagedTextError: A document is damaged.
        """
        data = memoryview(self.source[:])
        ends = self.ends[::FIELD_COUNT] * _TERM.itemsize
        parts = (data[start:end] for start, end in pairwise(ends.tolist()))
        if len(data) != int(ends[-1]) or [*map(crc32, parts)] != self.sums.tolist():
            raise DamagedTextError("the order of the words changed since it was written")
        return RaggedArray(np.frombuffer(data, _TERM), self.ends)


def _read_leading_terms(
    ends: memoryview,
    sums: memoryview,
    source: Sliceable,
    restore: RestoreTerms | None,
    document: int,
) -> LeadingTerms:
    first = document * FIELD_COUNT
    stops = ends[first : first + FIELD_COUNT + 1].tolist()
    start, end = stops[0], stops[-1]
    try:
        found = source[start * _TERM.itemsize : end * _TERM.itemsize]
    except OSError:
        found = b""
    if crc32(found) != sums[document] or len(found) != (end - start) * _TERM.itemsize:
        if restore is None:
            raise DamagedTextError("the order of the words changed since it was written")
        found = restore(document)
    terms = np.frombuffer(found, _TERM)
    stops = [stop - start for stop in stops]
    if len(terms) <= MAX_FIELD_TERMS:
        return LeadingTerms(terms, tuple(stops))
    fields = [terms[one:other][:MAX_FIELD_TERMS] for one, other in pairwise(stops)]
    return LeadingTerms(np.concatenate(fields), tuple(accumulate(map(len, fields), initial=0)))
