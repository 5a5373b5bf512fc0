"""How a source is doing, in words."""

import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime

from skills_mcp.content.source import SourceState

_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60))

_FACT_WIDTH = len("Instead of") + 2


def describe_state(state: SourceState) -> str:
    """Return one line: where a source stands, and what is served of it."""
    said = f"{state.mount or 'top'}: {state.name}"
    if state.synced_at is None:
        return f"{said}, not available"
    if state.mode == "local":
        return f"{said}, not available" if state.error else said
    before = " before" if state.error else ""
    said += f" at {state.commit}, synced{before} {describe_age(state.age_seconds)}"
    if state.verified_by:
        said += f", signed by {state.verified_by}"
    return f"{said}, held instead of {state.hold.instead_of}" if state.hold else said


def describe_age(seconds: float | None) -> str:
    """Return an age in its largest unit.

    >>> describe_age(125.0), describe_age(59.9), describe_age(None)
    ('2 minutes ago', 'just now', 'never')
    """
    if seconds is None:
        return "never"
    for unit, size in _UNITS:
        number = int(seconds // size)
        if number:
            return f"{number} {unit}{'' if number == 1 else 's'} ago"
    return "just now"


def compose_facts(states: Sequence[SourceState]) -> str:
    """Return all that is known of each source, one line for each fact."""
    is_alone = sum(state.mode == "git" for state in states) == 1
    return "\n\n".join(
        "\n".join(compose_fact(fact, value) for fact, value in facts)
        for facts in (_facts(state, is_alone=is_alone) for state in states)
    )


def compose_fact(name: str, value: str) -> str:
    """Return one line of what is known."""
    return f"{name:{_FACT_WIDTH}}{value}"


def compose_resume(mount: str, *, is_alone: bool) -> str:
    """Return the command that ends a hold.

    Args:
        mount: Where the source stands; empty for the top.
        is_alone: Whether there is no other repository that could be meant.
    """
    command = "skills-mcp rollback --resume"
    return command if is_alone else f"{command} --mount {shlex.quote(mount)}"


def _facts(state: SourceState, *, is_alone: bool) -> Iterator[tuple[str, str]]:
    yield "Source", state.name
    if state.mount:
        yield "At", state.mount
    if state.mode == "git":
        stale = " (stale)" if state.commit and state.is_stale else ""
        yield "Commit", state.commit or "none yet"
        yield "Synced", f"{describe_age(state.age_seconds)}{stale}"
    if state.verified_by:
        yield "Signed by", state.verified_by
    if state.hold:
        yield "Held", f"since {_clock(state.hold.since)}"
        yield "Instead of", state.hold.instead_of
        yield "To end it", compose_resume(state.mount, is_alone=is_alone)
    if state.failed_at:
        yield "Failed", _clock(state.failed_at.timestamp())
    if state.error:
        yield "Because", str(state.error)
    if state.next_attempt_at:
        yield "Again", _clock(state.next_attempt_at.timestamp())


def _clock(seconds: float) -> str:
    """Return a moment as the clock on the wall shows it."""
    return f"{datetime.fromtimestamp(seconds).astimezone():%Y-%m-%d %H:%M:%S}"
