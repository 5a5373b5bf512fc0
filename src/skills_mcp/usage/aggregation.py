"""Adds events up to a report, one at a time and in any order.  Pure.

Memory grows with the different tasks, skills, scripts and people, and by one number for
each event, which detects repetitions; never with the texts of all events.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from typing import Protocol

from skills_mcp.analytics.received_event import MOST_NAME
from skills_mcp.analytics.tracker import EventType
from skills_mcp.library import Snapshot
from skills_mcp.routing.decision import choose, list_answers
from skills_mcp.skills.index import INDEX, ROOT
from skills_mcp.usage.tallies import (
    Answer,
    CurrentSkill,
    FeedbackTally,
    GapTally,
    Packed,
    RivalryTally,
    ScriptTally,
    Seen,
    SkillTally,
)
from skills_mcp.usage.usage_report import (
    Answers,
    Counts,
    PeriodAnswers,
    Refreshes,
    Release,
    SourceUse,
    Span,
    Totals,
    UsageReport,
)
from skills_mcp.usage.usage_rows import (
    MOST_TEXT,
    UsageRow,
    parse_row,
    parse_task,
    tidy,
)


@dataclass(frozen=True, slots=True)
class CurrentSkills:
    """The skills that are served now, to compare the record with."""

    skills: tuple[CurrentSkill, ...]
    answer: Answer


class TotalsTally:
    """The main figures of a span."""

    def __init__(self) -> None:
        self._answers: Counter[str] = Counter()
        self._people: set[str] = set()
        self._ratings: Counter[bool] = Counter()

    def add(self, row: UsageRow) -> None:
        """Count an event."""
        self._people |= {row.person} - {""}
        if row.kind == "skill_feedback":
            self._ratings[row.is_set("useful")] += 1
        elif _is_task(row):
            self._answers[row.kind] += 1

    def pack(self) -> Packed:
        """Return it as values for JSON."""
        return {
            "answers": self._answers,
            "people": sorted(self._people),
            "ratings": [self._ratings[False], self._ratings[True]],
        }

    def merge(self, packed: Packed) -> None:
        """Add what another one has packed."""
        self._answers.update(packed["answers"])
        self._people.update(packed["people"])
        bad, useful = packed["ratings"]
        self._ratings.update({False: bad, True: useful})

    def derive(self, span: Span, *, is_complete: bool) -> Totals:
        """Return the figures."""
        return Totals(
            since=span.first,
            until=span.last,
            answers=_answers(self._answers),
            people=len(self._people),
            useful=self._ratings[True],
            not_useful=self._ratings[False],
            is_complete=is_complete,
        )


class PackedTally(Protocol):
    """A tally that can be kept and added to another one."""

    def pack(self) -> Packed:
        """Return it as values for JSON."""

    def merge(self, packed: Packed) -> None:
        """Add what another one has packed."""


class Aggregation:
    """All sums of a span."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._seen: set[int] = set()
        self._counts: Counter[str] = Counter()
        self._newest: datetime | None = None
        self._oldest: datetime | None = None
        self._before = TotalsTally()
        self._commits: defaultdict[str, TotalsTally] = defaultdict(TotalsTally)
        self._answers: defaultdict[date, Counter[str]] = defaultdict(Counter)
        self._people: defaultdict[date, set[str]] = defaultdict(set)
        self._releases: defaultdict[str, Seen] = defaultdict(Seen)
        self._refreshes: Counter[bool] = Counter()
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
        """Count an event; anything that is no event counts as unreadable."""
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

    def _add_outside(self, raw: object, row: UsageRow) -> None:
        self._counts["outside"] += 1
        before = self._span.before
        if before and row.moment.date() in before and not self._is_repeated(raw):
            self._before.add(row)

    def _is_repeated(self, raw: object) -> bool:
        mark = _identify(raw)
        if mark in self._seen:
            return True
        self._seen.add(mark)
        return False

    def _count(self, row: UsageRow, day: date) -> None:
        if row.person:
            self._people[day].add(row.person)
        if row.commit:
            self._releases[row.commit].add(row.moment)
        self._commits[row.commit].add(row)
        self._adders[row.kind](row)

    def _add_served(self, row: UsageRow) -> None:
        self._skill_tally.add_served(row)
        self._feedback_tally.add_served(row)
        if row.is_set("was_ambiguous"):
            self._rivalry_tally.add_pick(row)
        if _is_task(row):
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
        """Return the main figures, and all others, as values for JSON.

        What is packed has to be of one day.
        """
        totals = TotalsTally()
        for tally in self._commits.values():
            totals.merge(tally.pack())
        body = {
            "counts": self._counts,
            "commits": {commit: each.pack() for commit, each in self._commits.items()},
            "releases": {name: each.pack() for name, each in self._releases.items()},
            "refreshes": [self._refreshes[False], self._refreshes[True]],
            **{name: tally.pack() for name, tally in self._tallies().items()},
        }
        return totals.pack(), body

    def merge(self, day: date, totals: Packed, body: Packed) -> None:
        """Add what was packed of a day of the span."""
        self._counts.update(body["counts"])
        if totals["answers"]:
            self._answers[day].update(totals["answers"])
        if totals["people"]:
            self._people[day].update(totals["people"])
        for commit, packed in body["commits"].items():
            self._commits[commit].merge(packed)
        for commit, packed in body["releases"].items():
            self._releases[commit].merge(packed)
        failures, successes = body["refreshes"]
        self._refreshes.update({False: failures, True: successes})
        for name, tally in self._tallies().items():
            tally.merge(body[name])

    def merge_before(self, totals: Packed) -> None:
        """Add the main figures that were packed of a day of the span before."""
        self._before.merge(totals)

    def bound(self, oldest: datetime, newest: datetime, outside: int) -> None:
        """Say when the first and last event were, and how many are of other days."""
        self._oldest, self._newest = oldest, newest
        self._counts["outside"] = outside

    def _tallies(self) -> Mapping[str, PackedTally]:
        return {
            "gaps": self._gap_tally,
            "rivalries": self._rivalry_tally,
            "skills": self._skill_tally,
            "feedback": self._feedback_tally,
            "scripts": self._script_tally,
        }

    def derive_sources(self, names: Mapping[str, str]) -> tuple[SourceUse, ...]:
        """Return the main figures of each source, the most used first.

        Args:
            names: From a commit to the name of its source.
        """
        tallies: defaultdict[str, TotalsTally] = defaultdict(TotalsTally)
        for commit, tally in self._commits.items():
            tallies[names.get(commit, "")].merge(tally.pack())
        totals = {
            name: tally.derive(self._span, is_complete=True)
            for name, tally in tallies.items()
        }
        order = sorted(totals.items(), key=lambda one: (-one[1].answers.tasks, one[0]))
        return tuple(
            SourceUse(
                source=name,
                answers=each.answers,
                people=each.people,
                useful=each.useful,
                not_useful=each.not_useful,
            )
            for name, each in order
        )

    def derive(self, current: CurrentSkills | None) -> UsageReport:
        """Return the report; `current` adds what today's skills would answer."""
        days = self._answers.keys() | self._people.keys()
        span = self._span.starting(min(days, default=self._span.last))
        answer = current.answer if current else None
        offered = {skill.path: skill for skill in current.skills} if current else None
        return UsageReport(
            since=self._span.first,
            until=self._span.last,
            period=span.period,
            counts=self._derive_counts(),
            people=len(set().union(*self._people.values())),
            answers=_answers(sum(self._answers.values(), Counter())),
            before=self._derive_before(),
            periods=self._derive_periods(span) if days else (),
            gaps=self._gap_tally.derive(answer),
            rivalries=self._rivalry_tally.derive(span, answer),
            skills=self._skill_tally.derive(offered),
            unserved=self._skill_tally.derive_unserved(offered),
            feedback=self._feedback_tally.derive(),
            scripts=self._script_tally.derive(),
            releases=self._derive_releases(),
            refreshes=Refreshes(
                count=self._refreshes.total(), failures=self._refreshes[False]
            ),
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
            PeriodAnswers(start, _answers(answers[start]), len(people[start]))
            for start in span.periods()
        )

    def _derive_releases(self) -> tuple[Release, ...]:
        order = sorted(
            self._releases.items(), key=lambda item: (item[1].first, item[0])
        )
        return tuple(
            Release(commit=commit, first_seen=seen.first.date())
            for commit, seen in order
        )


