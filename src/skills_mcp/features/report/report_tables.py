"""Tables of a usage report for a terminal."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Literal

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from skills_mcp.cli.terminal import tabulate
from skills_mcp.features.report import report_text, usage_report
from skills_mcp.text.rendering import count_noun

_MAX_ROWS = 10  # of a table, so that all tables fit a screen
_MOST_DAYS = 10  # more become weeks
_MAX_PERIODS = 26  # half a year of weeks

_EFFECT_FIGURES = ("Tasks", "Served", "Ambiguous", "No match", "Useful", "People")

_Row = Sequence[str]

Dimension = Literal["group", "source", "commit"]
"""Dimensions of the main figures."""

_UNNAMED: Mapping[Dimension, str] = {
    "group": "no event of these days names a group. Set analytics.group, or "
    "ANALYTICS_GROUP, on each machine; it counts from then on.",
    "source": "no server has said which source its commits are of. Servers say so "
    "where analytics.heartbeats is on, to the endpoint whose --database or --from you "
    "name.",
    "commit": "no event of these days has a commit. Folders have none.",
}


def print_parts(console: Console, report: usage_report.UsageReport, by: Dimension) -> None:
    """Print the main figures of each group or source.

    Raises:
        click.UsageError: No event names a group, or no server a source.
    """
    parts = {"group": report.groups, "source": report.sources, "commit": report.by_commit}
    table = _tabulate_parts(report, f"{by.title()}s", by.title(), parts[by])
    if not table.row_count:
        raise click.UsageError(f"--by {by}: {_UNNAMED[by]}")
    console.print(escape(_headline(report)), soft_wrap=True)
    console.print()
    console.print(table)


def print_tables(console: Console, report: usage_report.UsageReport, notes: Iterable[str]) -> None:
    """The most useful table first."""
    console.print(escape(_headline(report)), soft_wrap=True)
    sections = (
        _tabulate_answers(report),
        _tabulate_gaps(report),
        _tabulate_rivalries(report),
        _tabulate_feedback(report),
        _tabulate_scripts(report),
        _tabulate_skills(report),
        _tabulate_unserved(report),
        *_tabulate_all_parts(report),
        _tabulate_fleet(report),
        *_tabulate_effect(report),
    )
    for table in sections:
        if table.row_count:
            console.print()
            console.print(table)
    console.print()
    for note in filter(None, (report_text.describe_unrecorded(report), *notes)):
        console.print(escape(f"- {note}"), soft_wrap=True)
    console.print(
        "- Days are in UTC. A page with charts: --html FILE; all rows: --json; "
        "changes to review: --suggest",
        soft_wrap=True,
    )


def _headline(report: usage_report.UsageReport) -> str:
    answers, tasks = report.answers, report.answers.tasks
    people = f" of {count_noun(report.people, 'person')}" if report.people else ""
    refreshed = report.refreshes.count
    return (
        f"{report.since} to {report.until}: "
        f"{count_noun(report.counts.events, 'event')}{people}, "
        f"{count_noun(tasks, 'task')}: "
        f"{report_text.describe_share(answers.served, tasks)} served, "
        f"{report_text.describe_share(answers.ambiguous, tasks)} ambiguous, "
        f"{report_text.describe_share(answers.no_match, tasks)} without a match; "
        f"{count_noun(refreshed, 'refresh')}, {report.refreshes.failures:,} failed"
    )


def _table(
    title: str,
    columns: Sequence[str],
    numbers: Sequence[str],
    rows: Sequence[_Row],
    limit: int = _MAX_ROWS,
) -> Table:
    """A table of up to `limit` rows."""
    table = tabulate(columns, rows[:limit], title=escape(title), numbers=numbers)
    if len(rows) > limit:
        table.caption = f"and {len(rows) - limit:,} more"
    return table


def _tabulate_answers(report: usage_report.UsageReport) -> Table:
    by, answers = _fold_periods(report)
    tokens: Counter[date] = Counter()
    for period in report.periods:
        tokens[report_text.find_monday(period.start) if by == "week" else period.start] += (
            period.tokens
        )
    rows = [
        (
            str(start),
            f"{answers_of_period.served:,}",
            f"{answers_of_period.ambiguous:,}",
            f"{answers_of_period.no_match:,}",
            report_text.describe_share(answers_of_period.served, answers_of_period.tasks),
            f"{tokens[start]:,}",
        )
        for start, answers_of_period in list(answers.items())[-_MAX_PERIODS:]
    ]
    columns = (by.capitalize(), "Served", "Ambiguous", "No match", "Share served", "Tokens")
    return _table(f"Answers by {by}", columns, columns[1:], rows, _MAX_PERIODS)


def _fold_periods(report: usage_report.UsageReport) -> tuple[str, dict[date, usage_report.Answers]]:
    """Answers by period; many days become weeks to fit a screen."""
    if report.period == "day" and len(report.periods) > _MOST_DAYS:
        return "week", report_text.fold_weeks(report.periods)
    return report.period, {period.start: period.answers for period in report.periods}


def _tabulate_gaps(report: usage_report.UsageReport) -> Table:
    rows = [
        (
            gap.task,
            f"{gap.count:,}",
            f"{gap.people:,}" if gap.people else report_text.NOTHING,
            str(gap.last_seen),
            "\n".join(gap.near) or report_text.NOTHING,
            _describe_today(gap),
        )
        for gap in report_text.select_gaps(report)
    ]
    columns = ("Task", "Asked", "People", "Last asked", "Near misses", "Today")
    return _table("Unmatched tasks: what to write next", columns, columns[1:3], rows)


def _describe_today(gap: usage_report.Gap) -> str:
    if gap.today is None:
        return report_text.NOTHING
    return " or ".join(gap.today) or "no match"


def _tabulate_rivalries(report: usage_report.UsageReport) -> Table:
    rows = [
        (
            "\n".join(rivalry.skills),
            f"{rivalry.count:,}",
            "\n".join(f"{pick:,}" for pick in rivalry.picks)
            if rivalry.picks
            else report_text.NOTHING,
            ", ".join(word.keyword for word in rivalry.keywords) or report_text.NOTHING,
            str(rivalry.last_seen),
            _describe_state(rivalry),
        )
        for rivalry in report.rivalries
    ]
    columns = ("Skills", "Ambiguous", "Picked", "Shared keywords", "Last seen", "Today")
    return _table("Ambiguous answers: keywords to change", columns, columns[1:3], rows)


def _describe_state(rivalry: usage_report.Rivalry) -> str:
    if rivalry.is_still is None:
        return report_text.NOTHING
    return "ambiguous" if rivalry.is_still else "resolved"


def _tabulate_feedback(report: usage_report.UsageReport) -> Table:
    rows = [
        (
            feedback.skill,
            report_text.describe_commit(feedback.commit),
            str(feedback.first_seen),
            f"{feedback.served:,}",
            f"{feedback.useful:,}",
            f"{feedback.not_useful:,}",
            feedback.comments[0] if feedback.comments else "",
        )
        for feedback in report_text.select_feedback(report)
    ]
    columns = (*("Skill", "Commit", "First seen"), *("Served", "Useful", "Not useful", "Comment"))
    return _table("Feedback by commit", columns, columns[3:6], rows)


def _tabulate_scripts(report: usage_report.UsageReport) -> Table:
    rows = [
        (
            f"{script.skill}\n{script.file}",
            report_text.describe_commit(script.commit),
            f"{script.runs:,}",
            f"{script.failures:,}",
            f"{script.timeouts:,}",
            report_text.NOTHING if script.median_ms is None else f"{script.median_ms:,} ms",
            f"since {script.first_seen}" if script.is_broken_since else "",
        )
        for script in report_text.select_scripts(report)
    ]
    columns = ("Script", "Commit", "Runs", "Failed", "Timed out", "Median", "Failing")
    return _table("Scripts", columns, columns[2:6], rows)


def _tabulate_skills(report: usage_report.UsageReport) -> Table:
    rows = [
        (
            skill.skill if skill.is_offered is not False else f"{skill.skill} (removed)",
            f"{skill.served:,}",
            f"{skill.picked:,}",
            f"{skill.unchanged:,}",
            f"{skill.files:,}",
            f"{skill.tokens:,}",
            str(skill.last_seen),
        )
        for skill in report.skills
    ]
    columns = ("Skill", "Served", "Picked", "Unchanged", "Files", "Tokens", "Last served")
    return _table("Skills in use", columns, columns[1:6], rows)


def _tabulate_unserved(report: usage_report.UsageReport) -> Table:
    rows = [
        (skill.skill, ", ".join(skill.keywords) or report_text.NOTHING, f"{skill.candidate:,}")
        for skill in report.unserved or ()
    ]
    columns = ("Skill", "Keywords", "As candidate")
    return _table("Never served", columns, columns[2:], rows)


def _tabulate_all_parts(report: usage_report.UsageReport) -> Iterator[Table]:
    yield _tabulate_parts(report, "Groups", "Group", report.groups)
    yield _tabulate_parts(report, "Sources", "Source", report.sources)


def _tabulate_parts(
    report: usage_report.UsageReport,
    title: str,
    noun: str,
    parts: Sequence[usage_report.PartUse] | None,
) -> Table:
    by, answers = _fold_periods(report)
    starts = list(answers)[-_MAX_PERIODS:]
    rows = [
        (
            part.name or "not known",
            f"{part.answers.tasks:,}",
            report_text.draw_trend(_fold_tasks(part, by), starts),
            _describe_served(part),
            report_text.describe_share(part.answers.no_match, part.answers.tasks),
            f"{part.people:,}",
            report_text.describe_ratings(part.useful, part.not_useful),
        )
        for part in parts or ()
    ]
    columns = (noun, "Tasks", f"By {by}", "Served", "No match", "People", "Useful")
    return _table(title, columns, (columns[1], *columns[4:]), rows)


def _fold_tasks(part: usage_report.PartUse, by: str) -> list[tuple[date, int]]:
    tasks: Counter[date] = Counter()
    for start, count in part.periods:
        tasks[report_text.find_monday(start) if by == "week" else start] += count
    return list(tasks.items())


def _describe_served(part: usage_report.PartUse) -> str:
    share = report_text.describe_share(part.answers.served, part.answers.tasks)
    change = report_text.describe_part_change(part)
    return f"{share}, {change}" if change else share


def _tabulate_fleet(report: usage_report.UsageReport) -> Table:
    fleet = report.fleet
    rows = [
        (
            entry.source,
            report_text.describe_commit(entry.commit),
            f"{entry.servers:,}",
            f"{entry.failing:,}",
            report_text.describe_elapsed(entry.oldest_sync_seconds),
            str(entry.first_seen or report_text.NOTHING),
        )
        for entry in (fleet.commits if fleet else ())
    ]
    columns = ("Source", "Commit", "Servers", "Failing", "Oldest sync", "First used")
    title = "What servers serve"
    if fleet:
        versions = (f"{entry.version}: {entry.servers:,}" for entry in fleet.versions)
        heard = f"{count_noun(fleet.servers, 'server')} in {fleet.days} days"
        title = f"{title} ({heard}; by version: {', '.join(versions)})"
    return _table(title, columns, columns[2:4], rows)


def _tabulate_effect(report: usage_report.UsageReport) -> tuple[Table, ...]:
    effect = report.effect
    if effect is None:
        return ()
    days = effect.before, effect.after
    title = f"Before and after {report_text.describe_commit(effect.commit)}"
    columns = ("", *(f"{item.since} to {item.until}" for item in days))
    rows = [
        (name, before, after)
        for name, before, after in zip(_EFFECT_FIGURES, *map(_list_totals, days), strict=True)
    ]
    skills = [
        (
            item.skill,
            *map(report_text.describe_ratings, item.useful, item.not_useful),
            *(f"{number:,}" for number in item.served),
        )
        for item in effect.skills
    ]
    heads = ("Skill", "Useful before", "Useful after", "Served before", "Served after")
    return (
        _table(title, columns, columns[1:], rows),
        _table(f"{title}: skills", heads, heads[1:], skills),
    )


def _list_totals(totals: usage_report.Totals) -> _Row:
    answers = totals.answers
    return (
        f"{answers.tasks:,}",
        report_text.describe_share(answers.served, answers.tasks),
        report_text.describe_share(answers.ambiguous, answers.tasks),
        report_text.describe_share(answers.no_match, answers.tasks),
        report_text.describe_ratings(totals.useful, totals.not_useful),
        f"{totals.people:,}",
    )
