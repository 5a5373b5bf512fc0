"""`skills-mcp doctor`: check the installation, and name repairs."""

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
    find_host_entries,
)
from skills_mcp.features.hosts.doctor_checks import (
    CheckResult,
    check_cache,
    check_disk,
    check_sandbox,
    check_sources,
    check_variables,
    check_versions,
)
from skills_mcp.features.hosts.host import find_project
from skills_mcp.features.hosts.native_folders import check_native_folders

_FOUND = 1

_NAME_WIDTH = 29


def print_diagnosis(
    options: Options,
    environment: Mapping[str, str],
    command: click.Command,
    *,
    as_json: bool,
) -> int:
    """Run every check, and print its result.

    Args:
        options: The source, if one is named.
        environment: All variables.
        command: The command itself, to parse the options of an entry.
        as_json: Whether to print JSON, and nothing before the end.

    Returns:
        The exit code: 1 if something has to be repaired.
    """
    findings: list[CheckResult] = []
    for finding in _diagnose(options, environment, command):
        findings.append(finding)
        if not as_json:
            _print(finding)
    is_ok = all(check.is_ok for check in findings)
    if as_json:
        print_json({"ok": is_ok, "checks": [check.render() for check in findings]})
    else:
        _print_result(findings)
    return 0 if is_ok else _FOUND


def _diagnose(
    options: Options, environment: Mapping[str, str], command: click.Command
) -> Iterator[CheckResult]:
    project, home = find_project(), find_home(environment)
    yield check_versions()
    yield from check_variables(environment)
    yield check_cache(home)
    yield check_disk(home)
    entries, broken = find_host_entries(environment, project)
    yield from _diagnose_sources(options, environment, command, entries)
    yield from broken
    yield from check_entries(entries, environment, project)
    used = (entry.file.host.name for entry in entries)
    yield from check_native_folders(used, Path.home(), project)


def _diagnose_sources(
    options: Options,
    environment: Mapping[str, str],
    command: click.Command,
    entries: Sequence[HostEntry],
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
            yield from _diagnose_entry(words, environment, command)
        return
    yield from _diagnose_source(options, environment)


def _diagnose_entry(
    words: Sequence[str], environment: Mapping[str, str], command: click.Command
) -> Iterator[CheckResult]:
    try:
        with command.make_context("doctor", list(words)) as context:
            values: dict[str, Any] = {**context.params}
            values.pop("as_json", None)
            options, _ = read_options(**values)
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


def _print_result(findings: Sequence[CheckResult]) -> None:
    failed = sum(not finding.is_ok for finding in findings)
    noun = "check" if failed == 1 else "checks"
    click.echo(f"\n{failed} {noun} failed." if failed else "\nAll is well.")