def _is_task(row: UsageRow) -> bool:
    """Whether an event is the answer to a task that no other event tells of."""
    if row.kind != "skill_served":
        return row.kind in {"ambiguous", "no_match"}
    # Its task was counted as an ambiguous one, or as one without a match.
    return not row.is_set("was_ambiguous") and not row.is_set("was_near")


def _answers(counted: Counter[str]) -> Answers:
    served, ambiguous, no_match = "skill_served", "ambiguous", "no_match"
    return Answers(counted[served], counted[ambiguous], counted[no_match])


def _identify(raw: object) -> int:
    """Return a hash that identifies an event: of its `event_id`, or of all of it."""
    name = raw.get("event_id") if isinstance(raw, dict) else None
    if isinstance(name, str) and name:
        return hash(name)
    try:
        return hash(json.dumps(raw, sort_keys=True, default=str))
    except RecursionError:  # no real event is nested so deeply
        return hash(type(raw))


def derive_current_skills(snapshot: Snapshot) -> CurrentSkills:
    """Return the skills of a snapshot, and a function that routes a task to them."""
    skills = (
        CurrentSkill(
            path=tidy(skill.path, MOST_NAME),
            description=tidy(skill.description, MOST_TEXT),
            keywords=tuple(tidy(word, MOST_NAME) for word in skill.keywords),
            is_above_others=_is_above_others(skill.path),
        )
        for skill in snapshot.index
    )
    return CurrentSkills(tuple(skills), partial(_answer, snapshot))


def _is_above_others(path: str) -> bool:
    return path == ROOT or path.rpartition("/")[2] == INDEX


def _answer(snapshot: Snapshot, task: str) -> tuple[str, ...]:
    decision = choose(snapshot.matcher, task, snapshot.config.matching)
    return tuple(tidy(each.skill.path, MOST_NAME) for each in list_answers(decision))
