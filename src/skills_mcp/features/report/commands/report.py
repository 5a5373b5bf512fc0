"""Report what agents asked for, what they got, and what to change.

The events are those recorded on this machine, or with --from collected ones.
"""

import errno
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from skills_mcp.about import compose_install_command
from skills_mcp.bootstrap import (
    Options,
    build,
    find_settings_file,
    find_state_folder,
    load_operator_config,
    open_local_events,
)
from skills_mcp.cli.command_group import SectionedCommand, repeat_options
from skills_mcp.cli.options import content_options, json_option, read_options
from skills_mcp.cli.terminal import open_console, print_json, progress_bar, sync_and_load, tabulate
from skills_mcp.config import Analytics, is_tracking_refused
from skills_mcp.errors import ConfigError, InvalidArgumentsError, SyncError
from skills_mcp.events.privacy import Privacy
from skills_mcp.features.effect.evidence import LiftEvidence, find_evidence
from skills_mcp.features.report import report_text, suggestion_review, usage_report
from skills_mcp.features.report.event_rows import EventFilesError, load_event_files
from skills_mcp.features.report.figure_queries import (
    Aggregation,
    CurrentSkills,
    derive_current_skills,
)
from skills_mcp.features.report.pick_evidence import PICK_KINDS, PickTally
from skills_mcp.features.report.report_page import render_report_page
from skills_mcp.features.report.report_text import (
    RecordingState,
    derive_report_notes,
    describe_effects,
    describe_empty_report,
    describe_recording,
)
from skills_mcp.features.report.skill_additions import Patch
from skills_mcp.features.report.usage_report import Span, UsageReport, parse_since, render_report
from skills_mcp.files.durable import atomic_write
from skills_mcp.skills.model import escape_unprintable
from skills_mcp.text.rendering import count_noun

if TYPE_CHECKING:
    from skills_mcp.events.collector.event_store import EventStore


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
    "source": "no server has said which source its commits are of. Servers say so to the "
    "endpoint whose --database or --from you name.",
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
        _tabulate_parts(report, "Groups", "Group", report.groups),
        _tabulate_parts(report, "Sources", "Source", report.sources),
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


_DATABASE_NEEDS = ("sqlalchemy", "alembic")


@dataclass(frozen=True, slots=True)
class _EventRecord:
    """Events of some days: of this machine, of files, or of a database."""

    environment: Mapping[str, str]
    span: Span
    files: tuple[Path, ...]
    database: str | None
    """Named, or that of the server with these settings; None without one."""

    @property
    def is_local(self) -> bool:
        return not self.files and self.database is None

    def read_events(self) -> Iterator[object]:
        """Iterate over the events of the named files, or of this machine.

        Raises:
            EventFilesError: A file cannot be read.
        """
        if self.files:
            yield from load_event_files(self.files)
            return
        record = open_local_events(self.environment)
        yield from record.events()
        yield from (None for _ in range(record.skipped))

    def open_store(self) -> "EventStore":
        """Open the database.

        Raises:
            ConfigError: A package is missing.
            EventStoreError: There is no such database.
        """
        if missing := [name for name in _DATABASE_NEEDS if find_spec(name) is None]:
            raise ConfigError(
                f"A database of events needs {' and '.join(missing)}, which is not installed: "
                f"{compose_install_command('http')}"
            )
        from skills_mcp.events.collector.event_store import open_existing_event_store

        return open_existing_event_store(self.database or "")


