"""The terms of documents in their order, of which only a few are read at a time.

They are the largest part of an index, and a task needs those of some thirty documents.
So they may stay on the disk, where other processes can reach them: each document has a
checksum, and one that is damaged is derived anew from its text.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from itertools import accumulate, pairwise
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from skills_mcp.files.arrays import DamagedTextError, Sliceable
from skills_mcp.routing.text_index.ragged import Ragged, check

Terms = NDArray[np.unsignedinteger]

LONGEST_FIELD = 4096
"""Terms that are read of a field: a text without an end may not hold up an answer."""

_REMEMBERED = 256  # documents: all of a small library, some 2 KB each in a large one

_TERM = np.dtype(np.uint32)

FIELD_COUNT = 5
"""The rows of a document."""


Restore = Callable[[int], bytes]
"""Returns the terms of a document as they were, from its text."""


class Beginning(NamedTuple):
    """What a document begins with: the first terms of each field, in their order."""

    whole: Terms
    """Those of all fields, one behind the other."""
    ends: tuple[int, ...]
    """Where in these each field begins, and where the last ends."""

    def field(self, number: int) -> Terms:
        """Return the terms of one field."""
        return self.whole[self.ends[number] : self.ends[number + 1]]


class Sequences:
    """For each document a row of terms per field; never changes.

    Args:
        ends: Where each row begins, and where the last ends, counted in terms.
        sums: The CRC-32 of each document.
        source: The terms of all documents.
        restore: Called for a document that is damaged; None if none can be.

    Raises:
        ValueError: They do not fit together; a file is damaged.
    """

    def __init__(
        self,
        ends: NDArray[np.int64],
        sums: NDArray[np.uint32],
        source: Sliceable,
        restore: Restore | None = None,
    ) -> None:
        check(len(ends) == len(sums) * FIELD_COUNT + 1, "documents are missing")
        check(int(ends[0]) == 0, "the first row is cut")
        check(bool((ends[1:] >= ends[:-1]).all()), "a row ends too early")
        check(int(ends[-1]) * _TERM.itemsize == len(source), "the last row is cut")
        self.ends = ends
        self.sums = sums
        self.source = source
        self._restore = restore
        # Not of ourselves: a cycle is freed by nothing but the garbage collector.
        # A view answers for one item several times as fast as an array.
        read = partial(_read, ends.data, sums.data, source, restore)
        self._read = lru_cache(maxsize=_REMEMBERED)(read)

    @classmethod
    def of(cls, rows: Ragged) -> "Sequences":
        """Return sequences that are in memory."""
        source = rows.values.astype(_TERM, copy=False).data.cast("B")
        ends = rows.ends[::FIELD_COUNT] * _TERM.itemsize
        sums = [crc32(source[start:end]) for start, end in pairwise(ends.tolist())]
        return cls(rows.ends, np.array(sums, np.uint32), source)

    def __len__(self) -> int:
        return len(self.sums)

    def read(self, document: int) -> Beginning:
        """Return what a document begins with.

        Raises:
            DamagedTextError: It is damaged, and nothing can be done about it here.
        """
        return self._read(document)

    def load(self) -> Ragged:
        """Return all rows.

        Raises:
            DamagedTextError: A document is damaged.
        """
        whole = memoryview(self.source[:])
        ends = self.ends[::FIELD_COUNT] * _TERM.itemsize
        parts = (whole[start:end] for start, end in pairwise(ends.tolist()))
        if len(whole) != int(ends[-1]) or [*map(crc32, parts)] != self.sums.tolist():
            raise DamagedTextError(
                "the order of the words changed since it was written"
            )
        return Ragged(np.frombuffer(whole, _TERM), self.ends)


def _read(
    ends: memoryview,
    sums: memoryview,
    source: Sliceable,
    restore: Restore | None,
    document: int,
) -> Beginning:
    first = document * FIELD_COUNT
    stops = ends[first : first + FIELD_COUNT + 1].tolist()
    start, end = stops[0], stops[-1]
    try:
        found = source[start * _TERM.itemsize : end * _TERM.itemsize]
    except OSError:
        found = b""
    if crc32(found) != sums[document] or len(found) != (end - start) * _TERM.itemsize:
        if restore is None:
            raise DamagedTextError(
                "the order of the words changed since it was written"
            )
        found = restore(document)
    terms = np.frombuffer(found, _TERM)
    stops = [stop - start for stop in stops]
    if len(terms) <= LONGEST_FIELD:
        return Beginning(terms, tuple(stops))
    fields = [terms[one:other][:LONGEST_FIELD] for one, other in pairwise(stops)]
    return Beginning(
        np.concatenate(fields), tuple(accumulate(map(len, fields), initial=0))
    )
