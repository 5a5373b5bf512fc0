"""The parts of a report that people read, and their words.  Pure."""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import replace
from datetime import date, timedelta
from itertools import groupby
from typing import Literal, TypeVar

from skills_mcp.features.report.usage_report import (
    Answers,
    Feedback,
    Gap,
    PartUse,
    PeriodAnswers,
    ScriptUse,
    UsageReport,
)
from skills_mcp.features.report.usage_rows import tidy
from skills_mcp.text.rendering import plural

_MOST_COMMITS = 4  # of a skill: whether the last change helped shows in two

_DOUBTFUL = 0.2  # of the ratings: fewer complaints have every skill

_SHORT = 8  # characters of a commit, about as many as Git shows

_HOUR = 60  # minutes
_TWO_DAYS = 48  # hours

_NOTHING = "–"  # noqa: RUF001 - a dash stands for nothing

_BLOCKS = "·▁▂▃▄▅▆▇█"

_Row = TypeVar("_Row")

Counting = Literal["on", "off", "refused"]
"""Whether events are recorded; `refused` if `DO_NOT_TRACK` is set."""

_MOST_REASON = 1000  # characters: an error of Git is that long


def describe_share(part: int, whole: int) -> str:
    """Return a share in per cent: only none is 0 %, and only all is 100 %.

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
    """Return the short form of a commit."""
    return commit[:_SHORT] or _NOTHING


def describe_day(day: date) -> str:
    """Return a day such as 9 Nov 2026."""
    return f"{day.day} {day:%b %Y}"


def describe_ratings(useful: int, not_useful: int) -> str:
    """Return the share of useful ratings, and of how many.

    >>> describe_ratings(9, 1)
    '90 % of 10'
    """
    judged = useful + not_useful
    return f"{describe_share(useful, judged)} of {judged:,}" if judged else _NOTHING


def describe_age(seconds: float | None) -> str:
    """Return how long ago something was.

    >>> [describe_age(each) for each in (40, 7300, 200_000)]
    ['1 min', '2 h', '2 days']
    """
    if seconds is None:
        return _NOTHING
    minutes = max(1, round(seconds / 60))
    if minutes < _HOUR:
        return f"{minutes} min"
    hours = minutes // _HOUR
    return f"{hours} h" if hours < _TWO_DAYS else f"{hours // 24} days"


def pick_gaps(report: UsageReport) -> list[Gap]:
    """Return the unmatched tasks whose text was recorded."""
    return [gap for gap in report.gaps if gap.task]


def describe_unrecorded(report: UsageReport) -> str:
    """Say how many unmatched tasks have no recorded text; empty if all have one."""
    tasks = report.unrecorded
    if not tasks.count:
        return ""
    said = f"Unmatched tasks whose text was not recorded: {tasks.count:,}"
    if not tasks.different:
        return f"{said}."
    return (
        f"{said}. Different tasks: {tasks.different:,}; most frequent: {tasks.most:,}."
    )


def narrow_report(report: UsageReport, paths: Collection[str]) -> UsageReport:
    """Return what callers may read who see only some skills.

    It has numbers of all skills, names of these alone, and no text of
    another caller: a task or a comment may be about a skill that is hidden.
    """
    return replace(
        report,
        gaps=(),
        rivalries=tuple(
            replace(each, task="", is_still=None)
            for each in report.rivalries
            if set(each.skills) <= set(paths)
        ),
        skills=tuple(each for each in report.skills if each.skill in paths),
        unserved=tuple(each for each in report.unserved or () if each.skill in paths),
        feedback=tuple(
            replace(each, comments=())
            for each in report.feedback
            if each.skill in paths
        ),
        scripts=tuple(each for each in report.scripts if each.skill in paths),
        releases=(),
        groups=None,
        sources=None,
        fleet=None,
        effect=None,
    )


def pick_area(report: UsageReport, area: str) -> UsageReport:
    """Return a report whose tables have only the skills of an area of the tree."""
    inside = f"{area}/"

    def has(path: str) -> bool:
        return path == area or path.startswith(inside)

    return replace(
        report,
        gaps=tuple(each for each in report.gaps if any(map(has, each.near))),
        rivalries=tuple(
            each for each in report.rivalries if any(map(has, each.skills))
        ),
        skills=tuple(each for each in report.skills if has(each.skill)),
        unserved=tuple(each for each in report.unserved or () if has(each.skill)),
        feedback=tuple(each for each in report.feedback if has(each.skill)),
        scripts=tuple(each for each in report.scripts if has(each.skill)),
    )


def pick_feedback(report: UsageReport) -> list[Feedback]:
    """Return the feedback on the newest commits of each skill."""
    return _keep_newest(report.feedback, lambda each: each.skill)


def divide_feedback(report: UsageReport) -> tuple[list[Feedback], list[Feedback]]:
    """Return the feedback on doubtful skills, and on skills that nearly always help."""
    bad: Counter[str] = Counter()
    judged: Counter[str] = Counter()
    for each in report.feedback:
        bad[each.skill] += each.not_useful
        judged[each.skill] += each.useful + each.not_useful
    doubtful = {path for path in bad if 0 < bad[path] >= _DOUBTFUL * judged[path]}
    rows = pick_feedback(report)
    return (
        [each for each in rows if each.skill in doubtful],
        [each for each in rows if each.skill not in doubtful],
    )


def describe_change(part: int, whole: int, before: int, whole_before: int) -> str:
    """Return how a share changed, in words; empty if one of them is unknown.

    >>> describe_change(85, 100, 41, 50), describe_change(1, 2, 0, 0)
    ('up from 82 %', '')
    """
    if not whole or not whole_before:
        return ""
    old = describe_share(before, whole_before)
    if describe_share(part, whole) == old:
        return "as before"
    is_more = part * whole_before > before * whole
    return f"{'up' if is_more else 'down'} from {old}"


def describe_part_change(part: PartUse) -> str:
    """Return how the share of served tasks of a group or source changed."""
    now, before = part.answers, part.before
    if before is None:
        return ""
    return describe_change(now.served, now.tasks, before.served, before.tasks)


def draw_trend(days: Sequence[tuple[date, int]], periods: Sequence[date]) -> str:
    """Return a bar of text for each period, the highest being the full block.

    >>> monday, friday = date(2026, 11, 2), date(2026, 11, 6)
    >>> draw_trend([(friday, 8)], [monday, friday])
    '·█'
    """
    counted = dict(days)
    highest = max(counted.values(), default=0) or 1
    top = len(_BLOCKS) - 1
    return "".join(_BLOCKS[-(-counted.get(p, 0) * top // highest)] for p in periods)


def pick_scripts(report: UsageReport) -> list[ScriptUse]:
    """Return the runs of each script at its newest commits."""
    return _keep_newest(report.scripts, lambda each: (each.skill, each.file))


def fold_weeks(periods: Sequence[PeriodAnswers]) -> dict[date, Answers]:
    """Add up the answers of days by week; the key is its Monday."""
    weeks = groupby(periods, lambda each: find_monday(each.start))
    return {monday: _add([each.answers for each in days]) for monday, days in weeks}


def find_monday(day: date) -> date:
    """Return the first day of the week of a day."""
    return day - timedelta(days=day.weekday())


def _add(answers: Sequence[Answers]) -> Answers:
    return Answers(
        sum(each.served for each in answers),
        sum(each.ambiguous for each in answers),
        sum(each.no_match for each in answers),
    )


def _keep_newest(rows: Sequence[_Row], key: Callable[[_Row], Hashable]) -> list[_Row]:
    """Return the last rows of each group; `rows` are sorted by group and time."""
    groups = (list(each) for _, each in groupby(rows, key))
    return [row for group in groups for row in group[-_MOST_COMMITS:]]


def derive_notes(report: UsageReport, *, without_skills: str) -> tuple[str, ...]:
    """Return the notes of a report: what it lacks, and what to do about it.

    Args:
        report: The report.
        without_skills: Why the skills could not be loaded; empty if they were.
    """
    return tuple(_notes(report, tidy(without_skills, _MOST_REASON)))


HOW_TO_RECORD = (
    "Write into ~/.skills-mcp/config.yaml"
    "\n\nanalytics:\n  enabled: true\n  context: redacted\n\n"
    "and restart your agent. Tell the people whose work is recorded."
)


def describe_emptiness(
    report: UsageReport, counting: Counting, *, is_collected: bool
) -> str:
    """Say why a report has no event, and what to do about it.

    Args:
        report: An empty one.
        counting: Whether events are recorded on this machine.
        is_collected: Whether the events are from files named with `--from`.
    """
    counts = report.counts
    if counts.outside and counts.newest:
        return (
            f"No event from {report.since} to {report.until} (UTC): the newest of "
            f"{plural(counts.outside, 'event')} is from {counts.newest}. Choose other "
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
    return f"No event: analytics are off. {HOW_TO_RECORD}"


def _notes(report: UsageReport, without_skills: str) -> Iterator[str]:
    counts = report.counts
    if counts.untold_tasks:
        yield (
            f"The text of {plural(counts.untold_tasks, 'ambiguous or unmatched task')} "
            "was not recorded. Set analytics.context: redacted to see such tasks from "
            "now on."
        )
    if counts.events and without_skills:
        yield (
            "The skills could not be loaded, so this report cannot say which were "
            f"never served, or what a task would match today. {without_skills}"
        )
    if counts.events and not report.people:
        yield "People are not counted: analytics.identity is none."
    if counts.dropped:
        yield (
            f"Lost: {plural(counts.dropped, 'event')}. More waited to be sent than "
            "analytics.max_spool_bytes allows, or the disk was full."
        )
    if counts.uncounted:
        yield (
            f"Not counted yet: {plural(counts.uncounted, 'event')}. The server counts "
            "them within an hour; open this page again then, or use skills-mcp report."
        )
    if counts.unreadable:
        yield (
            f"Left out: {plural(counts.unreadable, 'line')} without an event, or with "
            "one of an unknown type."
        )
    if counts.repeated:
        yield f"Repeated: {plural(counts.repeated, 'event')}. Each counts once."
