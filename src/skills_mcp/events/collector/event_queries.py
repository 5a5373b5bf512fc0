"""The daily roll-up in the event database: its state, its rows and queries over them.

Rule: a roll-up is valid while its day has as many events as it was made from; events
are added and deleted, never changed. With more events, the roll-up plus the events
received since are the whole day, provided their numbers add up.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from sqlalchemy import (
    Connection,
    Row,
    Select,
    delete,
    func,
    insert,
    select,
    text,
    update,
)

from skills_mcp.events.collector.event_store import EventStore, happened_within, stream_events
from skills_mcp.events.collector.schema import day_figures, events, heartbeats, roll_ups
from skills_mcp.events.heartbeat import ServedSource, name_commits

_MAX_HEARTBEATS = 20_000  # each names its commits, and others name them, too
_MAX_NAMED_COMMITS = 50_000  # commits with a name; a day has a few of each source
_MAX_COMMITS = 5  # that a message names

_ROWS = 200  # read at once


@dataclass(frozen=True, slots=True)
class DayRollUp:
    """How much of a day is in its roll-up."""

    day: date
    layout: str
    """The version of the figures; those of another one are made again."""
    events: int
    received_until: datetime | None
    """When the last of these events was received; None if unknown."""


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

    Raises:
        EventStoreError: By every method: the database cannot be reached, or refuses it.
    """

    def __init__(self, store: EventStore) -> None:
        self._store = store

    def has_space(self) -> bool:
        return self._store.has_space()

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
        days = map(date.fromordinal, range(first.toordinal(), last.toordinal() + 1))
        with self._store.reading() as connection:
            counted = {day: connection.execute(_count_day(day)).scalar_one() for day in days}
        return {day: count for day, count in counted.items() if count}

    def read(
        self,
        day: date,
        consume: Callable[[Mapping[str, Any]], None],
        *,
        after: datetime | None = None,
    ) -> DayCount:
        """Pass the events of a day, or those received after a moment, to `consume`."""
        query = select(events).where(happened_within(day, day))
        if after:
            query = query.where(events.c.received_at > after)
        number, until = 0, after
        with self._store.reading(is_snapshot=True) as connection:
            total = connection.execute(_count_day(day)).scalar_one()
            for moment, event in stream_events(connection, query):
                consume(event)
                number += 1
                until = max(until or moment, moment)
        return DayCount(number, total, until)

    def load(self, first: date, last: date) -> dict[date, DayRollUp]:
        """The state of the roll-ups of some days, of any layout."""
        days = roll_ups.c.day.between(first.toordinal(), last.toordinal())
        with self._store.reading() as connection:
            return {
                roll_up.day: roll_up
                for day, *rest in connection.execute(select(roll_ups).where(days))
                for roll_up in [DayRollUp(date.fromordinal(day), *rest)]
            }

    def save(
        self,
        old: DayRollUp | None,
        new: DayRollUp,
        rows: Sequence[Mapping[str, Any]],
        *,
        is_whole: bool,
    ) -> None:
        """Store the figures of a day; unless `is_whole`, add them to those of before.

        Nothing is stored if another server was faster, or if the disk has no space: a
        report counts the day again.
        """
        if not self._store.has_space():
            return
        with self._store.writing() as connection:
            if not self._claim(connection, old, new):
                return
            if is_whole:
                connection.execute(
                    delete(day_figures).where(day_figures.c.day == new.day.toordinal())
                )
            if rows:
                connection.execute(insert(day_figures), rows)

    def _claim(self, connection: Connection, old: DayRollUp | None, new: DayRollUp) -> bool:
        """Replace the state of a day, if it is still the `old` one."""
        values = {"layout": new.layout, "events": new.events, "received_until": new.received_until}
        if old is None:
            statement = self._store.insert_into(roll_ups).on_conflict_do_nothing()
            return bool(
                connection.execute(statement, {"day": new.day.toordinal(), **values}).rowcount
            )
        is_old = (
            (roll_ups.c.day == old.day.toordinal())
            & (roll_ups.c.layout == old.layout)
            & (roll_ups.c.events == old.events)
            & (roll_ups.c.received_until.is_not_distinct_from(old.received_until))
        )
        return bool(connection.execute(update(roll_ups).where(is_old), values).rowcount)

    @contextmanager
    def open_query(self) -> Iterator[Callable[[str, Mapping[str, Any]], Iterable[Row[Any]]]]:
        """Run statements over the figures as of one moment."""
        with self._store.reading(is_snapshot=True) as connection:
            yield lambda sql, parameters: connection.execute(text(sql), parameters)

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
                    names |= name_commits(ServedSource(**source) for source in sources)
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


def _count_day(day: date) -> Select[int]:
    return select(func.count()).select_from(events).where(happened_within(day, day))
