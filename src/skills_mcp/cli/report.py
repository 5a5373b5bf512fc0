"""`skills-mcp report`: what agents asked for and what they got, in tables or a page."""

import errno
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from skills_mcp.about import DISTRIBUTION
from skills_mcp.bootstrap import Options, build, load_rules, open_record
from skills_mcp.cli.sync import load_snapshot
from skills_mcp.cli.terminal import open_console, print_json
from skills_mcp.config import refuses_tracking
from skills_mcp.errors import ConfigError, SyncError
from skills_mcp.features.report import (
    Aggregation,
    Counting,
    CurrentSkills,
    EventFilesError,
    Span,
    UsageReport,
    derive_current_skills,
    derive_notes,
    describe_emptiness,
    load_event_files,
    parse_since,
    render_page,
    render_report,
)
from skills_mcp.features.report.report_text import (
    describe_age,
    describe_commit,
    describe_part_change,
    describe_ratings,
    describe_share,
    describe_unrecorded,
    draw_trend,
    find_monday,
    fold_weeks,
    pick_feedback,
    pick_gaps,
    pick_scripts,
)
from skills_mcp.features.report.usage_report import (
    Answers,
    Gap,
    PartUse,
    Rivalry,
    Totals,
)
from skills_mcp.files.durable import replacing
from skills_mcp.text.rendering import plural

if TYPE_CHECKING:
    from skills_mcp.events.collector.event_store import EventStore

_MOST_ROWS = 10  # of a table, so that all tables fit a screen
_MOST_DAYS = 10  # more become weeks
_MOST_PERIODS = 26  # half a year of weeks

_DATABASE_NEEDS = ("sqlalchemy", "alembic")

_NONE = "–"  # noqa: RUF001 - a dash stands for nothing

_EFFECT_FIGURES = ("Tasks", "Served", "Ambiguous", "No match", "Useful", "People")

_Row = Sequence[str]

By = Literal["group", "source"]
"""What the main figures can be divided by."""

