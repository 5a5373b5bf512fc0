"""`skills-mcp doctor`: check all that has to work, and name what repairs it."""

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from skills_mcp.bootstrap import Options, build, find_home
from skills_mcp.cli.install import compose_arguments
from skills_mcp.cli.options import read_options
from skills_mcp.cli.terminal import open_console, print_json
from skills_mcp.errors import ConfigError
from skills_mcp.features.hosts.client_checks import (
    HostEntry,
    check_entries,
    find_entries,
)
from skills_mcp.features.hosts.finding import Finding
from skills_mcp.features.hosts.host import find_project
from skills_mcp.features.hosts.machine_checks import (
    check_cache,
    check_disk,
    check_sandbox,
    check_variables,
    check_versions,
)
from skills_mcp.features.hosts.native_folders import check_native_folders
from skills_mcp.features.hosts.source_checks import check_sources

_FOUND = 1

_NAME_WIDTH = 29


def print_diagnosis(
    options: Options,
    environment: Mapping[str, str],
    command: click.Command,
    *,
    as_json: bool,
) -> int:
    """Run every check, and print what each has found.

    Args:
        options: The source, if one is named.
        environment: All variables.
        command: The command itself, which understands the options of an entry.
        as_json: Whether to print JSON, and nothing before the end.

    Returns:
        The exit code: 1 if something has to be repaired.
    """
    findings: list[Finding] = []
    for finding in _diagnose(options, environment, command):
        findings.append(finding)
        if not as_json:
            _print(finding)
    is_ok = all(each.is_ok for each in findings)
    if as_json:
        print_json({"ok": is_ok, "checks": [each.render() for each in findings]})
    else:
        _print_result(findings)
    return 0 if is_ok else _FOUND


def _diagnose(
    options: Options, environment: Mapping[str, str], command: click.Command
) -> Iterator[Finding]:
    project, home = find_project(), find_home(environment)
    yield check_versions()
    yield from check_variables(environment)
    yield check_cache(home)
    yield check_disk(home)
    entries, broken = find_entries(environment, project)
    yield from _diagnose_sources(options, environment, command, entries)
    yield from broken
    yield from check_entries(entries, environment, project)
    used = (each.file.host.name for each in entries)
    yield from check_native_folders(used, Path.home(), project)


def _diagnose_sources(
    options: Options,
    environment: Mapping[str, str],
    command: click.Command,
    entries: Sequence[HostEntry],
) -> Iterator[Finding]:
    """Check what the settings name; without any, what the entries of hosts name."""
    named = dict.fromkeys(each.options for each in entries if each.options)
    if options.skills_dir or options.repo or not named:
        yield from _diagnose_source(options, environment)
        return
    try:
        build(options, environment)
    except ConfigError:
        for words in named:
            yield from _diagnose_entry(words, environment, command)
        return
    yield from _diagnose_source(options, environment)


def _diagnose_entry(
    words: Sequence[str], environment: Mapping[str, str], command: click.Command
) -> Iterator[Finding]:
    try:
        with command.make_context("doctor", list(words)) as context:
            given: dict[str, Any] = {**context.params}
            given.pop("as_json", None)
            options, _ = read_options(**given)
    except (click.ClickException, ConfigError) as error:
        message = error.format_message() if hasattr(error, "format_message") else error
        yield Finding("settings", False, f"{shlex.join(words)}: {message}", "")  # noqa: FBT003
        return
    yield from _diagnose_source(options, environment)


def _diagnose_source(
    options: Options, environment: Mapping[str, str]
) -> Iterator[Finding]:
    arguments = shlex.join(compose_arguments(options, is_shared=True))
    try:
        library = build(options, environment).library
    except ConfigError as error:
        fix = "Correct what the message names; then: skills-mcp doctor"
        if not (options.skills_dir or options.repo):
            fix = "skills-mcp install --repo URL, or correct what the message names"
        yield Finding("settings", is_ok=False, message=str(error), fix=fix)
        return
    said = f"{arguments or 'Those of config.yaml'} can be used"
    yield Finding("settings", is_ok=True, message=said)
    checks, states = library.check_sources(), library.stored_states()
    yield from check_sources(checks, states, f" {arguments}" if arguments else "")
    yield check_sandbox(library.choose_sandbox(), library.config.scripts)


def _print(finding: Finding) -> None:
    console = open_console()
    mark = "[green]ok    [/green]" if finding.is_ok else "[red]FAILED[/red]"
    said = escape(f"{finding.name:{_NAME_WIDTH}}{finding.message}")
    console.print(f"{mark}  {said}", soft_wrap=True)
    if finding.fix:
        indent = " " * (8 + _NAME_WIDTH)
        console.print(
            f"{indent}[bold]Repair:[/bold] {escape(finding.fix)}", soft_wrap=True
        )
    sys.stdout.flush()


def _print_result(findings: Sequence[Finding]) -> None:
    failed = sum(not each.is_ok for each in findings)
    noun = "check" if failed == 1 else "checks"
    click.echo(f"\n{failed} {noun} failed." if failed else "\nAll is well.")
