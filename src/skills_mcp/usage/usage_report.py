"""What a report says: values, for `--json`, for tables and for pages."""

from dataclasses import dataclass, fields, is_dataclass
from datetime import date
from typing import Any

from skills_mcp.usage.span import Period


@dataclass(frozen=True, slots=True)
class Answers:
    """How tasks were answered."""

    served: int
    """By one skill."""
    ambiguous: int
    no_match: int

    @property
    def tasks(self) -> int:
        """All of them."""
        return self.served + self.ambiguous + self.no_match


@dataclass(frozen=True, slots=True)
class PeriodAnswers:
    """How the tasks of a day, a week or a month were answered."""

    start: date
    answers: Answers
    people: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A task that found nothing, in whatever words of the same meaning."""

    task: str
    """As it was written last; empty if the operator does not let it be known."""
    count: int
    people: int
    last_seen: date
    today: tuple[str, ...] | None
    """The skills that would be the answer now; None if that is not known."""


@dataclass(frozen=True, slots=True)
class KeywordCount:
    """A keyword, and in how many ambiguous answers it spoke for both skills."""

    keyword: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rivalry:
    """Two skills that were candidates of the same ambiguous answers."""

    skills: tuple[str, str]
    count: int
    picks: tuple[int, int] | None
    """How often each of them was taken then; None if tasks cannot be told apart."""
    keywords: tuple[KeywordCount, ...]
    """What both matched by, the most frequent first."""
    days: tuple[tuple[date, int], ...]
    """How often in each period that had any."""
    last_seen: date
    task: str
    """The newest of these tasks; empty if the operator does not let it be known."""
    is_still: bool | None
    """Whether that task still has both as candidates; None if that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillUse:
    """A skill that was handed out."""

    skill: str
    served: int
    unchanged: int
    """How often of these the agent had the text already and got a reminder."""
    picked: int
    """How often of these the agent took it from several candidates."""
    files: int
    """How often a file of it was handed out."""
    last_seen: date
    is_offered: bool | None
    """Whether it is still offered; None if the skills are not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unserved:
    """A skill that is offered and was not handed out."""

    skill: str
    description: str
    keywords: tuple[str, ...]
    candidate: int
    """How often it was a candidate all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """What agents thought of a skill, as one commit had it."""

    skill: str
    commit: str
    """Empty if the events do not say."""
    served: int
    useful: int
    not_useful: int
    comments: tuple[str, ...]
    """The newest, of those that say why it did not help, before others."""
    first_seen: date
    last_seen: date


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptUse:
    """A script, as one commit had it."""

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
    """Whether it fails in at least half of its runs from this commit on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A commit, and when it was seen for the first time."""

    commit: str
    first_seen: date


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshes:
    """How often somebody asked for the newest content, and how often that failed."""

    count: int
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What was read, and what of it is in the report."""

    events: int
    """In the report."""
    repeated: int
    """The same event again."""
    outside: int
    """Before or after the days of the report."""
    unreadable: int
    """No event, or of a type that this version does not know; or a whole file."""
    dropped: int
    """Lost on the way: too many were waiting to be sent, or the disk was full."""
    untold_tasks: int
    """Ambiguous answers and tasks without a skill whose text is not in the record."""
    newest: date | None
    """The day of the newest event of all, in the report or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """Everything."""

    since: date
    until: date
    period: Period
    counts: Counts
    people: int
    answers: Answers
    periods: tuple[PeriodAnswers, ...]
    gaps: tuple[Gap, ...]
    rivalries: tuple[Rivalry, ...]
    skills: tuple[SkillUse, ...]
    unserved: tuple[Unserved, ...] | None
    """None if the skills are not known."""
    feedback: tuple[Feedback, ...]
    scripts: tuple[ScriptUse, ...]
    releases: tuple[Release, ...]
    refreshes: Refreshes


def render_report(report: UsageReport) -> dict[str, Any]:
    """Return a report as JSON has it."""
    rendered: dict[str, Any] = _render(report)
    return rendered


def _render(value: Any) -> Any:
    if is_dataclass(value):
        return {each.name: _render(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, tuple):
        return [_render(each) for each in value]
    return value.isoformat() if isinstance(value, date) else value
