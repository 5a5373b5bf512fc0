"""A report in tables, for a terminal of any width."""

from collections.abc import Iterable, Sequence
from datetime import date

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from skills_mcp.usage import Report
from skills_mcp.usage.excerpts import (
    describe_commit,
    describe_share,
    describe_untold,
    fold_weeks,
    pick_feedback,
    pick_gaps,
    pick_scripts,
)
from skills_mcp.usage.summary import Answers, Gap, Rivalry

_MOST_ROWS = 10  # of a table: a screen for all of them
_MOST_DAYS = 10  # more of them are told in weeks
_MOST_PERIODS = 26  # half a year of weeks

_NONE = "–"  # noqa: RUF001 - a dash stands for nothing

_Row = Sequence[str]


def print_tables(console: Console, report: Report, notes: Iterable[str]) -> None:
    """Print everything, in the order in which somebody can act on it."""
    console.print(escape(_headline(report)), soft_wrap=True)
    sections = (
        _tabulate_answers(report),
        _tabulate_gaps(report),
        _tabulate_rivalries(report),
        _tabulate_feedback(report),
        _tabulate_scripts(report),
        _tabulate_skills(report),
        _tabulate_unserved(report),
    )
    for table in sections:
        if table.row_count:
            console.print()
            console.print(table)
    console.print()
    for note in filter(None, (describe_untold(report), *notes)):
        console.print(escape(f"- {note}"), soft_wrap=True)
    console.print(
        "- Days are in UTC. A page with charts: --html FILE; all rows: --json",
        soft_wrap=True,
    )


def _headline(report: Report) -> str:
    answers, tasks = report.answers, report.answers.tasks
    people = f" of {_plural(report.people, 'person')}" if report.people else ""
    refreshed = report.refreshes.count
    return (
        f"{report.since} to {report.until}: "
        f"{_plural(report.counts.events, 'event')}{people}, "
        f"{_plural(tasks, 'task')}: "
        f"{describe_share(answers.served, tasks)} served, "
        f"{describe_share(answers.ambiguous, tasks)} ambiguous, "
        f"{describe_share(answers.no_match, tasks)} without a skill; "
        f"{_plural(refreshed, 'refresh')}, {report.refreshes.failures:,} failed"
    )


def _table(
    title: str,
    columns: Sequence[str],
    numbers: Iterable[str],
    rows: Sequence[_Row],
    most: int = _MOST_ROWS,
) -> Table:
    """Return a table of escaped texts, which ends before it bores."""
    table = Table(title=title, title_justify="left", caption_justify="left")
    for column in columns:
        right = column in numbers
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for row in rows[:most]:
        table.add_row(*map(escape, row))
    if len(rows) > most:
        table.caption = f"and {len(rows) - most:,} more"
    return table


def _tabulate_answers(report: Report) -> Table:
    by, answers = _fold(report)
    rows = [
        (
            str(start),
            f"{each.served:,}",
            f"{each.ambiguous:,}",
            f"{each.no_match:,}",
            describe_share(each.served, each.tasks),
        )
        for start, each in list(answers.items())[-_MOST_PERIODS:]
    ]
    columns = ("From", "Served", "Ambiguous", "No skill", "Share served")
    return _table(f"Answers by {by}", columns, columns[1:], rows, _MOST_PERIODS)


def _fold(report: Report) -> tuple[str, dict[date, Answers]]:
    """Return what fits a screen: many days as weeks."""
    if report.period == "day" and len(report.periods) > _MOST_DAYS:
        return "week", fold_weeks(report.periods)
    return report.period, {each.start: each.answers for each in report.periods}


def _tabulate_gaps(report: Report) -> Table:
    rows = [
        (
            gap.task,
            f"{gap.count:,}",
            f"{gap.people:,}" if gap.people else _NONE,
            str(gap.last_seen),
            _describe_today(gap),
        )
        for gap in pick_gaps(report)
    ]
    columns = ("Task", "Times", "People", "Last", "Today")
    return _table("Found nothing: what to write next", columns, columns[1:3], rows)


def _describe_today(gap: Gap) -> str:
    if gap.today is None:
        return _NONE
    return " or ".join(gap.today) or "nothing"


def _tabulate_rivalries(report: Report) -> Table:
    rows = [
        (
            "\n".join(each.skills),
            f"{each.count:,}",
            "\n".join(f"{pick:,}" for pick in each.picks) if each.picks else _NONE,
            ", ".join(word.keyword for word in each.keywords) or _NONE,
            str(each.last_seen),
            _describe_state(each),
        )
        for each in report.rivalries
    ]
    columns = ("Skills", "Times", "Taken", "Keywords of both", "Last", "Today")
    return _table("Ambiguous: keywords to change", columns, columns[1:3], rows)


def _describe_state(each: Rivalry) -> str:
    if each.is_still is None:
        return _NONE
    return "ambiguous" if each.is_still else "settled"


def _tabulate_feedback(report: Report) -> Table:
    rows = [
        (
            each.skill,
            describe_commit(each.commit),
            str(each.first_seen),
            f"{each.served:,}",
            f"{each.useful:,}",
            f"{each.not_useful:,}",
            each.comments[0] if each.comments else "",
        )
        for each in pick_feedback(report)
    ]
    columns = ("Skill", "Commit", "From", "Served", "Useful", "Not", "Said last")
    return _table("What helps, commit by commit", columns, columns[3:6], rows)


def _tabulate_scripts(report: Report) -> Table:
    rows = [
        (
            f"{each.skill}\n{each.file}",
            describe_commit(each.commit),
            f"{each.runs:,}",
            f"{each.failures:,}",
            f"{each.timeouts:,}",
            _NONE if each.median_ms is None else f"{each.median_ms:,} ms",
            f"since {each.first_seen}" if each.is_broken_since else "",
        )
        for each in pick_scripts(report)
    ]
    columns = ("Script", "Commit", "Runs", "Failed", "Late", "Median", "Broken")
    return _table("Scripts", columns, columns[2:6], rows)


def _tabulate_skills(report: Report) -> Table:
    rows = [
        (
            each.skill if each.is_offered is not False else f"{each.skill} (gone)",
            f"{each.served:,}",
            f"{each.picked:,}",
            f"{each.unchanged:,}",
            f"{each.files:,}",
            str(each.last_seen),
        )
        for each in report.skills
    ]
    columns = ("Skill", "Served", "Of several", "Unchanged", "Files", "Last")
    return _table("What is used", columns, columns[1:5], rows)


def _tabulate_unserved(report: Report) -> Table:
    rows = [
        (each.skill, ", ".join(each.keywords) or _NONE, f"{each.candidate:,}")
        for each in report.unserved or ()
    ]
    columns = ("Skill", "Keywords", "Candidate")
    return _table("Offered, and nobody got it", columns, columns[2:], rows)


def _plural(number: int, noun: str) -> str:
    plurals = {"person": "people", "refresh": "refreshes"}
    return f"{number:,} {noun if number == 1 else plurals.get(noun, f'{noun}s')}"
