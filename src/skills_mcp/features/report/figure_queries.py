"""The report as SQL over the figures of days.

The same statements run in SQLite and PostgreSQL, and in the SQLite of the standard
library, into whose memory the events of files are loaded: the report of a single machine
needs no package for databases.
"""

import sqlite3
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from functools import cached_property, partial
from heapq import nsmallest
from itertools import groupby, takewhile
from operator import itemgetter
from statistics import median
from typing import Any, NamedTuple

from skills_mcp.events.heartbeat import (
    Heartbeat,
    ServedSource,
    is_heartbeat,
    name_commits,
    parse_heartbeat,
)
from skills_mcp.events.received_event import MAX_FIELD_LENGTH, InvalidEventError
from skills_mcp.features.report import usage_report
from skills_mcp.features.report.day_figures import (
    ANSWERS,
    COLUMNS,
    MAX_NAMES,
    OTHERS,
    DayFigures,
    derive_day,
)
from skills_mcp.features.report.event_rows import (
    MAX_TEXT_LENGTH,
    UsageRow,
    clean_line,
    identify,
    parse_row,
)
from skills_mcp.features.report.usage_report import Span, UsageReport
from skills_mcp.library import Snapshot
from skills_mcp.routing.decision import answered_candidates, score_and_decide
from skills_mcp.skills.skill_index import INDEX, ROOT

# ruff: noqa: S608 - the statements are made of constants


Row = Sequence[Any]

Query = Callable[[str, Mapping[str, Any]], Iterable[Row]]
"""Runs a statement with named parameters, and has its rows."""

Answer = Callable[[str], tuple[str, ...]]
"""Routes a task now: paths of one skill, several candidates or none."""

FLEET_DAYS = 7
"""A server without a heartbeat for so long has left the fleet."""

_MAX_COMMITS, _MAX_VERSIONS = 1_000, 100
_MAX_COMPARED = 20  # commits; with one a day, three weeks
"""The most frequent; a fleet has a few, and a sender may invent a million."""

_MAX_COMMENTS = 5  # of a skill at a commit: more of them repeat each other
_MAX_KEYWORDS = 8  # of a pair: the first of them are those to change
_MAX_ROUTED = 200  # tasks that are routed again: lists are shown to 40 rows

_MAX_PEOPLE = 500_000  # with their commits and groups

_BROKEN = 0.5  # of the runs: a script may have a reason to fail less often

_RATINGS = "useful", "not_useful"
_MAIN = *ANSWERS.values(), *_RATINGS, "event", "tokens"
_USES = "served", "unchanged", "picked", "files", "tokens"
_OUTCOMES = "runs", "failures", "timeouts", "cancelled"
_COUNTED = "event", "dropped", "untold", "refreshed", "refresh_failed"

# A maximum of moment and text is the newest text. All moments have sixteen digits with
# this sum, from the year 2000 on.
_NEWEST = "SUBSTR(MAX(CAST(last_at + 1000000000000000 AS TEXT) || {}), 17)"


def within(*figures: str) -> str:
    names = ", ".join(f"'{figure}'" for figure in figures)
    return f"FROM day_figures WHERE day BETWEEN :first AND :last AND figure IN ({names})"


def _sum(figures: Iterable[str]) -> str:
    return ", ".join(
        f"SUM(CASE WHEN figure = '{figure}' THEN number ELSE 0 END)" for figure in figures
    )


_GAPS = f"""
SELECT SUM(number), COUNT(DISTINCT NULLIF(person, '')), MAX(last_at),
    {_NEWEST.format("wording")}, {_NEWEST.format("other")}
{within("gap")} AND mark <> ''
GROUP BY mark ORDER BY 1 DESC, 4, 3, mark LIMIT :rows
"""

_UNRECORDED = f"""
SELECT COUNT(*), MAX(asked), (SELECT SUM(number) {within("gap")} AND wording <> '')
FROM (SELECT SUM(number) AS asked {within("gap")} AND mark <> '' AND wording = ''
    GROUP BY mark) AS hashed
"""

_PAIRS = f"""
SELECT skill, other, SUM(number), MAX(last_at), {_NEWEST.format("wording")}, MAX(mark)
{within("pair")} AND other <> ''
GROUP BY skill, other ORDER BY 3 DESC, skill, other LIMIT :rows
"""

