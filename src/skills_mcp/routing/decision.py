"""What routing can answer, and how scores become that answer.

Scores are fractions: 0.5 against 0.4 is a gap of exactly 0.1, which is not less
than 0.1; binary floating point would make it less.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING

from skills_mcp.config import Matching
from skills_mcp.routing.excerpt import focus
from skills_mcp.routing.matcher import Candidate, Mask, Matcher
from skills_mcp.skills.index import INDEX, ROOT
from skills_mcp.skills.model import Skill

if TYPE_CHECKING:  # NumPy, which the first answer may not wait for
    import numpy as np
    from numpy.typing import NDArray

PRIORITY_UNIT = Fraction(1, 1000)
"""What one step of priority adds to a score, so that it only breaks ties."""

_BEHIND_ALL = "\U0010ffff"
_NEAR = 20  # more than an ambiguous answer lists

MOST_NEAR = 3
"""Near misses of one answer; who gets no rules has no time for a list."""

# Of the least score. Of the tasks that are refused although a skill serves them, 41 to
# 100 in 100 have it among such near misses, and with less hardly more; of those from
# another field, 31 to 87 have any, and with less nearly all. Measured.
_NEAR_SHARE = Fraction(1, 4)


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """The best skills are too close to call; the caller picks one."""

    candidates: tuple[Candidate, ...]
    """Best first; `skill_path` of one of them picks it."""


@dataclass(frozen=True, slots=True)
class NoMatch:
    """No skill serves this task."""

    near: tuple[Candidate, ...] = ()
    """The best of those that score too little, if some of the task speaks for them."""


Decision = Candidate | Ambiguous | NoMatch
"""One skill is clearly the best, several are too close to call, or none serves."""


def choose(
    matcher: Matcher, context: str, matching: Matching, *, within: Mask = None
) -> Decision:
    """Answer a task as `get_skill` does.

    Args:
        matcher: Knows the skills.
        context: The task, in free text of any length.
        matching: The settings in force.
        within: The skills that may be found; None for all.
    """
    candidates = matcher.score(
        focus(matcher, context, within=within),
        least=_least_near(matching),
        # The runner-up decides whether the best one stands alone, listed or not.
        most=max(matching.max_results, MOST_NEAR),
        within=within,
    )
    return decide(candidates, matching)


def decide(candidates: Iterable[Candidate], matching: Matching) -> Decision:
    """Pick the best candidate, unless the runner-up is too close to call.

    Args:
        candidates: In any order; the best that may be listed, and at least three.
        matching: The settings in force.
    """
    every = sorted(candidates, key=order)
    ranked = [each for each in every if each.score >= exact(matching.min_score)]
    if not ranked:
        near = (each for each in every if each.score >= _least_near(matching))
        return NoMatch(tuple(islice(near, MOST_NEAR)))
    if len(ranked) > 1 and _too_close(ranked[0], ranked[1], matching):
        return Ambiguous(tuple(ranked[: matching.max_results]))
    return ranked[0]


def find_candidate(
    matcher: Matcher, context: str, skill: Skill, alone: Mask
) -> Candidate:
    """Return what a skill scores, as the caller who picked it was told.

    A skill near the best has its score among the others; one far behind them has the
    score that it gets alone.

    Args:
        matcher: Knows the skills.
        context: The task.
        skill: The skill.
        alone: The mask of this skill.
    """
    context = focus(matcher, context)
    near = matcher.score(context, most=_NEAR)
    found = (*near, *matcher.score(context, within=alone))
    unmatched = Candidate(skill, Fraction(0), ())
    return next((c for c in found if c.skill.path == skill.path), unmatched)


def name_decision(decision: Decision) -> str:
    """Return the kind of an answer: `single`, `ambiguous` or `no_match`."""
    match decision:
        case Candidate():
            return "single"
        case Ambiguous():
            return "ambiguous"
        case NoMatch():
            return "no_match"


def list_answers(decision: Decision) -> tuple[Candidate, ...]:
    """Return what an answer names: one skill, several or none."""
    match decision:
        case Candidate():
            return (decision,)
        case Ambiguous():
            return decision.candidates
        case NoMatch():
            return ()


def is_listed(skill: Skill, decision: Decision) -> bool:
    """Whether a skill is one of several that an answer leaves the choice between."""
    return isinstance(decision, Ambiguous) and any(
        candidate.skill.path == skill.path for candidate in decision.candidates
    )


def is_near(skill: Skill, decision: Decision) -> bool:
    """Whether a skill is a near miss of an answer that names none."""
    return isinstance(decision, NoMatch) and any(
        candidate.skill.path == skill.path for candidate in decision.near
    )


def order(candidate: Candidate) -> tuple[Fraction, str]:
    """Return what to sort by: the score, then the place (see `derive_places`)."""
    return -candidate.score, _in_ties(candidate.skill.path)


def derive_places(paths: Sequence[str]) -> "NDArray[np.int64]":
    """Return the place of each path among all, where nothing else decides.

    It is the order of the paths, but the rules of a folder stand behind everything
    that inherits them: who ties with its own ancestor says more.

    >>> derive_places(["_root", "ui/_index", "ui/react", "vue"]).tolist()
    [3, 1, 0, 2]
    """
    import numpy as np

    order = sorted(range(len(paths)), key=lambda number: _in_ties(paths[number]))
    places = np.empty(len(paths), np.int64)
    places[order] = np.arange(len(paths))
    return places


def _in_ties(path: str) -> str:
    folder, separator, last = path.rpartition("/")
    # At the top `_root` has this part; an `_index` there is the parent of no skill.
    is_rules = path == ROOT or (last == INDEX and bool(folder))
    return f"{folder}{separator}{_BEHIND_ALL}" if is_rules else path


@cache
def exact(setting: float) -> Fraction:
    """Return the number that a person wrote, not its binary neighbour."""
    return Fraction(str(setting))


def _least_near(matching: Matching) -> Fraction:
    return exact(matching.min_score) * _NEAR_SHARE


def _too_close(best: Candidate, second: Candidate, matching: Matching) -> bool:
    return best.score - second.score < exact(matching.ambiguity_threshold)
