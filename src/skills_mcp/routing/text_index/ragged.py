"""Rows of different lengths in one array: how an index keeps what it knows."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_Number = TypeVar("_Number", bound=np.integer)

_VALUES_AT_ONCE = 2**16  # they and what numpy makes of them fit into a cache


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """Rows of numbers; never changes."""

    values: NDArray[np.unsignedinteger]
    """All rows, one behind the other."""
    ends: NDArray[np.int64]
    """Where each row begins, and where the last ends."""

    def __post_init__(self) -> None:
        """Refuse ends that would lead outside of the values.

        Raises:
            ValueError: They do not fit together; a file is damaged.
        """
        check(self.values.ndim == self.ends.ndim == 1, "an array has rows of its own")
        check(self.ends.dtype == np.int64, "ends are of another type")
        check(len(self.ends) > 0 and self.ends[0] == 0, "the first row is cut")
        check(self.ends[-1] == len(self.values), "the last row is cut")
        check(bool((self.ends[1:] >= self.ends[:-1]).all()), "a row ends too early")

    def __len__(self) -> int:
        return len(self.ends) - 1

    @classmethod
    def of(cls, rows: Sequence[bytes]) -> "Ragged":
        """Return rows of bytes."""
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        return cls(np.frombuffer(b"".join(rows), np.uint8), ends_of(lengths))

    @classmethod
    def join(cls, parts: Sequence["Ragged"]) -> "Ragged":
        """Return the rows of all parts, of which there is at least one."""
        shifts = np.cumsum([0, *(len(part.values) for part in parts)])
        ends = [
            part.ends[1:] + shift for part, shift in zip(parts, shifts, strict=False)
        ]
        values = np.concatenate([part.values for part in parts])
        return cls(values, np.concatenate([np.zeros(1, np.int64), *ends]))

    def row(self, number: int) -> NDArray[np.unsignedinteger]:
        """Return one row."""
        return self.values[self.ends[number] : self.ends[number + 1]]

    def arrange(self, others: "Ragged", order: NDArray[np.integer]) -> "Ragged":
        """Return rows of this and of others in a new order.

        Args:
            others: Rows of the same kind.
            order: For each row of the result its number; the others begin where
                these end. Cheap if most rows keep their neighbours.
        """
        lengths = np.concatenate((np.diff(self.ends), np.diff(others.ends)))
        return Ragged(_join(self, others, order), ends_of(lengths[order]))


def _join(
    first: Ragged, second: Ragged, order: NDArray[np.integer]
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


def ends_of(lengths: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return where rows of these lengths begin, and where the last ends.

    >>> ends_of(np.array([2, 0, 3])).tolist()
    [0, 2, 2, 5]
    """
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    return ends


def expand(
    starts: NDArray[np.integer], sizes: NDArray[np.integer]
) -> NDArray[np.int64]:
    """Return the places of many stretches, one behind the other.

    >>> expand(np.array([7, 2]), np.array([2, 3])).tolist()
    [7, 8, 2, 3, 4]
    """
    shifts = np.cumsum(sizes, dtype=np.int64)
    total = int(shifts[-1]) if len(shifts) else 0
    # In place: a text of a million characters has half a million words.
    np.subtract(sizes, shifts, out=shifts)
    shifts += starts
    places = np.repeat(shifts, sizes)
    places += np.arange(total)
    return places


def drop_repeated(values: NDArray[_Number]) -> NDArray[_Number]:
    """Return each value once, sorted.

    As `np.unique` does, but that one imports `numpy.ma`: a first answer would wait.

    >>> drop_repeated(np.array([7, 2, 7])).tolist()
    [2, 7]
    """
    ordered = np.sort(values)
    is_first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


def translate(
    values: NDArray[np.unsignedinteger], table: NDArray[np.integer]
) -> NDArray[np.uint32]:
    """Return what the table has for each value; in stretches, for the memory's sake."""
    translated = np.empty(len(values), np.uint32)
    for start in range(0, len(values), _VALUES_AT_ONCE):
        some = slice(start, start + _VALUES_AT_ONCE)
        translated[some] = table[values[some]]
    return translated


def check(is_right: bool, complaint: str) -> None:  # noqa: FBT001 - reads as a sentence
    """Raise if arrays do not fit together.

    Raises:
        ValueError: With the complaint.
    """
    if not is_right:
        raise ValueError(f"This is no index: {complaint}.")