_PAIR_DAYS = f"SELECT skill, other, day, SUM(number) {within('pair')} GROUP BY skill, other, day"

_PAIR_KEYWORDS = f"""
SELECT skill, other, wording, number FROM (
    SELECT skill, other, wording, SUM(number) AS number, ROW_NUMBER() OVER (
        PARTITION BY skill, other ORDER BY SUM(number) DESC, wording
    ) AS place
    {within("keyword")} GROUP BY skill, other, wording
) AS ranked WHERE place <= :rows ORDER BY skill, other, place
"""

# A pick counts for each answer with both skills on the same day.
_PICKS = f"""
WITH picks AS (
    SELECT day, mark, skill, SUM(number) AS number
    {within("pick")} GROUP BY day, mark, skill
), met AS (
    SELECT day, mark, skill, other, SUM(number) AS number
    {within("pair")} AND mark IN (SELECT mark FROM picks) GROUP BY day, mark, skill, other
)
SELECT met.skill, met.other,
    SUM(CASE WHEN one.number < met.number THEN one.number
        WHEN one.number IS NULL THEN 0 ELSE met.number END),
    SUM(CASE WHEN two.number < met.number THEN two.number
        WHEN two.number IS NULL THEN 0 ELSE met.number END)
FROM met
LEFT JOIN picks AS one ON one.day = met.day AND one.mark = met.mark AND one.skill = met.skill
LEFT JOIN picks AS two ON two.day = met.day AND two.mark = met.mark AND two.skill = met.other
GROUP BY met.skill, met.other
"""

# Complaints first, the newest first.
_COMMENTS = f"""
SELECT skill, content_commit, figure, wording {within("complaint", "praise")} AND wording <> ''
ORDER BY skill, content_commit, figure, last_at DESC, wording DESC
"""

_DURATIONS = f"""
SELECT skill, other, content_commit, duration_ms, number
{within("runs")} AND duration_ms IS NOT NULL ORDER BY skill, other, content_commit
"""

_PEOPLE = f"SELECT COUNT(DISTINCT person) {within('person')} AND person <> ''"

_PEOPLE_OF_PARTS = f"""
SELECT DISTINCT content_commit, team, person {within("person")} AND person <> '' LIMIT :rows
"""

_FIRST_DAY = f"SELECT MIN(day) {within(*ANSWERS.values(), 'person')}"

_OTHER_COUNTS = f"SELECT {_sum(_COUNTED)} {within(*_COUNTED)}"


@dataclass(frozen=True, slots=True)
class CurrentSkill:
    """The part of a served skill used by a report."""

    path: str
    description: str
    keywords: tuple[str, ...]
    is_above_others: bool = False
    """Whether it is an index, delivered with the skills below it."""


@dataclass(frozen=True, slots=True)
class CurrentSkills:
    """The served skills, for a comparison with the events."""

    skills: tuple[CurrentSkill, ...]
    answer: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class EventExtent:
    """The events of all days, and what servers said about themselves."""

    oldest: date | None = None
    newest: date | None = None
    repeated: int = 0
    outside: int = 0
    unreadable: int = 0
    uncounted: int = 0
    beats: Sequence[Heartbeat] | None = None
    """The newest of each server."""
    commit_names: Mapping[str, str] | None = None
    """The repository of each commit, or else its mount."""

    def is_before(self, day: date) -> bool:
        """Whether events go back to a day."""
        return self.oldest is not None and self.oldest <= day


@dataclass(slots=True)
class _Part:
    sums: Counter[str] = field(default_factory=Counter)
    tasks: Counter[date] = field(default_factory=Counter)
    people: set[str] = field(default_factory=set)


class Tally(NamedTuple):
    """Sums of figures, and the ticks of the first and the last event."""

    names: tuple[Any, ...]
    numbers: Counter[str]
    first_at: int
    last_at: int


def _to_tally(row: Row, names: int, figures: Sequence[str]) -> Tally:
    *sums, first_at, last_at = row[names:]
    return Tally(tuple(row[:names]), _to_counter(figures, sums), first_at, last_at)


