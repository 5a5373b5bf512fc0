"""Check everything, and say what repairs what is broken.

Git, the network, the token, the repository, the cache, the disk, the sandbox, the
clock, and the entry of each agent, which is started as the agent does it.
"""

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from skills_mcp.about import __version__
from skills_mcp.bootstrap import Options, build, find_home
from skills_mcp.cli.command_group import SectionedCommand
from skills_mcp.cli.options import content_options, json_option, read_options
from skills_mcp.cli.terminal import open_console, print_json
from skills_mcp.errors import ConfigError
from skills_mcp.features.hosts.client_checks import HostEntry, check_entries, find_host_entries
from skills_mcp.features.hosts.commands.install import compose_arguments
from skills_mcp.features.hosts.doctor_checks import (
    CheckResult,
    check_cache,
    check_content,
    check_disk,
    check_sandbox,
    check_sources,
    check_variables,
    check_versions,
)
from skills_mcp.features.hosts.host import find_project
from skills_mcp.features.hosts.native_folders import check_native_folders
from skills_mcp.library import SourceState, render_state

_FOUND = 1

_NAME_WIDTH = 29

_HOUR_SECONDS = 3600.0
_SHOWN = 7  # digits of a commit


@click.command(
    cls=SectionedCommand,
    reports_variables=True,
    examples=(
        "skills-mcp doctor",
        "skills-mcp doctor --repo https://github.com/acme/skills.git --json",
        "skills-mcp doctor --brief --max-age 24 --program-version 0.1.0 --json",
    ),
)
@click.option(
    "--brief",
    "is_brief",
    is_flag=True,
    help="For a management tool: print one line; ask no network, and start no agent.",
)
@click.option(
    "--max-age",
    "max_hours",
    metavar="HOURS",
    type=click.FloatRange(min=0),
    help="The most hours since the last sync; needs --brief.  [default: three intervals]",
)
@click.option(
    "--program-version",
    metavar="VERSION",
    help="The version that has to be installed; needs --brief.  [default: any]",
)
@json_option
@content_options(log_level="error")
def command(
    *,
    is_brief: bool,
    max_hours: float | None,
    program_version: str | None,
    as_json: bool,
    **values: Any,
) -> None:
    if not is_brief and (max_hours is not None or program_version is not None):
        raise click.UsageError("--max-age and --program-version need --brief.")
    options, environment = read_options(**values)
    findings: list[CheckResult] = []
    facts: dict[str, Any] = {}
    if is_brief:
        findings += _check_version(program_version or __version__)
        findings += _check_machine(environment)
        checks, states = _check_briefly(options, environment, max_hours)
        findings += checks
        facts = {"version": __version__, "sources": [render_state(state) for state in states]}
        if not as_json:
            _print_brief(findings, states)
    else:
        for finding in _diagnose(options, environment):
            findings.append(finding)
            if not as_json:
                _print(finding)
    failed = sum(not finding.is_ok for finding in findings)
    if as_json:
        print_json(
            {"ok": not failed, **facts, "checks": [finding.render() for finding in findings]}
        )
    elif not is_brief:
        noun = "check" if failed == 1 else "checks"
        click.echo(f"\n{failed} {noun} failed." if failed else "\nAll is well.")
    sys.exit(_FOUND if failed else 0)


def _check_machine(environment: Mapping[str, str]) -> Iterator[CheckResult]:
    home = find_home(environment)
    yield from check_variables(environment)
    yield check_cache(home)
    yield check_disk(home)


def _diagnose(options: Options, environment: Mapping[str, str]) -> Iterator[CheckResult]:
    project = find_project()
    yield check_versions()
    yield from _check_machine(environment)
    entries, broken = find_host_entries(environment, project)
    yield from _diagnose_sources(options, environment, entries)
    yield from broken
    yield from check_entries(entries, environment, project)
    used = (entry.file.host.name for entry in entries)
    yield from check_native_folders(used, Path.home(), project)


def _diagnose_sources(
    options: Options, environment: Mapping[str, str], entries: Sequence[HostEntry]
) -> Iterator[CheckResult]:
    """Check the configured sources; without any, those of host entries."""
    named = dict.fromkeys(entry.options for entry in entries if entry.options)
    if options.skills_dir or options.repo or not named:
        yield from _diagnose_source(options, environment)
        return
    try:
        build(options, environment)
    except ConfigError:
        for words in named:
            yield from _diagnose_entry(words, environment)
        return
    yield from _diagnose_source(options, environment)


@click.command(cls=SectionedCommand, reports_variables=True)
@content_options(log_level="error")
def _read_entry(**values: Any) -> Options:
    return read_options(**values)[0]


