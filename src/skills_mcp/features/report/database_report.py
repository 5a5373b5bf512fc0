"""The report over the events of all machines, which are in a database.

The figures of each day are kept in the database. When events of a day have come since,
only these are counted.
"""

import json
import sys
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta

from skills_mcp.events.collector.day_archive import (
    DayArchive,
    DayReading,
    Extent,
    KeptDay,
)
from skills_mcp.events.collector.event_store import EventStore
from skills_mcp.features.report.aggregation import Aggregation, CurrentSkills
from skills_mcp.features.report.fleet import FLEET_DAYS, derive_fleet
from skills_mcp.features.report.tallies import Packed
from skills_mcp.features.report.usage_report import (
    CommitEffect,
    Feedback,
    SkillEffect,
    Span,
    Totals,
    UsageReport,
)
from skills_mcp.processes.memory import garbage_collector_paused

LAYOUT = "3"
"""Another one for every change of what a tally counts or how it is packed."""

EFFECT_DAYS = 14
"""Before and after a commit: enough for ratings, and few enough to be about it."""

EVERY = sys.maxsize
"""Count all events, however long that takes."""

_FAST = 1  # of zlib: a report waits for it


@dataclass(frozen=True, slots=True)
class PageLimits:
    """What a report leaves out so that a page is there at once."""

    most_counted: int = EVERY
    """New events that are counted first; the report says how many others there are."""
    most_gaps: int | None = None
    """Unmatched tasks; None for all."""
    check_cancelled: Callable[[], None] = lambda: None
    """Raises between two days if the report is not wanted any more."""


class UnknownCommitError(Exception):
    """No event names such a commit, or several; the message names some."""


def aggregate_database(
    store: EventStore, span: Span, limits: "PageLimits | None" = None
) -> Aggregation:
    """Return the sums of a span, as they would be made of the events themselves.

    Blocking; writes the figures of days that have new events.

    Args:
        store: The events.
        span: The days.
        limits: What to leave out; figures without the events of some days say how many
            these are.

    Raises:
        EventStoreError: The database cannot be used.
    """
    kept_to = limits or PageLimits()
    archive = DayArchive(store, LAYOUT)
    aggregation = Aggregation(span)
    extent = archive.measure()
    if extent is None:
        return aggregation
    days = _Days(archive, extent, kept_to.most_counted)
    counted = 0
    for kept in days.load(span):
        kept_to.check_cancelled()
        counted += kept.events
        aggregation.merge(kept.day, _unpack(kept.totals), _unpack(kept.body))
    left = days.left
    if span.before:
        for kept in days.load(span.before, totals_only=True):
            aggregation.merge_before(_unpack(kept.totals))
    outside = extent.events - counted - left
    aggregation.bound(extent.oldest, extent.newest, max(0, outside), days.left)
    return aggregation


def keep_days(store: EventStore) -> Iterator[date]:
    """Keep the figures of each day with new events, the newest first.  Blocking.

    Yields:
        Each day that got new figures.

    Raises:
        EventStoreError: The database cannot be used.
    """
    archive = DayArchive(store, LAYOUT)
    extent = archive.measure()
    if extent is None:
        return
    first, last = extent.oldest.date(), extent.newest.date()
    counts = archive.count(first, last)
    for kept in archive.load(first, last, totals_only=True):
        if counts.get(kept.day) == kept.events:
            del counts[kept.day]
    for day in sorted(counts, reverse=True):
        _make_day(archive, day)
        yield day


def load_report(
    store: EventStore,
    span: Span,
    current: CurrentSkills | None,
    around: str = "",
    limits: PageLimits | None = None,
) -> UsageReport:
    """Return the report over all machines.  Blocking.

    Args:
        store: The events of all machines.
        span: Its days.
        current: Today's skills, to compare with.
        around: The commit whose effect is asked for, or how it begins.
        limits: What to leave out for a page that a reader waits for.

    Raises:
        EventStoreError: The database cannot be used.
        UnknownCommitError: `around` is no commit that an event names.
    """
    with garbage_collector_paused():
        kept_to = limits or PageLimits()
        aggregation = aggregate_database(store, span, kept_to)
        report = aggregation.derive(current, kept_to.most_gaps)
        return _complete(store, span, around, aggregation, report)


def _complete(
    store: EventStore,
    span: Span,
    around: str,
    aggregation: Aggregation,
    report: UsageReport,
) -> UsageReport:
    """Add what only the database knows."""
    archive = DayArchive(store, LAYOUT)
    effect = _measure_effect(store, archive, around) if around else None
    names = archive.name_commits((span.before or span).first, span.last)
    since = datetime.now(UTC) - timedelta(days=FLEET_DAYS)
    return replace(
        report,
        sources=aggregation.derive_sources(names),
        fleet=derive_fleet(store.fleet(since), report.releases),
        effect=effect,
    )


