"""The report over the events of all machines, which are in a database.

The figures of each day are kept in the database, and made anew only when events of that
day have come since.
"""

import json
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

from skills_mcp.analytics.collector.day_archive import DayArchive, Extent, KeptDay
from skills_mcp.analytics.collector.event_store import EventStore
from skills_mcp.analytics.heartbeat import Heartbeat, ServedSource
from skills_mcp.processes.memory import garbage_collector_paused
from skills_mcp.usage.aggregation import Aggregation, CurrentSkills
from skills_mcp.usage.tallies import Packed
from skills_mcp.usage.usage_report import (
    CommitEffect,
    Feedback,
    Fleet,
    FleetCommit,
    FleetVersion,
    Release,
    SkillEffect,
    Span,
    Totals,
    UsageReport,
)

LAYOUT = "1"
"""Another one for every change of what a tally counts or how it is packed."""

FLEET_DAYS = 7
"""A server that was not heard from for so long is no longer one."""

EFFECT_DAYS = 14
"""Before and after a commit: enough for ratings, and few enough to be about it."""

_FAST = 1  # of zlib: a report waits for it


class UnknownCommitError(Exception):
    """No event names such a commit, or several; the message names some."""


def aggregate_database(store: EventStore, span: Span) -> Aggregation:
    """Return the sums of a span, as they would be made of the events themselves.

    Blocking; writes the figures of days that have new events.

    Raises:
        EventStoreError: The database cannot be used.
    """
    archive = DayArchive(store, LAYOUT)
    aggregation = Aggregation(span)
    extent = archive.measure()
    if extent is None:
        return aggregation
    counted = 0
    for kept in _load_days(store, archive, span, extent):
        counted += kept.events
        aggregation.merge(kept.day, _unpack(kept.totals), _unpack(kept.body))
    if span.before:
        for kept in _load_days(store, archive, span.before, extent, totals_only=True):
            aggregation.merge_before(_unpack(kept.totals))
    aggregation.bound(extent.oldest, extent.newest, extent.events - counted)
    return aggregation


def load_report(
    store: EventStore, span: Span, current: CurrentSkills | None, around: str = ""
) -> UsageReport:
    """Return the report over all machines.  Blocking.

    Args:
        store: The events of all machines.
        span: Its days.
        current: Today's skills, to compare with.
        around: The commit whose effect is asked for, or how it begins.

    Raises:
        EventStoreError: The database cannot be used.
        UnknownCommitError: `around` is no commit that an event names.
    """
    with garbage_collector_paused():
        return _load_report(store, span, current, around)


def _load_report(
    store: EventStore, span: Span, current: CurrentSkills | None, around: str
) -> UsageReport:
    archive = DayArchive(store, LAYOUT)
    effect = _measure_effect(store, archive, around) if around else None
    aggregation = aggregate_database(store, span)
    names = archive.name_commits(span.first, span.last)
    report = aggregation.derive(current)
    since = datetime.now(UTC) - timedelta(days=FLEET_DAYS)
    return replace(
        report,
        sources=aggregation.derive_sources(names),
        fleet=derive_fleet(store.fleet(since), report.releases),
        effect=effect,
    )


def derive_fleet(beats: Sequence[Heartbeat], releases: Sequence[Release] = ()) -> Fleet:
    """Return what the servers said last about themselves."""
    first_seen = {each.commit: each.first_seen for each in releases}
    served: defaultdict[tuple[str, str], list[ServedSource]] = defaultdict(list)
    for beat in beats:
        for each in beat.sources:
            if each.commit:
                served[each.repository or each.mount, each.commit].append(each)
    commits = [
        FleetCommit(
            source=source,
            commit=commit,
            servers=len(each),
            failing=sum(one.last_error is not None for one in each),
            oldest_sync_seconds=max(
                (one.age_seconds for one in each if one.age_seconds is not None),
                default=None,
            ),
            first_seen=first_seen.get(commit),
        )
        for (source, commit), each in served.items()
    ]
    versions = Counter(beat.version for beat in beats)
    return Fleet(
        days=FLEET_DAYS,
        servers=len(beats),
        commits=tuple(sorted(commits, key=lambda c: (c.source, -c.servers, c.commit))),
        versions=tuple(
            FleetVersion(version=version, servers=count)
            for version, count in sorted(
                versions.items(), key=lambda item: (-item[1], item[0])
            )
        ),
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


def _load_days(
    store: EventStore,
    archive: DayArchive,
    span: Span,
    extent: Extent,
    *,
    totals_only: bool = False,
) -> Iterator[KeptDay]:
    """Yield each day of a span that has events, as it is now."""
    first = max(span.first, extent.oldest.date())
    last = min(span.last, extent.newest.date())
    if first > last:
        return
    counts = archive.count(first, last)
    for kept in archive.load(first, last, totals_only=totals_only):
        if counts.get(kept.day) == kept.events:
            del counts[kept.day]
            yield kept
    for day in counts:
        yield _make_day(store, archive, day)


def _make_day(store: EventStore, archive: DayArchive, day: date) -> KeptDay:
    aggregation = Aggregation(Span(day, day))
    events = 0
    for event in store.events(day, day):
        aggregation.add(event)
        events += 1
    totals, body = map(_pack, aggregation.pack())
    kept = KeptDay(day, events, totals, body)
    archive.save(kept)
    return kept


def _pack(packed: Packed) -> bytes:
    text = json.dumps(packed, ensure_ascii=False, separators=(",", ":"))
    return zlib.compress(text.encode(), _FAST)


def _unpack(kept: bytes) -> Packed:
    packed: Packed = json.loads(zlib.decompress(kept))
    return packed
