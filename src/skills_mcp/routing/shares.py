"""The first look at all skills: how much of a task each of them explains."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skills_mcp.routing.task import Relative, Task
from skills_mcp.routing.text_index.intersection import intersect
from skills_mcp.routing.text_index.inverted_index import (
    SHARE_UNIT,
    Documents,
    TextIndex,
)
from skills_mcp.routing.text_index.vocabulary import UNKNOWN

_SPARSE = 4  # to look up a few documents costs as much as to read all, times this

_MOST_SEARCHED_TERMS = 64  # of a long task, whose other words say little


class Holders(NamedTuple):
    """Who holds a term of the task, or what may stand for it."""

    documents: Documents
    """By number, in order."""
    worth: NDArray[np.float64]
    """What it explains in each of them, as information."""
    relative: Relative | None
    """What stands for the term; None for the term itself."""


class Shares:
    """Who holds the terms of tasks; remembers what tasks repeat."""

    def __init__(self, index: TextIndex) -> None:
        self._postings = index.postings
        self._hold = lru_cache(maxsize=index.most_remembered // 2)(
            partial(intersect, index.postings)
        )

    def find(self, task: Task) -> list[list[Holders]]:
        """Return for each term of a task who holds it or one of its relatives."""
        order = np.argsort(-task.information, kind="stable").tolist()
        found: list[list[Holders]] = [[] for _ in order]
        can_find = (
            term
            for term in order
            if task.numbers[term] != UNKNOWN or task.relatives[term]
        )
        for term in islice(can_find, _MOST_SEARCHED_TERMS):
            found[term] += self._find_own(task, term)
            found[term] += self._find_relatives(task, term)
        return found

    def _find_own(self, task: Task, term: int) -> Iterator[Holders]:
        number = int(task.numbers[term])
        if number != UNKNOWN:
            its = self._postings.span(number)
            unit = float(task.information[term]) / SHARE_UNIT
            documents = self._postings.documents.values[its]
            worth = np.multiply(self._postings.shares[its], unit, dtype=np.float64)
            yield Holders(documents, worth, None)

    def _find_relatives(self, task: Task, term: int) -> Iterator[Holders]:
        for relative in task.relatives[term]:
            documents, shares = self._hold(relative.terms)
            if len(documents):
                unit = relative.information / SHARE_UNIT
                worth = np.multiply(shares, unit, dtype=np.float64)
                yield Holders(documents, worth, relative)


def explain_shares(
    task: Task, held: Iterable[Sequence[Holders]], total: int
) -> NDArray[np.float64]:
    """Return for each of all documents the share of the task that it explains."""
    explained = np.zeros(total)
    best = np.zeros(total)
    alone: list[Holders] = []
    for holders in held:
        if len(holders) > 1:
            _add_best(explained, best, holders)
        else:
            alone += holders
    if alone:
        documents = np.concatenate([each.documents for each in alone])
        worth = np.concatenate([each.worth for each in alone])
        explained += np.bincount(documents, worth, total)
    explained /= task.whole or 1
    return np.minimum(explained, 1, out=explained)


def _add_best(
    explained: NDArray[np.float64],
    best: NDArray[np.float64],
    found: Sequence[Holders],
) -> None:
    """Add what the best of a term and its relatives explains; `best` stays empty."""
    total = 0
    for documents, worth, _ in found:
        at = documents.astype(np.intp)
        best[at] = np.maximum(best[at], worth) if total else worth
        total += len(at)
    if total * _SPARSE > len(best):
        explained += best
        best[:] = 0
        return
    touched = np.concatenate([each.documents for each in found])
    # A document that stands here twice is written twice, and with the same sum.
    explained[touched] += best[touched]
    best[touched] = 0
