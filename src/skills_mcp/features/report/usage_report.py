"""The values of a report, for JSON, tables and pages, and the days that it is about.

Days are UTC.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, timedelta
from typing import Any, Literal

Period = Literal["day", "week", "month"]

# More bars than these cannot be distinguished on a telephone.
_MOST_DAYS = 45
_MOST_WEEKED_DAYS = 366

_BACK = re.compile(r"([1-9]\d{0,4})([dw])")
_DAYS = {"d": 1, "w": 7}


@dataclass(frozen=True, slots=True)
class Span:
    """The days from the first to the last, both included."""

    first: date
    last: date

    @property
    def days(self) -> int:
        """The number of days."""
        return (self.last - self.first).days + 1

    @property
    def period(self) -> Period:
        """The unit in which the span is counted: by day, week or month."""
        if self.days <= _MOST_DAYS:
            return "day"
        return "week" if self.days <= _MOST_WEEKED_DAYS else "month"

    @property
    def before(self) -> "Span | None":
        """The span of the same length just before; None before the first year."""
        last = self.first.toordinal() - 1
        first = last - self.days + 1
        return (
            Span(date.fromordinal(first), date.fromordinal(last)) if first > 0 else None
        )

    def __contains__(self, day: date) -> bool:
        """Whether a day is one of the span."""
        return self.first <= day <= self.last

    def starting(self, day: date) -> "Span":
        """Return the part of the span from a day on."""
        return Span(min(max(self.first, day), self.last), self.last)

    def periods(self) -> Iterator[date]:
        """Iterate over the first days of the periods; a week begins on Monday."""
        start = self.start_of(self.first)
        while start <= self.last:
            yield start
            start = self.start_of(start + timedelta(days=_STEPS[self.period]))

    def start_of(self, day: date) -> date:
        """Return the first day of the period that a day is in."""
        match self.period:
            case "day":
                return day
            case "week":
                return day - timedelta(days=min(day.weekday(), day.toordinal() - 1))
            case "month":
                return day.replace(day=1)


_STEPS: dict[Period, int] = {"day": 1, "week": 7, "month": 31}


def parse_since(text: str, last: date) -> date:
    """Return the first day of a span: a date, or so many days or weeks.

    >>> parse_since("30d", date(2026, 11, 30)), parse_since("2026-11-01", date.max)
    (datetime.date(2026, 11, 1), datetime.date(2026, 11, 1))

    Raises:
        ValueError: It is neither; the message says what to write.
    """
    back = _BACK.fullmatch(text)
    try:
        if not back:
            return date.fromisoformat(text)
        days = int(back[1]) * _DAYS[back[2]]
        return last - timedelta(days=days - 1)
    except (ValueError, OverflowError):
        message = f"{text!r} is neither like 30d or 12w nor a date like 2026-11-01."
        raise ValueError(message) from None


@dataclass(frozen=True, slots=True)
class Answers:
    """How tasks were answered."""

    served: int
    """Tasks that were answered with one skill."""
    ambiguous: int
    no_match: int

    @property
    def tasks(self) -> int:
        """The number of all tasks."""
        return self.served + self.ambiguous + self.no_match


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The main figures of some days."""

    since: date
    until: date
    answers: Answers
    people: int
    useful: int
    """Ratings that call a skill useful."""
    not_useful: int
    is_complete: bool
    """Whether events go back to the first of these days."""


@dataclass(frozen=True, slots=True)
class PeriodAnswers:
    """How the tasks of a day, a week or a month were answered."""

    start: date
    answers: Answers
    people: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A task that matched no skill; tasks of the same words are one."""

    task: str
    """Its newest wording; empty if it was not recorded."""
    count: int
    people: int
    last_seen: date
    near: tuple[str, ...]
    """The skills that came nearest to its newest wording; none if none was near."""
    today: tuple[str, ...] | None
    """The skills that would be the answer now; None if the skills are not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrecorded:
    """The unmatched tasks whose text was not recorded."""

    count: int
    different: int
    """How many different ones there are among those that have a hash."""
    most: int
    """How often the most frequent of these was asked."""


