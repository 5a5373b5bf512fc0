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
from skills_mcp.routing.text_index.ragged import drop_repeated
from skills_mcp.routing.text_index.sequences import Terms

Numbers = NDArray[np.int64]
Features = NDArray[np.float64]

MOST = 30
"""So many are looked at: 20 find a little less, and 50 nothing more."""

# What each feature counts, beside 1 for the explained share of the task; measured.
NAME_WEIGHT = 0.25
NEARNESS_WEIGHT = 0.5
WHOLE_WEIGHT = 1 + NAME_WEIGHT + NEARNESS_WEIGHT

# The evidence that is half of a whole. With it, a score is about how often the skill
# that has it is the right one, where it is the best; measured.
_HALF = 0.17

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

_NAME = FIELDS.index("name")
# A heading is a part of the body.
_HEADINGS = FIELDS.index("headings")

_NOWHERE = -1

_Places = NDArray[np.signedinteger]


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
    whole = explained * (1 + weigh_name(covered)) + NEARNESS_WEIGHT * near
    return whole / WHOLE_WEIGHT


def weigh_name(covered: Features | float) -> Features | float:
    """Return what the share of a name counts: a single word of several next to nothing.

    Of many alike names only one is in the task as a whole; what they share says little.
    """
    return NAME_WEIGHT * covered**2


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
    if not len(documents):
        return np.zeros(0)
    names = [index.sequences.read(each).field(_NAME) for each in documents.tolist()]
    owners = np.arange(len(names)).repeat([*map(len, names)])
    terms = np.concatenate(names).astype(np.int64)
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
    count = len(task.pairs)
    weights = task.information.take(task.pairs).sum(axis=1) * task.nearness
    weights /= weights.sum() or 1
    found = np.zeros((len(documents), count))
    if not found.size:
        return Nearness(found, weights)
    places, terms, nearness, owners = _find_terms(index, task, documents)
    size = len(task.words)
    by_terms = np.full(size * size, _NOWHERE, np.int16)  # a few hundred pairs
    one, other = task.pairs.T
    by_terms[one * size + other] = np.arange(count)
    by_terms[other * size + one] = np.arange(count)
    first, second = _find_near(places)
    pairs = by_terms.take((terms * size).take(first) + terms.take(second))
    [is_pair] = (pairs >= 0).nonzero()
    first, second, pairs = (each.take(is_pair) for each in (first, second, pairs))
    distance = places.take(second) - places.take(first)
    worth = nearness.take(first) * nearness.take(second) / distance
    cells = owners.take(first) * count + pairs
    np.maximum.at(found.reshape(-1), cells, worth)
    return Nearness(found, weights)


def _find_near(places: _Places) -> tuple[_Places, _Places]:
    """Return every two of ordered places that are within reach of each other."""
    first: list[_Places] = []
    second: list[_Places] = []
    # Every word of the task with those that follow it.
    for step in range(1, _REACH + 1):
        [here] = (places[step:] - places[:-step] <= _REACH).nonzero()
        first.append(here)
        second.append(here + step)
    return np.concatenate(first), np.concatenate(second)


def _find_terms(
    index: TextIndex, task: Task, documents: Numbers
) -> tuple[_Places, _Places, Features, _Places]:
    """Return where the task's terms or their relatives stand in the documents.

    Returns:
        The places, counted through all fields of all documents, with a gap between
        them; which term stands there; how near it comes to it; and in which document.
    """
    read = [index.sequences.read(document) for document in documents.tolist()]
    texts: list[Terms] = []
    for whole, ends in read:
        texts += whole[: ends[_HEADINGS]], whole[ends[_HEADINGS + 1] :]
    stops = np.array([ends for _, ends in read], np.int32)
    sizes = stops[:, 1:] - stops[:, :-1]
    sizes[:, _HEADINGS] = 0
    known = task.nearest
    # The smaller its numbers are, the more of the table is where the processor is.
    slots = np.full(
        len(index.vocabulary), _NOWHERE, np.min_scalar_type(-len(known) - 1)
    )
    slots[list(known)] = np.arange(len(known))
    # `take` looks them up in a third of the time that brackets need.
    found = slots.take(np.concatenate(texts))
    # Small numbers: there may be tens of thousands, and each is read six times.
    places = (found >= 0).nonzero()[0].astype(np.int32)
    counts = places.searchsorted(np.cumsum(sizes, dtype=np.int32))
    counts[1:] -= counts[:-1].copy()
    fields = np.arange(sizes.size, dtype=np.int32).repeat(counts)
    terms = np.array([term for term, _ in known.values()], np.int32)
    nearness = np.array([near for _, near in known.values()], np.float64)
    slot, owners = found.take(places), fields // len(FIELDS)
    return places + fields * _REACH, terms.take(slot), nearness.take(slot), owners
