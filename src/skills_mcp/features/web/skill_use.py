"""Use of a skill and feedback by agents, for its page."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from starlette.requests import Request

from skills_mcp.events.collector.skill_counts import SkillComment, SkillCounts
from skills_mcp.features.web.page import find_counts, get_site_state
from skills_mcp.skills.principal import PRINCIPAL_KEY, REPORT, Principal

_HEIGHT = 40
"""Height of the chart, in SVG units."""


@dataclass(frozen=True, slots=True)
class WeekBar:
    """A bar of the chart, one week."""

    first: date
    given: int
    height: int
    """At least 1, so an unused week stays visible."""


@dataclass(frozen=True, slots=True)
class SkillUsage:
    """Usage section of a skill's page."""

    counts: SkillCounts
    bars: tuple[WeekBar, ...]
    comments: Sequence[SkillComment]
    """Empty for callers without the scope of the report: they quote agents."""

    @property
    def height(self) -> int:
        return _HEIGHT


def find_use(request: Request, path: str) -> SkillUsage | None:
    """Use of a skill; None if unknown."""
    known = find_counts(request)
    if known is None:
        return None
    counts = known.skills.get(path, SkillCounts())
    maximum = max(counts.weeks) or 1
    bars = tuple(
        WeekBar(known.week(number), count, max(1, count * _HEIGHT // maximum))
        for number, count in enumerate(counts.weeks)
    )
    principal: Principal = request.scope[PRINCIPAL_KEY]
    may_read = principal.may(REPORT)
    return SkillUsage(counts, bars, counts.comments if may_read else ())


def describe_missing_use(request: Request) -> str:
    """Explain missing counts; empty if no events are kept."""
    counts = get_site_state(request).counts
    if counts is None:
        return ""
    if counts.failure:
        return "It cannot be counted just now: the database of events does not answer."
    return "Being counted; reload the page in a moment."
