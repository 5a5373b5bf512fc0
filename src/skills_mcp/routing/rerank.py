"""A second look at the few skills that explain most of a task.

It costs too much to look so at all of them: at the name as a whole, and at how near to
each other the words of the task stand in a text.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skills_mcp.routing import lexicon
from skills_mcp.routing.task import Task, inform
from skills_mcp.routing.text_index.inverted_index import FIELDS, TextIndex
from skills_mcp.routing.text_index.ragged import drop_repeated, expand

Numbers = NDArray[np.int64]
Features = NDArray[np.float64]

MOST = 30
"""So many are looked at: 20 find a little less, and 50 nothing more."""

# What each feature counts, beside 1 for the explained share of the task; measured.
NAME_WEIGHT = 0.5
NEARNESS_WEIGHT = 0.5
WHOLE_WEIGHT = 1 + NAME_WEIGHT + NEARNESS_WEIGHT

# The evidence that is half of a whole. With it, a score is about how often the skill
# that has it is the right one, where it is the best; measured.
_HALF = 0.125

# The more text there is, the more matches by chance: the same prompts need twice the
# evidence among ten times the text. It is counted in postings; measured.
_USUAL_TEXT = 20_000
_LEAST_TEXT = 500
_GROWTH = 0.3

# So fast evidence vanishes with the share of the task that names other technologies. An
# eighth is left in any case: a task may name them on the way ("our app in GitHub"), and
# then the skill that serves it stays a near miss.
_MISSING = 6
_LEAST_LEFT = 1 / 8

_REACH = 6  # words of a skill that are further apart have little to do with each other

_DISTANCES = np.arange(1, _REACH + 1)[:, np.newaxis]

_NAME = FIELDS.index("name")
# A heading is a part of the body.
_READ_FIELDS = [n for n, field in enumerate(FIELDS) if field != "headings"]
_LONGEST_FIELD = 4096  # terms; a text without an end may not hold up an answer

_NOWHERE = -1


@dataclass(frozen=True, slots=True, eq=False)
class Nearness:
    """How near to each other the pairs of a task stand in some skills."""

    pairs: Features
    """A row per skill, a column per pair: 1 for neighbours, 0 for far apart."""
    weights: Features
    """The share of each pair; together 1, or none for a task without pairs."""

    @property
    def scores(self) -> Features:
        """How near, all in all."""
        return self.pairs @ self.weights


def combine(
    explained: Features, covered: Features | float = 0, near: Features | float = 0
) -> Features:
    """Return the scores for three features, each from 0 to 1.

    Args:
        explained: The share of the task that the skill explains.
        covered: The share of the skill's name that the task has.
        near: How near to each other the task's neighbours are in the skill.
    """
    whole = explained * (1 + NAME_WEIGHT * covered) + NEARNESS_WEIGHT * near
    return whole / WHOLE_WEIGHT


class Weight(NamedTuple):
    """What evidence for one task counts: the same for all skills."""

    plain: float
    """Without regard to what is missing."""
    missing: tuple[int, ...] = ()
    """Terms of the task that name technologies of which the best skill says nothing."""
    share: float = 0.0
    """Their share of the task's information."""

    @property
    def value(self) -> float:
        """What it counts, all in all."""
        return self.plain * max(exp(-_MISSING * self.share), _LEAST_LEFT)


def weigh_evidence(index: TextIndex, task: Task) -> Weight:
    """Return what evidence for a task counts among these texts.

    Much of a long task is beside the point, so that the same share of it is more
    evidence; and much text matches much by chance, so that it is less.
    """
    text = max(index.postings.total, _LEAST_TEXT) / _USUAL_TEXT
    return Weight(task.size / (_HALF * text**_GROWTH))


def find_missing(index: TextIndex, task: Task, weight: Weight, best: int) -> Weight:
    """Return the weight with regard to the technologies that the best skill lacks."""
    missing = tuple(
        term
        for term in np.flatnonzero(task.is_technology).tolist()
        if not any(
            all(index.postings.holds(each, best) for each in terms)
            for terms in _find_names(task, term)
        )
    )
    share = float(task.information[list(missing)].sum()) / (task.whole or 1)
    return weight._replace(missing=missing, share=share)


