"""The report over events of files: they are loaded into SQLite in memory.

It is the SQLite of Python, so that the report works without the packages of a server.
"""

import sqlite3
import weakref
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any

from skills_mcp.events.heartbeat import Heartbeat, is_heartbeat, name_commits, parse_heartbeat
from skills_mcp.events.received_event import InvalidEventError
from skills_mcp.features.report.day_figures import COLUMNS, DayFigures
from skills_mcp.features.report.event_rows import UsageRow, identify, parse_row
from skills_mcp.features.report.figure_queries import (
    FLEET_DAYS,
    CurrentSkills,
    EventExtent,
    derive_report,
)
from skills_mcp.features.report.usage_report import Span, UsageReport

_BATCH = 100_000  # rows in memory before they are those of SQLite


class FigureTable:
    """The table of figures, in memory."""

    def __init__(self) -> None:
        # A thread of a test or of a library may read what another one has made.
        self._connection = sqlite3.connect(":memory:", check_same_thread=False)
        weakref.finalize(self, self._connection.close)  # Python 3.13 warns of one that is not
        self._connection.execute(f"CREATE TABLE day_figures ({', '.join(COLUMNS)})")
        self._connection.execute("CREATE INDEX day_figures_figure ON day_figures (figure, day)")
        self._figures = DayFigures()

    def add(self, row: UsageRow) -> None:
        self._figures.add(row)
        if len(self._figures) >= _BATCH:
            self._flush()

    def query(self, sql: str, parameters: Mapping[str, Any]) -> sqlite3.Cursor:
        self._flush()
        return self._connection.execute(sql, parameters)

    def close(self) -> None:
        self._connection.close()

    def _flush(self) -> None:
        values = ", ".join(f":{column}" for column in COLUMNS)
        insert = f"INSERT INTO day_figures VALUES ({values})"  # noqa: S608 - of constants
        self._connection.executemany(insert, self._figures.rows())
        self._figures = DayFigures()


class Aggregation:
    """The events of a span and of the one before, in any order."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._table = FigureTable()
        self._seen: set[int] = set()
        self._counts: Counter[str] = Counter()
        self._newest: datetime | None = None
        self._oldest: datetime | None = None
        self._beats: dict[str, Heartbeat] = {}
        self._commit_names: dict[str, str] = {}

    def add(self, raw: object) -> None:
        """Count an event; an invalid one counts as unreadable."""
        if is_heartbeat(raw):
            self._add_heartbeat(raw)
        elif row := parse_row(raw):
            self._add_row(raw, row)
        else:
            self._counts["unreadable"] += 1

    def _add_row(self, raw: object, row: UsageRow) -> None:
        self._newest = max(self._newest or row.moment, row.moment)
        self._oldest = min(self._oldest or row.moment, row.moment)
        day, before = row.moment.date(), self._span.before
        is_inside = day in self._span
        self._counts["outside"] += not is_inside
        if not is_inside and not (before and day in before):
            return
        mark = identify(raw)
        if mark not in self._seen:
            self._seen.add(mark)
            self._table.add(row)
        elif is_inside:
            self._counts["repeated"] += 1

    def _add_heartbeat(self, raw: Mapping[str, Any]) -> None:
        try:
            beat = parse_heartbeat(raw)
        except InvalidEventError:
            self._counts["unreadable"] += 1
            return
        known = self._beats.setdefault(beat.server_id, beat)
        if known.happened_at < beat.happened_at:
            self._beats[beat.server_id] = beat
        self._commit_names |= name_commits(beat.sources)

    def derive(self, current: CurrentSkills | None) -> UsageReport:
        """Derive the report, once; `current` adds today's answers."""
        newest = max((beat.happened_at for beat in self._beats.values()), default=None)
        beats = [
            beat
            for beat in self._beats.values()
            if newest and beat.happened_at >= newest - timedelta(days=FLEET_DAYS)
        ]
        extent = EventExtent(
            oldest=self._oldest.date() if self._oldest else None,
            newest=self._newest.date() if self._newest else None,
            repeated=self._counts["repeated"],
            outside=self._counts["outside"],
            unreadable=self._counts["unreadable"],
            beats=beats if self._beats else None,
            commit_names=self._commit_names or None,
        )
        with closing(self._table) as table:
            return derive_report(table.query, self._span, extent, current)
