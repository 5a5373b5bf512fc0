"""The ranked algorithm: everything that a skill says counts (DESIGN §3.16)."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import chain

from skills_mcp.routing.decision import Candidate
from skills_mcp.routing.postings import Postings
from skills_mcp.routing.words import derive_words, split_text
from skills_mcp.skills.index import INDEX, ROOT
from skills_mcp.skills.model import Skill

_HEADING = re.compile(r"^#{1,6}[ \t]+(.+)$", re.MULTILINE)


def _name(skill: Skill) -> str:
    """Return what a skill is called; `ui/react/_index` is about react, not indexes."""
    folder, _, last = skill.path.rpartition("/")
    return folder.rpartition("/")[2] if last in {INDEX, ROOT} else skill.name


def _labels(skill: Skill) -> str:
    return "\n".join((*skill.keywords, skill.category))


def _description(skill: Skill) -> str:
    return skill.description


def _headings(skill: Skill) -> str:
    # A comment in code is taken for a heading, too; leaving it out finds no more.
    return "\n".join(_HEADING.findall(skill.body))


def _body(skill: Skill) -> str:
    return skill.body


# What a word in each of them weighs, measured on real skills and real tasks.
_FIELDS: dict[Callable[[Skill], str], float] = {
    _name: 5,
    _labels: 2,
    _description: 1,
    _headings: 0.5,
    _body: 0.1,
}

_UNIT = 10**6
_PRIORITY_UNIT = _UNIT // 1000
_MOST_WORDS = 10


class RankedMatcher:
    """Scores tasks against all the words of one set of skills; never changes."""

    def __init__(self, skills: Iterable[Skill]) -> None:
        self._skills = tuple(skills)
        texts = ([field(skill) for field in _FIELDS] for skill in self._skills)
        self._postings = Postings(texts, tuple(_FIELDS.values()))

    def score(
        self, context: str, least: Fraction | None = None
    ) -> tuple[Candidate, ...]:
        """Return the skills that explain some of the task, unordered.

        The score is the share of the task's information that the skill explains,
        to a millionth, plus a thousandth of its priority, and never outside 0 to 1.
        Skills that score below `least` are left out. `matched_keywords` are words
        of the task, the most informative first.
        """
        words = _derive_query(context)
        floor = 0 if least is None else math.ceil(least * _UNIT)
        scores = {
            number: score
            for number, explained in self._explain(words)
            if (score := _prioritise(explained, self._skills[number])) >= floor
        }
        matched = self._match(words, scores)
        return tuple(
            Candidate(self._skills[number], Fraction(score, _UNIT), matched[number])
            for number, score in scores.items()
        )

    def _explain(self, terms: Iterable[str]) -> Iterator[tuple[int, int]]:
        """Iterate over skills and the millionths of the task they explain, from 1."""
        information = {term: self._postings.information(term) for term in terms}
        whole = math.fsum(information.values())
        explained = [0.0] * len(self._skills)
        for term, weight in information.items():
            for number, share in self._postings.shares(term):
                explained[number] += weight * share
        for number, part in enumerate(explained):
            if part and (millionths := round(part / whole * _UNIT)):
                yield number, millionths

    def _match(
        self, words: Mapping[str, str], numbers: Iterable[int]
    ) -> dict[int, tuple[str, ...]]:
        """Return which words each of these skills explains."""
        matched: dict[int, list[str]] = {number: [] for number in numbers}
        for term in sorted(words, key=self._postings.information, reverse=True):
            for number in matched.keys() & self._postings.holders(term):
                matched[number].append(words[term])
        return {n: tuple(found[:_MOST_WORDS]) for n, found in matched.items()}


def _derive_query(context: str) -> dict[str, str]:
    """Return the terms of a task, each with its word as it was first typed."""
    words: dict[str, str] = {}
    for word in chain.from_iterable(map(derive_words, split_text(context))):
        words.setdefault(word.term, word.typed)
    return words


def _prioritise(explained: int, skill: Skill) -> int:
    return min(max(explained + skill.priority * _PRIORITY_UNIT, 0), _UNIT)
