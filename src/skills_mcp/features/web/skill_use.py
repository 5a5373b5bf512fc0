"""How often agents got a skill, and what they said of it, as its page shows it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from starlette.requests import Request

from skills_mcp.events.collector.skill_counts import SkillComment, SkillCounts
from skills_mcp.features.web.page import find_counts, state_of
from skills_mcp.skills.principal import PRINCIPAL_KEY, REPORT, Principal

_HEIGHT = 40
"""Of the highest bar, in units of the drawing."""


@dataclass(frozen=True, slots=True)
class WeekBar:
    """A week of the chart."""

    first: date
    given: int
    height: int
    """At least 1, so that a week without use can be seen, too."""


@dataclass(frozen=True, slots=True)
class ShownUse:
    """What the page of a skill says of its use."""

    counts: SkillCounts
    bars: tuple[WeekBar, ...]
    comments: Sequence[SkillComment]
    """Empty for callers without the scope of the report: they quote agents."""

    @property
    def height(self) -> int:
        """The height of the chart."""
        return _HEIGHT


def find_use(request: Request, path: str) -> ShownUse | None:
    """Return how a skill is used; None if no events are kept, or not counted yet."""
    known = find_counts(request)
    if known is None:
        return None
    counts = known.skills.get(path, SkillCounts())
    most = max(counts.weeks) or 1
    bars = tuple(
        WeekBar(known.week(number), given, max(1, given * _HEIGHT // most))
        for number, given in enumerate(counts.weeks)
    )
    principal: Principal = request.scope[PRINCIPAL_KEY]
    may_read = principal.may(REPORT)
    return ShownUse(counts, bars, counts.comments if may_read else ())


def describe_missing_use(request: Request) -> str:
    """Say why there are no counts; empty if no events are kept."""
    counts = state_of(request).counts
    if counts is None:
        return ""
    if counts.failure:
        return "It cannot be counted just now: the database of events does not answer."
    return "Being counted; reload the page in a moment."
