"""The inverted index of the ranked algorithm, in arrays.

An index is built in one pass, and written to files as it is. It is the same for the
same documents, whether their words were read or taken from another index.

It holds a vocabulary, the terms of each document in their order, and for each term its
postings: documents, fields, and the impact on each document (BM25F). An impact depends
on the document alone: lengths are compared with fixed ones, not with averages. So a
query only adds up stored numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_Number = TypeVar("_Number", bound=np.integer)

_VALUES_PER_BATCH = 2**16  # they and what numpy makes of them fit into a cache


@dataclass(frozen=True, slots=True, eq=False)
class RaggedArray:
    """Rows of different lengths in one array. Immutable."""

    values: NDArray[np.unsignedinteger]
    ends: NDArray[np.int64]
    """Row offsets: the start of each row, and the end of the last."""

    def __post_init__(self) -> None:
        """Validate; a damaged file is a ValueError."""
        require_consistent(self.values.ndim == self.ends.ndim == 1, "an array has rows of its own")
        require_consistent(self.ends.dtype == np.int64, "ends are of another type")
        require_consistent(len(self.ends) > 0 and self.ends[0] == 0, "the first row is cut")
        require_consistent(self.ends[-1] == len(self.values), "the last row is cut")
        require_consistent(bool((self.ends[1:] >= self.ends[:-1]).all()), "a row ends too early")

    def __len__(self) -> int:
        return len(self.ends) - 1

    @classmethod
    def of(cls, rows: Sequence[bytes]) -> "RaggedArray":
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        return cls(np.frombuffer(b"".join(rows), np.uint8), row_offsets(lengths))

    @classmethod
    def join(cls, parts: Sequence["RaggedArray"]) -> "RaggedArray":
        shifts = np.cumsum([0, *(len(part.values) for part in parts)])
        ends = [part.ends[1:] + shift for part, shift in zip(parts, shifts, strict=False)]
        values = np.concatenate([part.values for part in parts])
        return cls(values, np.concatenate([np.zeros(1, np.int64), *ends]))

    def row(self, number: int) -> NDArray[np.unsignedinteger]:
        return self.values[self.ends[number] : self.ends[number + 1]]

    def arrange(self, others: "RaggedArray", order: NDArray[np.integer]) -> "RaggedArray":
        """Select rows of both in a new order; `others` continue the row numbers."""
        lengths = np.concatenate((np.diff(self.ends), np.diff(others.ends)))
        return RaggedArray(_gather_rows(self, others, order), row_offsets(lengths[order]))


def _gather_rows(
    first: RaggedArray, second: RaggedArray, order: NDArray[np.integer]
) -> NDArray[np.unsignedinteger]:
    is_cut = (np.diff(order) != 1) | (order[1:] == len(first))
    cuts = [0, *(np.flatnonzero(is_cut) + 1).tolist(), len(order)]
    parts = [first.values[:0]]
    for start, end in pairwise(cuts):
        if start < end:
            low, high = int(order[start]), int(order[end - 1]) + 1
            rows = first if low < len(first) else second
            skip = 0 if rows is first else len(first)
            parts.append(rows.values[rows.ends[low - skip] : rows.ends[high - skip]])
    return np.concatenate(parts)


def row_offsets(lengths: NDArray[np.integer]) -> NDArray[np.int64]:
    """Compute row offsets from row lengths.

    >>> row_offsets(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    return ends


def expand_ranges(starts: NDArray[np.integer], sizes: NDArray[np.integer]) -> NDArray[np.int64]:
    """Concatenate ranges, each of a start and a size.

    >>> expand_ranges(np.array([7, 2]), np.array([2, 3])).tolist()
    [7, 8, 2, 3, 4]
    """
    shifts = np.cumsum(sizes, dtype=np.int64)
    total = int(shifts[-1]) if len(shifts) else 0
    # In place: a text of a million characters has half a million words.
    np.subtract(sizes, shifts, out=shifts)
    shifts += starts
    positions = np.repeat(shifts, sizes)
    positions += np.arange(total)
    return positions


def unique_sorted(values: NDArray[_Number]) -> NDArray[_Number]:
    """Sort and remove duplicates.

    As `np.unique` does, but that one imports `numpy.ma`: a first answer would wait.

    >>> unique_sorted(np.array([7, 2, 7])).tolist()
    [2, 7]
    """
    ordered = np.sort(values)
    is_first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


def map_values(
    values: NDArray[np.unsignedinteger], table: NDArray[np.integer]
) -> NDArray[np.uint32]:
    """Map values by a table; in chunks, to bound the memory."""
    translated = np.empty(len(values), np.uint32)
    for start in range(0, len(values), _VALUES_PER_BATCH):
        some = slice(start, start + _VALUES_PER_BATCH)
        translated[some] = table[values[some]]
    return translated


def require_consistent(is_consistent: bool, complaint: str) -> None:  # noqa: FBT001 - reads as a sentence
    """Raise if arrays are inconsistent.

    Raises:
        ValueError: With the complaint.
    """
    if not is_consistent:
        raise ValueError(f"This is no index: {complaint}.")
