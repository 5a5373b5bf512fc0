"""A matcher that is easy to follow: whole words against keywords, nothing else."""

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

_IGNORED = frozenset({"the", "to", "a"})


class PlainMatcher:
    """Scores a skill by the share of its keywords that are words of the task."""

    algorithm: Algorithm = "keyword"

    def __init__(self, *skills: Skill) -> None:
        self.skills = sorted(skills, key=lambda skill: skill.path)

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
        allowed = [True] * len(self.skills) if within is None else within.tolist()
        pairs = zip(self.skills, allowed, strict=True)
        found = [self._candidate(context, skill) for skill, is_in in pairs if is_in]
        kept = [c for c in found if c.matched_keywords and c.exact_score >= (min_score or 0)]
        kept.sort(key=lambda each: (-each.exact_score, each.skill.path))
        return tuple(kept[:limit])

    def weigh_terms(self, context: str) -> tuple[TermWeight, ...]:
        words = _words(context)
        return tuple(
            TermWeight(
                typed=word,
                term=word,
                weight=1 / len(words),
                skills=sum(word in skill.keywords for skill in self.skills),
            )
            for word in words
        )

    def find_negated(self, context: str) -> NegatedScope:  # noqa: ARG002 - nothing of it is read
        return NegatedScope()

    def explain(
        self,
        context: str,
        skill: Skill,
        *,
        within: Mask = None,  # noqa: ARG002 - no other skill counts here
    ) -> tuple[Evidence, ...]:
        worth = 1 / len(skill.keywords)
        return tuple(
            Evidence(word=word, where="keyword", found=word, worth=worth)
            for word in _words(context)
            if word in skill.keywords
        )

    def _candidate(self, context: str, skill: Skill) -> Candidate:
        matched = tuple(word for word in skill.keywords if word in _words(context))
        score = Fraction(len(matched), len(skill.keywords))
        return Candidate(skill, score, matched)


class TextMatcher(PlainMatcher):
    """The same, but it says that the words stand in the texts of skills."""

    algorithm: Algorithm = "ranked"

    def __init__(self, *skills: Skill, where: str = "body") -> None:
        super().__init__(*skills)
        self._where = where

    def explain(self, context: str, skill: Skill, *, within: Mask = None) -> tuple[Evidence, ...]:
        return tuple(
            Evidence(word=each.word, where=self._where, found=each.found, worth=each.worth)
            for each in super().explain(context, skill, within=within)
        )


def _words(context: str) -> Sequence[str]:
    words = context.casefold().split()
    return [word for word in dict.fromkeys(words) if word not in _IGNORED]
