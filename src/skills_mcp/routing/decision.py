"""What routing can answer, and how scores become that answer (001 §5.3).

Scores are fractions: 0.5 against 0.4 is a gap of exactly 0.1, which is not less
than 0.1, whatever binary floating point makes of it (DESIGN §3.4).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from skills_mcp.config import Matching
from skills_mcp.skills.model import Skill


@dataclass(frozen=True, slots=True)
class Candidate:
    """A skill that at least one of its keywords speaks for."""

    skill: Skill
    score: Fraction
    matched_keywords: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Match:
    """One skill is clearly the best."""

    candidate: Candidate


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """The best skills are too close to call; the caller picks one."""

    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class NoMatch:
    """No skill serves this task."""


Decision = Match | Ambiguous | NoMatch


def decide(candidates: Iterable[Candidate], matching: Matching) -> Decision:
    """Pick the best candidate, unless the runner-up is too close to call."""
    least = exact(matching.min_score)
    ranked = sorted(
        (candidate for candidate in candidates if candidate.score >= least),
        key=lambda candidate: (-candidate.score, candidate.skill.path),
    )
    if not ranked:
        return NoMatch()
    if len(ranked) > 1 and _too_close(ranked[0], ranked[1], matching):
        return Ambiguous(tuple(ranked[: matching.max_results]))
    return Match(ranked[0])


@cache
def exact(setting: float) -> Fraction:
    """Return the number that a person wrote, not its binary neighbour."""
    return Fraction(str(setting))


def _too_close(best: Candidate, second: Candidate, matching: Matching) -> bool:
    return best.score - second.score < exact(matching.ambiguity_threshold)