_UNNAMED: Mapping[By, str] = {
    "group": "no event of these days names a group. Set analytics.group, or "
    "ANALYTICS_GROUP, on each machine; it counts from then on.",
    "source": "no server has said which source its commits are of. Servers say so "
    "where analytics.heartbeats is on, to the endpoint whose --database or --from you "
    "name.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """Which events to add up, and where the report goes."""

    since: str
    until: datetime | None
    collected: tuple[Path, ...]
    database: str | None
    around: str | None
    by: By | None
    as_json: bool
    html: Path | None
    is_suggesting: bool
    source: str | None


@dataclass(frozen=True, slots=True)
class _Content:
    """The skills that are served now, or the reason why they are not known."""

    current: CurrentSkills | None
    reason: str = ""


def print_report(
    options: Options, environment: Mapping[str, str], wanted: ReportOptions
) -> None:
    """Add the events up, and print or write the report."""
    if wanted.source is not None:
        raise click.UsageError("--source needs --suggest: it chooses a diff.")
    span = parse_span(wanted)
    if wanted.by and (wanted.as_json or wanted.html):
        raise click.UsageError(
            "--by is for the tables: --json and --html have groups and sources anyway."
        )
    if wanted.html:
        _check_place(wanted.html)
    content = _look_at_skills(options, environment)
    report = _load(environment, wanted, span, content.current)
    notes = derive_notes(report, without_skills=content.reason)
    if not report.counts.events:
        counting = find_counting(options, environment)
        is_collected = bool(wanted.collected) or wanted.database is not None
        said = describe_emptiness(report, counting, is_collected=is_collected)
        notes = said, *notes
    _show(report, notes, wanted)


def _load(
    environment: Mapping[str, str],
    wanted: ReportOptions,
    span: Span,
    current: CurrentSkills | None,
) -> UsageReport:
    if wanted.database is not None:
        return _load_database(wanted, span, current)
    if wanted.around:
        raise click.UsageError(
            "--around needs --database: name the database of events."
        )
    aggregation = Aggregation(span)
    try:
        for event in read_events(environment, wanted):
            aggregation.add(event)
    except EventFilesError as error:
        raise click.UsageError(str(error)) from error
    return aggregation.derive(current)


def _load_database(
    wanted: ReportOptions, span: Span, current: CurrentSkills | None
) -> UsageReport:
    store = open_database(wanted)
    from skills_mcp.features.report.database_report import (
        UnknownCommitError,
        load_report,
    )

    try:
        return load_report(store, span, current, wanted.around or "")
    except UnknownCommitError as error:
        raise click.UsageError(f"--around: {error}") from error
    finally:
        store.close()


def open_database(wanted: ReportOptions) -> "EventStore":
    """Open the database of events.

    Raises:
        click.UsageError: Files are named, too.
        ConfigError: A package is missing.
        EventStoreError: There is no such database.
    """
    if wanted.collected:
        raise click.UsageError("--database and --from exclude each other: name one.")
    if not wanted.database:  # an unset variable in a script means no other record
        raise click.UsageError("--database is empty: name the database of events.")
    if missing := [name for name in _DATABASE_NEEDS if find_spec(name) is None]:
        raise ConfigError(
            f"--database needs {' and '.join(missing)}, which is not installed: "
            f"pip install '{DISTRIBUTION}[http]'"
        )
    from skills_mcp.events.collector.event_store import find_event_store

    return find_event_store(wanted.database)


def parse_span(wanted: ReportOptions) -> Span:
    """Return the days of a report.

    Raises:
        click.UsageError: They are none.
    """
    last = wanted.until.date() if wanted.until else datetime.now(UTC).date()
    try:
        span = Span(parse_since(wanted.since, last), last)
    except ValueError as error:
        raise click.UsageError(f"--since: {error}") from error
    if span.first > last:
        raise click.UsageError(f"--since: {span.first} is after {last}, the last day.")
    return span


def read_events(
    environment: Mapping[str, str], wanted: ReportOptions
) -> Iterator[object]:
    """Iterate over the events of the named files, or of this machine.

    Raises:
        EventFilesError: A file cannot be read.
    """
    if wanted.collected:
        yield from load_event_files(wanted.collected)
        return
    record = open_record(environment)
    yield from record.events()
    yield from (None for _ in range(record.skipped))


def _look_at_skills(options: Options, environment: Mapping[str, str]) -> _Content:
    """Return the skills that are served now; a report can do without them."""
    try:
        return _Content(
            derive_current_skills(load_snapshot(build(options, environment)))
        )
    except (ConfigError, SyncError) as error:
        return _Content(None, str(error))


def find_counting(options: Options, environment: Mapping[str, str]) -> Counting:
    """Return whether events are recorded here, or why not."""
    if refuses_tracking(environment):
        return "refused"
    try:
        return "on" if load_rules(options, environment).analytics.enabled else "off"
    except ConfigError:
        return "off"


def _show(report: UsageReport, notes: tuple[str, ...], wanted: ReportOptions) -> None:
    if wanted.html:
        _write(wanted.html, render_page(report, notes))
    if wanted.as_json:
        print_json({**render_report(report), "notes": list(notes)})
    elif not report.counts.events:
        click.echo("\n".join(notes))
        if wanted.html:
            click.echo(f"{wanted.html} says so, too: it has no figures.")
    elif wanted.html:
        click.echo(f"{report.counts.events:,} events are in {wanted.html}")
    elif wanted.by:
        _print_parts(open_console(), report, wanted.by)
    else:
        _print_tables(open_console(), report, notes)


@contextmanager
def _readable_failures(file: Path) -> Iterator[None]:
    """Turn errors of the disk into wrong usage: another file may work."""
    try:
        yield
    except OSError as error:
        raise click.UsageError(
            f"--html: {file} cannot be written: {error.strerror}. Name another file."
        ) from error


def _follow_links(file: Path) -> Path:
    """Return the file that links lead to, so that a link stays one.

    Raises:
        OSError: They lead in a circle; not every Python says so by itself.
    """
    place = Path(os.path.realpath(file))
    if place.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return place


def _check_place(file: Path) -> None:
    """Refuse a file that could not be written, before any event is read."""
    with _readable_failures(file):
        if file.is_dir():
            raise click.UsageError(f"--html: {file} is a folder. Name a file in it.")
        if not _follow_links(file).parent.is_dir():
            raise click.UsageError(
                f"--html: there is no folder {file.parent}. Make it, or name another "
                "file."
            )


def _write(file: Path, text: str) -> None:
    """Write a file as a whole, or leave what was there."""
    # A link keeps leading to the newest page, and a page is open to all that any new
    # file of this user is for.
    with (
        _readable_failures(file),
        replacing(_follow_links(file), mode=0o666) as page,
    ):
        page.write(text.encode("utf-8"))


def _print_parts(console: Console, report: UsageReport, by: By) -> None:
    """Print the main figures of each group, or of each source.

    Raises:
        click.UsageError: No event names a group, or no server a source.
    """
    groups, sources = _tabulate_all_parts(report)
    table = groups if by == "group" else sources
    if not table.row_count:
        raise click.UsageError(f"--by {by}: {_UNNAMED[by]}")
    console.print(escape(_headline(report)), soft_wrap=True)
    console.print()
    console.print(table)


def _print_tables(console: Console, report: UsageReport, notes: Iterable[str]) -> None:
    """Print every table, the most useful first."""
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
    for note in filter(None, (describe_unrecorded(report), *notes)):
        console.print(escape(f"- {note}"), soft_wrap=True)
    console.print(
        "- Days are in UTC. A page with charts: --html FILE; all rows: --json; "
        "changes to review: --suggest",
        soft_wrap=True,
    )


def _headline(report: UsageReport) -> str:
    answers, tasks = report.answers, report.answers.tasks
    people = f" of {plural(report.people, 'person')}" if report.people else ""
    refreshed = report.refreshes.count
    return (
        f"{report.since} to {report.until}: "
        f"{plural(report.counts.events, 'event')}{people}, "
        f"{plural(tasks, 'task')}: "
        f"{describe_share(answers.served, tasks)} served, "
        f"{describe_share(answers.ambiguous, tasks)} ambiguous, "
        f"{describe_share(answers.no_match, tasks)} without a match; "
        f"{plural(refreshed, 'refresh')}, {report.refreshes.failures:,} failed"
    )


def _table(
    title: str,
    columns: Sequence[str],
    numbers: Iterable[str],
    rows: Sequence[_Row],
    most: int = _MOST_ROWS,
) -> Table:
    """Return a table of escaped texts, with at most `most` rows."""
    table = Table(title=title, title_justify="left", caption_justify="left")
    for column in columns:
        right = column in numbers
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for row in rows[:most]:
        table.add_row(*map(escape, row))
    if len(rows) > most:
        table.caption = f"and {len(rows) - most:,} more"
    return table


def _tabulate_answers(report: UsageReport) -> Table:
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
    columns = (by.capitalize(), "Served", "Ambiguous", "No match", "Share served")
    return _table(f"Answers by {by}", columns, columns[1:], rows, _MOST_PERIODS)


def _fold(report: UsageReport) -> tuple[str, dict[date, Answers]]:
    """Return the answers by period; many days become weeks, which fit a screen."""
    if report.period == "day" and len(report.periods) > _MOST_DAYS:
        return "week", fold_weeks(report.periods)
    return report.period, {each.start: each.answers for each in report.periods}


def _tabulate_gaps(report: UsageReport) -> Table:
    rows = [
        (
            gap.task,
            f"{gap.count:,}",
            f"{gap.people:,}" if gap.people else _NONE,
            str(gap.last_seen),
            "\n".join(gap.near) or _NONE,
            _describe_today(gap),
        )
        for gap in pick_gaps(report)
    ]
    columns = ("Task", "Asked", "People", "Last asked", "Near misses", "Today")
    return _table("Unmatched tasks: what to write next", columns, columns[1:3], rows)


def _describe_today(gap: Gap) -> str:
    if gap.today is None:
        return _NONE
    return " or ".join(gap.today) or "no match"


def _tabulate_rivalries(report: UsageReport) -> Table:
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
    columns = ("Skills", "Ambiguous", "Picked", "Shared keywords", "Last seen", "Today")
    return _table("Ambiguous answers: keywords to change", columns, columns[1:3], rows)


def _describe_state(each: Rivalry) -> str:
    if each.is_still is None:
        return _NONE
    return "ambiguous" if each.is_still else "resolved"


def _tabulate_feedback(report: UsageReport) -> Table:
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
    columns = (
        *("Skill", "Commit", "First seen"),
        *("Served", "Useful", "Not useful", "Comment"),
    )
    return _table("Feedback by commit", columns, columns[3:6], rows)


def _tabulate_scripts(report: UsageReport) -> Table:
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
    columns = ("Script", "Commit", "Runs", "Failed", "Timed out", "Median", "Failing")
    return _table("Scripts", columns, columns[2:6], rows)


def _tabulate_skills(report: UsageReport) -> Table:
    rows = [
        (
            each.skill if each.is_offered is not False else f"{each.skill} (removed)",
            f"{each.served:,}",
            f"{each.picked:,}",
            f"{each.unchanged:,}",
            f"{each.files:,}",
            str(each.last_seen),
        )
        for each in report.skills
    ]
    columns = ("Skill", "Served", "Picked", "Unchanged", "Files", "Last served")
    return _table("Skills in use", columns, columns[1:5], rows)


def _tabulate_unserved(report: UsageReport) -> Table:
    rows = [
        (each.skill, ", ".join(each.keywords) or _NONE, f"{each.candidate:,}")
        for each in report.unserved or ()
    ]
    columns = ("Skill", "Keywords", "As candidate")
    return _table("Never served", columns, columns[2:], rows)


def _tabulate_all_parts(report: UsageReport) -> Iterator[Table]:
    yield _tabulate_parts(report, "Groups", "Group", report.groups)
    yield _tabulate_parts(report, "Sources", "Source", report.sources)


def _tabulate_parts(
    report: UsageReport, title: str, noun: str, parts: Sequence[PartUse] | None
) -> Table:
    by, answers = _fold(report)
    starts = list(answers)[-_MOST_PERIODS:]
    rows = [
        (
            each.name or "not known",
            f"{each.answers.tasks:,}",
            draw_trend(_fold_tasks(each, by), starts),
            _describe_served(each),
            describe_share(each.answers.no_match, each.answers.tasks),
            f"{each.people:,}",
            describe_ratings(each.useful, each.not_useful),
        )
        for each in parts or ()
    ]
    columns = (noun, "Tasks", f"By {by}", "Served", "No match", "People", "Useful")
    return _table(title, columns, (columns[1], *columns[4:]), rows)


def _fold_tasks(part: PartUse, by: str) -> list[tuple[date, int]]:
    tasks: Counter[date] = Counter()
    for start, count in part.periods:
        tasks[find_monday(start) if by == "week" else start] += count
    return list(tasks.items())


def _describe_served(part: PartUse) -> str:
    share = describe_share(part.answers.served, part.answers.tasks)
    change = describe_part_change(part)
    return f"{share}, {change}" if change else share


def _tabulate_fleet(report: UsageReport) -> Table:
    fleet = report.fleet
    rows = [
        (
            each.source,
            describe_commit(each.commit),
            f"{each.servers:,}",
            f"{each.failing:,}",
            describe_age(each.oldest_sync_seconds),
            str(each.first_seen or _NONE),
        )
        for each in (fleet.commits if fleet else ())
    ]
    columns = ("Source", "Commit", "Servers", "Failing", "Oldest sync", "First used")
    title = "What servers serve"
    if fleet:
        versions = (f"{each.version}: {each.servers:,}" for each in fleet.versions)
        heard = f"{plural(fleet.servers, 'server')} in {fleet.days} days"
        title = f"{title} ({heard}; by version: {', '.join(versions)})"
    return _table(title, columns, columns[2:4], rows)


def _tabulate_effect(report: UsageReport) -> tuple[Table, ...]:
    effect = report.effect
    if effect is None:
        return ()
    days = effect.before, effect.after
    title = f"Before and after {describe_commit(effect.commit)}"
    columns = ("", *(f"{each.since} to {each.until}" for each in days))
    rows = [
        (name, before, after)
        for name, before, after in zip(
            _EFFECT_FIGURES, *map(_list_totals, days), strict=True
        )
    ]
    skills = [
        (
            each.skill,
            *map(describe_ratings, each.useful, each.not_useful),
            *(f"{number:,}" for number in each.served),
        )
        for each in effect.skills
    ]
    heads = ("Skill", "Useful before", "Useful after", "Served before", "Served after")
    return (
        _table(title, columns, columns[1:], rows),
        _table(f"{title}: skills", heads, heads[1:], skills),
    )


def _list_totals(totals: Totals) -> _Row:
    answers = totals.answers
    return (
        f"{answers.tasks:,}",
        describe_share(answers.served, answers.tasks),
        describe_share(answers.ambiguous, answers.tasks),
        describe_share(answers.no_match, answers.tasks),
        describe_ratings(totals.useful, totals.not_useful),
        f"{totals.people:,}",
    )
