"""The data of a report, for JSON, tables and pages, and its span of days.

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
        return (self.last - self.first).days + 1

    @property
    def period(self) -> Period:
        """The unit of the charts: day, week or month."""
        if self.days <= _MOST_DAYS:
            return "day"
        return "week" if self.days <= _MOST_WEEKED_DAYS else "month"

    @property
    def before(self) -> "Span | None":
        """The span of the same length just before; None before the first year."""
        last = self.first.toordinal() - 1
        first = last - self.days + 1
        return Span(date.fromordinal(first), date.fromordinal(last)) if first > 0 else None

    def __contains__(self, day: date) -> bool:
        return self.first <= day <= self.last

    def starting(self, day: date) -> "Span":
        """The part of the span from a day on."""
        return Span(min(max(self.first, day), self.last), self.last)

    def periods(self) -> Iterator[date]:
        """The first days of the periods; a week begins on Monday."""
        start = self.start_of(self.first)
        while start <= self.last:
            yield start
            start = self.start_of(start + timedelta(days=_STEPS[self.period]))

    def start_of(self, day: date) -> date:
        """The first day of the period of a day."""
        match self.period:
            case "day":
                return day
            case "week":
                return day - timedelta(days=min(day.weekday(), day.toordinal() - 1))
            case "month":
                return day.replace(day=1)


_STEPS: dict[Period, int] = {"day": 1, "week": 7, "month": 31}


def parse_since(text: str, last: date) -> date:
    """Parse the first day of a span: a date, or a number of days or weeks.

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
    """Tasks answered with one skill."""
    ambiguous: int
    no_match: int

    @property
    def tasks(self) -> int:
        return self.served + self.ambiguous + self.no_match


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The main figures of some days."""

    since: date
    until: date
    answers: Answers
    people: int
    useful: int
    """Positive ratings of skills."""
    not_useful: int
    is_complete: bool
    """Whether events go back to the first of these days."""


@dataclass(frozen=True, slots=True)
class PeriodAnswers:
    """How the tasks of a day, a week or a month were answered."""

    start: date
    answers: Answers
    people: int
    tokens: int = 0
    """Of the texts that were served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """An unmatched task; tasks of the same words are one."""

    task: str
    """Its newest wording; empty if it was not recorded."""
    count: int
    people: int
    last_seen: date
    near: tuple[str, ...]
    """The near misses of its newest wording."""
    today: tuple[str, ...] | None
    """The answer now; None if the skills are not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrecorded:
    """Unmatched tasks without a recorded text."""

    count: int
    different: int
    """Distinct ones among those with a hash."""
    most: int
    """Count of the most frequent one."""


@dataclass(frozen=True, slots=True)
class KeywordCount:
    """A keyword, and the number of ambiguous answers with both skills matching it."""

    keyword: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rivalry:
    """Two candidates of the same ambiguous answers."""

    skills: tuple[str, str]
    count: int
    picks: tuple[int, int] | None
    """Picks of each; None if tasks were not recorded."""
    keywords: tuple[KeywordCount, ...]
    """Their common keywords, the most frequent first."""
    days: tuple[tuple[date, int], ...]
    """Ambiguous answers by the first day of the period."""
    last_seen: date
    task: str
    """The newest of these tasks; empty if it was not recorded."""
    is_still: bool | None
    """Whether both are candidates now; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillUse:
    """A served skill."""

    skill: str
    served: int
    unchanged: int
    """Of these, reminders to agents with the text already."""
    picked: int
    """Of these, picked by the agent from several candidates."""
    files: int
    """Served files of the skill."""
    tokens: int
    """Of its served texts, by an estimate."""
    last_seen: date
    is_offered: bool | None
    """Whether it still exists; None if the skills are not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unserved:
    """A skill without a use."""

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
    """Empty if unknown."""
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
    """A commit, and the first day of its use."""

    commit: str
    first_seen: date


@dataclass(frozen=True, slots=True, kw_only=True)
class PartUse:
    """Main figures of one group of people, or of one source."""

    name: str
    """The group or repository; empty if unknown."""
    answers: Answers
    people: int
    useful: int
    not_useful: int
    before: Answers | None
    """Answers of the span just before, as far as known."""
    periods: tuple[tuple[date, int], ...]
    """Tasks by the first day of the period."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshes:
    """Calls of `refresh_skills`, and how many failed."""

    count: int
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCommit:
    """A commit served now, or a folder."""

    source: str
    commit: str
    """Empty for a folder, and before the first sync."""
    servers: int
    failing: int
    """Servers with a failed last sync."""
    oldest_sync_seconds: float | None
    """The longest time since a successful sync."""
    first_seen: date | None
    """The first day of its use; None if it is not in the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetVersion:
    """A version of this program, and the number of its servers."""

    version: str
    servers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Servers by their newest heartbeats."""

    days: int
    """Maximum age of these heartbeats."""
    servers: int
    commits: tuple[FleetCommit, ...]
    """By source, and the most frequent first."""
    versions: tuple[FleetVersion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillEffect:
    """Uses and ratings of a skill before and after a commit."""

    skill: str
    served: tuple[int, int]
    useful: tuple[int, int]
    not_useful: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitEffect:
    """Effect of a commit: as many days before its first use as from it on."""

    commit: str
    before: Totals
    after: Totals
    skills: tuple[SkillEffect, ...]
    """Skills with feedback, the largest changes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many events were read, and how many are in the report."""

    events: int
    """Events in the report."""
    repeated: int
    """Duplicates."""
    outside: int
    """Events before or after the span."""
    unreadable: int
    """Invalid lines, unknown types and unreadable files."""
    dropped: int
    """Lost events: the spool or the disk was full."""
    untold_tasks: int
    """Ambiguous and unmatched tasks without a recorded text."""
    uncounted: int
    """New events in the database, not counted yet."""
    oldest: date | None
    """The day of the oldest event, in the report or not."""
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
    useful: int
    """Positive ratings of skills."""
    not_useful: int
    before: Totals | None
    """The span of the same length just before; None if unknown."""
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
    """The most frequent first; None without groups."""
    sources: tuple[PartUse, ...] | None = None
    """The same of sources; None without heartbeats, as with the fleet."""
    by_commit: tuple[PartUse, ...] | None = None
    """The same of the most used commits; None if no event has one."""
    fleet: Fleet | None = None
    effect: CommitEffect | None = None


def render_report(value: Any) -> Any:
    """Render a report, or a part, as values of JSON."""
    if is_dataclass(value):
        return {item.name: render_report(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, tuple):
        return list(map(render_report, value))
    return value.isoformat() if isinstance(value, date) else value
