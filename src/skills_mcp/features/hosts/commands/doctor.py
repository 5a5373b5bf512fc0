"""Check everything, and name the repair of each fault.

Git, the network, the token, the repository, the cache, the disk, the sandbox, the
clock, and the entry of each agent, which is started as the agent does it.
"""

import errno
import os
import platform
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from skills_mcp import bootstrap
from skills_mcp.about import __version__
from skills_mcp.cli.command_group import SectionedCommand, repeat_options
from skills_mcp.cli.options import content_options, json_option, read_options
from skills_mcp.cli.terminal import open_console, print_json
from skills_mcp.config.variables import find_unknown_variables
from skills_mcp.errors import AccessRefusedError, ConfigError, RemoteMissingError, SyncError
from skills_mcp.events.publisher import Publisher
from skills_mcp.features.hosts.client_checks import (
    CheckResult,
    HostEntry,
    check_entries,
    check_native_folders,
    failed,
    find_host_entries,
    passed,
)
from skills_mcp.features.hosts.commands.install import compose_arguments
from skills_mcp.files.paths import find_user_home
from skills_mcp.library import Choice, SourceState, render_state
from skills_mcp.library.source_health import SourceCheck
from skills_mcp.server.windows.running_servers import list_servers
from skills_mcp.text.rendering import describe_age

_FOUND = 1

_NAME_WIDTH = 29

_HOUR_SECONDS = 3600.0
_SHOWN = 7  # digits of a commit


NEEDED_DISK_BYTES = 500 * 1024 * 1024

_RECEIVER_FIX = (
    "Correct analytics.endpoint in config.yaml, or analytics.token_file: a token with the scope "
    "skills:events, or a line of the receiver's events.ingest_token_file"
)

MAX_CLOCK_SKEW = timedelta(minutes=2)
"""Clock skew beyond which tokens and certificates look invalid."""

_MEGABYTE = 1024 * 1024

_SET_CLOCK = {"darwin": "sudo sntp -sS time.apple.com", "win32": "w32tm /resync"}


def check_servers(environment: Mapping[str, str]) -> Iterator[CheckResult]:
    """Check the servers for all windows, if there are any."""
    for server in list_servers(environment):
        if server.version:
            yield passed("server", str(server))
        else:
            yield failed("server", str(server), "skills-mcp stop")


def check_versions() -> CheckResult:
    python = f"Python {platform.python_version()} at {sys.executable}"
    return passed("versions", f"skills-mcp {__version__}, {python}")


def check_variables(environment: Mapping[str, str]) -> Iterator[CheckResult]:
    for unknown in find_unknown_variables(environment):
        fix = f"unset {unknown.name}"
        if unknown.suggestion:
            value = shlex.quote(environment[unknown.name])
            fix = f"export {unknown.suggestion}={value}; {fix}"
        yield failed("variables", str(unknown), fix)