@click.command(
    cls=SectionedCommand,
    examples=(
        "skills-mcp report --since 12w",
        "skills-mcp report --html report.html",
        "skills-mcp report --suggest --skills-dir . > suggestions.patch",
    ),
)
@click.option(
    "--since",
    metavar="WHEN",
    default="30d",
    show_default=True,
    help="The first day: a date, or a number of days (30d) or weeks (12w).",
)
@click.option(
    "--until",
    metavar="DATE",
    type=click.DateTime(["%Y-%m-%d"]),
    help="The last day.  [default: today]",
)
@click.option(
    "--from",
    "collected",
    metavar="PATH",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="Events that a receiver collected: a file with one event per line, or "
    "a folder; may be repeated.",
)
@click.option(
    "--database",
    metavar="URL",
    help="The database in which a server keeps the events of all machines, "
    "such as sqlite:////srv/events.db.  [default: that of a server with these settings, "
    "if there is one]",
)
@click.option(
    "--around",
    metavar="COMMIT",
    help="Compare the days before and after this commit was first used; needs a database.",
)
@click.option(
    "--by",
    type=click.Choice(get_args(Dimension)),
    help="Print the main figures of each group of people, source or commit.",
)
@click.option(
    "--html",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write a self-contained page with charts.",
)
@click.option(
    "--suggest",
    "is_suggesting",
    is_flag=True,
    help="Print keywords, clauses of descriptions and example tasks to add, by what "
    "agents picked, as a diff for git apply, with its effect on all example tasks.",
)
@click.option(
    "--propose",
    "is_proposing",
    is_flag=True,
    help="Push what --suggest finds to a branch for each skill, once.",
)
@click.option(
    "--unserved",
    "deprecates_unserved",
    is_flag=True,
    help="With --propose: propose to deprecate skills that no agent got in these days, too.",
)
@click.option(
    "--source",
    metavar="NAME",
    help="The source whose diff --suggest prints, if several have one: its place "
    "in the tree, or its address.",
)
@json_option
@content_options()
def command(
    *,
    since: str,
    until: datetime | None,
    collected: tuple[Path, ...],
    database: str | None,
    around: str | None,
    by: Dimension | None,
    html: Path | None,
    is_suggesting: bool,
    is_proposing: bool,
    deprecates_unserved: bool,
    source: str | None,
    as_json: bool,
    **values: Any,
) -> None:
    options, environment = read_options(**values)
    needed = {"--source": source, "--propose": is_proposing, "--unserved": deprecates_unserved}
    _check_choice(is_suggesting, needed, {"--html": html, "--by": by, "--around": around})
    span = _parse_span(since, until)
    if database is None and not collected:
        database = _find_database(options, environment)
    elif database is not None:
        _require_only(database, collected)
    record = _EventRecord(environment, span, collected, database)
    if is_proposing:
        _propose(options, record, deprecates_unserved=deprecates_unserved, as_json=as_json)
        return
    if is_suggesting:
        _print_suggestions(options, record, source, as_json=as_json)
        return
    if by and (as_json or html):
        raise click.UsageError(
            "--by is for the tables: --json and --html have groups and sources anyway."
        )
    if html:
        _require_writable(html)
    report, notes = _load_report(options, record, around)
    _show_report(report, notes, by=by, html=html, as_json=as_json)


def _require_only(database: str, collected: tuple[Path, ...]) -> None:
    if collected:
        raise click.UsageError("--database and --from exclude each other: name one.")
    if not database:  # an unset variable in a script means no other record
        raise click.UsageError("--database is empty: name the database of events.")


def _find_database(options: Options, environment: Mapping[str, str]) -> str | None:
    """The database of a server with these settings; None if it keeps none.

    Its default is a file, which exists once a server has run.
    """
    try:
        events = load_operator_config(options, environment).events
    except ConfigError:
        return None  # the report says so, where it is about the skills
    file = find_state_folder(environment) / "events.db"
    if not events.enabled or events.database:
        return events.database or None
    return f"sqlite:///{file}" if file.is_file() else None


def _show_report(
    report: UsageReport,
    notes: tuple[str, ...],
    *,
    by: Dimension | None,
    html: Path | None,
    as_json: bool,
) -> None:
    if html:
        _write(html, render_report_page(report, notes))
    if as_json:
        print_json({**render_report(report), "notes": list(notes)})
    elif not report.counts.events:
        click.echo("\n".join(notes))
        if html:
            click.echo(f"{html} says so, too: it has no figures.")
    elif html:
        verb = "is" if report.counts.events == 1 else "are"
        click.echo(f"{count_noun(report.counts.events, 'event')} {verb} in {html}")
    elif by:
        print_parts(open_console(), report, by)
    else:
        print_tables(open_console(), report, notes)


def _parse_span(since: str, until: datetime | None) -> Span:
    last = until.date() if until else datetime.now(UTC).date()
    try:
        span = Span(parse_since(since, last), last)
    except ValueError as error:
        raise click.UsageError(f"--since: {error}") from error
    if span.first > last:
        raise click.UsageError(f"--since: {span.first} is after {last}, the last day.")
    return span


