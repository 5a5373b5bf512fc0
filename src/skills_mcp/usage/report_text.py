"""The parts of a report that people read, and their words.  Pure."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from datetime import date, timedelta
from itertools import groupby
from typing import Literal, TypeVar

from skills_mcp.usage.usage_report import (
    Answers,
    Feedback,
    Gap,
    PeriodAnswers,
    ScriptUse,
    UsageReport,
)
from skills_mcp.usage.usage_rows import tidy

_MOST_COMMITS = 4  # of a skill: whether the last change helped shows in two

_SHORT = 8  # characters of a commit, about as many as Git shows

_NOTHING = "–"  # noqa: RUF001 - a dash stands for nothing

_Row = TypeVar("_Row")

Counting = Literal["on", "off", "refused"]
"""Whether events are written: the operator's choice, or `DO_NOT_TRACK`."""

_MOST_REASON = 1000  # characters: an error of Git is that long


def describe_share(part: int, whole: int) -> str:
    """Return a share in per cent; a little is never nothing, and most never all.

    >>> [describe_share(part, 1000) for part in (0, 1, 500, 999, 1000)]
    ['0 %', '< 1 %', '50 %', '> 99 %', '100 %']
    """
    if not whole:
        return _NOTHING
    percent = 100 * part / whole
    if 0 < percent < 1:
        return "< 1 %"
    return "> 99 %" if 99 < percent < 100 else f"{percent:.0f} %"  # noqa: PLR2004


def describe_commit(commit: str) -> str:
    """Return a commit as people name it."""
    return commit[:_SHORT] or _NOTHING


def describe_day(day: date) -> str:
    """Return a day as people write it."""
    return f"{day.day} {day:%b %Y}"


def pick_gaps(report: UsageReport) -> list[Gap]:
    """Return the tasks without a skill that somebody can read."""
    return [gap for gap in report.gaps if gap.task]


def describe_untold(report: UsageReport) -> str:
    """Say how many tasks without a skill nobody can read; empty if there are none."""
    untold = report.answers.no_match - sum(gap.count for gap in pick_gaps(report))
    if not untold:
        return ""
    said = f"Tasks without a skill whose words are not in the record: {untold:,}"
    marked = [gap.count for gap in report.gaps if not gap.task]
    if not marked:
        return f"{said}."
    most = f"the most frequent {marked[0]:,} times"
    return f"{said}. Different ones: {len(marked):,}, {most}."


def pick_feedback(report: UsageReport) -> list[Feedback]:
    """Return what was said of the newest commits of each skill."""
    return _keep_newest(report.feedback, lambda each: each.skill)


def pick_scripts(report: UsageReport) -> list[ScriptUse]:
    """Return how the newest commits of each script ran."""
    return _keep_newest(report.scripts, lambda each: (each.skill, each.file))


def fold_weeks(periods: Sequence[PeriodAnswers]) -> dict[date, Answers]:
    """Return the answers of days by the Monday of their week."""
    weeks = groupby(
        periods, lambda each: each.start - timedelta(days=each.start.weekday())
    )
    return {monday: _add([each.answers for each in days]) for monday, days in weeks}


def _add(answers: Sequence[Answers]) -> Answers:
    return Answers(
        sum(each.served for each in answers),
        sum(each.ambiguous for each in answers),
        sum(each.no_match for each in answers),
    )


def _keep_newest(rows: Sequence[_Row], key: Callable[[_Row], Hashable]) -> list[_Row]:
    """Return the last rows of each group; they stand together, in time."""
    groups = (list(each) for _, each in groupby(rows, key))
    return [row for group in groups for row in group[-_MOST_COMMITS:]]


def derive_notes(report: UsageReport, *, without_skills: str) -> tuple[str, ...]:
    """Return a sentence for everything that is missing, and what to do about it.

    Args:
        report: Of which the notes are.
        without_skills: Why the content could not be had; empty if it could.
    """
    return tuple(_notes(report, tidy(without_skills, _MOST_REASON)))


def describe_emptiness(
    report: UsageReport, counting: Counting, *, is_collected: bool
) -> str:
    """Say why a report has nothing in it, and how that changes.

    Args:
        report: An empty one.
        counting: Whether events are written on this machine.
        is_collected: Whether the events are from files that somebody named.
    """
    counts = report.counts
    if counts.outside and counts.newest:
        return (
            f"No event from {report.since} to {report.until} (UTC): the newest of "
            f"{_count(counts.outside, 'event')} is of {counts.newest}. Choose other "
            "days with --since and --until."
        )
    if is_collected:
        return "There is no event in these files."
    if counting == "refused":
        return "No event: DO_NOT_TRACK is set here, so nothing is counted."
    if counting == "on":
        return (
            "No event yet. Analytics are on: servers that start from now on, or that "
            "have started since, write down what agents ask for."
        )
    return (
        "No event: nothing is counted until you turn it on. Write into config.yaml in "
        "~/.skills-mcp\n\nanalytics:\n  enabled: true\n  context: redacted\n\nand "
        "start your agent again. Tell the people whose work is counted."
    )


def _notes(report: UsageReport, without_skills: str) -> Iterator[str]:
    counts = report.counts
    if counts.untold_tasks:
        yield (
            f"{_count(counts.untold_tasks, 'task')} without a clear answer can only be "
            "told apart, or not even that: analytics.context is hashed or none. Set it "
            "to redacted to read them here from then on."
        )
    if counts.events and without_skills:
        yield (
            "Without the skills this report cannot say which of them were never "
            f"served, or what a task would get today. {without_skills}"
        )
    if counts.events and not report.people:
        yield "People are not told apart: analytics.identity is none."
    if counts.dropped:
        yield (
            f"{_count(counts.dropped, 'event')} were lost: more waited to be sent than "
            "analytics.max_spool_bytes allows, or the disk was full."
        )
    if counts.unreadable:
        yield (
            f"{_count(counts.unreadable, 'line')} left out: no event, or one that this "
            "version does not know."
        )
    if counts.repeated:
        yield f"{_count(counts.repeated, 'event')} came again; each counts once."


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