class FigureQueries:
    """The figures of a span of days, each read when it is needed.  Blocking."""

    def __init__(self, query: Query, span: usage_report.Span) -> None:
        self._query = query
        self.span = span

    def select(
        self, sql: str, rows: int | None = None, span: usage_report.Span | None = None
    ) -> Iterable[Row]:
        days = span or self.span
        values = {"first": days.first.toordinal(), "last": days.last.toordinal()}
        return self._query(sql, values if rows is None else {**values, "rows": rows})

    def count(
        self,
        names: Sequence[str],
        figures: Sequence[str],
        *,
        limit: int | None = None,
        has_rest: bool = False,
    ) -> list[Tally]:
        """Sum figures by names, the largest first.

        Names beyond the limit, `MAX_NAMES` by default, are left out, or are one row of
        `OTHERS` with `has_rest`.
        """
        limit = MAX_NAMES if limit is None else limit
        keys = ", ".join(names)
        values = f"{_sum(figures)}, MIN(first_at), MAX(last_at) {within(*figures)}"
        order = f"GROUP BY {keys} ORDER BY SUM(number) DESC, {keys} LIMIT :rows"
        rows = self.select(f"SELECT {keys}, {values} {order}", limit)
        tallies = [_to_tally(row, len(names), figures) for row in rows]
        if has_rest and len(tallies) == limit:
            [row] = self.select(f"SELECT {values}")
            rest = _to_tally((OTHERS, *[""] * (len(names) - 1), *row), len(names), figures)
            for tally in tallies:
                rest.numbers.subtract(tally.numbers)
            tallies.append(rest)
        return tallies

    def count_people(self, span: usage_report.Span | None = None) -> int:
        [[people]] = self.select(_PEOPLE, span=span)
        return int(people)

    @cached_property
    def days(self) -> dict[date, Counter[str]]:
        """The main figures of each day."""
        return {
            date.fromordinal(tally.names[0]): tally.numbers for tally in self.count(("day",), _MAIN)
        }

    @cached_property
    def sums(self) -> Counter[str]:
        return sum(self.days.values(), Counter())

    @cached_property
    def covered(self) -> usage_report.Span | None:
        """The span without the days before the first task or person; None without one."""
        [[day]] = self.select(_FIRST_DAY)
        return self.span.starting(date.fromordinal(day)) if day else None

    @property
    def charted(self) -> usage_report.Span:
        return self.covered or usage_report.Span(self.span.last, self.span.last)

    def derive_totals(self, *, is_complete: bool) -> usage_report.Totals:
        return usage_report.Totals(
            since=self.span.first,
            until=self.span.last,
            answers=count_answers(self.sums),
            people=self.count_people(),
            useful=self.sums["useful"],
            not_useful=self.sums["not_useful"],
            is_complete=is_complete,
        )

    def derive_periods(self) -> Iterator[usage_report.PeriodAnswers]:
        if self.covered is None:
            return
        starts = list(self.covered.periods())
        ends = [date.fromordinal(start.toordinal() - 1) for start in starts[1:]]
        answers: defaultdict[date, Counter[str]] = defaultdict(Counter)
        for day, sums in self.days.items():
            answers[self.covered.start_of(day)] += sums
        for start, end in zip(starts, (*ends, self.span.last), strict=True):
            people = self.count_people(usage_report.Span(max(start, self.span.first), end))
            yield usage_report.PeriodAnswers(
                start, count_answers(answers[start]), people, answers[start]["tokens"]
            )

    def find_releases(self) -> tuple[usage_report.Release, ...]:
        found = self.count(("content_commit",), ("event",), has_rest=True)
        order = sorted((tally.first_at, *tally.names) for tally in found if tally.names[0])
        return tuple(
            usage_report.Release(commit=name, first_seen=derive_day(first)) for first, name in order
        )

    def group_parts(self, name_part: Callable[[str, str], str]) -> dict[str, _Part]:
        """The main figures of parts, which a commit and a group name."""
        parts: defaultdict[str, _Part] = defaultdict(_Part)
        for (commit, team, day), numbers, *_ in self.count(
            ("content_commit", "team", "day"), _MAIN
        ):
            part = parts[name_part(commit, team)]
            part.sums += numbers
            period = self.charted.start_of(date.fromordinal(day))
            part.tasks[period] += count_answers(numbers).tasks
        for commit, team, person in self.select(_PEOPLE_OF_PARTS, _MAX_PEOPLE):
            parts[name_part(commit, team)].people.add(person)
        return parts

    def find_gaps(self, answer: Answer | None, limit: int | None) -> tuple[usage_report.Gap, ...]:
        rows = self.select(_GAPS, MAX_NAMES if limit is None else limit)
        return tuple(
            usage_report.Gap(
                task=task,
                count=int(count),
                people=people,
                last_seen=derive_day(tick),
                near=tuple(near.split("\n")) if near else (),
                today=_route(answer, task, index),
            )
            for index, (count, people, tick, task, near) in enumerate(rows)
        )

    def count_unrecorded(self) -> usage_report.Unrecorded:
        [(different, most, recorded)] = self.select(_UNRECORDED)
        return usage_report.Unrecorded(
            count=self.sums["no_match"] - int(recorded or 0),
            different=different,
            most=int(most or 0),
        )

    def find_rivalries(self, answer: Answer | None = None) -> tuple[usage_report.Rivalry, ...]:
        """Pairs of candidates of the same ambiguous answers."""
        days: defaultdict[Row, Counter[date]] = defaultdict(Counter)
        for *pair, day, count in self.select(_PAIR_DAYS):
            days[*pair,][self.charted.start_of(date.fromordinal(day))] += int(count)
        words: defaultdict[Row, list[usage_report.KeywordCount]] = defaultdict(list)
        for *pair, word, count in self.select(_PAIR_KEYWORDS, _MAX_KEYWORDS):
            words[*pair,].append(usage_report.KeywordCount(word, int(count)))
        picks = {
            (*pair,): (int(first), int(second)) for *pair, first, second in self.select(_PICKS)
        }
        rows = enumerate(self.select(_PAIRS, MAX_NAMES))
        return tuple(
            usage_report.Rivalry(
                skills=(first, second),
                count=int(count),
                picks=picks.get((first, second), (0, 0)) if mark else None,
                keywords=tuple(words[first, second]),
                days=tuple(sorted(days[first, second].items())),
                last_seen=derive_day(tick),
                task=task,
                is_still=None if today is None else {first, second} <= set(today),
            )
            for index, (first, second, count, tick, task, mark) in rows
            for today in [_route(answer, task, index)]
        )

    def find_skills(
        self, offered: Mapping[str, CurrentSkill] | None
    ) -> tuple[usage_report.SkillUse, ...]:
        uses = (
            usage_report.SkillUse(
                skill=skill,
                last_seen=derive_day(last_at),
                is_offered=None if offered is None else skill in offered,
                **numbers,
            )
            for (skill,), numbers, _, last_at in self.count(("skill",), _USES, has_rest=True)
        )
        return tuple(sorted(uses, key=lambda use: (-use.served, use.skill)))

    def find_unserved(
        self, offered: Mapping[str, CurrentSkill] | None, uses: Iterable[usage_report.SkillUse]
    ) -> tuple[usage_report.Unserved, ...] | None:
        """Skills without a use, by path; None if no skills are known."""
        if offered is None:
            return None
        served = {use.skill for use in uses if use.served}
        found = self.count(("skill",), ("candidate",))
        candidates = {tally.names[0]: tally.numbers["candidate"] for tally in found}
        return tuple(
            usage_report.Unserved(
                skill=skill.path,
                description=skill.description,
                keywords=skill.keywords,
                candidate=candidates.get(skill.path, 0),
            )
            for _, skill in sorted(offered.items())
            if skill.path not in served and not skill.is_above_others
        )

    def find_feedback(self) -> tuple[usage_report.Feedback, ...]:
        """Most complaints first, and per skill by time."""
        comments = {
            key: list(dict.fromkeys((figure, text) for *_, figure, text in rows))[:_MAX_COMMENTS]
            for key, rows in groupby(self.select(_COMMENTS), itemgetter(0, 1))
        }
        names = "skill", "content_commit"
        rows = [
            usage_report.Feedback(
                skill=skill,
                commit=commit,
                comments=tuple(text for _, text in comments.get((skill, commit), ())),
                first_seen=derive_day(first_at),
                last_seen=derive_day(last_at),
                **numbers,
            )
            for (skill, commit), numbers, first_at, last_at in sorted(
                self.count(names, ("served", *_RATINGS), has_rest=True),
                key=lambda tally: (tally.first_at, tally.names),
            )
            if numbers["useful"] + numbers["not_useful"]
        ]
        complaints: Counter[str] = Counter()
        for row in rows:
            complaints[row.skill] += row.not_useful
        return tuple(sorted(rows, key=lambda row: (-complaints[row.skill], row.skill)))

    def find_scripts(self) -> tuple[usage_report.ScriptUse, ...]:
        """Most failures first, and per script by time."""
        medians = {
            key: round(median(ms for *_, ms, number in rows for _ in range(number)))
            for key, rows in groupby(self.select(_DURATIONS), itemgetter(0, 1, 2))
        }
        names = "skill", "other", "content_commit"
        found = self.count(names, _OUTCOMES, has_rest=True)
        found.sort(key=lambda tally: (tally.names[:2], tally.first_at, tally.names))
        uses = (
            usage_report.ScriptUse(
                skill=skill,
                file=file,
                commit=commit,
                median_ms=medians.get((skill, file, commit)),
                first_seen=derive_day(first_at),
                is_broken_since=False,
                **numbers,
            )
            for (skill, file, commit), numbers, first_at, _ in found
        )
        scripts = [
            _mark_break(list(runs))
            for _, runs in groupby(uses, key=lambda use: (use.skill, use.file))
        ]
        scripts.sort(key=lambda runs: -sum(use.failures + use.timeouts for use in runs))
        return tuple(use for runs in scripts for use in runs)

    def count_others(self) -> Counter[str]:
        [sums] = self.select(_OTHER_COUNTS)
        return _to_counter(_COUNTED, sums)


