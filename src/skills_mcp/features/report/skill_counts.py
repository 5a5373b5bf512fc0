"""Weekly counts of skills for pages, from the figures of days."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from skills_mcp.events.collector.event_store import EventStore
from skills_mcp.features.report.database_report import ReportLimits, open_figures
from skills_mcp.features.report.day_figures import MAX_NAMES, derive_moment
from skills_mcp.features.report.figure_queries import FigureQueries, within
from skills_mcp.features.report.usage_report import Span

WEEKS = 13
"""A quarter: enough to see a trend and unused skills."""

_MAX_COMMENTS = 10

_WEEK = timedelta(weeks=1)

_FIGURES = "picked", "useful", "not_useful"

_NEWEST_COMMENTS = f"""
SELECT skill, wording, figure, last_at FROM (
    SELECT skill, wording, figure, last_at, ROW_NUMBER() OVER (
        PARTITION BY skill ORDER BY last_at DESC, wording
    ) AS place
    {within("complaint", "praise")} AND wording <> ''
) AS ranked WHERE place <= :rows ORDER BY skill, place
"""  # noqa: S608 - of constants


@dataclass(frozen=True, slots=True)
class SkillComment:
    text: str
    useful: bool
    happened_at: datetime


@dataclass(slots=True, kw_only=True)
class SkillCounts:
    weeks: list[int] = field(default_factory=lambda: [0] * WEEKS)
    """Times served in each week, the oldest first."""
    picked: int = 0
    """Of these, picked by the agent from several."""
    useful: int = 0
    not_useful: int = 0
    last_served: datetime | None = None
    comments: list[SkillComment] = field(default_factory=list)

    @property
    def served(self) -> int:
        return sum(self.weeks)


@dataclass(frozen=True, slots=True)
class CatalogueCounts:
    first: date
    """The first day of the first week."""
    skills: Mapping[str, SkillCounts]
    used_paths: frozenset[str]

    def week(self, number: int) -> date:
        return self.first + number * _WEEK


def count_skills(store: EventStore, last: date) -> CatalogueCounts:
    """Count the events of the `WEEKS` weeks up to a day.  Blocking.

    Raises:
        EventStoreError: The database cannot be used.
    """
    first = last - WEEKS * _WEEK + timedelta(days=1)
    counts: defaultdict[str, SkillCounts] = defaultdict(SkillCounts)
    with open_figures(store, Span(first, last), ReportLimits()) as (_, query):
        figures = FigureQueries(query, Span(first, last))
        for (path,), numbers, *_ in figures.count(("skill",), _FIGURES):
            skill = counts[path]
            skill.picked, skill.useful, skill.not_useful = map(numbers.__getitem__, _FIGURES)
        weekly = figures.count(("skill", "day"), ("served",), limit=WEEKS * MAX_NAMES)
        for (path, day), numbers, _, last_at in weekly:
            skill, moment = counts[path], derive_moment(last_at)
            skill.weeks[(day - first.toordinal()) // _WEEK.days] += numbers["served"]
            skill.last_served = max(skill.last_served or moment, moment)
        for path, text, kind, last_at in figures.select(_NEWEST_COMMENTS, _MAX_COMMENTS):
            comment = SkillComment(text, kind == "praise", derive_moment(last_at))
            counts[path].comments.append(comment)
    used = frozenset(path for path, count in counts.items() if count.served)
    return CatalogueCounts(first, dict(counts), used)
