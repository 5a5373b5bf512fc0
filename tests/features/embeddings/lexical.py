"""A matcher of words that is small enough to see through."""

from collections.abc import Sequence
from fractions import Fraction

from skills_mcp.routing.matcher import (
    Algorithm,
    Candidate,
    Evidence,
    Mask,
    NegatedScope,
    TermWeight,
)
from skills_mcp.skills.model import Skill


class LexicalMatcher:
    """Scores by the share of the task's words that a description holds."""

    algorithm: Algorithm = "ranked"

    def __init__(self, skills: Sequence[Skill]) -> None:
        self._skills = skills

    def quick_score(self, context: str, *, within: Mask = None) -> float:
        best = self.score(context, limit=1, within=within)
        return float(best[0].exact_score) if best else 0.0

    def score(
        self,
        context: str,
        *,
        min_score: Fraction | None = None,
        limit: int | None = None,
        within: Mask = None,
    ) -> tuple[Candidate, ...]:
        found = [
            Candidate(skill, score, ())
            for number, skill in enumerate(self._skills)
            if within is None or within[number]
            for score in [self._score(context, skill)]
            if score and (min_score is None or score >= min_score)
        ]
        ordered = sorted(found, key=lambda c: (-c.exact_score, c.skill.path))
        return tuple(ordered[:limit])

    def find_negated(self, context: str) -> NegatedScope:
        words, _, negated = context.partition(" not ")
        paths = (skill.path for skill in self._skills if skill.path == negated)
        return NegatedScope((negated,), frozenset(paths)) if words and negated else NegatedScope()

    def weigh_terms(self, context: str) -> tuple[TermWeight, ...]:
        words = context.lower().split()
        share = 1 / len(words) if words else 0.0
        return tuple(TermWeight(typed=w, term=w, weight=share, skills=1) for w in words)

    def explain(
        self,
        context: str,
        skill: Skill,
        *,
        within: Mask = None,  # noqa: ARG002 - no other skill counts here
    ) -> tuple[Evidence, ...]:
        worth = float(self._score(context, skill))
        single = Evidence(word="", where="description", found="", worth=worth)
        return (single,) if worth else ()

    def _score(self, context: str, skill: Skill) -> Fraction:
        if context == skill.path:
            return Fraction(1)
        words = context.lower().split()
        held = skill.description.lower().split()
        return Fraction(sum(word in held for word in words), len(words) or 1)
