"""`skills-mcp self-check`: the state of a machine, for fleet management."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import click

from skills_mcp.about import __version__
from skills_mcp.bootstrap import Options, build, find_home
from skills_mcp.cli.terminal import print_json
from skills_mcp.errors import ConfigError
from skills_mcp.features.hosts.doctor_checks import (
    CheckResult,
    check_cache,
    check_content,
    check_disk,
    check_sandbox,
    check_variables,
)
from skills_mcp.library import SourceState, render_state

_HOUR = 3600.0
_FOUND = 1
_SHOWN = 7  # digits of a commit


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfCheckOptions:
    """Further requirements."""

    max_age_hours: float | None
    """Since the last successful sync; None for three intervals of the timer."""
    program_version: str | None
    """The expected version; None for any."""
    as_json: bool


def run_self_check(
    options: Options, environment: Mapping[str, str], request: SelfCheckOptions
) -> int:
    """Check this machine without a network and without starting any agent.

    Returns:
        The exit code: 1 if something has to be repaired.
    """
    findings = [*_check_machine(environment, request)]
    states: Sequence[SourceState] = ()
    try:
        library = build(options, environment).library
    except ConfigError as error:
        fix = "Correct what the message names"
        findings.append(CheckResult("settings", is_ok=False, message=str(error), fix=fix))
    else:
        states = library.stored_states()
        findings += _check_sources(states, request)
        choice, rules = library.choose_sandbox(), library.config.scripts
        findings.append(check_sandbox(choice, rules))
    is_ok = all(finding.is_ok for finding in findings)
    if request.as_json:
        print_json(
            {
                "ok": is_ok,
                "version": __version__,
                "sources": [render_state(state) for state in states],
                "checks": [finding.render() for finding in findings],
            }
        )
    else:
        _print(findings, states)
    return 0 if is_ok else _FOUND


def _check_machine(
    environment: Mapping[str, str], request: SelfCheckOptions
) -> Iterator[CheckResult]:
    version = request.program_version or __version__
    yield CheckResult(
        "version",
        is_ok=version == __version__,
        message=f"skills-mcp {__version__}",
        fix="" if version == __version__ else f"Install skills-mcp {version}",
    )
    yield from check_variables(environment)
    home = find_home(environment)
    yield check_cache(home)
    yield check_disk(home)


def _check_sources(
    states: Sequence[SourceState], request: SelfCheckOptions
) -> Iterator[CheckResult]:
    for state in states:
        yield from _check_folder(state)
        for finding in check_content(state, ""):
            yield _compare_age(finding, state, request.max_age_hours)


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
    if age <= max_hours * _HOUR:
        return CheckResult("content", is_ok=True, message=finding.message)
    message = f"{finding.message}; at most {max_hours:g} hours are allowed"
    return CheckResult("content", is_ok=False, message=message, fix="skills-mcp sync")


def _name_commit(state: SourceState) -> str:
    return f"{state.commit[:_SHOWN]} of " if state.commit else ""


def _print(findings: Sequence[CheckResult], states: Sequence[SourceState]) -> None:
    failed = [finding for finding in findings if not finding.is_ok]
    for finding in failed:
        message = finding.message.rstrip(".")
        click.echo(f"FAILED {finding.name}: {message}. Repair: {finding.fix}")
    if not failed:
        served = (f"{_name_commit(s)}{s.name}" for s in states)
        what = ", ".join(served) or "nothing"
        click.echo(f"ok: skills-mcp {__version__} serves {what}")
    sys.stdout.flush()