def _measure_effect(
    store: EventStore, archive: DayArchive, prefix: str
) -> CommitEffect:
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
        before=_total(before, is_complete=now.before is not None),
        after=_total(now, is_complete=True),
        skills=_compare_skills(before.feedback, now.feedback),
    )


def _describe_commits(
    prefix: str, found: Mapping[str, datetime], archive: DayArchive
) -> str:
    if found:
        said = f"{len(found)} commits or more begin with {prefix}"
        return f"{said}: {', '.join(found)}. Write more of the one that you mean."
    newest = archive.find_commits("")
    if not newest:
        return f"No event names the commit {prefix}: no event names any commit."
    return (
        f"No event names a commit that begins with {prefix}. The newest commits are "
        f"{', '.join(newest)}."
    )


def _total(report: UsageReport, *, is_complete: bool) -> Totals:
    return Totals(
        since=report.since,
        until=report.until,
        answers=report.answers,
        people=report.people,
        useful=sum(each.useful for each in report.feedback),
        not_useful=sum(each.not_useful for each in report.feedback),
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
    return tuple(sorted(effects, key=lambda each: (-_change(each), each.skill)))


def _add_skills(rows: Sequence[Feedback]) -> defaultdict[str, Counter[str]]:
    added: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for each in rows:
        numbers = {
            "served": each.served,
            "useful": each.useful,
            "not_useful": each.not_useful,
        }
        added[each.skill].update(numbers)
    return added


def _change(effect: SkillEffect) -> float:
    """Return by how much the share of useful ratings changed."""
    shares = [
        useful / (useful + bad)
        for useful, bad in zip(effect.useful, effect.not_useful, strict=True)
        if useful + bad
    ]
    return abs(shares[1] - shares[0]) if len(shares) == 2 else 0.0  # noqa: PLR2004


class _Days:
    """The days of a database, as they are now or as far as they are counted.

    Args:
        archive: What is kept of them.
        extent: From when to when there are events.
        most_counted: Events that may be counted in all.
    """

    def __init__(self, archive: DayArchive, extent: Extent, most_counted: int) -> None:
        self._archive = archive
        self._extent = extent
        self._most_counted = most_counted
        self.left = 0
        """Events that are not counted yet."""

    def load(self, span: Span, *, totals_only: bool = False) -> Iterator[KeptDay]:
        """Yield each day of a span that has events, or has figures of a part."""
        first = max(span.first, self._extent.oldest.date())
        last = min(span.last, self._extent.newest.date())
        if first > last:
            return
        counts = self._archive.count(first, last)
        known = {}
        for kept in self._archive.load(first, last, totals_only=totals_only):
            if counts.get(kept.day) == kept.events:
                del counts[kept.day]
                yield kept
            else:
                known[kept.day] = kept.events
        for day in sorted(counts, reverse=True):
            if found := self._renew(day, counts[day], known.get(day, 0)):
                yield found

    def _renew(self, day: date, events: int, known: int) -> KeptDay | None:
        """Return a day with its new events, unless they are too many for now."""
        new = events - known if known < events else events
        if new <= self._most_counted:
            self._most_counted -= new
            return _make_day(self._archive, day)
        found = self._archive.find(day) if known < events else None
        self.left += events - (found.events if found else 0)
        return found


def _make_day(archive: DayArchive, day: date) -> KeptDay:
    """Count the events of a day, or those alone that are new, and keep the figures."""
    old = archive.find(day)
    made = _continue_day(archive, old) if old else None
    aggregation, reading = made or _count_day(archive, day)
    totals, body = map(_pack, aggregation.pack())
    unfinished = _pack(aggregation.pack_unfinished())
    kept = KeptDay(
        day, reading.events, reading.received_until, totals, body, unfinished
    )
    archive.save(kept)
    return kept


def _count_day(archive: DayArchive, day: date) -> tuple[Aggregation, DayReading]:
    aggregation = Aggregation(Span(day, day))
    return aggregation, archive.read(day, aggregation.add)


def _continue_day(
    archive: DayArchive, old: KeptDay
) -> tuple[Aggregation, DayReading] | None:
    """Count what is new; None if that and what is kept are not the whole day.

    Then events were deleted, or one was stored after others that were received later.
    """
    if old.received_until is None or not old.unfinished:
        return None
    aggregation = Aggregation(Span(old.day, old.day))
    packed = map(_unpack, (old.totals, old.body, old.unfinished))
    aggregation.reopen(old.day, *packed)
    reading = archive.read(old.day, aggregation.add, after=old.received_until)
    is_whole = old.events + reading.read == reading.events
    return (aggregation, reading) if is_whole else None


def _pack(packed: Packed) -> bytes:
    text = json.dumps(packed, ensure_ascii=False, separators=(",", ":"))
    return zlib.compress(text.encode(), _FAST)


def _unpack(kept: bytes) -> Packed:
    packed: Packed = json.loads(zlib.decompress(kept))
    return packed
