"""What routing can answer, and how scores become that answer.

The keyword algorithm compares the two best scores, as its specification says. Those
are fractions: 0.5 against 0.4 is a gap of exactly 0.1, which is not less than 0.1;
binary floating point would make it less. The ranked algorithm weighs all the scores
against each other: see docs/explanation/routing.md.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

from skills_mcp.config import Matching
from skills_mcp.routing.excerpt import focus
from skills_mcp.routing.matcher import Algorithm, Candidate, Mask, Matcher
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
NEAR_SHARE = Fraction(1, 4)
"""The share of the least score from which a skill is a near miss."""


# Of the ranked algorithm; near the likeliest for sets of tasks, each left out once:
# then 2.2 to 2.4, and 0.06 to 0.08 (measured).
STEEPNESS = 2.2
"""The power of the odds of a score: how fast the better of two becomes certain."""
NO_SKILL = 0.06
"""What speaks for no skill at all, among the odds of the skills."""
LISTED = 0.4
"""The chance with which a skill is listed, as a share of `ambiguity_threshold`."""
COMPARED = 5
"""Skills beyond these hardly change a chance."""
_CERTAIN = 1 - 1e-6  # a score of 1 is that of a name


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
        most=_count_needed(matching, matcher.algorithm),
        within=within,
    )
    return decide(candidates, matching, matcher.algorithm)


def _count_needed(matching: Matching, algorithm: Algorithm) -> int:
    """Return how many of the best skills decide; each of them has to be decoded."""
    # The chance of each of the best depends on all of them, listed or not.
    compared = count_compared(matching) if algorithm == "ranked" else MOST_NEAR
    return max(matching.max_results, compared)


def decide(
    candidates: Iterable[Candidate],
    matching: Matching,
    algorithm: Algorithm = "keyword",
) -> Decision:
    """Answer with the best candidate, or with several if it is not clearly the best.

    Args:
        candidates: In any order; the best that may be listed or are compared.
        matching: The settings in force.
        algorithm: The one that has scored them.
    """
    least = _least_near(matching)
    every = sorted(candidates, key=order)
    near = [each for each in every if each.score >= least]
    if not near or near[0].score < exact(matching.min_score):
        return NoMatch(tuple(near[:MOST_NEAR]))
    if algorithm == "ranked":
        return _decide_by_chance(near, matching)
    return _decide_by_gap(near, matching)


def _decide_by_gap(near: Sequence[Candidate], matching: Matching) -> Decision:
    ranked = [each for each in near if each.score >= exact(matching.min_score)]
    if len(ranked) > 1 and _too_close(ranked[0], ranked[1], matching):
        return Ambiguous(tuple(ranked[: matching.max_results]))
    return ranked[0]


def _decide_by_chance(near: Sequence[Candidate], matching: Matching) -> Decision:
    """Answer with the best one if it is right often enough, else with a short list.

    One bound for all lists: of all ways to show so many skills on average, it leaves
    the right one out least often.
    """
    near, most = near[: count_compared(matching)], matching.max_candidates
    chances = derive_chances([each.score for each in near])
    if len(near) == 1 or most == 1 or _is_certain(chances[0], matching):
        return near[0]
    least = LISTED * matching.ambiguity_threshold
    likely = sum(chance >= least for chance in chances)
    return Ambiguous(tuple(near[: min(max(likely, 2), most)]))


def is_clear(ranked: Sequence[Candidate], matching: Matching) -> bool:
    """Whether the best of ranked candidates is a single answer.

    Args:
        ranked: The best first; those that score too little to be listed are left out.
        matching: The settings in force.
    """
    best = derive_chances([each.score for each in ranked])[0]
    return _is_certain(best, matching)


def _is_certain(chance: float, matching: Matching) -> bool:
    return chance >= 1 - matching.ambiguity_threshold


def count_compared(matching: Matching) -> int:
    """Return how many of the best skills the ranked algorithm needs to decide."""
    return max(COMPARED, matching.max_candidates)


def derive_chances(scores: Sequence[Fraction]) -> list[float]:
    """Return the chance that each of some ranked skills is the one that is meant.

    The chances follow the odds of the scores, to a power. Those of the first `COMPARED`
    add up to less than 1: the rest is the chance that no skill serves the task. A skill
    behind them is compared with these. How they were fitted, and how far they hold, is
    in docs/explanation/routing.md.

    Args:
        scores: The best first, each from 0 to 1.

    >>> [round(each, 2) for each in derive_chances([Fraction(4, 5), Fraction(3, 5)])]
    [0.89, 0.1]
    """
    odds = [_find_odds(score) ** STEEPNESS for score in scores]
    whole = sum(odds[:COMPARED]) + NO_SKILL
    return [each / whole for each in odds]


def _find_odds(score: Fraction) -> float:
    certain = min(float(score), _CERTAIN)
    return certain / (1 - certain)


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
    return exact(matching.min_score) * NEAR_SHARE


def _too_close(best: Candidate, second: Candidate, matching: Matching) -> bool:
    return best.score - second.score < exact(matching.ambiguity_threshold)
