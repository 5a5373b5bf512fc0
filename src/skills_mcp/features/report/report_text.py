"""Selection and wording of a report for people.  Pure."""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from itertools import groupby
from pathlib import Path
from typing import Literal, TypeVar

from skills_mcp.features.effect.evidence import LiftEvidence
from skills_mcp.features.report.event_rows import clean_line
from skills_mcp.features.report.usage_report import (
    Answers,
    Feedback,
    Gap,
    PartUse,
    PeriodAnswers,
    ScriptUse,
    UsageReport,
)
from skills_mcp.text.rendering import count_noun

_MOST_COMMITS = 4  # of a skill: whether the last change helped shows in two

_DOUBTFUL = 0.2  # of the ratings: fewer complaints have every skill

_SHORT = 8  # characters of a commit, about as many as Git shows

_HOUR = 60  # minutes
_TWO_DAYS = 48  # hours

NOTHING = "–"  # noqa: RUF001
"""A dash stands for it."""

_BLOCKS = "·▁▂▃▄▅▆▇█"

_Row = TypeVar("_Row")

RecordingState = Literal["on", "off", "refused"]
"""Whether events are recorded; `refused` if `DO_NOT_TRACK` is set."""

_MOST_REASON = 1000  # characters: an error of Git is that long


def describe_share(part: int, total: int) -> str:
    """A share in per cent: only none is 0 %, and only all is 100 %.

    >>> [describe_share(part, 1000) for part in (0, 1, 500, 999, 1000)]
    ['0 %', '< 1 %', '50 %', '> 99 %', '100 %']
    """
    if not total:
        return NOTHING
    percent = 100 * part / total
    if 0 < percent < 1:
        return "< 1 %"
    return "> 99 %" if 99 < percent < 100 else f"{percent:.0f} %"  # noqa: PLR2004


def describe_commit(commit: str) -> str:
    return commit[:_SHORT] or NOTHING


def describe_day(day: date) -> str:
    return f"{day.day} {day:%b %Y}"


def describe_ratings(useful: int, not_useful: int) -> str:
    """Share and number of useful ratings.

    >>> describe_ratings(9, 1)
    '90 % of 10'
    """
    judged = useful + not_useful
    return f"{describe_share(useful, judged)} of {judged:,}" if judged else NOTHING


def describe_elapsed(seconds: float | None) -> str:
    """Elapsed time in its largest unit.

    >>> [describe_elapsed(seconds) for seconds in (40, 7300, 200_000)]
    ['1 min', '2 h', '2 days']
    """
    if seconds is None:
        return NOTHING
    minutes = max(1, round(seconds / 60))
    if minutes < _HOUR:
        return f"{minutes} min"
    hours = minutes // _HOUR
    return f"{hours} h" if hours < _TWO_DAYS else f"{hours // 24} days"


def select_gaps(report: UsageReport) -> list[Gap]:
    """Unmatched tasks with a recorded text."""
    return [gap for gap in report.gaps if gap.task]


def describe_unrecorded(report: UsageReport) -> str:
    tasks = report.unrecorded
    if not tasks.count:
        return ""
    message = f"Unmatched tasks whose text was not recorded: {tasks.count:,}"
    if not tasks.different:
        return f"{message}."
    return f"{message}. Different tasks: {tasks.different:,}; most frequent: {tasks.most:,}."


def restrict_report(report: UsageReport, paths: Collection[str]) -> UsageReport:
    """Restrict a report to callers with access to some skills.

    It keeps numbers of all skills, events of these alone with their tasks and comments,
    and tasks without a skill.
    """
    return replace(
        _select_skills(report, paths.__contains__),
        gaps=tuple(
            replace(row, near=tuple(path for path in row.near if path in paths))
            for row in report.gaps
        ),
        rivalries=tuple(row for row in report.rivalries if set(row.skills) <= set(paths)),
        releases=(),
        groups=None,
        sources=None,
        by_commit=None,
        fleet=None,
        effect=None,
    )


