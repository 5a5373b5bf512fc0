"""`skills-mcp self-check`: one machine of many, as a management tool asks for it."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import click

from skills_mcp.about import __version__
from skills_mcp.bootstrap import Options, build, find_home
from skills_mcp.cli.terminal import print_json
from skills_mcp.errors import ConfigError
from skills_mcp.features.hosts.finding import Finding
from skills_mcp.features.hosts.machine_checks import (
    check_cache,
    check_disk,
    check_sandbox,
    check_variables,
)
from skills_mcp.features.hosts.source_checks import check_content
from skills_mcp.library import SourceState, render_state

_HOUR = 3600.0
_FOUND = 1
_SHOWN = 7  # digits of a commit


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfCheckOptions:
    """What this machine has to meet, besides being well."""

    max_age_hours: float | None
    """Since the last successful sync; None for three intervals of the timer."""
    program_version: str | None
    """The version that is rolled out; None for any."""
    as_json: bool


def run_self_check(
    options: Options, environment: Mapping[str, str], wanted: SelfCheckOptions
) -> int:
    """Check this machine without a network and without starting any agent.

    Returns:
        The exit code: 1 if something has to be repaired.
    """
    findings = [*_check_machine(environment, wanted)]
    states: Sequence[SourceState] = ()
    try:
        library = build(options, environment).library
    except ConfigError as error:
        fix = "Correct what the message names"
        findings.append(Finding("settings", is_ok=False, message=str(error), fix=fix))
    else:
        states = library.stored_states()
        findings += _check_sources(states, wanted)
        choice, rules = library.choose_sandbox(), library.config.scripts
        findings.append(check_sandbox(choice, rules))
    is_ok = all(each.is_ok for each in findings)
    if wanted.as_json:
        print_json(
            {
                "ok": is_ok,
                "version": __version__,
                "sources": [render_state(state) for state in states],
                "checks": [each.render() for each in findings],
            }
        )
    else:
        _print(findings, states)
    return 0 if is_ok else _FOUND


def _check_machine(
    environment: Mapping[str, str], wanted: SelfCheckOptions
) -> Iterator[Finding]:
    version = wanted.program_version or __version__
    yield Finding(
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
    states: Sequence[SourceState], wanted: SelfCheckOptions
) -> Iterator[Finding]:
    for state in states:
        yield from _check_folder(state)
        for finding in check_content(state, ""):
            yield _compare_age(finding, state, wanted.max_age_hours)


def _check_folder(state: SourceState) -> Iterator[Finding]:
    if state.mode == "local":
        said = str(state.error) if state.error else f"{state.name} can be read"
        fix = "Correct the folder in the settings" if state.error else ""
        yield Finding("folder", is_ok=state.error is None, message=said, fix=fix)


def _compare_age(
    finding: Finding, state: SourceState, most_hours: float | None
) -> Finding:
    """Let the age that is asked for decide, unless the newest commit is refused."""
    age = state.age_seconds
    if most_hours is None or age is None or state.refused_commit:
        return finding
    if age <= most_hours * _HOUR:
        return Finding("content", is_ok=True, message=finding.message)
    said = f"{finding.message}; at most {most_hours:g} hours are allowed"
    return Finding("content", is_ok=False, message=said, fix="skills-mcp sync")


def _name_commit(state: SourceState) -> str:
    return f"{state.commit[:_SHOWN]} of " if state.commit else ""


def _print(findings: Sequence[Finding], states: Sequence[SourceState]) -> None:
    failed = [each for each in findings if not each.is_ok]
    for each in failed:
        said = each.message.rstrip(".")
        click.echo(f"FAILED {each.name}: {said}. Repair: {each.fix}")
    if not failed:
        served = (f"{_name_commit(s)}{s.name}" for s in states)
        what = ", ".join(served) or "nothing"
        click.echo(f"ok: skills-mcp {__version__} serves {what}")
    sys.stdout.flush()
