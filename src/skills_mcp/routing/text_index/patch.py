"""A change of few documents, applied to postings without sorting all of them."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from skills_mcp.routing.text_index.postings import Entries, Postings
from skills_mcp.routing.text_index.ragged import Ragged, ends_of, translate

T = TypeVar("T", bound=np.generic)
Numbers = NDArray[np.integer]


@dataclass(frozen=True, slots=True, eq=False)
class Patch:
    """Which entries go, which come, and how the others are renumbered."""

    terms: Numbers
    """For each term from now on the number it had; new terms come behind those."""
    gone: Entries
    """In the numbers of before."""
    added: Entries
    """Terms in the numbers from now on; documents counted from 0 among the added."""
    bounds: Numbers
    """For each added document the first number of before that could follow it."""
    documents: Numbers
    """The number from now on of every document of before, and of every added one."""

    def apply(self, postings: Postings) -> Postings:
        """Return the changed postings."""
        old = postings.documents
        skipped = _find(old, old.ends[:-1], old.ends[1:], self.gone)
        starts, stops = self._rows(old)
        bounds = self.bounds[self.added.documents].astype(np.uint32)
        wanted = self.added._replace(documents=bounds)
        places = _find(old, starts, stops, wanted)
        plan = _Splice.of(places, skipped, len(old.values))
        known = len(self.documents) - len(self.bounds)
        documents = plan.apply(old.values, self.added.documents + np.uint32(known))
        return Postings(
            Ragged(translate(documents, self.documents), self._ends(old)),
            plan.apply(postings.shares, self.added.shares),
            plan.apply(postings.fields, self.added.fields),
        )

    def _rows(self, old: Ragged) -> tuple[Numbers, Numbers]:
        """Return where each term's row was, or for a new one, where it would be."""
        known = np.minimum(self.terms, len(old))
        following = np.minimum.accumulate(known[::-1])[::-1]
        starts = old.ends[following]
        ends = np.append(old.ends, old.ends[-1])
        return starts, np.where(self.terms < len(old), ends[following + 1], starts)

    def _ends(self, old: Ragged) -> NDArray[np.int64]:
        counts = np.diff(old.ends)
        counts -= np.bincount(self.gone.terms, minlength=len(old))
        is_known = self.terms < len(old)
        kept = np.zeros(len(self.terms), np.int64)
        kept[is_known] = counts[self.terms[is_known]]
        kept += np.bincount(self.added.terms, minlength=len(self.terms))
        return ends_of(kept)


@dataclass(frozen=True, slots=True)
class _Splice:
    """Where values come and go; a few thousand places among millions."""

    stretches: list[slice]
    """What stays, of what was there."""
    adds: list[bool]
    """Whether an added value stands behind it; otherwise one has gone there."""

    @classmethod
    def of(cls, places: Numbers, skipped: Numbers, length: int) -> "_Splice":
        every = np.concatenate((places, skipped))
        order = np.argsort(every, kind="stable")
        adds = (order < len(places)).tolist()
        at = every[order].tolist()
        starts = [
            0,
            *(where + (not is_added) for where, is_added in zip(at, adds, strict=True)),
        ]
        stretches = [slice(*both) for both in zip(starts, [*at, length], strict=True)]
        return cls(stretches, adds)

    def apply(self, values: NDArray[T], added: NDArray[T]) -> NDArray[T]:
        ones = iter(np.split(added, len(added)) if len(added) else ())
        parts = [values[self.stretches[0]]]
        for stretch, is_added in zip(self.stretches[1:], self.adds, strict=True):
            if is_added:
                parts.append(next(ones))
            parts.append(values[stretch])
        return np.concatenate(parts)


def _find(rows: Ragged, starts: Numbers, stops: Numbers, wanted: Entries) -> Numbers:
    """Return where each wanted document is in its term's row, or would be."""
    low, high = starts[wanted.terms], stops[wanted.terms]
    while (is_open := low < high).any():
        middle = np.where(is_open, (low + high) // 2, 0)
        is_before = rows.values[middle] < wanted.documents
        low = np.where(is_open & is_before, middle + 1, low)
        high = np.where(is_open & ~is_before, middle, high)
    return low
