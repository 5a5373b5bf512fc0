"""Pairs of skills that an ordinary task cannot tell apart, and words that part them.

A skill's own examples and the phrases of its description are routed as tasks. Two skills
overlap as far as the phrases of each find the other nearly as well.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import sqrt
from typing import NamedTuple

from skills_mcp.features.authoring import OnProgress, ignore_progress
from skills_mcp.library import Snapshot
from skills_mcp.routing.decision import estimate_probabilities, merge_near_copies
from skills_mcp.routing.lexicon import is_technology_name
from skills_mcp.routing.matcher import Candidate, TermWeight
from skills_mcp.routing.ranked_matcher import drop_exclusions
from skills_mcp.skills.model import Skill, SkillPath
from skills_mcp.skills.skill_index import INDEX, NO_FILTER, ROOT

MIN_OVERLAP = 0.15
"""Lowest overlap of a reported pair; of the first 50 above it, 4 of 5 are right (measured)."""

_PHRASE_END = re.compile(
    r"(?<=[.!?;:])\s+|\n+|\s+[-–—|]\s+|,\s+(?:and |or )?|\s+(?:or|and)\s+|[()\"“”]"  # noqa: RUF001 - dashes of authors
)
_WORD = re.compile(r"\w+")
_MAX_PHRASES = 16  # of a description with more, the rest repeats
_MIN_TERMS = 2  # a single word is a field, not a task
_MAX_TERMS = 6  # weight of a phrase: as much as an ordinary task has
_MIN_WHOLE_WEIGHT = 4.0
_RIVALS = 8  # skills compared for each phrase
_MIN_SHARE = 0.1  # of both odds; with less the other is far behind
_MEAN_WEIGHT = 0.7  # what a task for one alone says counts less than what both say
_MAX_SHOWN_PHRASES = 2
_MAX_PARTING_WORDS = 4
_CACHED_TERMS = 4096
_REPORTED_CHARACTERS = 80


class _Phrase(NamedTuple):
    text: str
    task: str
    """The text, with the technology of the skill."""
    weight: float


class _Rivalry(NamedTuple):
    phrase: str
    weight: float
    """The weight of the phrase, times the share of the rival, 1 if it is as good."""


@dataclass(frozen=True, slots=True)
class OverlapSide:
    """One skill of a pair."""

    path: SkillPath
    phrases: tuple[str, ...]
    """Its own phrases that find the other skill nearly as well, the strongest first."""
    parting_words: tuple[str, ...]
    """Words of its name and description that the other skill does not have, by weight."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two skills that compete for the same tasks."""

    score: float
    """From 0, never both, to 1, always both."""
    sides: tuple[OverlapSide, OverlapSide]

    def seen_from(self, path: SkillPath) -> tuple[OverlapSide, OverlapSide]:
        """The side of one skill first."""
        one, other = self.sides
        return (one, other) if one.path == path else (other, one)


def find_overlaps(
    snapshot: Snapshot, on_progress: OnProgress = ignore_progress
) -> tuple[Overlap, ...]:
    """Find the pairs with at least `MIN_OVERLAP`, the strongest first.  Blocking."""
    finder = _OverlapFinder(snapshot)
    for done, skill in enumerate(snapshot.index, 1):
        finder.probe(skill)
        on_progress(done, len(snapshot.index))
    return tuple(finder.rank(finder.pairs))


def find_rivals(snapshot: Snapshot, skill: Skill, limit: int) -> tuple[Overlap, ...]:
    """Find the pairs of one skill, the strongest first.  Blocking."""
    finder = _OverlapFinder(snapshot)
    finder.probe(skill)
    nearest = finder.list_rivals(skill.path)[: 2 * limit]
    for rival in nearest:
        finder.probe(finder.skills[rival])
    pairs = ((min(skill.path, rival), max(skill.path, rival)) for rival in nearest)
    return tuple(finder.rank(pairs))[:limit]