def _to_counter(names: Iterable[str], sums: Iterable[Any]) -> Counter[str]:
    return Counter({name: int(number or 0) for name, number in zip(names, sums, strict=True)})


def count_answers(sums: Mapping[str, int]) -> usage_report.Answers:
    return usage_report.Answers(*(sums.get(figure, 0) for figure in ANSWERS.values()))


def _mark_break(uses: list[usage_report.ScriptUse]) -> list[usage_report.ScriptUse]:
    """Mark the first of the newest commits with only failures."""
    broken = len(list(takewhile(_is_broken, reversed(uses))))
    if broken:
        uses[-broken] = replace(uses[-broken], is_broken_since=True)
    return uses


def _is_broken(use: usage_report.ScriptUse) -> bool:
    failed = use.failures + use.timeouts
    return 0 < failed >= _BROKEN * (use.runs - use.cancelled)


def _route(answer: Answer | None, text: str, index: int) -> tuple[str, ...] | None:
    return answer(text) if answer and text and index < _MAX_ROUTED else None


def derive_parts(
    now: FigureQueries, before: FigureQueries | None, name_part: Callable[[str, str], str]
) -> tuple[usage_report.PartUse, ...]:
    """Main figures of parts, the most used first."""
    parts = now.group_parts(name_part)
    old = before.group_parts(name_part) if before else {}
    uses = (
        usage_report.PartUse(
            name=name,
            answers=count_answers(part.sums),
            people=len(part.people),
            useful=part.sums["useful"],
            not_useful=part.sums["not_useful"],
            before=count_answers(old[name].sums if name in old else {}) if before else None,
            periods=tuple(sorted((+part.tasks).items())),
        )
        for name in {*parts, *old}
        for part in [parts.get(name, _Part())]
    )
    return tuple(sorted(uses, key=lambda use: (-use.answers.tasks, use.name)))


