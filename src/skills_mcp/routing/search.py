"""Which skills a query finds, and why each of them (000 §3.2, 002 §5.5).

A query that names a skill is answered by name; whatever else it says is ranked.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import nsmallest
from itertools import chain
from typing import Literal

from skills_mcp.routing.decision import Candidate, exact
from skills_mcp.routing.matcher import Matcher
from skills_mcp.routing.tokens import fold
from skills_mcp.skills.index import SCOPES
from skills_mcp.skills.model import Scope, Skill

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
class Found:
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
        """Return what to sort by: reason, score, scope and path (002 §5.5)."""
        # Fractions compare slowly; the nearest floats are in the same order.
        rank, score = _REASONS.index(self.reason), float(self.score)
        return rank, -score, SCOPES.index(self.skill.scope), self.skill.path


def search(  # noqa: PLR0913 - each of them is a setting or an argument of the tool
    query: str,
    skills: Iterable[Skill],
    matcher: Matcher,
    *,
    limit: int,
    threshold: float,
    scope: Scope | None = None,
) -> Found:
    """Find the skills that a query names or describes (000 §3.2, 002 §5.5).

    Args:
        query: A path, a name with or without `$`, the beginning of one, or words.
        skills: Those that may be found; the matcher may know more.
        matcher: Ranks what is not found by name.
        limit: The most hits.
        threshold: The share of the best score that each of more than five hits has
            to reach.
        scope: Whose skills to search; None for everybody's.
    """
    text = " ".join(query.split()).removeprefix("$").strip()
    if not text:
        return Found((), 0)
    offered = {s.path: s for s in skills if scope is None or s.scope == scope}
    named = {hit.skill.path: hit for hit in _find_named(text, offered.values())}
    others = offered.keys() - named.keys()
    ranked = (_rank(c) for c in matcher.score(text) if c.skill.path in others)
    every = chain(named.values(), ranked)
    best = nsmallest(limit * _CANDIDATES_PER_HIT, every, key=_Ranked.order)
    kept = _keep(best, exact(threshold))
    shown = (Hit(hit.skill, float(hit.shown), hit.reason) for hit in kept[:limit])
    return Found(tuple(shown), len(kept))


def _find_named(text: str, skills: Iterable[Skill]) -> Iterator[_Ranked]:
    wanted = _comparable(text)
    for skill in skills:
        if reason := _named(wanted, skill):
            yield _Ranked(skill, _SCORES[reason], reason)


def _named(wanted: str, skill: Skill) -> Reason | None:
    if wanted in map(_comparable, _places(wanted, skill)):
        return "exact_path"
    name = _comparable(skill.name)
    if name == wanted:
        return "exact_name"
    return "prefix" if name.startswith(wanted) else None


def _places(wanted: str, skill: Skill) -> Iterator[str]:
    """Iterate over what can be called the skill's path (002 §4)."""
    yield skill.path
    if wanted.endswith(".md"):
        yield skill.file
        yield str(skill.location)


def _comparable(text: str) -> str:
    """Return a name so that `Release Notes`, `release_notes` and the like are one."""
    # Most names are ASCII, where folding is lowering, and there may be 10,000.
    folded = text.lower() if text.isascii() else fold(text)
    return folded.replace(" ", "-").replace("_", "-")


def _rank(candidate: Candidate) -> _Ranked:
    return _Ranked(candidate.skill, candidate.score, "token_overlap")


def _keep(hits: Sequence[_Ranked], threshold: Fraction) -> Sequence[_Ranked]:
    """Drop what is far below the best of many (000 §3.2)."""
    if len(hits) <= _FEW_HITS:
        return hits
    least = threshold * hits[0].shown
    return [hit for hit in hits if hit.shown >= least]