class _OverlapFinder:
    def __init__(self, snapshot: Snapshot) -> None:
        self.skills: dict[SkillPath, Skill] = {}
        """Those that are probed, and their rivals."""
        # By words alone: an embedding of each phrase would be a request.
        self._matcher = snapshot.indexes.searched()
        self._within = snapshot.narrow(NO_FILTER)
        self._weights: dict[SkillPath, float] = {}
        self._rivalries: defaultdict[tuple[SkillPath, SkillPath], list[_Rivalry]]
        self._rivalries = defaultdict(list)
        self._weigh = lru_cache(maxsize=_CACHED_TERMS)(self._matcher.weigh_terms)

    @property
    def pairs(self) -> Iterable[tuple[SkillPath, SkillPath]]:
        return dict.fromkeys((min(pair), max(pair)) for pair in self._rivalries)

    def probe(self, skill: Skill) -> None:
        """Route the phrases of a skill, and note which other skills they find."""
        if not _has_tasks(skill):
            return
        self.skills[skill.path] = skill
        phrases = list(self._weigh_phrases(skill))
        self._weights[skill.path] = sum(phrase.weight for phrase in phrases)
        for phrase in phrases:
            found = self._matcher.score(phrase.task, limit=_RIVALS, within=self._within)
            own = next((c for c in found if c.skill.path == skill.path), None)
            for rival in found:
                share = _compare(rival, own)
                if rival is own or share < _MIN_SHARE or not _has_tasks(rival.skill):
                    continue
                self.skills.setdefault(rival.skill.path, rival.skill)
                weight = phrase.weight * min(1.0, 2 * share)
                rivalry = _Rivalry(phrase.text, weight)
                self._rivalries[skill.path, rival.skill.path].append(rivalry)

    def list_rivals(self, path: SkillPath) -> list[SkillPath]:
        """The skills that the phrases of one find, the strongest first."""
        found = [rival for one, rival in self._rivalries if one == path]
        return sorted(found, key=lambda rival: (-self._share(path, rival), rival))

    def rank(self, pairs: Iterable[tuple[SkillPath, SkillPath]]) -> list[Overlap]:
        found = [
            Overlap(score, (self._describe(one, other), self._describe(other, one)))
            for one, other in pairs
            if (score := self._score(one, other)) >= MIN_OVERLAP
            and not self._are_near_copies(one, other)
            and not self._are_parted_by_name(one, other)
        ]
        return sorted(found, key=lambda each: (-each.score, each.sides[0].path))

    def _score(self, one: SkillPath, other: SkillPath) -> float:
        first, second = self._share(one, other), self._share(other, one)
        return _MEAN_WEIGHT * sqrt(first * second) + (1 - _MEAN_WEIGHT) * max(first, second)

    def _share(self, one: SkillPath, other: SkillPath) -> float:
        weight = sum(rivalry.weight for rivalry in self._rivalries.get((one, other), ()))
        return weight / (self._weights.get(one) or 1)

    def _weigh_phrases(self, skill: Skill) -> Iterator[_Phrase]:
        whole = drop_exclusions(skill.description)
        total = 0.0
        for text, task in _list_tasks(skill, whole):
            terms = len(self._weigh(task))
            if terms >= _MIN_TERMS:
                weight = float(min(terms, _MAX_TERMS))
                total += weight
                yield _Phrase(text, task, weight)
        if whole:
            yield _Phrase(whole, whole, max(_MIN_WHOLE_WEIGHT, total / 2))

    def _are_near_copies(self, one: SkillPath, other: SkillPath) -> bool:
        """Whether routing lets one stand for the other."""
        both = (self.skills[one], self.skills[other])
        return len(merge_near_copies(Candidate(s, Fraction(0), ()) for s in both)) == 1

    def _are_parted_by_name(self, one: SkillPath, other: SkillPath) -> bool:
        """Whether the names differ in one word that a task has: `aws-costs`, `azure-costs`."""
        first, second = (self._find_name_terms(path) for path in (one, other))
        own, theirs = (self._find_terms(path) for path in (one, other))
        common = len(first & second)
        is_alike = 2 * common >= max(len(first), len(second), 1)
        return is_alike and bool(first - theirs) and bool(second - own)

    def _describe(self, one: SkillPath, other: SkillPath) -> OverlapSide:
        rivalries = sorted(self._rivalries.get((one, other), ()), key=lambda r: -r.weight)
        whole = drop_exclusions(self.skills[one].description)
        # The whole description is long; it is named only if no part of it is.
        rivalries.sort(key=lambda rivalry: rivalry.phrase == whole)
        phrases = tuple(dict.fromkeys(rivalry.phrase for rivalry in rivalries))
        words = self._find_parting_words(one, other)
        return OverlapSide(one, phrases[:_MAX_SHOWN_PHRASES], words)

    def _find_parting_words(self, one: SkillPath, other: SkillPath) -> tuple[str, ...]:
        theirs = self._find_terms(other)
        own = sorted(self._weigh_skill(self.skills[one]), key=lambda weight: -weight.weight)
        words = (w.typed for w in own if w.term not in theirs and w.typed.isalpha())
        return tuple(dict.fromkeys(words))[:_MAX_PARTING_WORDS]

    def _find_terms(self, path: SkillPath) -> AbstractSet[str]:
        return {weight.term for weight in self._weigh_skill(self.skills[path])}

    def _find_name_terms(self, path: SkillPath) -> AbstractSet[str]:
        return {w.term for w in self._weigh(self.skills[path].name.replace("-", " "))}

    def _weigh_skill(self, skill: Skill) -> Sequence[TermWeight]:
        name = skill.name.replace("-", " ")
        text = f"{name}\n{drop_exclusions(skill.description)}\n{' '.join(skill.keywords)}"
        return self._weigh(text)


