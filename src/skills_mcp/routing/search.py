"""Which skills a query finds, and why each of them.

A query that names a skill is answered by name; all other words are ranked.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import nsmallest
from typing import Literal

from skills_mcp.routing.decision import exact
from skills_mcp.routing.excerpt import focus
from skills_mcp.routing.matcher import Candidate, Mask, Matcher
from skills_mcp.routing.names import Names, clean, comparable
from skills_mcp.skills.index import SCOPES
from skills_mcp.skills.model import Skill

Reason = Literal["exact_path", "exact_name", "prefix", "token_overlap"]
"""What a hit owes its place to, in the order in which they count."""

# What is named stands above what is ranked, however well that fits.
_SCORES: dict[Reason, Fraction] = {
    "exact_path": Fraction(1),
    "exact_name": Fraction(1),
    "prefix": Fraction(95, 100),
    "token_overlap": Fraction(94, 100),
}
_REASONS: tuple[Reason, ...] = tuple(_SCORES)

_CANDIDATES_PER_HIT = 4
_FEW_HITS = 5
"""So few are all worth reading; only longer lists are cut by score."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A skill that a query found."""

    skill: Skill
    score: float
    """0 to 1, and never more than that of the hit before it."""
    reason: Reason


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a query found, best first."""

    hits: tuple[Hit, ...]
    total: int
    """How many there were before the list was cut to the limit."""


@dataclass(frozen=True, slots=True)
class _Ranked:
    """A hit before it is shown."""

    skill: Skill
    score: Fraction
    reason: Reason

    @property
    def shown(self) -> Fraction:
        """The score, between 0 and what its reason allows."""
        return min(max(self.score, Fraction()), _SCORES[self.reason])

    def order(self) -> tuple[int, float, int, str]:
        """Return what to sort by: reason, score, scope and path."""
        # Fractions compare slowly; the nearest floats are in the same order.
        rank, score = _REASONS.index(self.reason), float(self.score)
        return rank, -score, SCOPES.index(self.skill.scope), self.skill.path


def search(  # noqa: PLR0913 - each of them is a setting or an argument of the tool
    query: str,
    skills: Sequence[Skill],
    names: Names,
    matcher: Matcher,
    *,
    limit: int,
    threshold: float,
    within: Mask = None,
) -> SearchResult:
    """Find the skills that a query names or describes.

    Args:
        query: A path, a name with or without `$`, the beginning of one, or words.
        skills: Those that may be found; only what is found is asked for.
        names: What they are called, in the same order.
        matcher: Ranks these skills by what they say, and does not look at names
            (`RankedMatcher.without_names`).
        limit: The most hits.
        threshold: The share of the best score that each of more than five hits has
            to reach.
        within: The skills that may be found; None for all.
    """
    text = clean(focus(matcher, query, within=within))
    if not text:
        return SearchResult((), 0)
    most = limit * _CANDIDATES_PER_HIT
    named = _find_named(text, skills, names, within, most)
    ranked = matcher.score(text, most=most + len(named), within=within)
    others = (_rank(each) for each in ranked if each.skill.path not in named)
    every = [*named.values(), *others]
    best = nsmallest(most, every, key=_Ranked.order)
    kept = _keep(best, exact(threshold))
    shown = (Hit(hit.skill, float(hit.shown), hit.reason) for hit in kept[:limit])
    return SearchResult(tuple(shown), len(kept))


def _find_named(
    text: str, skills: Sequence[Skill], names: Names, within: Mask, most: int
) -> dict[str, _Ranked]:
    """Return what the text names, by path: the best ones, if there are many."""

    def place(number: int) -> tuple[int, str]:
        return SCOPES.index(names.scope(number)), names.path(number)

    by_reason: dict[Reason, Iterable[int]] = {
        "exact_path": (*names.find_path(text), *_find_file(text, skills, names)),
        "exact_name": names.find_name(text),
        "prefix": names.find_beginning(text),
    }
    found: dict[int, Reason] = {}
    for reason, numbers in by_reason.items():
        allowed = {n for n in numbers if within is None or within[n]}
        for number in nsmallest(most, allowed - found.keys(), key=place):
            found[number] = reason
    hits = (_Ranked(skills[n], _SCORES[why], why) for n, why in found.items())
    return {hit.skill.path: hit for hit in hits}


def _find_file(text: str, skills: Sequence[Skill], names: Names) -> Iterator[int]:
    """Iterate over the skills whose Markdown file this is."""
    wanted = comparable(text)
    if not wanted.endswith(".md"):
        return
    for number in names.find_near(text):
        skill = skills[number]
        if wanted in {comparable(skill.file), comparable(str(skill.location))}:
            yield number
            return


def _rank(candidate: Candidate) -> _Ranked:
    return _Ranked(candidate.skill, candidate.score, "token_overlap")


def _keep(hits: Sequence[_Ranked], threshold: Fraction) -> Sequence[_Ranked]:
    """Drop what is far below the best of many."""
    if len(hits) <= _FEW_HITS:
        return hits
    least = threshold * hits[0].shown
    return [hit for hit in hits if hit.shown >= least]