def _diagnose_entry(words: Sequence[str], environment: Mapping[str, str]) -> Iterator[CheckResult]:
    try:
        with _read_entry.make_context("doctor", list(words)) as context:
            options = _read_entry.invoke(context)
    except (click.ClickException, ConfigError) as error:
        message = error.format_message() if hasattr(error, "format_message") else error
        yield CheckResult("settings", False, f"{shlex.join(words)}: {message}", "")  # noqa: FBT003
        return
    yield from _diagnose_source(options, environment)


def _diagnose_source(options: Options, environment: Mapping[str, str]) -> Iterator[CheckResult]:
    arguments = shlex.join(compose_arguments(options, is_shared=True))
    try:
        library = build(options, environment).library
    except ConfigError as error:
        fix = "Correct what the message names; then: skills-mcp doctor"
        if not (options.skills_dir or options.repo):
            fix = "skills-mcp install --repo URL, or correct what the message names"
        yield CheckResult("settings", is_ok=False, message=str(error), fix=fix)
        return
    message = f"{arguments or 'Those of config.yaml'} can be used"
    yield CheckResult("settings", is_ok=True, message=message)
    checks, states = library.check_sources(), library.stored_states()
    yield from check_sources(checks, states, f" {arguments}" if arguments else "")
    yield check_sandbox(library.choose_sandbox(), library.config.scripts)


def _print(finding: CheckResult) -> None:
    console = open_console()
    mark = "[green]ok    [/green]" if finding.is_ok else "[red]FAILED[/red]"
    line = escape(f"{finding.name:{_NAME_WIDTH}}{finding.message}")
    console.print(f"{mark}  {line}", soft_wrap=True)
    if finding.fix:
        indent = " " * (8 + _NAME_WIDTH)
        console.print(f"{indent}[bold]Repair:[/bold] {escape(finding.fix)}", soft_wrap=True)
    sys.stdout.flush()


def _check_version(needed: str) -> Iterator[CheckResult]:
    is_ok = needed == __version__
    fix = "" if is_ok else f"Install skills-mcp {needed}"
    yield CheckResult("version", is_ok=is_ok, message=f"skills-mcp {__version__}", fix=fix)


def _check_briefly(
    options: Options, environment: Mapping[str, str], max_hours: float | None
) -> tuple[Sequence[CheckResult], Sequence[SourceState]]:
    """Check the sources without a network.

    Args:
        options: The source, if one is named.
        environment: All variables.
        max_hours: Since the last successful sync; None for three intervals of the timer.

    Returns:
        The results, and the states of the sources.
    """
    try:
        library = build(options, environment).library
    except ConfigError as error:
        fix = "Correct what the message names"
        return [CheckResult("settings", is_ok=False, message=str(error), fix=fix)], ()
    states = library.stored_states()
    checks: list[CheckResult] = []
    for state in states:
        checks += _check_folder(state)
        checks += (_compare_age(check, state, max_hours) for check in check_content(state, ""))
    return [*checks, check_sandbox(library.choose_sandbox(), library.config.scripts)], states


def _check_folder(state: SourceState) -> Iterator[CheckResult]:
    if state.mode == "local":
        message = str(state.error) if state.error else f"{state.name} can be read"
        fix = "Correct the folder in the settings" if state.error else ""
        yield CheckResult("folder", is_ok=state.error is None, message=message, fix=fix)


def _compare_age(finding: CheckResult, state: SourceState, max_hours: float | None) -> CheckResult:
    """Apply the requested maximum age, unless the newest commit is refused."""
    age = state.age_seconds
    if max_hours is None or age is None or state.refused_commit:
        return finding
    if age <= max_hours * _HOUR_SECONDS:
        return CheckResult("content", is_ok=True, message=finding.message)
    message = f"{finding.message}; at most {max_hours:g} hours are allowed"
    return CheckResult("content", is_ok=False, message=message, fix="skills-mcp sync")


def _name_commit(state: SourceState) -> str:
    return f"{state.commit[:_SHOWN]} of " if state.commit else ""


def _print_brief(findings: Sequence[CheckResult], states: Sequence[SourceState]) -> None:
    failed = [finding for finding in findings if not finding.is_ok]
    for finding in failed:
        message = finding.message.rstrip(".")
        click.echo(f"FAILED {finding.name}: {message}. Repair: {finding.fix}")
    if not failed:
        served = (f"{_name_commit(state)}{state.name}" for state in states)
        click.echo(f"ok: skills-mcp {__version__} serves {', '.join(served) or 'nothing'}")
