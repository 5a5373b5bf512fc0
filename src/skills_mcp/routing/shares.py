"""The first look at all skills: how much of a task each of them explains."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, islice
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from skills_mcp.routing.task import Relative, Task
from skills_mcp.routing.text_index.intersection import intersect
from skills_mcp.routing.text_index.inverted_index import (
    SHARE_UNIT,
    Documents,
    TextIndex,
)
from skills_mcp.routing.text_index.ragged import drop_repeated

Places = NDArray[np.int64]

_MOST_MATCHED = 10  # words that are shown of a skill
_MOST_SEARCHED_TERMS = 64  # of a long task, whose other words say little

# In rows of so many on average, to search is faster than to read.
_LONG = 500

# Of terms by documents: 2 MB, which are still near the processor.
_CELLS_AT_ONCE = 2**18


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """Who holds the terms of a task: a row for each term, and for each relative.

    The rows are one behind the other: most are short, and to look at each of them by
    itself would take several times as long.
    """

    terms: NDArray[np.int64]
    """For each row the place of its term in the task."""
    relatives: Sequence[Relative | None]
    """For each row what stands for the term; None for the term itself."""
    slots: NDArray[np.int64]
    """For each row the number of its term among those that are held, in order."""
    several: int
    """How many terms have more than one row: the first."""
    sizes: NDArray[np.int64]
    """For each row how long it is."""
    documents: Documents
    """Who holds it; in each row by number, in order."""
    worth: NDArray[np.float64]
    """What it explains there, as information."""

    def find(
        self, numbers: NDArray[np.integer], total: int
    ) -> tuple[Places, NDArray[np.integer]]:
        """Find some of all documents.

        Returns:
            The places in `documents` where one of them is, in any order, and for each
            of these places which of them it is.
        """
        if len(self.documents) > _LONG * len(self.sizes):
            return self._search(numbers)
        order = np.full(total, len(numbers), np.int32)
        order[numbers] = np.arange(len(numbers))
        found = order.take(self.documents)
        [places] = (found < len(numbers)).nonzero()
        return places, found[places]

    def _search(self, numbers: NDArray[np.integer]) -> tuple[Places, Places]:
        """Find documents without a look at all of them."""
        wanted = numbers.astype(self.documents.dtype)  # or each search casts its row
        ends = np.cumsum(self.sizes)
        starts = ends - self.sizes
        spans = zip(starts.tolist(), ends.tolist(), strict=True)
        found = [self.documents[a:b].searchsorted(wanted) for a, b in spans]
        places = np.concatenate(found).reshape(len(found), -1) + starts[:, np.newaxis]
        is_there = self.documents.take(places, mode="clip") == wanted
        is_there &= places < ends[:, np.newaxis]
        return places[is_there], is_there.nonzero()[1]

    def find_rows(self, places: Places) -> Places:
        """Return in which rows these places of `documents` are."""
        return np.cumsum(self.sizes).searchsorted(places, "right")


_Row: TypeAlias = tuple[int, Relative | None, float, Documents, NDArray[np.uint16]]
"""A term, what stands for it, what that says, and who holds it with which shares."""


class Shares:
    """Finds who holds the terms of tasks; remembers what tasks repeat."""

    def __init__(self, index: TextIndex) -> None:
        self._postings = index.postings
        self._intersect = lru_cache(maxsize=index.most_remembered // 2)(
            partial(intersect, index.postings)
        )

    def find(self, task: Task) -> Held:
        """Return who holds the terms of a task that say most, and their relatives."""
        spans = self._postings.spans(task.numbers)
        information = task.information.tolist()
        can_find = (
            term
            for term in task.order.tolist()
            if spans[term] is not None or task.relatives[term]
        )
        found = [
            [
                *self._find_own(term, information[term], spans[term]),
                *self._find_relatives(term, task.relatives[term]),
            ]
            for term in islice(can_find, _MOST_SEARCHED_TERMS)
        ]
        found.sort(key=_has_one)
        return self._join(found)

    def _find_own(
        self, term: int, information: float, span: slice | None
    ) -> tuple[_Row, ...]:
        if span is None:
            return ()
        documents = self._postings.documents.values[span]
        return ((term, None, information, documents, self._postings.shares[span]),)

    def _find_relatives(self, term: int, relatives: Sequence[Relative]) -> list[_Row]:
        return [
            (term, relative, relative.information, *self._intersect(relative.terms))
            for relative in relatives
        ]

    def _join(self, found: Sequence[Sequence[_Row]]) -> Held:
        postings = self._postings
        # With an empty row at the end, for there may be no other.
        last = (0, None, 0.0, postings.documents.values[:0], postings.shares[:0])
        columns = zip(*chain.from_iterable(found), last, strict=True)
        terms, relatives, information, documents, shares = columns
        sizes = np.array([*map(len, documents)])
        units = np.array(information) / SHARE_UNIT
        return Held(
            terms=np.array(terms),
            relatives=relatives,
            slots=np.arange(len(found) + 1).repeat([*map(len, found), 1]),
            several=sum(not _has_one(rows) for rows in found),
            sizes=sizes,
            documents=np.concatenate(documents),
            worth=np.concatenate(shares) * units.repeat(sizes),
        )


def _has_one(rows: Sequence[_Row]) -> bool:
    return len(rows) == 1


def explain_shares(task: Task, held: Held, total: int) -> NDArray[np.float64]:
    """Return for each of all documents the share of the task that it explains."""
    explained = np.zeros(total)
    step = max(_CELLS_AT_ONCE // (total or 1), 1)
    for start in range(0, held.several, step):
        stop = min(start + step, held.several)
        explained += _find_best(held, start, stop, total).sum(axis=0)
    rows = int(held.slots.searchsorted(held.several))
    alone = int(held.sizes[:rows].sum())
    explained += np.bincount(held.documents[alone:], held.worth[alone:], total)
    explained /= task.whole or 1
    return np.minimum(explained, 1, out=explained)


def _find_best(held: Held, start: int, stop: int, total: int) -> NDArray[np.float64]:
    """Return what terms explain in each of all documents, by themselves or a relative.

    Each counts once, as the one of both that explains more.
    """
    rows = slice(*held.slots.searchsorted((start, stop)).tolist())
    sizes = held.sizes[rows]
    first = int(held.sizes[: rows.start].sum())
    its = slice(first, first + int(sizes.sum()))
    best = np.zeros((stop - start, total))
    places = ((held.slots[rows] - start) * total).repeat(sizes) + held.documents[its]
    np.maximum.at(best.reshape(-1), places, held.worth[its])
    return best


def match_words(
    task: Task, held: Held, numbers: NDArray[np.int64], total: int
) -> list[tuple[str, ...]]:
    """Return which words each of these skills explains, as they were typed.

    Args:
        task: The task.
        held: Who holds its terms.
        numbers: The skills.
        total: How many skills there are.
    """
    order = task.order
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    places, which = held.find(numbers, total)
    rows = held.find_rows(places)
    # A word that is found by itself and by its relatives is shown once.
    keys = drop_repeated(ranks[held.terms[rows]] * len(numbers) + which)
    matched: list[list[str]] = [[] for _ in numbers]
    for key in keys.tolist():
        rank, skill = divmod(key, len(numbers))
        matched[skill].append(task.words[order[rank]].typed)
    return [tuple(words[:_MOST_MATCHED]) for words in matched]


def find_best_rows(held: Held, number: int) -> dict[int, tuple[int, float]]:
    """Return for each term that a skill explains the row that explains most of it."""
    [places] = (held.documents == number).nonzero()
    rows = held.find_rows(places).tolist()
    best: dict[int, tuple[int, float]] = {}
    for row, worth in zip(rows, held.worth[places].tolist(), strict=True):
        term = int(held.terms[row])
        if worth > best.get(term, (row, 0.0))[1]:
            best[term] = row, worth
    return best
