"""Matcher that serves successors in the place of deprecated skills."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from skills_mcp.routing.matcher import (
    Algorithm,
    Candidate,
    Evidence,
    Mask,
    Matcher,
    NegatedScope,
    TermWeight,
    candidate_sort_key,
)
from skills_mcp.skills.model import Skill, SkillPath

_DEPTH_FACTOR = 4  # of how many candidates are asked for, where too few are left


@dataclass(frozen=True, slots=True)
class SuccessorMatcher:
    """What a task says of a deprecated skill counts for its successor."""

    inner: Matcher
    successors: Mapping[SkillPath, SkillPath]
    """By the path of the deprecated skill."""
    skill_of: Callable[[SkillPath], Skill]
    number_of: Callable[[SkillPath], int]
    """Number of a skill in a mask."""
    part: Mask = None
    """The skills of its part of a `MixedMatcher`; a successor may be in the other part."""

    @property
    def algorithm(self) -> Algorithm:
        return self.inner.algorithm

    def score(
        self,
        context: str,
        *,
        min_score: Fraction | None = None,
        limit: int | None = None,
        within: Mask = None,
    ) -> tuple[Candidate, ...]:
        """Score the skills; see `Matcher.score`."""
        # Deprecated skills and their successor are one candidate: too few may be left.
        depth = limit
        while True:
            found = self.inner.score(context, min_score=min_score, limit=depth, within=within)
            merged = self._merge(found, within)
            if depth is None or limit is None or len(found) < depth or len(merged) >= limit:
                return tuple(sorted(merged, key=candidate_sort_key)[:limit])
            depth *= _DEPTH_FACTOR

    def _merge(self, found: Iterable[Candidate], within: Mask) -> Collection[Candidate]:
        best: dict[SkillPath, Candidate] = {}
        for one in found:
            candidate = self._succeed(one, within)
            known = best.get(candidate.skill.path)
            if known is None or known.exact_score < candidate.exact_score:
                best[candidate.skill.path] = candidate
        return best.values()

    def quick_score(self, context: str, *, within: Mask = None) -> float:
        return self.inner.quick_score(context, within=within)

    def weigh_terms(self, context: str) -> tuple[TermWeight, ...]:
        return self.inner.weigh_terms(context)

    def find_negated(self, context: str) -> NegatedScope:
        return self.inner.find_negated(context)

    def explain(self, context: str, skill: Skill, *, within: Mask = None) -> tuple[Evidence, ...]:
        """List the evidence for the skill, or for one that it replaces if that scores more."""
        old = (self.skill_of(path) for path, new in self.successors.items() if new == skill.path)
        explained = (self.inner.explain(context, each, within=within) for each in (skill, *old))
        return max(explained, key=lambda evidence: sum(each.worth for each in evidence))

    def _succeed(self, found: Candidate, within: Mask) -> Candidate:
        """The candidate's successor, if the task may find it."""
        old = found.skill.path
        successor = self.successors.get(old)
        if successor is None or not self._is_eligible(successor, within):
            return found
        return replace(found, skill=self.skill_of(successor), near_copies=(), replaces=old)

    def _is_eligible(self, successor: SkillPath, within: Mask) -> bool:
        if within is None:
            return True
        number = self.number_of(successor)
        # The mask of a part says nothing of the skills in the other one.
        is_elsewhere = self.part is not None and not self.part[number]
        return bool(within[number]) or (is_elsewhere and not self.skill_of(successor).user_only)
