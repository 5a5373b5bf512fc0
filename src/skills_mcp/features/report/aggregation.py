"""Aggregates events into a report, one at a time and in any order.  Pure.

Memory grows with the distinct tasks, skills, scripts and people, and by one number per
event to detect duplicates; never with the texts of all events.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from typing import Any, Protocol

from skills_mcp.events.heartbeat import is_heartbeat, parse_heartbeat
from skills_mcp.events.received_event import MAX_FIELD_LENGTH, InvalidEventError
from skills_mcp.events.tracker import EventType
from skills_mcp.features.report.fleet import FleetTally
from skills_mcp.features.report.main_figures import (
    PartTally,
    TotalsTally,
    add_names,
    count_answers,
    is_task,
)
from skills_mcp.features.report.tallies import (
    OTHERS,
    Answer,
    BoundedTally,
    CurrentSkill,
    FeedbackTally,
    GapTally,
    Packed,
    RivalryTally,
    ScriptTally,
    SkillTally,
    TickRange,
    derive_day,
)
from skills_mcp.features.report.usage_report import (
    Counts,
    PartUse,
    PeriodAnswers,
    Refreshes,
    Release,
    Span,
    Totals,
    UsageReport,
)
from skills_mcp.features.report.usage_rows import (
    MAX_TEXT_LENGTH,
    UsageRow,
    clean_line,
    identify,
    parse_row,
    parse_task,
)
from skills_mcp.library import Snapshot
from skills_mcp.routing.decision import answered_candidates, score_and_decide
from skills_mcp.skills.index import INDEX, ROOT


@dataclass(frozen=True, slots=True)
class CurrentSkills:
    """The served skills, for a comparison with the events."""

    skills: tuple[CurrentSkill, ...]
    answer: Answer


# Commits with their groups; each has sums of its own, which take ten times a name.
_MOST_PARTS = 10_000

_Part = tuple[str, str]
"""A commit and a group; each may be empty."""


class PackedTally(Protocol):
    """A serialisable, mergeable tally."""

    def pack(self) -> Packed: ...

    def merge(self, packed: Packed) -> None: ...


class Aggregation:
    """All sums of a span."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._seen: set[int] = set()
        self._counts: Counter[str] = Counter()
        self._newest: datetime | None = None
        self._oldest: datetime | None = None
        self._before = TotalsTally()
        self._parts = BoundedTally(PartTally, ("", ""), _MOST_PARTS)
        self._answers: defaultdict[date, Counter[str]] = defaultdict(Counter)
        self._people: defaultdict[date, set[str]] = defaultdict(set)
        self._releases = BoundedTally(TickRange, OTHERS)
        self._refreshes: Counter[bool] = Counter()
        self._fleet_tally = FleetTally()
        self._gap_tally = GapTally()
        self._rivalry_tally = RivalryTally()
        self._skill_tally = SkillTally()
        self._feedback_tally = FeedbackTally()
        self._script_tally = ScriptTally()
        self._adders: Mapping[EventType, Callable[[UsageRow], None]] = {
            "skill_served": self._add_served,
            "ambiguous": self._add_ambiguous,
            "no_match": self._add_no_match,
            "asset_served": self._skill_tally.add_file,
            "script_executed": self._script_tally.add,
            "skill_feedback": self._feedback_tally.add,
            "refresh": self._add_refresh,
            "events_dropped": self._add_dropped,
        }

    def add(self, raw: object) -> None:
        """Count an event; an invalid one counts as unreadable."""
        if is_heartbeat(raw):
            self._add_heartbeat(raw)
            return
        row = parse_row(raw)
        if row is None:
            self._counts["unreadable"] += 1
            return
        self._newest = max(self._newest or row.moment, row.moment)
        self._oldest = min(self._oldest or row.moment, row.moment)
        day = row.moment.date()
        if day not in self._span:
            self._add_outside(raw, row)
        elif self._is_repeated(raw):
            self._counts["repeated"] += 1
        else:
            self._counts["events"] += 1
            self._count(row, day)

    def _add_heartbeat(self, raw: Mapping[str, Any]) -> None:
        try:
            self._fleet_tally.add(parse_heartbeat(raw))
        except InvalidEventError:
            self._counts["unreadable"] += 1

    def _add_outside(self, raw: object, row: UsageRow) -> None:
        self._counts["outside"] += 1
        before = self._span.before
        if before and row.moment.date() in before and not self._is_repeated(raw):
            self._before.add(row)
            self._parts[row.commit, row.group].before.add(row)

    def _is_repeated(self, raw: object) -> bool:
        mark = identify(raw)
        if mark in self._seen:
            return True
        self._seen.add(mark)
        return False

    def _count(self, row: UsageRow, day: date) -> None:
        if row.person:
            add_names(self._people[day], (row.person,))
        if row.commit:
            self._releases[row.commit].add(row.moment)
        self._parts[row.commit, row.group].add(row)
        self._adders[row.kind](row)

    def _add_served(self, row: UsageRow) -> None:
        self._skill_tally.add_served(row)
        self._feedback_tally.add_served(row)
        if row.is_set("was_ambiguous"):
            self._rivalry_tally.add_pick(row)
        if is_task(row):
            self._answers[row.moment.date()][row.kind] += 1

    def _add_no_match(self, row: UsageRow) -> None:
        self._add_task(row)
        self._gap_tally.add(row)

    def _add_ambiguous(self, row: UsageRow) -> None:
        self._add_task(row)
        self._rivalry_tally.add_ambiguous(row)
        self._skill_tally.add_ambiguous(row)

    def _add_task(self, row: UsageRow) -> None:
        self._answers[row.moment.date()][row.kind] += 1
        self._counts["untold_tasks"] += not parse_task(row).text

    def _add_refresh(self, row: UsageRow) -> None:
        self._refreshes[row.is_set("success")] += 1

    def _add_dropped(self, row: UsageRow) -> None:
        self._counts["dropped"] += row.number("count") or 0

    def pack(self) -> tuple[Packed, Packed]:
        """Serialise one day: the main figures, and all others."""
        packed = {part: item.totals.pack() for part, item in self._parts.items()}
        parts = [[*part, item] for part, item in packed.items()]
        totals = TotalsTally()
        for item in packed.values():
            totals.merge(item)
        body = {
            "counts": self._counts,
            "releases": {name: item.pack() for name, item in self._releases.items()},
            "refreshes": [self._refreshes[False], self._refreshes[True]],
            **{name: tally.pack() for name, tally in self._tallies().items()},
        }
        return {**totals.pack(), "parts": parts}, body

    def pack_unfinished(self) -> Packed:
        """Serialise the state `reopen` needs in addition."""
        return self._rivalry_tally.pack_unfinished()

    def reopen(self, day: date, totals: Packed, body: Packed, unfinished: Packed) -> None:
        """Load a serialised day to continue it with late events."""
        self.merge(day, totals, body)
        self._rivalry_tally.reopen(unfinished)

    def merge(self, day: date, totals: Packed, body: Packed) -> None:
        """Add a serialised day of the span."""
        self._counts.update(body["counts"])
        if totals["answers"]:
            self._answers[day].update(totals["answers"])
        if totals["people"]:
            add_names(self._people[day], totals["people"])
        for commit, group, packed in totals["parts"]:
            self._parts[commit, group].merge(day, packed)
        for commit, packed in body["releases"].items():
            self._releases[commit].merge(packed)
        failures, successes = body["refreshes"]
        self._refreshes.update({False: failures, True: successes})
        for name, tally in self._tallies().items():
            tally.merge(body[name])

    def merge_before(self, totals: Packed) -> None:
        """Add the serialised main figures of a day before the span."""
        self._before.merge(totals)
        for commit, group, packed in totals["parts"]:
            self._parts[commit, group].before.merge(packed)

    def bound(self, oldest: datetime, newest: datetime, outside: int, uncounted: int = 0) -> None:
        """Set the time range of the events, and how many are excluded or not yet counted."""
        self._oldest, self._newest = oldest, newest
        self._counts["outside"] = outside
        self._counts["uncounted"] = uncounted

    def _tallies(self) -> Mapping[str, PackedTally]:
        return {
            "gaps": self._gap_tally,
            "rivalries": self._rivalry_tally,
            "skills": self._skill_tally,
            "feedback": self._feedback_tally,
            "scripts": self._script_tally,
        }

    def derive_sources(self, names: Mapping[str, str]) -> tuple[PartUse, ...]:
        """Main figures of each source, the most used first; `names` by commit."""
        return self._derive_parts(lambda part: names.get(part[0], ""))

    def _derive_known_sources(self) -> tuple[PartUse, ...] | None:
        names = self._fleet_tally.names
        return self.derive_sources(names) if names else None

    def _derive_groups(self) -> tuple[PartUse, ...] | None:
        if not any(group for _, group in self._parts):
            return None
        return self._derive_parts(lambda part: part[1])

    def _derive_parts(self, name_of: Callable[[_Part], str]) -> tuple[PartUse, ...]:
        tallies: defaultdict[str, PartTally] = defaultdict(PartTally)
        for part, tally in self._parts.items():
            tallies[name_of(part)].join(tally)
        span, before = self._covered_span, self._derive_before()
        uses = [tally.derive(name, span, before) for name, tally in tallies.items()]
        return tuple(sorted(uses, key=lambda use: (-use.answers.tasks, use.name)))

    @property
    def _covered_span(self) -> Span:
        """The span without the days before the first event."""
        days = self._answers.keys() | self._people.keys()
        return self._span.starting(min(days, default=self._span.last))

    def derive(self, current: CurrentSkills | None, max_gaps: int | None = None) -> UsageReport:
        """Derive the report.

        `current` adds today's answers; None for `max_gaps` reports all unmatched tasks.
        """
        span = self._covered_span
        answer = current.answer if current else None
        answers = count_answers(sum(self._answers.values(), Counter()))
        offered = {skill.path: skill for skill in current.skills} if current else None
        return UsageReport(
            since=self._span.first,
            until=self._span.last,
            period=span.period,
            counts=self._derive_counts(),
            people=len(set().union(*self._people.values())),
            answers=answers,
            before=self._derive_before(),
            periods=self._derive_periods(span) if self._answers or self._people else (),
            gaps=self._gap_tally.derive(answer, max_gaps),
            unrecorded=self._gap_tally.derive_unrecorded(answers.no_match),
            rivalries=self._rivalry_tally.derive(span, answer),
            skills=self._skill_tally.derive(offered),
            unserved=self._skill_tally.derive_unserved(offered),
            feedback=self._feedback_tally.derive(),
            scripts=self._script_tally.derive(),
            releases=self._derive_releases(),
            refreshes=Refreshes(count=self._refreshes.total(), failures=self._refreshes[False]),
            groups=self._derive_groups(),
            sources=self._derive_known_sources(),
            fleet=self._fleet_tally.derive(self._derive_releases()),
        )

    def _derive_before(self) -> Totals | None:
        before = self._span.before
        if not before or not self._oldest or self._oldest.date() > before.last:
            return None
        is_complete = self._oldest.date() <= before.first
        return self._before.derive(before, is_complete=is_complete)

    def _derive_counts(self) -> Counts:
        count = self._counts
        return Counts(
            events=count["events"],
            repeated=count["repeated"],
            outside=count["outside"],
            unreadable=count["unreadable"],
            dropped=count["dropped"],
            untold_tasks=count["untold_tasks"],
            uncounted=count["uncounted"],
            newest=self._newest.date() if self._newest else None,
        )

    def _derive_periods(self, span: Span) -> tuple[PeriodAnswers, ...]:
        answers: defaultdict[date, Counter[str]] = defaultdict(Counter)
        people: defaultdict[date, set[str]] = defaultdict(set)
        for day, counted in self._answers.items():
            answers[span.start_of(day)].update(counted)
        for day, persons in self._people.items():
            people[span.start_of(day)] |= persons
        return tuple(
            PeriodAnswers(start, count_answers(answers[start]), len(people[start]))
            for start in span.periods()
        )

    def _derive_releases(self) -> tuple[Release, ...]:
        order = sorted(self._releases.items(), key=lambda item: (item[1].first, item[0]))
        return tuple(
            Release(commit=commit, first_seen=derive_day(seen.first)) for commit, seen in order
        )


def derive_current_skills(snapshot: Snapshot) -> CurrentSkills:
    skills = (
        CurrentSkill(
            path=clean_line(skill.path, MAX_FIELD_LENGTH),
            description=clean_line(skill.description, MAX_TEXT_LENGTH),
            keywords=tuple(clean_line(word, MAX_FIELD_LENGTH) for word in skill.keywords),
            is_above_others=_is_above_others(skill.path),
        )
        for skill in snapshot.index
    )
    return CurrentSkills(tuple(skills), partial(_answer_paths, snapshot))


def _is_above_others(path: str) -> bool:
    return path == ROOT or path.rpartition("/")[2] == INDEX


def _answer_paths(snapshot: Snapshot, task: str) -> tuple[str, ...]:
    decision = score_and_decide(snapshot.matcher, task, snapshot.config.matching)
    return tuple(
        clean_line(candidate.skill.path, MAX_FIELD_LENGTH)
        for candidate in answered_candidates(decision)
    )