def _load_report(
    options: Options, record: _EventRecord, around: str | None
) -> tuple[UsageReport, tuple[str, ...]]:
    """Load the report and its notes; it can do without the served skills."""
    current, reason = None, ""
    evidence: Mapping[str, LiftEvidence] = {}
    try:
        library = build(options, record.environment).library
        snapshot = sync_and_load(library)
        current, evidence = derive_current_skills(snapshot), find_evidence(snapshot)
    except (ConfigError, SyncError) as error:
        reason = str(error)
    report = _derive_report(record, current, around)
    notes = derive_report_notes(report, without_skills=reason)
    notes += describe_effects(report, evidence)
    if not report.counts.events:
        state = _find_recording_state(options, record.environment)
        settings = _find_settings(options, record.environment)
        empty = describe_empty_report(report, state, settings, is_collected=bool(record.files))
        notes = empty, *notes
    return report, tuple(map(repeat_options, notes))


def _derive_report(
    record: _EventRecord, current: CurrentSkills | None, around: str | None
) -> UsageReport:
    if record.database is not None:
        return _load_database(record, current, around or "")
    if around:
        raise click.UsageError("--around needs a database of events: name it with --database.")
    aggregation = Aggregation(record.span)
    try:
        for event in record.read_events():
            aggregation.add(event)
    except EventFilesError as error:
        raise click.UsageError(str(error)) from error
    return aggregation.derive(current)


def _load_database(record: _EventRecord, current: CurrentSkills | None, around: str) -> UsageReport:
    with closing(record.open_store()) as store:
        from skills_mcp.features.report.database_report import load_report

        try:
            return load_report(store, record.span, current, around)
        except InvalidArgumentsError as error:
            raise click.UsageError(f"--around: {error}") from error


def _find_recording_state(options: Options, environment: Mapping[str, str]) -> RecordingState:
    if is_tracking_refused(environment):
        return "refused"
    try:
        return "on" if load_operator_config(options, environment).analytics.enabled else "off"
    except ConfigError:
        return "off"


def _find_settings(options: Options, environment: Mapping[str, str]) -> Path:
    return options.config_file or find_settings_file(environment)


@contextmanager
def _translate_disk_errors(file: Path) -> Iterator[None]:
    """Translate disk errors to wrong usage: another file may work."""
    try:
        yield
    except OSError as error:
        raise click.UsageError(
            f"--html: {file} cannot be written: {error.strerror}. Name another file."
        ) from error


def _follow_links(file: Path) -> Path:
    """Resolve symbolic links, so that a link stays one.

    Raises:
        OSError: They form a cycle; not every Python detects it.
    """
    target = Path(os.path.realpath(file))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return target


def _require_writable(file: Path) -> None:
    """Refuse an unwritable file before any event is read."""
    with _translate_disk_errors(file):
        if file.is_dir():
            raise click.UsageError(f"--html: {file} is a folder. Name a file in it.")
        if not _follow_links(file).parent.is_dir():
            raise click.UsageError(
                f"--html: there is no folder {file.parent}. Make it, or name another file."
            )


def _write(file: Path, text: str) -> None:
    """Write a file atomically."""
    # A link keeps leading to the newest page, and a page is open to all that any new
    # file of this user is for.
    with _translate_disk_errors(file), atomic_write(_follow_links(file), mode=0o666) as page:
        page.write(text.encode("utf-8"))


def _check_choice(
    is_suggesting: object, needed: Mapping[str, object], others: Mapping[str, object]
) -> None:
    """Refuse options that do not go together; `needed` go with --suggest alone."""
    if is_suggesting and (excluded := [name for name, value in others.items() if value]):
        raise click.UsageError(
            f"--suggest and {excluded[0]} exclude each other: the one is about what to "
            "change, the other about what was. Name one of them."
        )
    used = [name for name, value in needed.items() if value]
    if used and not is_suggesting:
        raise click.UsageError(f"{used[0]} needs --suggest: it chooses or sends what is found.")
    is_proposing = "--propose" in used
    if ("--source" in used and is_proposing) or ("--unserved" in used and not is_proposing):
        raise click.UsageError(
            "--propose sends the suggestions of all sources, and --unserved needs it."
        )