def _find_names(task: Task, term: int) -> Iterator[tuple[int, ...]]:
    """Iterate over what a technology is called: kubernetes is k8s, too."""
    yield (int(task.numbers[term]),)
    for relative in task.relatives[term]:
        if relative.nearness >= lexicon.SAME:
            yield relative.terms


def publish(combined: Features, weight: float) -> Features:
    """Return the scores as they are shown, in the same order and from 0 to 1.

    Args:
        combined: As `combine` returns them.
        weight: What evidence for the task counts.
    """
    evidence = weight * combined**2
    return evidence / (evidence + 1)


def cover_names(index: TextIndex, task: Task, documents: Numbers) -> Features:
    """Return how much of each name the task has, by information."""
    ends = index.sequences.ends
    rows = documents * len(FIELDS) + _NAME
    sizes = ends[rows + 1] - ends[rows]
    terms = index.sequences.values[expand(ends[rows], sizes)].astype(np.int64)
    owners = np.repeat(np.arange(len(documents)), sizes)
    # Each term of a name counts once.
    keys = drop_repeated(owners * len(index.vocabulary) + terms)
    owners, terms = np.divmod(keys, len(index.vocabulary) or 1)
    information = inform(index.postings.count_holders(terms), len(index))
    near = (task.nearest.get(term, (0, 0.0))[1] for term in terms.tolist())
    covered = information * np.fromiter(near, np.float64)
    whole = np.bincount(owners, information, len(documents))
    named = np.bincount(owners, covered, len(documents))
    return np.divide(named, whole, out=np.zeros(len(documents)), where=whole > 0)


def compare_pairs(index: TextIndex, task: Task, documents: Numbers) -> Nearness:
    """Return how near to each other the task's neighbours are in each skill."""
    weights = task.information[task.pairs].sum(axis=1) * task.nearness
    found = np.zeros((len(documents), len(task.pairs)))
    if not len(weights):
        return Nearness(found, weights)
    places, terms, nearness, owners = _find_terms(index, task, documents)
    by_terms = np.full((len(task.words),) * 2, _NOWHERE)
    one, other = task.pairs.T
    by_terms[one, other] = by_terms[other, one] = np.arange(len(weights))
    at = np.full(int(places[-1]) + _REACH + 1 if len(places) else 0, _NOWHERE)
    at[places] = np.arange(len(places))
    # Every word of the task with each word up to _REACH places behind it.
    behind = at[places + _DISTANCES]
    pairs = np.where(behind < 0, _NOWHERE, by_terms[terms, terms[behind]])
    distance, here = np.nonzero(pairs >= 0)
    there = behind[distance, here]
    worth = nearness[here] * nearness[there] / (distance + 1)
    np.maximum.at(found, (owners[here], pairs[distance, here]), worth)
    return Nearness(found, weights / weights.sum())


def _find_terms(
    index: TextIndex, task: Task, documents: Numbers
) -> tuple[Numbers, Numbers, Features, Numbers]:
    """Return where the task's terms or their relatives stand in the documents.

    Returns:
        The places, counted through all fields of all documents, with a gap between
        them; which term stands there; how near it comes to it; and in which document.
    """
    ends = index.sequences.ends
    rows = (documents[:, np.newaxis] * len(FIELDS) + _READ_FIELDS).ravel()
    sizes = np.minimum(ends[rows + 1] - ends[rows], _LONGEST_FIELD)
    known = task.nearest
    slots = np.full(len(index.vocabulary), _NOWHERE, np.int32)
    slots[list(known)] = np.arange(len(known))
    found = slots[index.sequences.values[expand(ends[rows], sizes)]]
    places = np.flatnonzero(found >= 0)
    fields = np.searchsorted(np.cumsum(sizes), places, "right")
    terms, nearness = np.array([*known.values()], np.float64).reshape(-1, 2).T
    slot = found[places]
    terms, nearness = terms[slot].astype(np.int64), nearness[slot]
    return places + fields * _REACH, terms, nearness, fields // len(_READ_FIELDS)
