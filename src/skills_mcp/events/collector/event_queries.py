"""Queries of the event database: daily roll-ups for reports, weekly counts for pages.

Rule: a roll-up is valid while its day has as many events as it was made from; events
are
added and deleted, never changed. With more events, the roll-up plus the events received
since are the whole day, provided their numbers add up.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, func, select

from skills_mcp.events.collector.event_store import EventStore
from skills_mcp.events.collector.schema import events, heartbeats, roll_ups
from skills_mcp.events.received_event import MAX_FIELD_LENGTH

_MAX_HEARTBEATS = 20_000  # each names its commits, and others name them, too
_MAX_NAMED_COMMITS = 50_000  # commits with a name; a day has a few of each source
_MAX_COMMITS = 5  # that a message names

_ROWS = 200  # read at once

_HEAD = (
    roll_ups.c.day,
    roll_ups.c.events,
    roll_ups.c.received_until,
    roll_ups.c.totals,
    roll_ups.c.body,
)


@dataclass(frozen=True, slots=True)
class DayRollUp:
    """The roll-up of a day, as bytes opaque to the database."""

    day: date
    events: int
    received_until: datetime | None
    """When the last of these events was received; None if unknown."""
    totals: bytes
    body: bytes
    unfinished: bytes
    """State that changes if the day gets more events."""


@dataclass(frozen=True, slots=True)
class DayCount:
    read: int
    events: int
    received_until: datetime | None
    """When the last event read was received."""


@dataclass(frozen=True, slots=True)
class EventRange:
    events: int
    oldest: datetime
    newest: datetime


class RollUpTable:
    """The roll-ups in a database.  All methods block.

    Roll-ups of another `layout`, the version of their encoding, are ignored.

    Raises:
        EventStoreError: By every method: the database cannot be reached, or refuses it.
    """

    def __init__(self, store: EventStore, layout: str) -> None:
        self._store = store
        self._layout = layout

    def measure(self) -> EventRange | None:
        moment = events.c.happened_at
        queries = (
            select(func.count()).select_from(events),
            select(func.min(moment)),  # by itself, it is one look into the index
            select(func.max(moment)),
        )
        with self._store.reading() as connection:
            count, oldest, newest = (connection.execute(query).scalar_one() for query in queries)
        return EventRange(count, oldest, newest) if count else None

    def count(self, first: date, last: date) -> dict[date, int]:
        """Days without events are left out."""
        counted = {}
        with self._store.reading() as connection:
            for day in _days(first, last):
                found = connection.execute(_count_day(day))
                counted[day] = found.scalar_one()
        return {day: count for day, count in counted.items() if count}

    def read(
        self,
        day: date,
        consume: Callable[[Mapping[str, Any]], None],
        *,
        after: datetime | None = None,
    ) -> DayCount:
        """Pass the events of a day, or those received after a moment, to `take`.

        Count all.
        """
        received = events.c.received_at
        condition = and_(_within_day(day), received > after) if after else _within_day(day)
        number, until = 0, after
        with self._store.reading(is_snapshot=True) as connection:
            total = connection.execute(_count_day(day)).scalar_one()
            for moment, event in self._store.select(connection, condition):
                consume(event)
                number += 1
                until = max(until or moment, moment)
        return DayCount(number, total, until)

    def load(self, first: date, last: date, *, totals_only: bool = False) -> Iterator[DayRollUp]:
        """Iterate over stored roll-ups, without `unfinished`; some may be stale."""
        columns = [column for column in _HEAD if column is not roll_ups.c.body]
        query = (
            select(*(columns if totals_only else _HEAD))
            .where(roll_ups.c.day.between(first, last))
            .where(roll_ups.c.layout == self._layout)
            .order_by(roll_ups.c.day)
        )
        with self._store.reading() as connection:
            for row in connection.execution_options(yield_per=1).execute(query):
                day, number, until, totals = row[:4]
                body = b"" if totals_only else row[4]
                yield DayRollUp(day, number, until, totals, body, b"")

    def find(self, day: date) -> DayRollUp | None:
        query = (
            select(*_HEAD, roll_ups.c.unfinished)
            .where(roll_ups.c.day == day)
            .where(roll_ups.c.layout == self._layout)
        )
        with self._store.reading() as connection:
            row = connection.execute(query).one_or_none()
        return DayRollUp(*row) if row else None

    def name_commits(self, first: date, last: date) -> dict[str, str]:
        """The repository, or else the mount, of each served commit."""
        query = (
            select(heartbeats.c.sources)
            .where(heartbeats.c.day.between(first, last))
            .order_by(heartbeats.c.day.desc())
            .limit(_MAX_HEARTBEATS)
        )
        names: dict[str, str] = {}
        with self._store.reading() as connection:
            connection.execution_options(yield_per=_ROWS)
            with connection.execute(query) as rows:
                for (sources,) in rows:
                    for source in sources:
                        if source["commit"]:
                            names[source["commit"]] = source["repository"] or source["mount"]
                    if len(names) >= _MAX_NAMED_COMMITS:
                        break
        return names

    def find_commits(self, prefix: str) -> dict[str, datetime]:
        """Commits with this prefix, and when each was first in an event."""
        commit = events.c.content_commit
        query = (
            select(commit, func.min(events.c.happened_at))
            .where(commit.startswith(prefix, autoescape=True))
            .group_by(commit)
            .order_by(func.min(events.c.happened_at).desc())
            .limit(_MAX_COMMITS)
        )
        with self._store.reading() as connection:
            return {row[0]: row[1] for row in connection.execute(query)}

    def save(self, roll_up: DayRollUp) -> None:
        """Upsert the roll-up of a day, if the disk has space."""
        if not self._store.has_space():
            return  # a report counts them again
        row = {
            "day": roll_up.day,
            "layout": self._layout,
            "events": roll_up.events,
            "received_until": roll_up.received_until,
            "totals": roll_up.totals,
            "body": roll_up.body,
            "unfinished": roll_up.unfinished,
        }
        with self._store.writing() as connection:
            self._store.upsert(connection, row, roll_ups)


def _within_day(day: date) -> ColumnElement[bool]:
    begin = datetime.combine(day, time.min, UTC)
    moment = events.c.happened_at
    if day == date.max:
        return moment >= begin
    return and_(moment >= begin, moment < begin + timedelta(days=1))


def _count_day(day: date) -> Select[int]:
    return select(func.count()).select_from(events).where(_within_day(day))


def _days(first: date, last: date) -> Iterator[date]:
    for number in range(first.toordinal(), last.toordinal() + 1):
        yield date.fromordinal(number)


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
