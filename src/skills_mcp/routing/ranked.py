"""The ranked algorithm: everything that a skill says counts."""

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skills_mcp.routing import rerank
from skills_mcp.routing.decision import PRIORITY_UNIT
from skills_mcp.routing.exclusions import drop_exclusions
from skills_mcp.routing.matcher import (
    Candidate,
    Evidence,
    Mask,
    WordEvidence,
)
from skills_mcp.routing.names import Names, clean
from skills_mcp.routing.seen_skills import SeenSkills
from skills_mcp.routing.shares import (
    Held,
    Shares,
    explain_shares,
    find_best_rows,
    match_words,
)
from skills_mcp.routing.task import Task, TaskReader
from skills_mcp.routing.text_index.inverted_index import (
    FIELDS,
    PLACES,
    IndexedDocument,
    TextIndex,
)
from skills_mcp.routing.text_index.vocabulary import UNKNOWN
from skills_mcp.skills.index import INDEX, ROOT
from skills_mcp.skills.model import Skill, SkillPath

_HEADING = re.compile(r"^#{1,6}[ \t]+(.+)$", re.MULTILINE)

_UNIT = 10**6
_PRIORITY_STEP = int(_UNIT * PRIORITY_UNIT)
_PRIORITY_WORTH = float(PRIORITY_UNIT)

# Of a long text some parts are read, and the best of them again (see `focus`).
_MOST_READ = 4

_ROUNDED = 2e-6  # scores are shown to a millionth

_WHERE = {"labels": "keywords"}  # as an author calls it
_PLACES = tuple(_WHERE.get(place, place) for place in PLACES)

_NOTHING = np.zeros(0, np.int64)


class _Ranking(NamedTuple):
    """Skills by number, in any order, and their scores in millionths."""

    numbers: NDArray[np.int64]
    scores: NDArray[np.int64]


class _Look(NamedTuple):
    """What a look at all skills has found."""

    ranking: _Ranking
    first: NDArray[np.int64]
    """Those that had a second look."""
    weight: rerank.Weight


class SkillText(NamedTuple):
    """What routing reads of a skill, so that the rest need not be decoded."""

    path: SkillPath
    name: str
    description: str
    keywords: Sequence[str]
    body: str
    priority: int
    category: str


def derive_document(skill: Skill | SkillText) -> IndexedDocument:
    """Return what a skill says, by where it says it."""
    folder, _, last = skill.path.rpartition("/")
    # `ui/react/_index` is about react, not about indexes.
    name = folder.rpartition("/")[2] if last in {INDEX, ROOT} else skill.name
    return IndexedDocument(
        name=name,
        labels="\n".join((*skill.keywords, skill.category)),
        description=drop_exclusions(skill.description),
        # A comment in code is taken for a heading, too; leaving it out finds no more.
        headings="\n".join(_HEADING.findall(skill.body)),
        body=skill.body,
        priority=skill.priority,
    )


