"""Weekly counts of served skills, with ratings and comments."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from sqlalchemy import Row, Select, func, select

from skills_mcp.events.collector.event_store import EventStore
from skills_mcp.events.collector.event_tables import events
from skills_mcp.events.received_event import MAX_FIELD_LENGTH

WEEKS = 13
"""A quarter: enough to see a trend and unused skills."""

_MAX_COMMENTS = 10

_MAX_READ_COMMENTS = 5_000

_WEEK = timedelta(weeks=1)

_MAX_COMMENT_LENGTH = 500  # characters of a comment

MAX_PATHS = 50_000
"""Paths of a week, the most frequent: senders choose them, and may send millions."""

_TRUE_VALUES = ("true", "1", 1)  # as PostgreSQL and SQLite say it

_SERVED, _RATED = "skill_served", "skill_feedback"


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
    with store.reading() as connection:
        for week in range(WEEKS):
            for row in connection.execute(_count_week(first + week * _WEEK)):
                _add_row(counts, week, row)
        for row in connection.execute(_find_comments(first)):
            skill = counts[row.path]
            if row.comment and len(skill.comments) < _MAX_COMMENTS:
                useful = row.useful in _TRUE_VALUES
                comment = SkillComment(row.comment, useful, row.happened_at)
                skill.comments.append(comment)
    used = frozenset(path for path, count in counts.items() if count.served)
    return CatalogueCounts(first, dict(counts), used)


def _count_week(first: date) -> Select[Any]:
    picked, useful = map(_json_text, ("was_ambiguous", "useful"))
    path = func.substr(_json_text("skill_path"), 1, MAX_FIELD_LENGTH)
    return (
        select(
            events.c.kind,
            path.label("path"),
            picked.label("picked"),
            useful.label("useful"),
            func.count().label("number"),
            func.max(events.c.happened_at).label("last"),
        )
        .where(events.c.kind.in_((_SERVED, _RATED)))
        .where(events.c.happened_at >= _start_of(first))
        .where(events.c.happened_at < _start_of(first + _WEEK))
        .group_by(events.c.kind, path, picked, useful)
        .order_by(func.count().desc(), path)
        .limit(MAX_PATHS)
    )


def _find_comments(first: date) -> Select[Any]:
    comment = func.substr(_json_text("comment"), 1, _MAX_COMMENT_LENGTH)
    return (
        select(
            func.substr(_json_text("skill_path"), 1, MAX_FIELD_LENGTH).label("path"),
            comment.label("comment"),
            _json_text("useful").label("useful"),
            events.c.happened_at,
        )
        .where(events.c.kind == _RATED)
        .where(events.c.happened_at >= _start_of(first))
        .where(comment.is_not(None))
        .order_by(events.c.happened_at.desc())
        .limit(_MAX_READ_COMMENTS)
    )


def _add_row(counts: defaultdict[str, SkillCounts], week: int, row: Row[Any]) -> None:
    skill = counts[row.path]
    if row.kind == _RATED:
        if row.useful in _TRUE_VALUES:
            skill.useful += row.number
        else:
            skill.not_useful += row.number
        return
    skill.weeks[week] += row.number
    skill.picked += row.number if row.picked in _TRUE_VALUES else 0
    skill.last_served = max(skill.last_served or row.last, row.last)


def _json_text(name: str) -> Any:
    return events.c.data[name].as_string()


def _start_of(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)