def derive_report(
    query: Query,
    span: usage_report.Span,
    extent: EventExtent,
    current: CurrentSkills | None,
    max_gaps: int | None = None,
) -> usage_report.UsageReport:
    """Derive the report from the figures of days.  Blocking.

    `current` adds today's answers; None for `max_gaps` reports all unmatched tasks.
    """
    now = FigureQueries(query, span)
    has_before = span.before is not None and extent.is_before(span.before.last)
    before = FigureQueries(query, span.before) if span.before and has_before else None
    answer = current.answer if current else None
    offered = {skill.path: skill for skill in current.skills} if current else None
    counts, skills, releases = now.count_others(), now.find_skills(offered), now.find_releases()
    failures = counts["refresh_failed"]
    commits = derive_parts(now, before, lambda commit, _: commit)[:_MAX_COMPARED]
    groups, names = derive_parts(now, before, lambda _, team: team), extent.commit_names
    return usage_report.UsageReport(
        since=span.first,
        until=span.last,
        period=now.charted.period,
        counts=_derive_counts(extent, counts),
        people=now.count_people(),
        answers=count_answers(now.sums),
        useful=now.sums["useful"],
        not_useful=now.sums["not_useful"],
        before=before.derive_totals(is_complete=extent.is_before(before.span.first))
        if before
        else None,
        periods=tuple(now.derive_periods()),
        gaps=now.find_gaps(answer, max_gaps),
        unrecorded=now.count_unrecorded(),
        rivalries=now.find_rivalries(answer),
        skills=skills,
        unserved=now.find_unserved(offered, skills),
        feedback=now.find_feedback(),
        scripts=now.find_scripts(),
        releases=releases,
        refreshes=usage_report.Refreshes(count=counts["refreshed"] + failures, failures=failures),
        groups=groups if any(use.name for use in groups) else None,
        sources=None if names is None else derive_parts(now, before, _name_source(names)),
        by_commit=commits if any(use.name for use in commits) else None,
        fleet=None if extent.beats is None else derive_fleet(extent.beats, releases),
    )