def select_area(report: UsageReport, area: str) -> UsageReport:
    """Restrict the tables to a subtree."""
    inside = f"{area}/"

    def has(path: str) -> bool:
        return path == area or path.startswith(inside)

    return replace(
        _select_skills(report, has),
        gaps=tuple(row for row in report.gaps if any(map(has, row.near))),
        rivalries=tuple(row for row in report.rivalries if any(map(has, row.skills))),
    )


def _select_skills(report: UsageReport, has: Callable[[str], bool]) -> UsageReport:
    """Rows of some skills alone, in the tables with a row for each skill."""
    effect = report.effect
    return replace(
        report,
        skills=tuple(row for row in report.skills if has(row.skill)),
        unserved=tuple(row for row in report.unserved or () if has(row.skill)),
        feedback=tuple(row for row in report.feedback if has(row.skill)),
        scripts=tuple(row for row in report.scripts if has(row.skill)),
        effect=effect
        and replace(effect, skills=tuple(row for row in effect.skills if has(row.skill))),
    )


def select_feedback(report: UsageReport) -> list[Feedback]:
    """Feedback on the newest commits of each skill."""
    return _keep_newest(report.feedback, lambda row: row.skill)


def divide_feedback(report: UsageReport) -> tuple[list[Feedback], list[Feedback]]:
    """Divide feedback into doubtful and nearly always helpful skills."""
    bad: Counter[str] = Counter()
    judged: Counter[str] = Counter()
    for row in report.feedback:
        bad[row.skill] += row.not_useful
        judged[row.skill] += row.useful + row.not_useful
    doubtful = {path for path in bad if 0 < bad[path] >= _DOUBTFUL * judged[path]}
    rows = select_feedback(report)
    return (
        [row for row in rows if row.skill in doubtful],
        [row for row in rows if row.skill not in doubtful],
    )


def describe_change(part: int, total: int, before: int, total_before: int) -> str:
    """Change of a share, in words; empty if one of the two is unknown.

    >>> describe_change(85, 100, 41, 50), describe_change(1, 2, 0, 0)
    ('up from 82 %', '')
    """
    if not total or not total_before:
        return ""
    old = describe_share(before, total_before)
    if describe_share(part, total) == old:
        return "as before"
    is_more = part * total_before > before * total
    return f"{'up' if is_more else 'down'} from {old}"


def describe_part_change(part: PartUse) -> str:
    """Change of the share of served tasks of a group or source."""
    now, before = part.answers, part.before
    if before is None:
        return ""
    return describe_change(now.served, now.tasks, before.served, before.tasks)