@dataclass(frozen=True, slots=True)
class KeywordCount:
    """A keyword, and in how many ambiguous answers both skills matched it."""

    keyword: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rivalry:
    """Two skills that were candidates of the same ambiguous answers."""

    skills: tuple[str, str]
    count: int
    picks: tuple[int, int] | None
    """How often each was picked afterwards; None if tasks were not recorded."""
    keywords: tuple[KeywordCount, ...]
    """The keywords by which both matched, the most frequent first."""
    days: tuple[tuple[date, int], ...]
    """The first day of each period with ambiguous answers, and how many it had."""
    last_seen: date
    task: str
    """The newest of these tasks; empty if it was not recorded."""
    is_still: bool | None
    """Whether that task has both as candidates now; None if that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillUse:
    """A skill that was served."""

    skill: str
    served: int
    unchanged: int
    """How often of these the agent had the text already and got only a reminder."""
    picked: int
    """How often of these the agent picked it from several candidates."""
    files: int
    """How often a file of it was served."""
    last_seen: date
    is_offered: bool | None
    """Whether it still exists; None if the skills are not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unserved:
    """A skill that exists and was never served."""

    skill: str
    description: str
    keywords: tuple[str, ...]
    candidate: int
    """How often it was a candidate of an ambiguous answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """The feedback on a skill at one commit."""

    skill: str
    commit: str
    """Empty if the events do not name it."""
    served: int
    useful: int
    not_useful: int
    comments: tuple[str, ...]
    """Complaints first, the newest first."""
    first_seen: date
    last_seen: date


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptUse:
    """The runs of a script at one commit."""

    skill: str
    file: str
    commit: str
    runs: int
    failures: int
    timeouts: int
    cancelled: int
    median_ms: int | None
    first_seen: date
    is_broken_since: bool
    """Whether at least half of the runs fail since this commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A commit, and the day on which it was first served."""

    commit: str
    first_seen: date


@dataclass(frozen=True, slots=True, kw_only=True)
class PartUse:
    """The main figures of one group of people, or of one source of skills."""

    name: str
    """Of the group, or the repository; empty for events that do not name it."""
    answers: Answers
    people: int
    useful: int
    not_useful: int
    before: Answers | None
    """The answers of the span of the same length just before, as far as known."""
    periods: tuple[tuple[date, int], ...]
    """The first day of each period with tasks, and how many it had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshes:
    """Calls of `refresh_skills`, and how many of them failed."""

    count: int
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCommit:
    """A commit that servers serve now."""

    source: str
    """Its repository."""
    commit: str
    servers: int
    failing: int
    """How many of these servers could not sync the last time."""
    oldest_sync_seconds: float | None
    """The longest time since the last successful sync of one of them."""
    first_seen: date | None
    """The day on which it was first used; None if that is not in the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetVersion:
    """A version of this program, and how many servers run it."""

    version: str
    servers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What the servers said last about themselves."""

    days: int
    """Servers that were heard from in so many days."""
    servers: int
    commits: tuple[FleetCommit, ...]
    """By source, and the most frequent first."""
    versions: tuple[FleetVersion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillEffect:
    """How often a skill was served and judged before and after a commit."""

    skill: str
    served: tuple[int, int]
    useful: tuple[int, int]
    not_useful: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitEffect:
    """What changed with a commit: as many days before its first use as from it on."""

    commit: str
    before: Totals
    after: Totals
    skills: tuple[SkillEffect, ...]
    """Skills with feedback, those first whose ratings changed most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many events were read, and how many of them are in the report."""

    events: int
    """Events in the report."""
    repeated: int
    """Events that were read again."""
    outside: int
    """Events before or after the days of the report."""
    unreadable: int
    """Lines that are no events, or of an unknown type, and unreadable files."""
    dropped: int
    """Events that were lost: too many waited to be sent, or the disk was full."""
    untold_tasks: int
    """Ambiguous and unmatched tasks whose text was not recorded."""
    uncounted: int
    """Events of a database that the server has not counted yet."""
    newest: date | None
    """The day of the newest event, in the report or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """All values of a report."""

    since: date
    until: date
    period: Period
    counts: Counts
    people: int
    answers: Answers
    before: Totals | None
    """The span of the same length just before; None if nothing is known of it."""
    periods: tuple[PeriodAnswers, ...]
    gaps: tuple[Gap, ...]
    unrecorded: Unrecorded
    rivalries: tuple[Rivalry, ...]
    skills: tuple[SkillUse, ...]
    unserved: tuple[Unserved, ...] | None
    """None if the skills are not known."""
    feedback: tuple[Feedback, ...]
    scripts: tuple[ScriptUse, ...]
    releases: tuple[Release, ...]
    refreshes: Refreshes
    groups: tuple[PartUse, ...] | None = None
    """The most frequent first; None if no event names a group."""
    sources: tuple[PartUse, ...] | None = None
    """The same of sources; None if no server has reported any, as with the fleet."""
    fleet: Fleet | None = None
    effect: CommitEffect | None = None
    """None if no commit was asked for."""


def render_report(report: UsageReport) -> dict[str, Any]:
    """Return a report as values for JSON."""
    rendered: dict[str, Any] = _render(report)
    return rendered


def _render(value: Any) -> Any:
    if is_dataclass(value):
        return {each.name: _render(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, tuple):
        return [_render(each) for each in value]
    return value.isoformat() if isinstance(value, date) else value
