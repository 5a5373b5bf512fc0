"""The report over the event database of all machines.

The roll-up of each day is stored; later events of a day are added to its roll-up.
"""

import json
import sys
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta

from skills_mcp.events.collector.event_queries import (
    DayCount,
    DayRollUp,
    EventRange,
    RollUpTable,
)
from skills_mcp.events.collector.event_store import EventStore
from skills_mcp.features.report.aggregation import (
    FLEET_DAYS,
    Aggregation,
    CurrentSkills,
    Packed,
    derive_fleet,
)
from skills_mcp.features.report.usage_report import (
    CommitEffect,
    Feedback,
    SkillEffect,
    Span,
    Totals,
    UsageReport,
)
from skills_mcp.processes.memory import gc_paused

LAYOUT = "3"
"""Changes with every change of a tally or its serialisation."""

EFFECT_DAYS = 14
"""Before and after a commit: enough for ratings, few enough to be about it."""

NO_LIMIT = sys.maxsize
"""No limit, however long counting takes."""

_FAST = 1  # of zlib: a report waits for it


@dataclass(frozen=True, slots=True)
class ReportLimits:
    """Limits for a fast page."""

    max_counted: int = NO_LIMIT
    """New events to count; the report has the number of the others."""
    max_gaps: int | None = None
    """Unmatched tasks; None for all."""
    check_cancelled: Callable[[], None] = lambda: None
    """Raises between two days once the request is cancelled."""


class UnknownCommitError(Exception):
    """No commit of the events has this prefix, or several have."""


def aggregate_database(
    store: EventStore, span: Span, limits: "ReportLimits | None" = None
) -> Aggregation:
    """Aggregate a span.  Blocking; stores the roll-ups of days with new events.

    Raises:
        EventStoreError: The database cannot be used.
    """
    bounds = limits or ReportLimits()
    archive = RollUpTable(store, LAYOUT)
    aggregation = Aggregation(span)
    extent = archive.measure()
    if extent is None:
        return aggregation
    days = _RenewedRollUps(archive, extent, bounds.max_counted)
    counted = 0
    for roll_up in days.load(span):
        bounds.check_cancelled()
        counted += roll_up.events
        aggregation.merge(roll_up.day, _unpack(roll_up.totals), _unpack(roll_up.body))
    left = days.left
    if span.before:
        for roll_up in days.load(span.before, totals_only=True):
            aggregation.merge_before(_unpack(roll_up.totals))
    outside = extent.events - counted - left
    aggregation.bound(extent.oldest, extent.newest, max(0, outside), days.left)
    return aggregation


def roll_up_days(store: EventStore) -> Iterator[date]:
    """Roll up each day with new events, the newest first; yield it.  Blocking.

    Raises:
        EventStoreError: The database cannot be used.
    """
    archive = RollUpTable(store, LAYOUT)
    extent = archive.measure()
    if extent is None:
        return
    first, last = extent.oldest.date(), extent.newest.date()
    counts = archive.count(first, last)
    for roll_up in archive.load(first, last, totals_only=True):
        if counts.get(roll_up.day) == roll_up.events:
            del counts[roll_up.day]
    for day in sorted(counts, reverse=True):
        _roll_up_day(archive, day)
        yield day


def load_report(
    store: EventStore,
    span: Span,
    current: CurrentSkills | None,
    around: str = "",
    limits: ReportLimits | None = None,
) -> UsageReport:
    """The report over all machines.  Blocking.

    `current` is compared with today's skills; `around` is a commit or its prefix, to
    report
    its effect.

    Raises:
        EventStoreError: The database cannot be used.
        UnknownCommitError: No commit of the events is `around`, or several are.
    """
    with gc_paused():
        bounds = limits or ReportLimits()
        aggregation = aggregate_database(store, span, bounds)
        report = aggregation.derive(current, bounds.max_gaps)
        return _add_database_figures(store, span, around, aggregation, report)


def _add_database_figures(
    store: EventStore,
    span: Span,
    around: str,
    aggregation: Aggregation,
    report: UsageReport,
) -> UsageReport:
    archive = RollUpTable(store, LAYOUT)
    effect = _measure_effect(store, archive, around) if around else None
    names = archive.name_commits((span.before or span).first, span.last)
    since = datetime.now(UTC) - timedelta(days=FLEET_DAYS)
    return replace(
        report,
        sources=aggregation.derive_sources(names),
        fleet=derive_fleet(store.read_fleet(since), report.releases),
        effect=effect,
    )


def _measure_effect(store: EventStore, archive: RollUpTable, prefix: str) -> CommitEffect:
    found = archive.find_commits(prefix)
    if len(found) != 1:
        raise UnknownCommitError(_describe_commits(prefix, found, archive))
    [(commit, moment)] = found.items()
    first = moment.date()
    known = (datetime.now(UTC).date() - first).days + 1
    last = first + timedelta(days=max(1, min(EFFECT_DAYS, known)) - 1)
    after = Span(first, last)
    now = aggregate_database(store, after).derive(None)
    days_before = after.before or after
    before = aggregate_database(store, days_before).derive(None)
    return CommitEffect(
        commit=commit,
        before=_total_ratings(before, is_complete=now.before is not None),
        after=_total_ratings(now, is_complete=True),
        skills=_compare_skills(before.feedback, now.feedback),
    )


