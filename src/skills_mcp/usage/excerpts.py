"""What of a report a person reads, and in which words.  Pure."""

from collections.abc import Callable, Hashable, Sequence
from datetime import date, timedelta
from itertools import groupby
from typing import TypeVar

from skills_mcp.usage.summary import (
    Answers,
    Feedback,
    Gap,
    PeriodAnswers,
    Report,
    ScriptUse,
)

_MOST_COMMITS = 4  # of a skill: whether the last change helped shows in two

_SHORT = 8  # characters of a commit, about as many as Git shows

_NOTHING = "–"  # noqa: RUF001 - a dash stands for nothing

_Row = TypeVar("_Row")


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


def pick_gaps(report: Report) -> list[Gap]:
    """Return the tasks without a skill that somebody can read."""
    return [gap for gap in report.gaps if gap.task]


def describe_untold(report: Report) -> str:
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


def pick_feedback(report: Report) -> list[Feedback]:
    """Return what was said of the newest commits of each skill."""
    return _keep_newest(report.feedback, lambda each: each.skill)


def pick_scripts(report: Report) -> list[ScriptUse]:
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
