"""`skills-mcp report`: what agents asked for and what they got, in tables or a page."""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import click

from skills_mcp.bootstrap import Options, build, load_rules, open_record
from skills_mcp.cli.printing import open_console, print_json
from skills_mcp.cli.report_tables import print_tables
from skills_mcp.cli.tree import load_snapshot
from skills_mcp.config import refuses_tracking
from skills_mcp.errors import ConfigError, SyncError
from skills_mcp.usage import (
    CollectedError,
    Counting,
    Offer,
    Reckoning,
    Report,
    Span,
    derive_notes,
    derive_offer,
    describe_emptiness,
    load_collected,
    parse_since,
    render_page,
    render_report,
)

_NEW = ".skills-mcp-report-"  # what a page is called until it is whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What somebody asks for."""

    since: str
    until: datetime | None
    collected: tuple[Path, ...]
    as_json: bool
    html: Path | None


@dataclass(frozen=True, slots=True)
class _Content:
    """What is offered now, or why that cannot be said."""

    offer: Offer | None
    reason: str = ""


def print_report(
    options: Options, environment: Mapping[str, str], wanted: Wanted
) -> None:
    """Add the events up, and print or write what came out."""
    span = _parse_span(wanted)
    if wanted.html:
        _check_place(wanted.html)
    reckoning = Reckoning(span)
    try:
        for event in _read(environment, wanted):
            reckoning.add(event)
    except CollectedError as error:
        raise click.UsageError(str(error)) from error
    content = _look_at_skills(options, environment)
    report = reckoning.derive(content.offer)
    notes = derive_notes(report, without_skills=content.reason)
    if not report.counts.events:
        counting = _find_counting(options, environment)
        is_collected = bool(wanted.collected)
        said = describe_emptiness(report, counting, is_collected=is_collected)
        notes = said, *notes
    _show(report, notes, wanted)


def _parse_span(wanted: Wanted) -> Span:
    last = wanted.until.date() if wanted.until else datetime.now(UTC).date()
    try:
        span = Span(parse_since(wanted.since, last), last)
    except ValueError as error:
        raise click.UsageError(f"--since: {error}") from error
    if span.first > last:
        raise click.UsageError(f"--since: {span.first} is after {last}, the last day.")
    return span


def _read(environment: Mapping[str, str], wanted: Wanted) -> Iterator[object]:
    """Iterate over what was named, or over the record of this machine."""
    if wanted.collected:
        yield from load_collected(wanted.collected)
        return
    record = open_record(environment)
    yield from record.events()
    yield from (None for _ in range(record.skipped))


def _look_at_skills(options: Options, environment: Mapping[str, str]) -> _Content:
    """Return what is offered; a report is of use without that, too."""
    try:
        return _Content(derive_offer(load_snapshot(build(options, environment))))
    except (ConfigError, SyncError) as error:
        return _Content(None, str(error))


def _find_counting(options: Options, environment: Mapping[str, str]) -> Counting:
    """Return whether events are written here, or what keeps them from it."""
    if refuses_tracking(environment):
        return "refused"
    try:
        return "on" if load_rules(options, environment).analytics.enabled else "off"
    except ConfigError:
        return "off"


def _show(report: Report, notes: tuple[str, ...], wanted: Wanted) -> None:
    if wanted.html:
        _write(wanted.html, render_page(report, notes))
    if wanted.as_json:
        print_json({**render_report(report), "notes": list(notes)})
    elif not report.counts.events:
        click.echo("\n".join(notes))
    elif wanted.html:
        click.echo(f"{report.counts.events:,} events are in {wanted.html}")
    else:
        print_tables(open_console(), report, notes)


@contextmanager
def _readable_failures(file: Path) -> Iterator[None]:
    """Turn what a disk says into wrong usage: another file may do."""
    try:
        yield
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        reason = getattr(error, "strerror", None) or "its links lead nowhere"
        raise click.UsageError(
            f"--html: {file} cannot be written: {reason}. Name another file."
        ) from error


def _check_place(file: Path) -> None:
    """Refuse what could not be written before anything is read."""
    with _readable_failures(file):
        if file.is_dir():
            raise click.UsageError(f"--html: {file} is a folder. Name a file in it.")
        if not file.resolve().parent.is_dir():
            raise click.UsageError(
                f"--html: there is no folder {file.parent}. Make it, or name another "
                "file."
            )


def _write(file: Path, text: str) -> None:
    """Write a file as a whole, or leave what was there."""
    with _readable_failures(file):
        place = file.resolve()  # a link keeps leading to the newest page
        handle, name = tempfile.mkstemp(dir=place.parent, prefix=_NEW)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as page:
                page.write(text)
            _open_to_others(Path(name))
            Path(name).replace(place)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _open_to_others(file: Path) -> None:
    """Let those read it whom any new file of this user is for."""
    mask = os.umask(0)
    os.umask(mask)
    file.chmod(0o666 & ~mask)
