"""The report over the event database of all machines, and weekly counts of skills.

The figures of each day are stored; later events of a day are added to them.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

from skills_mcp.errors import InvalidArgumentsError
from skills_mcp.events.collector.event_store import (
    DayCount,
    DayRollUp,
    EventRange,
    EventStore,
    RollUpTable,
    repeat_hourly,
)
from skills_mcp.features.report.day_figures import LAYOUT, MAX_NAMES, DayFigures, derive_moment
from skills_mcp.features.report.event_rows import parse_row
from skills_mcp.features.report.figure_queries import (
    FLEET_DAYS,
    CurrentSkills,
    EventExtent,
    FigureQueries,
    FigureTable,
    Query,
    derive_report,
    within,
)
from skills_mcp.features.report.usage_report import (
    CommitEffect,
    Feedback,
    SkillEffect,
    Span,
    UsageReport,
)
from skills_mcp.processes.memory import gc_paused
from skills_mcp.server.parts import ServerPart

EFFECT_DAYS = 14
"""Before and after a commit: enough for ratings, few enough to be about it."""

NO_LIMIT = sys.maxsize
"""No limit, however long counting takes."""


@dataclass(frozen=True, slots=True)
class ReportLimits:
    """Limits for a fast page."""

    max_counted: int = NO_LIMIT
    """New events to count; the report has the number of the others."""
    max_gaps: int | None = None
    """Unmatched tasks; None for all."""
    check_cancelled: Callable[[], None] = lambda: None
    """Raises between two days once the request is cancelled."""


class RollUp(ServerPart):
    """The part of a server that collects events."""

    def __init__(self, store: EventStore) -> None:
        self._store = store

    async def run(self) -> None:
        """Roll up days with new events until cancelled."""
        await repeat_hourly(partial(roll_up_days, self._store))


def roll_up_days(store: EventStore) -> Iterator[date]:
    """Roll up each day with new events, the newest first; yield it.  Blocking.

    Raises:
        EventStoreError: The database cannot be used.
    """
    table = RollUpTable(store)
    if extent := table.measure():
        first, last = extent.oldest.date(), extent.newest.date()
        for day, old in _find_stale(table.count(first, last), table.load(first, last)):
            _roll_up_day(table, day, old)
            yield day


def load_report(
    store: EventStore,
    span: Span,
    current: CurrentSkills | None,
    around: str = "",
    limits: ReportLimits | None = None,
) -> UsageReport:
    """The report over all machines.  Blocking; stores the figures of days with new events.

    `current` is compared with today's skills; `around` is a commit or its prefix, to
    report its effect.

    Raises:
        EventStoreError: The database cannot be used.
        InvalidArgumentsError: No commit of the events is `around`, or several are.
    """
    with gc_paused():
        bounds = limits or ReportLimits()
        table = RollUpTable(store)
        effect = _measure_effect(store, table, around) if around else None
        with open_figures(store, span, bounds) as (extent, query):
            since = datetime.now(UTC) - timedelta(days=FLEET_DAYS)
            known = replace(
                extent,
                beats=store.read_fleet(since),
                commit_names=table.name_commits((span.before or span).first, span.last),
            )
            report = derive_report(query, span, known, current, bounds.max_gaps)
        return replace(report, effect=effect)


@contextmanager
def open_figures(
    store: EventStore, span: Span, limits: ReportLimits
) -> Iterator[tuple[EventExtent, Query]]:
    """The figures of a span and of the one before, with new events as far as allowed."""
    table = RollUpTable(store)
    found = table.measure()
    extent = _renew(table, span, found, limits) if found else EventExtent()
    is_small = found is None or found.events <= limits.max_counted
    if extent.uncounted and is_small and not store.has_space():
        with closing(FigureTable()) as figures:
            for event in store.events((span.before or span).first, span.last):
                if row := parse_row(event):
                    figures.add(row)
            yield replace(extent, uncounted=0), figures.query
        return
    with table.open_query() as query:
        yield extent, query


def _renew(table: RollUpTable, span: Span, found: EventRange, limits: ReportLimits) -> EventExtent:
    inside, left, budget = 0, 0, limits.max_counted if table.has_space() else 0
    for part in filter(None, (span, span.before)):
        first, last = max(part.first, found.oldest.date()), min(part.last, found.newest.date())
        counts = table.count(first, last)
        inside += sum(counts.values()) if part is span else 0
        for day, old in _find_stale(counts, table.load(first, last)):
            limits.check_cancelled()
            known = _count_valid(old, counts[day])
            if counts[day] - known <= budget:
                budget -= counts[day] - known
                _roll_up_day(table, day, old)
            else:
                left += counts[day] - known
                if old and not known:
                    table.save(old, DayRollUp(day, LAYOUT, 0, None), (), is_whole=True)
    return EventExtent(
        oldest=found.oldest.date(),
        newest=found.newest.date(),
        outside=found.events - inside,
        uncounted=left,
    )


def _find_stale(
    counts: Mapping[date, int], known: Mapping[date, DayRollUp]
) -> Iterator[tuple[date, DayRollUp | None]]:
    """Days with other events than their figures have, the newest first."""
    for day in sorted(counts, reverse=True):
        old = known.get(day)
        if old is None or (old.layout, old.events) != (LAYOUT, counts[day]):
            yield day, old


def _count_valid(old: DayRollUp | None, events: int) -> int:
    """Events in figures that can be continued."""
    return old.events if old and old.layout == LAYOUT and old.events < events else 0


def _roll_up_day(table: RollUpTable, day: date, old: DayRollUp | None) -> None:
    """Count the events of a day, or only the new ones, and store the figures.

    All are counted if the numbers do not add up: then events were deleted, or one was
    stored after others with a later receipt.
    """
    if old and old.received_until and old.layout == LAYOUT:
        figures, reading = _read_day(table, day, old.received_until)
        if old.events + reading.read == reading.events:
            new = DayRollUp(day, LAYOUT, reading.events, reading.received_until)
            table.save(old, new, list(figures.rows()), is_whole=False)
            return
    figures, reading = _read_day(table, day)
    new = DayRollUp(day, LAYOUT, reading.events, reading.received_until)
    table.save(old, new, list(figures.rows()), is_whole=True)


def _read_day(
    table: RollUpTable, day: date, after: datetime | None = None
) -> tuple[DayFigures, DayCount]:
    figures = DayFigures()

    def add(event: Mapping[str, Any]) -> None:
        if row := parse_row(event):
            figures.add(row)

    return figures, table.read(day, add, after=after)


def _measure_effect(store: EventStore, table: RollUpTable, prefix: str) -> CommitEffect:
    found = table.find_commits(prefix)
    if len(found) != 1:
        raise InvalidArgumentsError(_describe_commits(prefix, found, table))
    [(commit, moment)] = found.items()
    first = moment.date()
    known = (datetime.now(UTC).date() - first).days + 1
    last = first + timedelta(days=max(1, min(EFFECT_DAYS, known)) - 1)
    after = Span(first, last)
    with open_figures(store, after, ReportLimits()) as (extent, query):
        new, old = FigureQueries(query, after), FigureQueries(query, after.before or after)
        has_before = extent.oldest is not None and extent.oldest < first
        return CommitEffect(
            commit=commit,
            before=old.derive_totals(is_complete=has_before),
            after=new.derive_totals(is_complete=True),
            skills=_compare_skills(old.find_feedback(), new.find_feedback()),
        )


def _describe_commits(prefix: str, found: Mapping[str, datetime], table: RollUpTable) -> str:
    if found:
        message = f"{len(found)} commits or more begin with {prefix}"
        return f"{message}: {', '.join(found)}. Write more of the one that you mean."
    newest = table.find_commits("")
    if not newest:
        return f"No event names the commit {prefix}: no event names any commit."
    return (
        f"No event names a commit that begins with {prefix}. The newest commits are "
        f"{', '.join(newest)}."
    )


_COMPARED = "served", "useful", "not_useful"


def _compare_skills(
    before: Sequence[Feedback], after: Sequence[Feedback]
) -> tuple[SkillEffect, ...]:
    old, new = _add_skills(before), _add_skills(after)
    effects = [
        SkillEffect(
            skill=path,
            **{name: (old[path][name], new[path][name]) for name in _COMPARED},
        )
        for path in {*old, *new}
    ]
    return tuple(sorted(effects, key=lambda effect: (-_rating_change(effect), effect.skill)))


def _add_skills(rows: Sequence[Feedback]) -> defaultdict[str, Counter[str]]:
    added: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        added[row.skill].update({name: getattr(row, name) for name in _COMPARED})
    return added


def _rating_change(effect: SkillEffect) -> float:
    """Difference of the share of useful ratings."""
    shares = [
        useful / (useful + bad)
        for useful, bad in zip(effect.useful, effect.not_useful, strict=True)
        if useful + bad
    ]
    return abs(shares[1] - shares[0]) if len(shares) == 2 else 0.0  # noqa: PLR2004


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
    since: date | None
    """The day of the first event that is counted; None if there is no event."""

    def week(self, number: int) -> date:
        return self.first + number * _WEEK


def count_skills(store: EventStore, last: date) -> CatalogueCounts:
    """Count the events of the `WEEKS` weeks up to a day.  Blocking.

    Raises:
        EventStoreError: The database cannot be used.
    """
    first = last - WEEKS * _WEEK + timedelta(days=1)
    counts: defaultdict[str, SkillCounts] = defaultdict(SkillCounts)
    with open_figures(store, Span(first, last), ReportLimits()) as (extent, query):
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
    since = max(extent.oldest, first) if extent.oldest else None
    return CatalogueCounts(first, dict(counts), since)
