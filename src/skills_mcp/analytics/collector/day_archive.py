"""Figures of whole days, which a report keeps so that it need not count again.

Rule: what is kept of a day counts as long as the day has as many events as it was made
of. Events are added and deleted, and never changed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from sqlalchemy import delete, func, insert, select

from skills_mcp.analytics.collector.event_store import EventStore
from skills_mcp.analytics.collector.event_tables import events, heartbeats, kept_days

_MOST_HEARTBEATS = 20_000  # each names its commits, and others name them, too
_MOST_COMMITS = 5  # that a message names


@dataclass(frozen=True, slots=True)
class KeptDay:
    """The figures of a day, as bytes that only their maker reads."""

    day: date
    events: int
    """How many events they were made of."""
    totals: bytes
    body: bytes


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
                begin = datetime.combine(day, time.min, UTC)
                in_day = (
                    events.c.happened_at >= begin,
                    events.c.happened_at < begin + timedelta(days=1),
                )
                found = connection.execute(
                    select(func.count()).select_from(events).where(*in_day)
                )
                counted[day] = found.scalar_one()
        return {day: count for day, count in counted.items() if count}

    def load(
        self, first: date, last: date, *, totals_only: bool = False
    ) -> Iterator[KeptDay]:
        """Iterate over what is kept of some days; some may be out of date.

        Raises:
            EventStoreError: The database cannot be reached.
        """
        columns = [kept_days.c.day, kept_days.c.events, kept_days.c.totals]
        if not totals_only:
            columns.append(kept_days.c.body)
        wanted = (
            select(*columns)
            .where(kept_days.c.day.between(first, last))
            .where(kept_days.c.layout == self._layout)
            .order_by(kept_days.c.day)
        )
        with self._store.reading() as connection:
            for row in connection.execution_options(yield_per=1).execute(wanted):
                yield KeptDay(row[0], row[1], row[2], b"" if totals_only else row[3])

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
        with self._store.reading() as connection:
            return {
                each["commit"]: each["repository"] or each["mount"]
                for (sources,) in connection.execute(wanted)
                for each in sources
                if each["commit"]
            }

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
        """Keep the figures of a day in place of older ones.

        Raises:
            EventStoreError: The database cannot be reached, or refuses them.
        """
        row = {
            "day": kept.day,
            "layout": self._layout,
            "events": kept.events,
            "totals": kept.totals,
            "body": kept.body,
        }
        with self._store.writing() as connection:
            connection.execute(delete(kept_days).where(kept_days.c.day == kept.day))
            connection.execute(insert(kept_days), row)


def _days(first: date, last: date) -> Iterator[date]:
    for number in range(first.toordinal(), last.toordinal() + 1):
        yield date.fromordinal(number)