def draw_trend(days: Sequence[tuple[date, int]], periods: Sequence[date]) -> str:
    """A text bar per period, the highest being the full block.

    >>> monday, friday = date(2026, 11, 2), date(2026, 11, 6)
    >>> draw_trend([(friday, 8)], [monday, friday])
    '·█'
    """
    counted = dict(days)
    highest = max(counted.values(), default=0) or 1
    top = len(_BLOCKS) - 1
    return "".join(_BLOCKS[-(-counted.get(p, 0) * top // highest)] for p in periods)


def select_scripts(report: UsageReport) -> list[ScriptUse]:
    """Runs of each script at its newest commits."""
    return _keep_newest(report.scripts, lambda row: (row.skill, row.file))


def fold_weeks(periods: Sequence[PeriodAnswers]) -> dict[date, Answers]:
    """Sum the answers of days by week; the key is its Monday."""
    weeks = groupby(periods, lambda period: find_monday(period.start))
    return {monday: _add([period.answers for period in days]) for monday, days in weeks}


def find_monday(day: date) -> date:
    return day - timedelta(days=day.weekday())


def _add(answers: Sequence[Answers]) -> Answers:
    return Answers(
        sum(answer.served for answer in answers),
        sum(answer.ambiguous for answer in answers),
        sum(answer.no_match for answer in answers),
    )


def _keep_newest(rows: Sequence[_Row], key: Callable[[_Row], Hashable]) -> list[_Row]:
    """The last rows of each group; `rows` are sorted by group and time."""
    groups = (list(rows_of_key) for _, rows_of_key in groupby(rows, key))
    return [row for group in groups for row in group[-_MOST_COMMITS:]]


LONG_DAYS = 30
"""Of counting, after which a skill that no agent got may have the wrong words."""


def is_long_counted(report: UsageReport) -> bool:
    """Whether events go back far enough to judge a skill that no agent got."""
    first = max(report.counts.oldest or report.until, report.since)
    return (report.until - first).days + 1 >= LONG_DAYS


def derive_report_notes(report: UsageReport, *, without_skills: str) -> tuple[str, ...]:
    """Notes: missing data, and how to get them.

    `without_skills` is the reason for missing skills; empty if they were loaded.
    """
    return tuple(_notes(report, clean_line(without_skills, _MOST_REASON)))


_MUCH_SERVED = 10
"""Answers from which a skill without a lift costs more than the look at it."""


def describe_effects(report: UsageReport, evidence: Mapping[str, LiftEvidence]) -> tuple[str, ...]:
    """Describe the skills in use that do not help, the most served first."""
    used = sorted(report.skills, key=lambda row: -row.served)
    rows = ((row, evidence.get(row.skill)) for row in used)
    return tuple(
        f"Much used, no lift: {row.skill} was served {row.served:,} times; {found}."
        for row, found in rows
        if found and row.served >= _MUCH_SERVED and found.verdict in _WITHOUT_LIFT
    )[:_MAX_EFFECTS]


_WITHOUT_LIFT = {"no_effect", "harms", "does_not_discriminate"}
_MAX_EFFECTS = 5


def describe_recording(settings: Path) -> str:
    """How to turn analytics on, in this file."""
    return (
        f"Write into {settings}"
        "\n\nanalytics:\n  enabled: true\n  context: redacted\n\n"
        "and restart your agent. Tell the people whose work is recorded."
    )


def describe_empty_report(
    report: UsageReport, counting: RecordingState, settings: Path, *, is_collected: bool
) -> str:
    """Explain an empty report, and what to do in the settings.

    `is_collected`: the events are from files named with `--from`.
    """
    counts = report.counts
    if counts.outside and counts.newest:
        return (
            f"No event from {report.since} to {report.until} (UTC): the newest of "
            f"{count_noun(counts.outside, 'event')} is from {counts.newest}. Choose other "
            "days with --since and --until."
        )
    if is_collected:
        return "There is no event in these files."
    if counting == "refused":
        return "No event: DO_NOT_TRACK is set here, so nothing is recorded."
    if counting == "on":
        return (
            "No event yet. Analytics are on: each server that was started since then "
            "records what agents ask for."
        )
    return f"No event: analytics are off. {describe_recording(settings)}"


def _notes(report: UsageReport, without_skills: str) -> Iterator[str]:
    counts = report.counts
    if counts.untold_tasks:
        yield (
            f"The text of {count_noun(counts.untold_tasks, 'ambiguous or unmatched task')} "
            "was not recorded. Set analytics.context: redacted to see such tasks from "
            "now on."
        )
    if counts.events and without_skills:
        yield (
            "The skills could not be loaded, so this report cannot say which were "
            f"never served, or what a task would match today. {without_skills}"
        )
    if report.answers.tasks and not report.people:
        yield "People are not counted: analytics.identity is none."
    if counts.dropped:
        yield (
            f"Lost: {count_noun(counts.dropped, 'event')}. More waited to be sent than "
            "are kept, or the disk was full."
        )
    if counts.uncounted:
        yield (
            f"Not counted yet: {count_noun(counts.uncounted, 'event')}. The server counts "
            "them within an hour; open this page again then, or use skills-mcp report."
        )
    if counts.unreadable:
        yield (
            f"Left out: {count_noun(counts.unreadable, 'line')} without an event, or with "
            "one of an unknown type."
        )
    if counts.repeated:
        yield f"Repeated: {count_noun(counts.repeated, 'event')}. Each counts once."