def check_folder(name: str, folder: Path) -> CheckResult:
    """Check that a folder of ours can be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0")
    except OSError as error:
        message = f"{error.filename or folder} cannot be written: {error.strerror}"
        return failed(name, message, _suggest_folder_fix(error, folder))
    return passed(name, f"{folder} can be written")


def check_disk(cache: Path, needed_bytes: int = NEEDED_DISK_BYTES) -> CheckResult:
    folder = next(candidate for candidate in (cache, *cache.parents) if candidate.is_dir())
    free = shutil.disk_usage(folder).free
    message = f"{free // _MEGABYTE:,} MB are free at {folder}"
    if free >= needed_bytes:
        return passed("disk", message)
    return failed(
        "disk",
        f"{message}; a sync may need {needed_bytes // _MEGABYTE:,} MB",
        "Make room on this disk, or move the cache: export SKILLS_MCP_HOME=FOLDER",
    )


def check_sandbox(choice: Choice | None) -> CheckResult:
    """Check the confinement of scripts."""
    if choice is None:
        return passed("sandbox", "No script runs: it is off")
    if choice.refusal:
        return failed(
            "sandbox",
            "No script runs: a sandbox is required, and this machine has none",
            _install_sandbox(),
        )
    if choice.confines:
        return passed("sandbox", f"Scripts run in {choice.name}")
    if choice.name == "none":
        return passed("sandbox", "Scripts are not confined, as scripts.sandbox is off")
    missing = f" ({'; '.join(choice.missing)})" if choice.missing else ""
    return failed(
        "sandbox",
        f"Scripts are NOT confined: they can read and write all that you can{missing}",
        _install_sandbox(),
    )


def check_delivery(publisher: Publisher) -> Iterator[CheckResult]:
    """Check whether the receiver takes events; nothing where none are sent."""
    rules, failure = publisher.rules(), publisher.find_failure()
    if not rules.enabled or not rules.endpoint:
        return
    if failure is None:
        yield passed("events", "No attempt to send events has failed since the last success")
    elif not failure.is_lasting:
        yield passed("events", f"Events wait for the next attempt: {failure.reason}")
    else:
        yield failed("events", f"Events are not sent: {failure.reason}", _RECEIVER_FIX)


def check_clock(sent_at: datetime, answered_at: datetime) -> CheckResult:
    apart = answered_at - sent_at
    seconds = abs(round(apart.total_seconds()))
    if abs(apart) <= MAX_CLOCK_SKEW:
        return passed("clock", f"The clock agrees with that of the remote to {seconds} s")
    direction = "ahead of" if apart > timedelta() else "behind"
    return failed(
        "clock",
        f"The clock is {seconds:,} s {direction} that of the remote",
        _SET_CLOCK.get(sys.platform, "sudo timedatectl set-ntp true"),
    )


def _suggest_folder_fix(error: OSError, folder: Path) -> str:
    if error.errno in {errno.EACCES, errno.EPERM}:
        return f"chmod -R u+rwX {shlex.quote(str(find_existing(folder)))}"
    if error.errno in {errno.ENOTDIR, errno.EEXIST}:
        quoted = shlex.quote(str(find_existing(Path(error.filename or folder))))
        return f"mv {quoted} {quoted}.old"
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return "Make room on this disk"
    return "export SKILLS_MCP_HOME=FOLDER, a folder that you can write"


def find_existing(path: Path) -> Path:
    """The path, or the nearest one above it that exists."""
    return next(each for each in (path, *path.parents) if each.exists() or not each.name)


def _install_sandbox() -> str:
    if sys.platform == "linux":
        programs = {"apt-get": "sudo apt-get install bubblewrap"}
        programs |= {name: f"sudo {name} install bubblewrap" for name in ("dnf", "yum")}
        found = next((programs[name] for name in programs if shutil.which(name)), "")
        command = found or "Install bubblewrap 0.8 or newer"
        return f"{command}, or set scripts.enabled to false in config.yaml"
    accept = "or accept it: scripts.sandbox: off" if os.name == "posix" else ""
    return f"Set scripts.enabled to false in config.yaml{', ' if accept else ''}{accept}"


_INSTALL_GIT = {"darwin": "xcode-select --install", "win32": "winget install Git.Git"}
_PACKAGERS = {
    "apt-get": "sudo apt-get install git",
    "dnf": "sudo dnf install git",
    "apk": "sudo apk add git",
}


def check_sources(
    checks: Sequence[SourceCheck], states: Sequence[SourceState], arguments: str
) -> Iterator[CheckResult]:
    """Check access to each source, and its last sync."""
    yield from _check_git(checks)
    for check in checks:
        yield from _check_source(check)
    for state in states:
        yield from check_content(state, arguments)


def _check_git(checks: Sequence[SourceCheck]) -> Iterator[CheckResult]:
    for check in checks:
        if check.git_error:
            yield failed("git", str(check.git_error), _suggest_git())
            return
    version = next((result.git_version for result in checks if result.git_version), "")
    yield passed("git", version or "Git is not needed: no repository is served")


def _check_source(check: SourceCheck) -> Iterator[CheckResult]:
    if check.git_error:
        return
    if check.mode == "local":
        yield _check_folder(check)
        return
    if not check.was_contacted:
        yield passed("network", f"{check.name} was not asked, as you are offline")
        return
    if check.error:
        yield from _explain_failure(check, check.error)
        return
    yield passed("network", f"{check.name} answers")
    if check.sends_token:
        yield passed("token", "The repository accepts the token")
    yield passed("repository", f"{check.name} is at {check.commit}")
    if check.sent_at and check.answered_at:
        yield check_clock(check.sent_at, check.answered_at)


def _check_folder(check: SourceCheck) -> CheckResult:
    if check.error:
        return failed("folder", str(check.error), f"mkdir -p {shlex.quote(check.name)}")
    return passed("folder", f"{check.name} can be read")


def _explain_failure(check: SourceCheck, error: SyncError) -> Iterator[CheckResult]:
    """Tell network, token and repository errors apart."""
    if not isinstance(error, AccessRefusedError | RemoteMissingError):
        fix = "Check the address, the proxy and the VPN; then: skills-mcp doctor"
        yield failed("network", str(error), fix)
        return
    yield passed("network", f"{check.name} answers")
    if isinstance(error, AccessRefusedError):
        fix = "export GITHUB_TOKEN=TOKEN, one that may read this repository"
        if shutil.which("gh"):
            fix = "export GITHUB_TOKEN=$(gh auth token)"
        yield failed("token", str(error), fix)
        return
    fix = "export SKILLS_REPO=URL SKILLS_BRANCH=NAME, or correct this source in config.yaml"
    yield failed("repository", str(error), fix)


def check_content(state: SourceState, arguments: str) -> Iterator[CheckResult]:
    """Report the served commit of a repository; nothing for a folder."""
    if state.mode == "local":
        return
    fix = f"skills-mcp sync{arguments}"
    if state.commit is None:
        yield failed("content", f"{state.name} was never synced on this machine", fix)
        return
    message = f"{state.name}: {state.commit} is served, synced {describe_age(state.age_seconds)}"
    if state.is_failing or state.is_stale:
        reason = f"; the last sync failed: {state.error}" if state.error else ""
        yield failed("content", f"{message}{reason}", fix)
        return
    yield passed("content", message)


def _suggest_git() -> str:
    found = (_PACKAGERS[name] for name in _PACKAGERS if shutil.which(name))
    return _INSTALL_GIT.get(sys.platform) or next(found, "Install Git 2.31 or newer")


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
        findings += map(_complete, checks)
        facts = {"version": __version__, "sources": [render_state(state) for state in states]}
        if not as_json:
            _print_brief(findings, states)
    else:
        for finding in map(_complete, _diagnose(options, environment)):
            findings.append(finding)
            if not as_json:
                _print(finding)
    failures = sum(not finding.is_ok for finding in findings)
    if as_json:
        print_json(
            {"ok": not failures, **facts, "checks": [finding.render() for finding in findings]}
        )
    elif not is_brief:
        noun = "check" if failures == 1 else "checks"
        click.echo(f"\n{failures} {noun} failed." if failures else "\nAll is well.")
    sys.exit(_FOUND if failures else 0)


def _complete(finding: CheckResult) -> CheckResult:
    return replace(
        finding, message=repeat_options(finding.message), fix=repeat_options(finding.fix)
    )


def _check_machine(environment: Mapping[str, str]) -> Iterator[CheckResult]:
    cache = bootstrap.find_cache_folder(environment)
    yield from check_variables(environment)
    yield check_folder("cache", cache)
    yield check_folder("state", bootstrap.find_state_folder(environment))
    yield check_disk(cache)


def _diagnose(options: bootstrap.Options, environment: Mapping[str, str]) -> Iterator[CheckResult]:
    project = Path.cwd()
    yield check_versions()
    yield from _check_machine(environment)
    entries, broken = find_host_entries(environment, project)
    yield from _diagnose_sources(options, environment, entries)
    yield from broken
    source = shlex.join(compose_arguments(options, is_shared=True))
    yield from check_entries(entries, environment, project, source)
    used = (entry.file.host.name for entry in entries)
    yield from check_native_folders(used, find_user_home(), project)
    yield from check_servers(environment)


def _diagnose_sources(
    options: bootstrap.Options, environment: Mapping[str, str], entries: Sequence[HostEntry]
) -> Iterator[CheckResult]:
    """Check the configured sources; without any, those of host entries."""
    named = dict.fromkeys(entry.options for entry in entries if entry.options)
    if options.skills_dir or options.repo or not named:
        yield from _diagnose_source(options, environment)
        return
    try:
        bootstrap.build(options, environment)
    except ConfigError:
        for words in named:
            yield from _diagnose_entry(words, environment)
        return
    yield from _diagnose_source(options, environment)


@click.command(cls=SectionedCommand, reports_variables=True)
@content_options(log_level="error")
def _read_entry(**values: Any) -> bootstrap.Options:
    return read_options(**values)[0]


def _diagnose_entry(words: Sequence[str], environment: Mapping[str, str]) -> Iterator[CheckResult]:
    try:
        with _read_entry.make_context("doctor", list(words)) as context:
            options = _read_entry.invoke(context)
    except (click.ClickException, ConfigError) as error:
        message = error.format_message() if hasattr(error, "format_message") else error
        yield failed("settings", f"{shlex.join(words)}: {message}", "")
        return
    yield from _diagnose_source(options, environment, f" {shlex.join(words)}")


def _diagnose_source(
    options: bootstrap.Options, environment: Mapping[str, str], typed: str = ""
) -> Iterator[CheckResult]:
    """Check the sources of some options; `typed` are those of no command line."""
    arguments = shlex.join(compose_arguments(options, is_shared=True))
    try:
        application = bootstrap.build(options, environment)
    except ConfigError as error:
        fix = "Correct what the message names; then: skills-mcp doctor"
        if not (options.skills_dir or options.repo):
            fix = "skills-mcp install --repo URL, or correct what the message names"
        yield failed("settings", str(error), fix)
        return
    library = application.library
    file = options.config_file or bootstrap.find_settings_file(environment)
    yield passed("settings", f"{arguments or file} can be used")
    states = library.stored_states()
    if not library.config.sync.offline:
        for name in dict.fromkeys(state.name for state in states if state.mode == "git"):
            click.echo(f"Asking {name} …", err=True)
    yield from check_sources(library.check_sources(), states, typed)
    yield check_sandbox(library.runs.choose_sandbox(library.config.scripts))
    yield from check_delivery(application.publisher)


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
    options: bootstrap.Options, environment: Mapping[str, str], max_hours: float | None
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
        application = bootstrap.build(options, environment)
    except ConfigError as error:
        return [failed("settings", str(error), "Correct what the message names")], ()
    library = application.library
    states = library.stored_states()
    checks: list[CheckResult] = []
    for state in states:
        checks += _check_stored_folder(state)
        checks += (_compare_age(check, state, max_hours) for check in check_content(state, ""))
    checks.append(check_sandbox(library.runs.choose_sandbox(library.config.scripts)))
    return [*checks, *check_delivery(application.publisher)], states


def _check_stored_folder(state: SourceState) -> Iterator[CheckResult]:
    if state.mode == "local" and state.error:
        yield failed("folder", str(state.error), "Correct the folder in the settings")
    elif state.mode == "local":
        yield passed("folder", f"{state.name} can be read")


def _compare_age(finding: CheckResult, state: SourceState, max_hours: float | None) -> CheckResult:
    """Apply the requested maximum age, unless the newest commit is refused."""
    age = state.age_seconds
    if max_hours is None or age is None or state.refused_commit:
        return finding
    if age <= max_hours * _HOUR_SECONDS:
        return passed("content", finding.message)
    message = f"{finding.message}; at most {max_hours:g} hours are allowed"
    return failed("content", message, "skills-mcp sync")


def _name_commit(state: SourceState) -> str:
    return f"{state.commit[:_SHOWN]} of " if state.commit else ""


def _print_brief(findings: Sequence[CheckResult], states: Sequence[SourceState]) -> None:
    failures = [finding for finding in findings if not finding.is_ok]
    for finding in failures:
        message = finding.message.rstrip(".")
        click.echo(f"FAILED {finding.name}: {message}. Repair: {finding.fix}")
    if not failures:
        served = (f"{_name_commit(state)}{state.name}" for state in states)
        click.echo(f"ok: skills-mcp {__version__} serves {', '.join(served) or 'nothing'}")
