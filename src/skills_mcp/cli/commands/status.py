"""Show the served commit, its age and errors (offline)."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import click

from skills_mcp.bootstrap import Application
from skills_mcp.cli.command_group import SYNC_EXIT, SectionedCommand, repeat_options
from skills_mcp.cli.invocation import read_environment
from skills_mcp.cli.options import build_application, content_options, json_option
from skills_mcp.cli.terminal import print_json
from skills_mcp.config import Analytics, Scripts, is_tracking_refused
from skills_mcp.config.variables import find_unknown_variables
from skills_mcp.events.publisher import DeliveryFailure
from skills_mcp.library import Choice, SourceState, render_state
from skills_mcp.server.windows.running_servers import list_servers
from skills_mcp.text.rendering import count_noun, describe_age

FAILED = "last sync failed; serving the previous commit"

_FAILED_FIRST = "last sync failed"

_NEEDS_CARE = 1

_SHOWN = 12  # digits of a commit, where two are on one line

_NO_MAIN = "the default branch, as there is no main"

_FACT_WIDTH = len("Instead of") + 2

_UNCONFINED = "a script can read and change what you can"

# A source in the settings always has a line, so only discovery can find nothing.
_NOTHING = "There is no source: no .agents/skills was found here."


@click.command(
    cls=SectionedCommand,
    reports_variables=True,
    examples=("skills-mcp status", "skills-mcp status --json"),
)
@json_option
@content_options()
def command(*, as_json: bool, **values: Any) -> None:
    application = build_application(**values)
    states, config = _read_states(application), application.library.config
    failure, rules = application.publisher.find_failure(), config.scripts
    analytics = _find_analytics(config.analytics)
    choice = application.library.runs.choose_sandbox(rules)
    analytics["failure"] = _render_failure(failure)
    unknown = find_unknown_variables(read_environment())
    if as_json:
        sources = [render_source(state) for state in states]
        facts = {"sources": sources, "scripts": _render(choice, rules), "analytics": analytics}
        variables = [{"name": known.name, "meant": known.suggestion} for known in unknown]
        servers = [server.render() for server in list_servers(read_environment())]
        print_json({**facts, "unknown_variables": variables, "servers": servers})
    else:
        click.echo(repeat_options(_compose_facts(states)) or _NOTHING)
        click.echo(f"\n{_compose_fact('Scripts', _describe(choice, rules))}")
        click.echo(_compose_fact("Analytics", _describe_analytics(analytics)))
        if failure:
            click.echo(_compose_fact("Not sent", _describe_delivery(failure)))
        for server in list_servers(read_environment()):
            click.echo(_compose_fact("Server", str(server)))
        for variable in unknown:
            click.echo(_compose_fact("Variable", str(variable)))
    if any(state.is_failing for state in states):
        sys.exit(SYNC_EXIT)
    sys.exit(_NEEDS_CARE if any(state.is_stale for state in states) else 0)


def _read_states(application: Application) -> tuple[SourceState, ...]:
    """States of the sources, with the stored commits of rollouts to groups."""
    own, early = application.library.stored_states(), application.early
    states = early.stored_states() if early else ()
    served = {(state.name, state.pins) for state in own}
    others = (state for state in states if (state.name, state.pins) not in served)
    return own + tuple(state for state in others if state.commit)


def _find_analytics(rules: Analytics) -> dict[str, Any]:
    """Analytics settings: enabled, destination and content."""
    return {
        "enabled": rules.enabled,
        "refused": is_tracking_refused(read_environment()),
        # Without its path and query, in which people keep keys.
        "receiver": urlsplit(rules.endpoint).hostname,
        "context": rules.context,
        "identity": rules.identity,
    }


def _render_failure(failure: DeliveryFailure | None) -> dict[str, Any] | None:
    if failure is None:
        return None
    return {
        "reason": failure.reason,
        "failures": failure.failures,
        "next_attempt_at": failure.next_attempt_at.isoformat(timespec="seconds"),
        "is_lasting": failure.is_lasting,
    }


def _describe_delivery(failure: DeliveryFailure) -> str:
    retry = _clock(failure.next_attempt_at.timestamp())
    times = count_noun(failure.failures, "time")
    return f"{failure.reason} (failed {times}; retry at {retry})"


def _describe_analytics(found: dict[str, Any]) -> str:
    if not found["enabled"]:
        return "off (DO_NOT_TRACK)" if found["refused"] else "off"
    destination = f"sent to {found['receiver']}" if found["receiver"] else "kept on this machine"
    return f"on, {destination}; context {found['context']}, identity {found['identity']}"


def _render(choice: Choice | None, rules: Scripts) -> dict[str, object]:
    run = choice if choice and not choice.refusal else None
    return {
        "enabled": rules.enabled,
        "sandbox": run.name if run else None,
        "confined": run.confines if run else None,
        "network": rules.network,
        "missing": run.missing if run else (),
        "refusal": choice.refusal if choice else "",
    }


def _describe(choice: Choice | None, rules: Scripts) -> str:
    if choice is None:
        return "off (scripts.enabled)"
    if choice.refusal:
        return f"refused: {choice.refusal}"
    missing = f" ({'; '.join(choice.missing)})" if choice.missing else ""
    if choice.confines:
        network = ", with the network" if rules.network else ""
        return f"{choice.name}{network}{missing}"
    name = "scripts.sandbox is off" if rules.sandbox == "off" else choice.name
    return f"not confined, {_UNCONFINED}: {name}{missing}"


def render_source(state: SourceState) -> dict[str, Any]:
    """Render a source as JSON; a hint in its error repeats the given options."""
    data = render_state(state)
    if "error" in data:
        data["error"]["message"] = repeat_options(data["error"]["message"])
    return data


def describe_state(state: SourceState) -> str:
    """One line: the location of a source, and its served commit."""
    line = f"{state.mount or 'top'}: {state.name}"
    if state.synced_at is None:
        return f"{line}, not available"
    if state.mode == "local":
        if state.error:
            return f"{line}, not available"
        return f"{line}; {state.loss}" if state.loss else line
    age = f"synced {describe_age(state.age_seconds)}"
    failed = f"{_describe_failure(state)}, " if state.error else ""
    line += f" at {state.commit}, {failed}{age}"
    if state.pins:
        line += f", for {', '.join(state.pins)} alone"
    if state.rollout:
        line += f", rolled out to {state.rollout}"
    if state.default_branch:
        line += f", {_NO_MAIN}"
    if state.loss:
        line += f"; {state.loss}"
    if state.verified_by:
        line += f", signed by {state.verified_by}"
    return f"{line}, held instead of {state.hold.instead_of}" if state.hold else line


def _compose_facts(states: Sequence[SourceState]) -> str:
    is_alone = sum(state.mode == "git" for state in states) == 1
    return "\n\n".join(
        "\n".join(_compose_fact(fact, value) for fact, value in facts)
        for facts in (_facts(state, is_alone=is_alone) for state in states)
    )


def _compose_fact(name: str, value: str) -> str:
    return f"{name:{_FACT_WIDTH}}{value}"


def compose_resume(mount: str, *, is_alone: bool) -> str:
    """The command to end a rollback.

    Args:
        mount: Mount of the source; empty for the top.
        is_alone: Whether it is the only repository.
    """
    command = "skills-mcp rollback --resume"
    return command if is_alone else f"{command} --mount {shlex.quote(mount)}"


def _facts(state: SourceState, *, is_alone: bool) -> Iterator[tuple[str, str]]:
    yield "Source", state.name
    parts = {"Mount": state.mount, "Pinned": ", ".join(state.pins), "Rollout": state.rollout}
    yield from ((name, value) for name, value in parts.items() if value)
    if state.mode == "git":
        stale = " (stale)" if state.commit and state.is_stale else ""
        yield "Commit", state.commit or "none yet"
        failed = f", {_describe_failure(state)}" if state.error else ""
        yield "Synced", f"{describe_age(state.age_seconds)}{stale}{failed}"
    if state.default_branch:
        yield "Branch", f"{state.default_branch}, {_NO_MAIN}"
    yield from _missing_facts(state)
    if state.verified_by:
        yield "Signed by", state.verified_by
    if state.hold:
        yield "Held", f"since {_clock(state.hold.since)}"
        yield "Instead of", state.hold.instead_of
        yield "Undo with", compose_resume(state.mount, is_alone=is_alone)
    if state.failed_at:
        yield "Failed", _clock(state.failed_at.timestamp())
    if state.error:
        yield "Error", str(state.error)
    if state.next_attempt_at:
        yield "Retry", _clock(state.next_attempt_at.timestamp())


def _missing_facts(state: SourceState) -> Iterator[tuple[str, str]]:
    if state.loss:
        yield "Lost", f"{state.loss}; since {_clock(state.loss.happened_at)}"
    if state.not_served:
        noun = "package" if state.not_served == 1 else "packages"
        yield "Not served", f"{state.not_served:,} {noun}: skills-mcp tree --problems"


def _clock(seconds: float) -> str:
    """Local time with its UTC offset."""
    moment = datetime.fromtimestamp(seconds).astimezone()
    return moment.isoformat(sep=" ", timespec="seconds")


def _describe_failure(state: SourceState) -> str:
    """Effect of a failed sync on the served content."""
    if not state.refused_commit:
        return FAILED if state.commit else _FAILED_FIRST
    serving = state.commit[:_SHOWN] if state.commit else "nothing"
    return f"serving {serving}, refused {state.refused_commit[:_SHOWN]}"