def _name_source(names: Mapping[str, str]) -> Callable[[str, str], str]:
    return lambda commit, _: names.get(commit, "")


def _name_served(source: ServedSource) -> str:
    """Name of a source for a fleet: no heartbeat has the place of a folder."""
    if source.repository or source.commit:
        return source.repository or source.mount
    return f"folder at {source.mount or 'the top'}"


def derive_fleet(
    beats: Sequence[Heartbeat], releases: Sequence[usage_report.Release] = ()
) -> usage_report.Fleet:
    first_seen = {entry.commit: entry.first_seen for entry in releases}
    served: defaultdict[tuple[str, str], list[ServedSource]] = defaultdict(list)
    for beat in beats:
        for entry in beat.sources:
            served[_name_served(entry), entry.commit or ""].append(entry)
    commits = [
        usage_report.FleetCommit(
            source=source,
            commit=commit,
            servers=len(entry),
            failing=sum(one.last_error is not None for one in entry),
            oldest_sync_seconds=max(
                (one.age_seconds for one in entry if one.age_seconds is not None),
                default=None,
            ),
            first_seen=first_seen.get(commit),
        )
        for (source, commit), entry in served.items()
    ]
    commits = nsmallest(_MAX_COMMITS, commits, lambda entry: -entry.servers)
    versions = Counter(beat.version for beat in beats)
    return usage_report.Fleet(
        days=FLEET_DAYS,
        servers=len(beats),
        commits=tuple(sorted(commits, key=lambda c: (c.source, -c.servers, c.commit))),
        versions=tuple(
            usage_report.FleetVersion(version=version, servers=count)
            for version, count in nsmallest(
                _MAX_VERSIONS,
                versions.items(),
                key=lambda item: (-item[1], item[0]),
            )
        ),
    )


def _derive_counts(extent: EventExtent, counts: Counter[str]) -> usage_report.Counts:
    return usage_report.Counts(
        events=counts["event"],
        repeated=extent.repeated,
        outside=extent.outside,
        unreadable=extent.unreadable,
        dropped=counts["dropped"],
        untold_tasks=counts["untold"],
        uncounted=extent.uncounted,
        oldest=extent.oldest,
        newest=extent.newest,
    )


def derive_current_skills(snapshot: Snapshot) -> CurrentSkills:
    skills = (
        CurrentSkill(
            path=clean_line(skill.path, MAX_FIELD_LENGTH),
            description=clean_line(skill.description, MAX_TEXT_LENGTH),
            keywords=tuple(clean_line(word, MAX_FIELD_LENGTH) for word in skill.keywords),
            is_above_others=skill.path == ROOT or skill.path.rpartition("/")[2] == INDEX,
        )
        for skill in snapshot.index
    )
    return CurrentSkills(tuple(skills), partial(_answer_paths, snapshot))


def _answer_paths(snapshot: Snapshot, task: str) -> tuple[str, ...]:
    decision = score_and_decide(snapshot.matcher, task, snapshot.config.matching)
    return tuple(
        clean_line(candidate.skill.path, MAX_FIELD_LENGTH)
        for candidate in answered_candidates(decision)
    )


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
        insert = f"INSERT INTO day_figures VALUES ({values})"
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
