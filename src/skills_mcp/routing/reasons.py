"""What speaks for one skill, when all its words count."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from skills_mcp.routing import rerank
from skills_mcp.routing.decision import PRIORITY_UNIT
from skills_mcp.routing.matcher import Evidence
from skills_mcp.routing.task import UNKNOWN, Holders, Task, contain
from skills_mcp.routing.text_index import FIELDS, TextIndex

_ROUNDED = 2e-6  # scores are shown to a millionth

_WHERE = {"labels": "keywords"}  # as an author calls it
_PLACES = tuple(_WHERE.get(field, field) for field in FIELDS)


def find_reasons(
    index: TextIndex,
    task: Task,
    held: Sequence[Sequence[Holders]],
    number: int,
    *,
    is_shortlisted: bool,
) -> Iterator[Evidence]:
    """Iterate over what each word of a task, and all of them together, are worth.

    Args:
        index: What the skills say.
        task: The task.
        held: Who holds its terms.
        number: The skill.
        is_shortlisted: Whether it is worth a second look.
    """
    words = list(_find_words(index, task, held, number))
    yield from words
    if is_shortlisted:
        yield from _find_name(index, task, number, sum(each.worth for each in words))
        yield from _find_pairs(index, task, number)


def add_up(
    reasons: Sequence[Evidence], task: Task, weight: rerank.Weight, priority: int
) -> Iterator[Evidence]:
    """Iterate over reasons whose worths are the published score, all in all.

    Args:
        reasons: As `find_reasons` returns them, as parts of the combined score.
        task: The task.
        weight: What evidence for it counts.
        priority: Of the skill.
    """
    combined = np.array([math.fsum(reason.worth for reason in reasons)])
    [plain] = rerank.publish(combined, weight.plain).tolist()
    for reason in reasons:
        yield replace(reason, worth=reason.worth * plain / float(combined[0]))
    if weight.missing:
        [published] = rerank.publish(combined, weight.value).tolist()
        words = " ".join(task.words[term].typed for term in weight.missing)
        found = "the best skill says nothing of it"
        worth = published - plain
        yield Evidence(word=words, where="missing", found=found, worth=worth)
    if priority:
        worth = float(priority * PRIORITY_UNIT)
        yield Evidence(word="", where="priority", found=str(priority), worth=worth)


def limit(reasons: Iterable[Evidence], score: float) -> Iterator[Evidence]:
    """Iterate over reasons, and what keeps their sum from 0 to 1."""
    whole = 0.0
    for reason in reasons:
        whole += reason.worth
        yield reason
    if abs(score - whole) > _ROUNDED:
        found = "a score is from 0 to 1"
        yield Evidence(word="", where="limit", found=found, worth=score - whole)


def _find_words(
    index: TextIndex, task: Task, held: Sequence[Sequence[Holders]], number: int
) -> Iterator[Evidence]:
    for term, holders in enumerate(held):
        found = [(_worth(each, number), each) for each in holders]
        worth, best = max(found, key=lambda each: each[0], default=(0.0, None))
        if best is None or not worth:
            continue
        where, shown = _place(index, int(task.numbers[term]), number), ""
        shown = task.words[term].typed
        if best.relative:
            terms = map(index.vocabulary.term, best.relative.terms)
            where, shown = "synonym", " ".join(terms)
        yield Evidence(
            word=task.words[term].typed,
            where=where,
            found=shown,
            worth=worth / task.whole / rerank.WHOLE_WEIGHT,
        )


def _worth(holders: Holders, number: int) -> float:
    [is_held] = contain(holders.documents, np.array([number], np.uint32))
    place = int(holders.documents.searchsorted(np.uint32(number)))
    return float(holders.worth[place]) if is_held else 0.0


def _place(index: TextIndex, term: int, number: int) -> str:
    """Return the field that counts most of those that hold a term."""
    if term == UNKNOWN:
        return ""
    its = index.postings.span(term)
    place = index.postings.documents.values[its].searchsorted(np.uint32(number))
    bits = int(index.postings.fields[its][place : place + 1].sum())
    return next((name for n, name in enumerate(_PLACES) if bits >> n & 1), "")


def _find_name(
    index: TextIndex, task: Task, number: int, explained: float
) -> Iterator[Evidence]:
    [covered] = rerank.cover_names(index, task, np.array([number])).tolist()
    if covered:
        row = index.sequences.row(number * len(FIELDS))
        name = dict.fromkeys(map(index.vocabulary.term, row.tolist()))
        typed = [word.typed for word in task.words if word.term in name]
        yield Evidence(
            word=" ".join(typed),
            where="name",
            found=f"{covered:.0%} of the name",
            worth=explained * rerank.NAME_WEIGHT * covered,
        )


def _find_pairs(index: TextIndex, task: Task, number: int) -> Iterator[Evidence]:
    near = rerank.compare_pairs(index, task, np.array([number]))
    worth = near.pairs[0] * near.weights * rerank.NEARNESS_WEIGHT / rerank.WHOLE_WEIGHT
    for pair in np.flatnonzero(worth).tolist():
        both = " ".join(task.words[term].typed for term in task.pairs[pair].tolist())
        shown = "side by side" if near.pairs[0, pair] == 1 else "near each other"
        yield Evidence(word=both, where="pair", found=shown, worth=float(worth[pair]))