def _has_tasks(skill: Skill) -> bool:
    """Whether a skill has tasks of its own: rules of a folder come with those below."""
    return not skill.user_only and skill.path.rpartition("/")[2] not in {INDEX, ROOT}


def _compare(rival: Candidate, own: Candidate | None) -> float:
    """The share of a rival in the odds of both."""
    scores = [own.exact_score if own else Fraction(0), rival.exact_score]
    mine, theirs = estimate_probabilities(scores)
    return theirs / (mine + theirs) if theirs else 0.0


def _list_tasks(skill: Skill, description: str) -> Iterator[tuple[str, str]]:
    """The examples and phrases of a skill, and each as a task.

    A task names the technology: who asks for a vendor's skill says which vendor.
    """
    parts = (part.strip(" .,;:") for part in _PHRASE_END.split(description))
    phrases = list(dict.fromkeys(filter(None, parts)))[:_MAX_PHRASES]
    words = _WORD.findall(skill.name.casefold())
    technologies = [word for word in words if is_technology_name(word)]
    yield from zip(skill.examples, skill.examples, strict=True)
    for phrase in phrases:
        is_named = any(word in phrase.casefold() for word in technologies)
        yield phrase, phrase if is_named else " ".join((phrase, *technologies))


def describe_overlap(overlap: Overlap, path: SkillPath) -> tuple[str, str]:
    """The reason and the hint of a finding about one skill of a pair."""
    own, other = overlap.seen_from(path)
    here, there = (_quote(side.phrases[:1]) for side in (own, other))
    where = [f"{text} {place}" for text, place in ((here, "here"), (there, "there")) if text]
    reason = f"shares tasks with {other.path} (overlap {overlap.score:.2f}): {', '.join(where)}"
    words = [
        f"{_quote(side.parting_words)} part {place}"
        for side, place in ((own, "this one"), (other, "the other"))
        if side.parting_words
    ]
    first = "say in each description what only that skill is for"
    return reason, "; ".join((first, *words, "or merge the two"))


def _quote(texts: Sequence[str]) -> str:
    short = (" ".join(text.split())[:_REPORTED_CHARACTERS] for text in texts)
    return ", ".join(f"'{text}'" for text in short)
