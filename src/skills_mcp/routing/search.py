"""Search of skills: by name if the query names one, else ranked."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import nsmallest
from typing import Literal

from skills_mcp.routing.decision import select_relevant_part, to_exact_fraction
from skills_mcp.routing.matcher import Candidate, Mask, Matcher
from skills_mcp.routing.name_index import NameIndex, normalize_name, strip_mention
from skills_mcp.skills.model import Skill
from skills_mcp.skills.skill_index import SCOPES

Reason = Literal["exact_path", "exact_name", "prefix", "token_overlap"]
"""Why a hit ranks here, in order of precedence."""

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
    """A skill found by a query."""

    skill: Skill
    score: float
    """0 to 1, never above the score of the previous hit."""
    reason: Reason


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Hits for a query, best first."""

    hits: tuple[Hit, ...]
    total: int
    """Hits before the cut to the limit."""


@dataclass(frozen=True, slots=True)
class _ScoredHit:
    """A hit before its score is capped."""

    skill: Skill
    score: Fraction
    reason: Reason

    @property
    def shown(self) -> Fraction:
        return min(max(self.score, Fraction()), _SCORES[self.reason])

    def order(self) -> tuple[int, float, int, str]:
        # Fractions compare slowly; the nearest floats are in the same order.
        rank, score = _REASONS.index(self.reason), float(self.score)
        return rank, -score, SCOPES.index(self.skill.scope), self.skill.path


def search_skills(  # noqa: PLR0913 - each of them is a setting or an argument of the tool
    query: str,
    skills: Sequence[Skill],
    names: NameIndex,
    matcher: Matcher,
    *,
    limit: int,
    threshold: float,
    within: Mask = None,
) -> SearchResult:
    """Find the skills for a query, by name or by text.

    Args:
        query: A path, a name with or without `$`, a prefix of a name, or words.
        skills: The skills in path order.
        names: The index of their names.
        matcher: A matcher of text alone (`RankedMatcher.without_names`).
        limit: At most so many hits.
        threshold: The share of the best score that each of more than five hits needs.
        within: Eligible skills; None for all.
    """
    text = strip_mention(select_relevant_part(matcher, query, within=within))
    if not text:
        return SearchResult((), 0)
    limit_by_name = limit * _CANDIDATES_PER_HIT
    named = _find_named(text, skills, names, within, limit_by_name)
    ranked = matcher.score(text, limit=limit_by_name + len(named), within=within)
    others = (_to_hit(candidate) for candidate in ranked if candidate.skill.path not in named)
    candidates = [*named.values(), *others]
    best = nsmallest(limit_by_name, candidates, key=_ScoredHit.order)
    relevant = _apply_threshold(best, to_exact_fraction(threshold))
    hits = (Hit(hit.skill, float(hit.shown), hit.reason) for hit in relevant[:limit])
    return SearchResult(tuple(hits), len(relevant))


def _find_named(
    text: str, skills: Sequence[Skill], names: NameIndex, within: Mask, limit: int
) -> dict[str, _ScoredHit]:
    def place(number: int) -> tuple[int, str]:
        return SCOPES.index(names.scope(number)), names.path(number)

    by_reason: dict[Reason, Iterable[int]] = {
        "exact_path": (*names.find_path(text), *_find_by_file(text, skills, names)),
        "exact_name": names.find_name(text),
        "prefix": names.find_by_prefix(text),
    }
    found: dict[int, Reason] = {}
    for reason, numbers in by_reason.items():
        allowed = {n for n in numbers if within is None or within[n]}
        for number in nsmallest(limit, allowed - found.keys(), key=place):
            found[number] = reason
    hits = (_ScoredHit(skills[n], _SCORES[why], why) for n, why in found.items())
    return {hit.skill.path: hit for hit in hits}


def _find_by_file(text: str, skills: Sequence[Skill], names: NameIndex) -> Iterator[int]:
    file = normalize_name(text)
    if not file.endswith(".md"):
        return
    for number in names.find_by_file(text):
        skill = skills[number]
        if file in {normalize_name(skill.file), normalize_name(str(skill.location))}:
            yield number
            return


def _to_hit(candidate: Candidate) -> _ScoredHit:
    return _ScoredHit(candidate.skill, candidate.score, "token_overlap")


def _apply_threshold(hits: Sequence[_ScoredHit], threshold: Fraction) -> Sequence[_ScoredHit]:
    if len(hits) <= _FEW_HITS:
        return hits
    min_score = threshold * hits[0].shown
    return [hit for hit in hits if hit.shown >= min_score]