def _describe_commits(prefix: str, found: Mapping[str, datetime], archive: RollUpTable) -> str:
    if found:
        message = f"{len(found)} commits or more begin with {prefix}"
        return f"{message}: {', '.join(found)}. Write more of the one that you mean."
    newest = archive.find_commits("")
    if not newest:
        return f"No event names the commit {prefix}: no event names any commit."
    return (
        f"No event names a commit that begins with {prefix}. The newest commits are "
        f"{', '.join(newest)}."
    )


def _total_ratings(report: UsageReport, *, is_complete: bool) -> Totals:
    return Totals(
        since=report.since,
        until=report.until,
        answers=report.answers,
        people=report.people,
        useful=sum(feedback.useful for feedback in report.feedback),
        not_useful=sum(feedback.not_useful for feedback in report.feedback),
        is_complete=is_complete,
    )


def _compare_skills(
    before: Sequence[Feedback], after: Sequence[Feedback]
) -> tuple[SkillEffect, ...]:
    old, new = _add_skills(before), _add_skills(after)
    effects = [
        SkillEffect(
            skill=path,
            served=(old[path]["served"], new[path]["served"]),
            useful=(old[path]["useful"], new[path]["useful"]),
            not_useful=(old[path]["not_useful"], new[path]["not_useful"]),
        )
        for path in {*old, *new}
    ]
    return tuple(sorted(effects, key=lambda effect: (-_rating_change(effect), effect.skill)))


def _add_skills(rows: Sequence[Feedback]) -> defaultdict[str, Counter[str]]:
    added: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        numbers = {
            "served": row.served,
            "useful": row.useful,
            "not_useful": row.not_useful,
        }
        added[row.skill].update(numbers)
    return added


def _rating_change(effect: SkillEffect) -> float:
    """Difference of the share of useful ratings."""
    shares = [
        useful / (useful + bad)
        for useful, bad in zip(effect.useful, effect.not_useful, strict=True)
        if useful + bad
    ]
    return abs(shares[1] - shares[0]) if len(shares) == 2 else 0.0  # noqa: PLR2004


class _RenewedRollUps:
    """Roll-ups of the days of a database, renewed within a budget of events."""

    def __init__(self, archive: RollUpTable, extent: EventRange, max_counted: int) -> None:
        self._archive = archive
        self._extent = extent
        self._most_counted = max_counted
        self.left = 0
        """Events that are not counted yet."""

    def load(self, span: Span, *, totals_only: bool = False) -> Iterator[DayRollUp]:
        """Yield each day of a span with events, or with a partial roll-up."""
        first = max(span.first, self._extent.oldest.date())
        last = min(span.last, self._extent.newest.date())
        if first > last:
            return
        counts = self._archive.count(first, last)
        known = {}
        for roll_up in self._archive.load(first, last, totals_only=totals_only):
            if counts.get(roll_up.day) == roll_up.events:
                del counts[roll_up.day]
                yield roll_up
            else:
                known[roll_up.day] = roll_up.events
        for day in sorted(counts, reverse=True):
            if found := self._update(day, counts[day], known.get(day, 0)):
                yield found

    def _update(self, day: date, events: int, known: int) -> DayRollUp | None:
        """Update the roll-up of a day, unless it has too many new events."""
        new = events - known if known < events else events
        if new <= self._most_counted:
            self._most_counted -= new
            return _roll_up_day(self._archive, day)
        found = self._archive.find(day) if known < events else None
        self.left += events - (found.events if found else 0)
        return found


def _roll_up_day(archive: RollUpTable, day: date) -> DayRollUp:
    """Count the events of a day, or only the new ones, and store the roll-up."""
    old = archive.find(day)
    made = _continue_day(archive, old) if old else None
    aggregation, reading = made or _count_day(archive, day)
    totals, body = map(_pack, aggregation.pack())
    unfinished = _pack(aggregation.pack_unfinished())
    roll_up = DayRollUp(day, reading.events, reading.received_until, totals, body, unfinished)
    archive.save(roll_up)
    return roll_up


def _count_day(archive: RollUpTable, day: date) -> tuple[Aggregation, DayCount]:
    aggregation = Aggregation(Span(day, day))
    return aggregation, archive.read(day, aggregation.add)


def _continue_day(archive: RollUpTable, old: DayRollUp) -> tuple[Aggregation, DayCount] | None:
    """Count the new events; None if the numbers do not add up.

    Then events were deleted, or one was stored after others with a later receipt.
    """
    if old.received_until is None or not old.unfinished:
        return None
    aggregation = Aggregation(Span(old.day, old.day))
    packed = map(_unpack, (old.totals, old.body, old.unfinished))
    aggregation.reopen(old.day, *packed)
    reading = archive.read(old.day, aggregation.add, after=old.received_until)
    is_complete = old.events + reading.read == reading.events
    return (aggregation, reading) if is_complete else None


def _pack(packed: Packed) -> bytes:
    text = json.dumps(packed, ensure_ascii=False, separators=(",", ":"))
    return zlib.compress(text.encode(), _FAST)


def _unpack(compressed: bytes) -> Packed:
    packed: Packed = json.loads(zlib.decompress(compressed))
    return packed
