"""Figures of days, which a report keeps so that it need not count again.

Rule: what is kept of a day counts as long as the day has as many events as it was made
of. Events are added and deleted, and never changed. If a day has more, what is kept and
the events that were received since are the whole day, if they are as many.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, select

from skills_mcp.events.collector.event_store import EventStore
from skills_mcp.events.collector.event_tables import events, heartbeats, kept_days

_MOST_HEARTBEATS = 20_000  # each names its commits, and others name them, too
_MOST_NAMED = 50_000  # commits with a name; a day has a few of each source
_MOST_COMMITS = 5  # that a message names

_ROWS = 200  # read at once

_HEAD = (
    kept_days.c.day,
    kept_days.c.events,
    kept_days.c.received_until,
    kept_days.c.totals,
    kept_days.c.body,
)


@dataclass(frozen=True, slots=True)
class KeptDay:
    """The figures of a day, as bytes that only their maker reads."""

    day: date
    events: int
    """How many events they were made of."""
    received_until: datetime | None
    """When the last of these events was received; None if that is not known."""
    totals: bytes
    body: bytes
    unfinished: bytes
    """What may still change if the day gets more events."""


@dataclass(frozen=True, slots=True)
class DayReading:
    """How many events of a day were read, and how many it has at the same moment."""

    read: int
    events: int
    received_until: datetime | None
    """When the last of those that were read was received."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How many events there are, and from when to when."""

    events: int
    oldest: datetime
    newest: datetime


class DayArchive:
    """What is kept of the days of a database.  All methods block.

    Args:
        store: The events.
        layout: How the figures are written; those of another layout do not count.
    """

    def __init__(self, store: EventStore, layout: str) -> None:
        self._store = store
        self._layout = layout

    def measure(self) -> Extent | None:
        """Return how many events there are; None if there is none.

        Raises:
            EventStoreError: The database cannot be reached.
        """
        moment = events.c.happened_at
        wanted = (
            select(func.count()).select_from(events),
            select(func.min(moment)),  # by itself, it is one look into the index
            select(func.max(moment)),
        )
        with self._store.reading() as connection:
            count, oldest, newest = (
                connection.execute(each).scalar_one() for each in wanted
            )
        return Extent(count, oldest, newest) if count else None

    def count(self, first: date, last: date) -> dict[date, int]:
        """Return the number of events of each day that has any.

        Raises:
            EventStoreError: The database cannot be reached.
        """
        counted = {}
        with self._store.reading() as connection:
            for day in _days(first, last):
                found = connection.execute(_count(day))
                counted[day] = found.scalar_one()
        return {day: count for day, count in counted.items() if count}

    def read(
        self,
        day: date,
        take: Callable[[Mapping[str, Any]], None],
        *,
        after: datetime | None = None,
    ) -> DayReading:
        """Hand over the events of a day, in no order, and count all that it has.

        Args:
            day: In UTC.
            take: Is called with each event.
            after: Hands only those over that were received later.

        Raises:
            EventStoreError: The database cannot be reached.
        """
        received = events.c.received_at
        wanted = and_(_is_of(day), received > after) if after else _is_of(day)
        number, until = 0, after
        with self._store.reading(is_snapshot=True) as connection:
            total = connection.execute(_count(day)).scalar_one()
            for moment, event in self._store.select(connection, wanted):
                take(event)
                number += 1
                until = max(until or moment, moment)
        return DayReading(number, total, until)

    def load(
        self, first: date, last: date, *, totals_only: bool = False
    ) -> Iterator[KeptDay]:
        """Iterate over what is kept of some days; some may be out of date.

        `unfinished` is left out.

        Raises:
            EventStoreError: The database cannot be reached.
        """
        columns = [each for each in _HEAD if each is not kept_days.c.body]
        wanted = (
            select(*(columns if totals_only else _HEAD))
            .where(kept_days.c.day.between(first, last))
            .where(kept_days.c.layout == self._layout)
            .order_by(kept_days.c.day)
        )
        with self._store.reading() as connection:
            for row in connection.execution_options(yield_per=1).execute(wanted):
                day, number, until, totals = row[:4]
                body = b"" if totals_only else row[4]
                yield KeptDay(day, number, until, totals, body, b"")

    def find(self, day: date) -> KeptDay | None:
        """Return all that is kept of a day.

        Raises:
            EventStoreError: The database cannot be reached.
        """
        wanted = (
            select(*_HEAD, kept_days.c.unfinished)
            .where(kept_days.c.day == day)
            .where(kept_days.c.layout == self._layout)
        )
        with self._store.reading() as connection:
            row = connection.execute(wanted).one_or_none()
        return KeptDay(*row) if row else None

    def name_commits(self, first: date, last: date) -> dict[str, str]:
        """Return the repository, or else the mount, of each commit that was served.

        Raises:
            EventStoreError: The database cannot be reached.
        """
        wanted = (
            select(heartbeats.c.sources)
            .where(heartbeats.c.day.between(first, last))
            .order_by(heartbeats.c.day.desc())
            .limit(_MOST_HEARTBEATS)
        )
        names: dict[str, str] = {}
        with self._store.reading() as connection:
            connection.execution_options(yield_per=_ROWS)
            with connection.execute(wanted) as rows:
                for (sources,) in rows:
                    for each in sources:
                        if each["commit"]:
                            names[each["commit"]] = each["repository"] or each["mount"]
                    if len(names) >= _MOST_NAMED:
                        break
        return names

    def find_commits(self, prefix: str) -> dict[str, datetime]:
        """Return when each commit that begins so was first in an event.

        Raises:
            EventStoreError: The database cannot be reached.
        """
        commit = events.c.content_commit
        wanted = (
            select(commit, func.min(events.c.happened_at))
            .where(commit.startswith(prefix, autoescape=True))
            .group_by(commit)
            .order_by(func.min(events.c.happened_at).desc())
            .limit(_MOST_COMMITS)
        )
        with self._store.reading() as connection:
            return {row[0]: row[1] for row in connection.execute(wanted)}

    def save(self, kept: KeptDay) -> None:
        """Keep the figures of a day in place of older ones, if the disk has room.

        Raises:
            EventStoreError: The database cannot be reached, or refuses them.
        """
        if not self._store.has_room():
            return  # a report counts them again
        row = {
            "day": kept.day,
            "layout": self._layout,
            "events": kept.events,
            "received_until": kept.received_until,
            "totals": kept.totals,
            "body": kept.body,
            "unfinished": kept.unfinished,
        }
        with self._store.writing() as connection:
            self._store.replace(connection, row, kept_days)


def _is_of(day: date) -> ColumnElement[bool]:
    begin = datetime.combine(day, time.min, UTC)
    moment = events.c.happened_at
    if day == date.max:
        return moment >= begin
    return and_(moment >= begin, moment < begin + timedelta(days=1))


def _count(day: date) -> Select[int]:
    return select(func.count()).select_from(events).where(_is_of(day))


def _days(first: date, last: date) -> Iterator[date]:
    for number in range(first.toordinal(), last.toordinal() + 1):
        yield date.fromordinal(number)