def _print_suggestions(
    options: Options, record: _EventRecord, source: str | None, *, as_json: bool
) -> None:
    """Suggest additions, and print them with their effect and as a diff."""
    library = build(options, record.environment).library
    answer = derive_current_skills(sync_and_load(library)).answer
    library.current.wait_for_vectors()
    picks = _load_picks(record).derive(answer)
    with progress_bar("Trying suggestions") as on_progress:
        review = suggestion_review.suggest(library, picks, on_progress)
    patches = _choose(review.patches, source)
    notes = *review.notes, *_describe_recording(review, options, record)
    notes = tuple(map(repeat_options, notes))
    if as_json:
        print_json(suggestion_review.render_review(review, record.span, patches, notes))
    else:
        suggestion_review.print_review(review, record.span, patches, notes)


def _propose(
    options: Options, record: _EventRecord, *, deprecates_unserved: bool, as_json: bool
) -> None:
    """Push suggestions to branches, and print where they are."""
    library = build(options, record.environment).library
    current = derive_current_skills(sync_and_load(library))
    library.current.wait_for_vectors()
    proposed = suggestion_review.ProposalRecord(
        find_state_folder(record.environment) / "proposals.json"
    )
    known = suggestion_review.load_known(library, proposed)
    with progress_bar("Trying suggestions") as on_progress:
        review = suggestion_review.suggest(
            library,
            _load_picks(record).derive(current.answer),
            on_progress,
            lambda skill, text: suggestion_review.derive_key(skill, text) in known,
        )
    sent = [*suggestion_review.propose(library, review, proposed)]
    if deprecates_unserved:
        report = _derive_report(record, current, None)
        sent += suggestion_review.propose_deprecations(library, report, proposed, known)
    if as_json:
        print_json({"proposals": [asdict(each) for each in sent], "notes": list(review.notes)})
        return
    for each in sent:
        found = each.review
        where = f"{found.branch} {found.url}".strip() if found else f"not sent: {each.reason}"
        click.echo(f"{escape_unprintable(each.skill)}: {where}")
    if not sent:
        click.echo("There is nothing new to propose. What was found: skills-mcp report --suggest")


def _load_picks(record: _EventRecord) -> PickTally:
    """Aggregate the picks.

    The output may become a file for many readers, so `analytics.context: redacted`
    applies, even to tasks recorded in full.
    """
    privacy = Privacy(find_state_folder(record.environment) / "analytics.key", record.environment)
    rules = Analytics(context="redacted")
    tally = PickTally(
        record.span, lambda task: str(privacy.redact_fields({"context": task}, rules)["context"])
    )
    try:
        for event in _read_picks(record):
            tally.add(event)
    except EventFilesError as error:
        raise click.UsageError(str(error)) from error
    return tally


def _read_picks(record: _EventRecord) -> Iterator[object]:
    if record.database is None:
        yield from record.read_events()
        return
    with closing(record.open_store()) as store:
        yield from store.events(record.span.first, record.span.last, kinds=PICK_KINDS)


def _choose(patches: Sequence[Patch], source: str | None) -> tuple[Patch, ...]:
    """Patches of the requested sources; all without a name.

    Raises:
        click.UsageError: Only other sources have changes.
    """
    if source is None or not patches:
        return tuple(patches)
    chosen = tuple(patch for patch in patches if source in {patch.source.mount, patch.source.name})
    if not chosen:
        names = ", ".join(patch.name for patch in patches)
        raise click.UsageError(
            f"--source: there is no diff of a source {source!r}. Those with a diff: {names}."
        )
    return chosen


def _describe_recording(
    review: suggestion_review.SuggestionReview, options: Options, record: _EventRecord
) -> Iterator[str]:
    """Advice to record picks, if this machine has recorded none."""
    if review.record.picks or not record.is_local:
        return
    counting = _find_recording_state(options, record.environment)
    if counting == "refused":
        yield "DO_NOT_TRACK is set here, so nothing is recorded."
    elif counting == "off":
        settings = _find_settings(options, record.environment)
        yield f"Analytics are off on this machine. {describe_recording(settings)}"
    elif load_operator_config(options, record.environment).analytics.context in {"hashed", "none"}:
        yield f"The tasks that this machine records cannot be read. {suggestion_review.SET_CONTEXT}"