class RankedMatcher:
    """Scores tasks against all the words of one set of skills; never changes.

    Args:
        index: What the skills say.
        skills: The same skills, in the same order; only what is found is asked for.
        names: What they are called. A task that is nothing but the name of one skill
            is answered by it; without names all tasks are ranked.
        places: The order of skills that tie (see `derive_places`); that of their
            numbers if there are none.
        seen: Which of them are seen, if the index holds others, too.
        synonyms: What an organisation has for the same, beside our own thesaurus.
    """

    algorithm: Final = "ranked"

    def __init__(  # noqa: PLR0913 - what there is, and what is said of it
        self,
        index: TextIndex,
        skills: Sequence[Skill],
        *,
        names: Names | None = None,
        places: NDArray[np.int64] | None = None,
        seen: SeenSkills | None = None,
        synonyms: tuple[str, ...] = (),
    ) -> None:
        self._index = index
        self._skills = skills
        self._names = names
        self._places = np.arange(len(index)) if places is None else places
        self._seen = seen
        self._synonyms = synonyms
        # Not of ourselves: a cycle is freed by nothing but the garbage collector.
        self._read = lru_cache(maxsize=_MOST_READ)(TaskReader(index, synonyms).read)
        self._shares = Shares(index)
        self._has_priorities = index.has_priorities

    def score(
        self,
        context: str,
        *,
        least: Fraction | None = None,
        most: int | None = None,
        within: Mask = None,
    ) -> tuple[Candidate, ...]:
        """Return the skills that explain some of the task, best first.

        The score is from 0 to 1, to a millionth: the share of the task's information
        that the skill explains, by how good the evidence is, plus a thousandth of the
        skill's priority. `matched_keywords` are words of the task, the most
        informative first.
        """
        named = self._find_named(context, within)
        if named is not None:
            found = Candidate(self._skills[named], Fraction(1), (clean(context),))
            return (found,) if least is None or least <= 1 else ()
        task = self._read(context)
        held = self._shares.find(task)
        floor = 0 if least is None else math.ceil(least * _UNIT)
        look = self._rank(task, held, within, most)
        best = self._select(look.ranking, floor, most)
        matched = match_words(task, held, best.numbers, len(self._index.priorities))
        scored = zip(best.numbers.tolist(), best.scores.tolist(), matched, strict=True)
        return tuple(
            Candidate(self._skills[number], Fraction(score, _UNIT), words)
            for number, score, words in scored
        )

    def rate(self, context: str, *, within: Mask = None) -> float:
        """Return the best score after the first look, without regard to priorities."""
        if self._find_named(context, within) is not None:
            return 1.0
        task = self._read(context)
        held = self._shares.find(task)
        best = self._explain_shares(task, held, within).max(initial=0)
        weight = rerank.weigh_evidence(self._index, task)
        return float(rerank.publish(rerank.combine(best), weight.value))

    def seen(self, seen: SeenSkills) -> "RankedMatcher":
        """Return a matcher of some of the skills, as if there were no others."""
        order = seen.numbers if seen.moved else None
        return RankedMatcher(
            self._index.seen(seen.mask, order),
            seen.skills,
            names=self._names.seen(seen) if self._names else None,
            places=seen.places,
            seen=seen,
            synonyms=self._synonyms,
        )

    def without_names(self) -> "RankedMatcher":
        """Return the same matcher, but one that ranks every task (see `search`)."""
        other = copy(self)
        other._names = None  # noqa: SLF001 - it is one of us
        return other

    def weigh(self, context: str) -> tuple[WordEvidence, ...]:
        """Return the words of the task that count, and what each is worth."""
        task = self._read(context)
        shares = task.information / (task.whole or 1)
        rows = zip(task.words, shares.tolist(), task.holders.tolist(), strict=True)
        return tuple(
            WordEvidence(typed=word.typed, term=word.term, weight=share, skills=held)
            for word, share, held in rows
        )

    def explain(
        self, context: str, skill: Skill, *, within: Mask = None
    ) -> tuple[Evidence, ...]:
        """Return what speaks for a skill; it adds up to what it scores within them."""
        number = self._find_number(skill)
        named = self._find_named(context, within)
        if number is None or named not in {None, number}:
            return ()
        if named is not None:
            word = clean(context)
            return (Evidence(word=word, where="name", found=skill.name, worth=1),)
        task = self._read(context)
        held = self._shares.find(task)
        look = self._rank(task, held, within, None)
        scores = look.ranking.scores[look.ranking.numbers == number].tolist()
        if not scores:
            return ()
        found = _find_reasons(
            self._index, task, held, number, is_shortlisted=number in look.first
        )
        reasons = _add_up(list(found), task, look.weight, skill.priority)
        return tuple(_limit(reasons, scores[0] / _UNIT))

    def _find_number(self, skill: Skill) -> int | None:
        every = self._seen.numbers if self._seen else range(len(self._index))
        place = bisect_left(every, skill.path, key=lambda n: self._skills[n].path)
        if place == len(every) or self._skills[every[place]].path != skill.path:
            return None
        return int(every[place])

    def _find_named(self, context: str, within: Mask) -> int | None:
        return self._names.find_only(context, within) if self._names else None

    def _rank(
        self,
        task: Task,
        held: Held,
        within: Mask,
        most: int | None,
    ) -> _Look:
        """Return the best skills, or all that explain anything."""
        explained = self._explain_shares(task, held, within)
        first = self._shortlist(task, explained)
        covered = rerank.cover_names(self._index, task, first)
        close = rerank.compare_pairs(self._index, task, first).scores
        combined = rerank.combine(explained[first], covered, close)
        weight = rerank.weigh_evidence(self._index, task)
        if len(first):
            best = int(first[combined.argmax()])
            weight = rerank.find_missing(self._index, task, weight, best)
        ranking = self._score(weight, first, combined)
        if most is not None and most <= len(first) and not self._has_priorities:
            return _Look(ranking, first, weight)
        # A priority may lift any skill, and more so where the evidence counts little.
        rest = np.setdiff1d(np.flatnonzero(explained), first, assume_unique=True)
        others = self._score(weight, rest, rerank.combine(explained[rest]))
        every = _Ranking(*map(np.concatenate, zip(ranking, others, strict=True)))
        return _Look(every, first, weight)

    def _explain_shares(
        self, task: Task, held: Held, within: Mask
    ) -> NDArray[np.float64]:
        """Return for each skill the share of the task that it explains."""
        explained = explain_shares(task, held, len(self._index.priorities))
        if within is None and self._seen:
            within = self._seen.mask
        return explained if within is None else np.where(within, explained, 0)

    def _shortlist(
        self, task: Task, explained: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Return the skills that are worth a second look."""
        worth = explained
        weight = rerank.weigh_evidence(self._index, task)
        if self._has_priorities:
            worth = rerank.publish(rerank.combine(explained), weight.value)
            worth += np.where(
                explained > 0, self._index.priorities * _PRIORITY_WORTH, 0
            )
        found, floor = _NOTHING, float(worth.max(initial=0))
        # To sort what is far below the best ones would take longer than all the rest.
        while len(found) < rerank.MOST and floor > 1 / _UNIT:
            floor /= 4
            found = np.flatnonzero(worth >= floor)
        if len(found) < rerank.MOST:
            found = np.flatnonzero(explained)
        elif len(found) > rerank.MOST:
            among = worth[found]
            last = np.partition(among, -rerank.MOST)[-rerank.MOST]
            found = found[among >= last]
        ranking = self._score(weight, found, rerank.combine(explained[found]))
        return self._select(ranking, 0, rerank.MOST).numbers

    def _select(self, ranking: _Ranking, floor: int, most: int | None) -> _Ranking:
        """Return the best skills in their order, none below the floor."""
        is_enough = ranking.scores >= floor
        numbers, scores = ranking.numbers[is_enough], ranking.scores[is_enough]
        order = np.lexsort((self._places[numbers], -scores))[:most]
        return _Ranking(numbers[order], scores[order])

    def _score(
        self,
        weight: rerank.Weight,
        numbers: NDArray[np.int64],
        combined: NDArray[np.float64],
    ) -> _Ranking:
        """Return the scores of skills that match, with their priorities."""
        published = rerank.publish(combined, weight.value)
        scores = np.maximum(np.rint(published * _UNIT).astype(np.int64), 1)
        scores += self._index.priorities[numbers].astype(np.int64) * _PRIORITY_STEP
        return _Ranking(numbers, np.minimum(np.maximum(scores, 0), _UNIT))


def _find_reasons(
    index: TextIndex,
    task: Task,
    held: Held,
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


def _add_up(
    reasons: Sequence[Evidence], task: Task, weight: rerank.Weight, priority: int
) -> Iterator[Evidence]:
    """Iterate over reasons whose worths are the published score, all in all.

    Args:
        reasons: As `_find_reasons` returns them, as parts of the combined score.
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
        worth = priority * _PRIORITY_WORTH
        yield Evidence(word="", where="priority", found=str(priority), worth=worth)


def _limit(reasons: Iterable[Evidence], score: float) -> Iterator[Evidence]:
    """Iterate over reasons, and what keeps their sum from 0 to 1."""
    whole = 0.0
    for reason in reasons:
        whole += reason.worth
        yield reason
    if abs(score - whole) > _ROUNDED:
        found = "a score is from 0 to 1"
        yield Evidence(word="", where="limit", found=found, worth=score - whole)


def _find_words(
    index: TextIndex, task: Task, held: Held, number: int
) -> Iterator[Evidence]:
    for term, (row, worth) in sorted(find_best_rows(held, number).items()):
        where, shown = _place(index, int(task.numbers[term]), number), ""
        shown = task.words[term].typed
        relative = held.relatives[row]
        if relative:
            terms = map(index.vocabulary.term, relative.terms)
            where, shown = "synonym", " ".join(terms)
        yield Evidence(
            word=task.words[term].typed,
            where=where,
            found=shown,
            worth=worth / task.whole / rerank.WHOLE_WEIGHT,
        )


def _place(index: TextIndex, term: int, number: int) -> str:
    """Return the field that counts most of those that hold a term."""
    if term == UNKNOWN:
        return ""
    its = index.postings.span(term)
    documents = index.postings.documents.values[its]
    place = documents.searchsorted(documents.dtype.type(number))
    bits = int(index.postings.fields[its][place : place + 1].sum())
    return next((name for n, name in enumerate(_PLACES) if bits >> n & 1), "")


def _find_name(
    index: TextIndex, task: Task, number: int, explained: float
) -> Iterator[Evidence]:
    [covered] = rerank.cover_names(index, task, np.array([number])).tolist()
    if covered:
        row = index.sequences.read(number).field(FIELDS.index("name"))
        name = dict.fromkeys(map(index.vocabulary.term, row.tolist()))
        typed = [word.typed for word in task.words if word.term in name]
        yield Evidence(
            word=" ".join(typed),
            where="name",
            found=f"{covered:.0%} of the name",
            worth=explained * float(rerank.weigh_name(covered)),
        )


def _find_pairs(index: TextIndex, task: Task, number: int) -> Iterator[Evidence]:
    near = rerank.compare_pairs(index, task, np.array([number]))
    worth = near.pairs[0] * near.weights * rerank.NEARNESS_WEIGHT / rerank.WHOLE_WEIGHT
    for pair in np.flatnonzero(worth).tolist():
        both = " ".join(task.words[term].typed for term in task.pairs[pair].tolist())
        shown = "side by side" if near.pairs[0, pair] == 1 else "near each other"
        yield Evidence(word=both, where="pair", found=shown, worth=float(worth[pair]))
