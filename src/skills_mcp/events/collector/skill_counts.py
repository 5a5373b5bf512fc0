"""How often agents got each skill, week by week, and what they said of it."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from sqlalchemy import Row, Select, func, select

from skills_mcp.events.collector.event_store import EventStore
from skills_mcp.events.collector.event_tables import events
from skills_mcp.events.received_event import MOST_NAME

WEEKS = 13
"""A quarter: enough to see a trend, and what is not used in it may go."""

_MOST_COMMENTS = 10
"""Of one skill."""

_MOST_READ = 5_000
"""Comments of all skills, the newest."""

_WEEK = timedelta(weeks=1)

_MOST_TEXT = 500  # characters of a comment

MOST_SKILLS = 50_000
"""Paths of a week, the most frequent: senders choose them, and may send millions."""

_TRUE = ("true", "1", 1)  # as PostgreSQL and SQLite say it

_GIVEN, _JUDGED = "skill_served", "skill_feedback"


@dataclass(frozen=True, slots=True)
class SkillComment:
    """What an agent wrote of a skill."""

    text: str
    useful: bool
    happened_at: datetime


@dataclass(slots=True, kw_only=True)
class SkillCounts:
    """How often one skill was given, and how it was judged."""

    weeks: list[int] = field(default_factory=lambda: [0] * WEEKS)
    """How often agents got it in each week, the oldest first."""
    picked: int = 0
    """How often of these the agent chose it from several."""
    useful: int = 0
    not_useful: int = 0
    last_given: datetime | None = None
    comments: list[SkillComment] = field(default_factory=list)
    """The newest first."""

    @property
    def given(self) -> int:
        """How often agents got it."""
        return sum(self.weeks)


@dataclass(frozen=True, slots=True)
class CatalogueCounts:
    """The counts of all skills that events name."""

    first: date
    """The first day of the first week."""
    skills: Mapping[str, SkillCounts]
    """By their paths."""
    used_paths: frozenset[str]
    """The paths of those that agents got."""

    def week(self, number: int) -> date:
        """Return the first day of a week."""
        return self.first + number * _WEEK


def count_skills(store: EventStore, last: date) -> CatalogueCounts:
    """Count the events of the weeks that end with a day.  Blocking.

    Raises:
        EventStoreError: The database cannot be used.
    """
    first = last - WEEKS * _WEEK + timedelta(days=1)
    counts: defaultdict[str, SkillCounts] = defaultdict(SkillCounts)
    with store.reading() as connection:
        for week in range(WEEKS):
            for row in connection.execute(_count_week(first + week * _WEEK)):
                _add(counts, week, row)
        for row in connection.execute(_find_comments(first)):
            its = counts[row.path]
            if row.comment and len(its.comments) < _MOST_COMMENTS:
                useful = row.useful in _TRUE
                comment = SkillComment(row.comment, useful, row.happened_at)
                its.comments.append(comment)
    used = frozenset(path for path, each in counts.items() if each.given)
    return CatalogueCounts(first, dict(counts), used)


def _count_week(first: date) -> Select[Any]:
    picked, useful = map(_read, ("was_ambiguous", "useful"))
    path = func.substr(_read("skill_path"), 1, MOST_NAME)
    return (
        select(
            events.c.kind,
            path.label("path"),
            picked.label("picked"),
            useful.label("useful"),
            func.count().label("number"),
            func.max(events.c.happened_at).label("last"),
        )
        .where(events.c.kind.in_((_GIVEN, _JUDGED)))
        .where(events.c.happened_at >= _start_of(first))
        .where(events.c.happened_at < _start_of(first + _WEEK))
        .group_by(events.c.kind, path, picked, useful)
        .order_by(func.count().desc(), path)
        .limit(MOST_SKILLS)
    )


def _find_comments(first: date) -> Select[Any]:
    comment = func.substr(_read("comment"), 1, _MOST_TEXT)
    return (
        select(
            func.substr(_read("skill_path"), 1, MOST_NAME).label("path"),
            comment.label("comment"),
            _read("useful").label("useful"),
            events.c.happened_at,
        )
        .where(events.c.kind == _JUDGED)
        .where(events.c.happened_at >= _start_of(first))
        .where(comment.is_not(None))
        .order_by(events.c.happened_at.desc())
        .limit(_MOST_READ)
    )


def _add(counts: defaultdict[str, SkillCounts], week: int, row: Row[Any]) -> None:
    its = counts[row.path]
    if row.kind == _JUDGED:
        if row.useful in _TRUE:
            its.useful += row.number
        else:
            its.not_useful += row.number
        return
    its.weeks[week] += row.number
    its.picked += row.number if row.picked in _TRUE else 0
    its.last_given = max(its.last_given or row.last, row.last)


def _read(name: str) -> Any:
    return events.c.data[name].as_string()


def _start_of(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)
