"""From a task to its answer: all callers of a matcher take this way."""

from fractions import Fraction

from skills_mcp.config import Matching
from skills_mcp.routing.decision import Candidate, Decision, decide, exact
from skills_mcp.routing.matcher import Mask, Matcher
from skills_mcp.skills.model import Skill

_NEAR = 20  # more than an ambiguous answer lists


def choose(
    matcher: Matcher, context: str, matching: Matching, *, within: Mask = None
) -> Decision:
    """Answer a task as `get_skill` does.

    Args:
        matcher: Knows the skills.
        context: The task, in free text.
        matching: The settings in force.
        within: The skills that may be found; None for all.
    """
    candidates = matcher.score(
        context,
        least=exact(matching.min_score),
        # The runner-up decides whether the best one stands alone, listed or not.
        most=max(matching.max_results, 2),
        within=within,
    )
    return decide(candidates, matching)


def find_candidate(
    matcher: Matcher, context: str, skill: Skill, alone: Mask
) -> Candidate:
    """Return what a skill scores, as a caller who has picked it was told.

    Near the best it has its score among the others; far behind them, or where they
    do not count, that which it has alone.

    Args:
        matcher: Knows the skills.
        context: The task.
        skill: The skill.
        alone: The mask of this skill.
    """
    near = matcher.score(context, most=_NEAR)
    found = (*near, *matcher.score(context, within=alone))
    unmatched = Candidate(skill, Fraction(0), ())
    return next((c for c in found if c.skill.path == skill.path), unmatched)
