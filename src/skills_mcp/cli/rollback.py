"""`skills-mcp rollback`: serve the previous commit, or resume."""

from collections.abc import Sequence
from dataclasses import dataclass

import click

from skills_mcp.bootstrap import Application
from skills_mcp.cli.status import compose_resume
from skills_mcp.cli.sync import sync_progress
from skills_mcp.cli.terminal import print_json
from skills_mcp.errors import SyncError
from skills_mcp.library import SourceState, render_state


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackOptions:
    mount: str | None = None
    """None for the only repository."""
    to: str = ""
    """A commit; empty for the previous one."""
    is_resumed: bool = False


def print_rollback(application: Application, request: RollbackOptions, *, as_json: bool) -> None:
    """Roll back or resume, and print the served commit.

    Raises:
        SyncError: There is no previous commit, or no rollback to end.
        UsageError: `mount` names no source, or is missing and there are several.
    """
    library = application.library
    mount, is_alone = _choose_source(library.stored_states(), request.mount)
    if request.is_resumed:
        state = library.resume(mount)
    else:
        with sync_progress(application):
            state = library.roll_back(mount, request.to)
    if as_json:
        print_json(render_state(state))
    elif request.is_resumed:
        click.echo(_compose_resumed(state))
    else:
        click.echo(_compose_rollback(state, compose_resume(mount, is_alone=is_alone)))


def _compose_resumed(state: SourceState) -> str:
    serves = f", and serves {state.commit}" if state.commit else ""
    return (
        f"{state.name} is followed again{serves}.\n"
        "Every server on this machine fetches its newest commit soon; to fetch "
        "now: skills-mcp sync"
    )


def _compose_rollback(state: SourceState, resume_command: str) -> str:
    instead = state.hold.instead_of if state.hold else "the newest commit"
    return (
        f"{state.name} is held at {state.commit} instead of {instead}.\n"
        "Every server on this machine serves it within seconds.\n"
        f"To follow again: {resume_command}"
    )


def _choose_source(states: Sequence[SourceState], mount: str | None) -> tuple[str, bool]:
    """The mount of the source, and whether it is the only repository."""
    repositories = [state for state in states if state.mode == "git"]
    is_alone = len({state.name for state in repositories}) == 1
    if mount is not None:
        found = [state for state in states if state.mount == mount.strip("/")]
    else:
        found = repositories if is_alone else []
    if found:
        return found[0].mount, is_alone
    if not repositories:
        raise SyncError("no source is a Git repository, and a folder has no commit to go back to")
    mounts = " or ".join(repr(state.mount) for state in repositories)
    unknown = "" if mount is None else f"No source has the mount {mount!r}. "
    raise click.UsageError(f"{unknown}Choose a repository with --mount: {mounts}.")
