"""How much of a task each skill explains: a first look at all of them."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skills_mcp.routing.task import UNKNOWN, Relative, Task
from skills_mcp.routing.text_index import SHARE_UNIT, Postings, TextIndex

Held = tuple[NDArray[np.uint32], NDArray[np.uint16]]
"""Documents by number, in order, and their shares."""

# A relative that many hold counts where a skill says what it is about. In a long text
# it is chance, and to follow it there would take most of the time.
_SHORT_FIELDS = np.uint8(7)
_MANY = 1000

_SPARSE = 4  # to look up a few documents costs as much as to read all, times this

_MOST_TERMS = 64  # of a long task, whose other words say little

_REMEMBERED = 2048  # relatives; most of them are held by few skills


class Holders(NamedTuple):
    """Who holds a term of the task, or what may stand for it."""

    documents: NDArray[np.uint32]
    """By number, in order."""
    worth: NDArray[np.float64]
    """What it explains in each of them, as information."""
    relative: Relative | None
    """What stands for the term; None for the term itself."""


class Shares:
    """Who holds the terms of tasks; remembers what tasks repeat."""

    def __init__(self, index: TextIndex) -> None:
        self._postings = index.postings
        self._hold = lru_cache(maxsize=_REMEMBERED)(partial(_hold, index.postings))

    def find(self, task: Task) -> list[list[Holders]]:
        """Return for each term of a task who holds it or one of its relatives."""
        order = np.argsort(-task.information, kind="stable").tolist()
        found: list[list[Holders]] = [[] for _ in order]
        for term in order[:_MOST_TERMS]:
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


def contain(
    documents: NDArray[np.uint32], wanted: NDArray[np.uint32]
) -> NDArray[np.bool_]:
    """Return which of the wanted are among documents, which are in order."""
    if not len(documents):
        return np.zeros(len(wanted), np.bool_)
    places = documents.searchsorted(wanted)
    found: NDArray[np.bool_] = documents.take(places, mode="clip") == wanted
    return found


def _hold(postings: Postings, terms: tuple[int, ...]) -> Held:
    """Return who holds all of some terms, and the smallest share."""
    first, *others = sorted(terms, key=postings.count)
    documents, shares = _select(postings, first)
    for term in others:
        its, their = _select(postings, term)
        is_both = contain(its, documents)
        documents, shares = documents[is_both], shares[is_both]
        shares = np.minimum(shares, their[its.searchsorted(documents)])
    return documents, shares


def _select(postings: Postings, term: int) -> Held:
    its = postings.span(term)
    if postings.count(term) <= _MANY:
        return postings.documents.values[its], postings.shares[its]
    [short] = (postings.fields[its] & _SHORT_FIELDS).nonzero()
    return postings.documents.values[its][short], postings.shares[its][short]


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
