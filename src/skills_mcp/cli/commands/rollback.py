"""Go back to the previous commit (undo with --resume).

Every server on this machine switches within seconds, and does not fetch this
repository until you --resume.
"""

from collections.abc import Sequence
from typing import Any

import click

from skills_mcp.cli.command_group import SectionedCommand, repeat_options
from skills_mcp.cli.commands.status import compose_resume, render_source
from skills_mcp.cli.options import build_application, content_options, json_option
from skills_mcp.cli.terminal import print_json, sync_progress
from skills_mcp.errors import SyncError
from skills_mcp.library import SourceState


@click.command(
    cls=SectionedCommand,
    examples=(
        "skills-mcp rollback",
        "skills-mcp rollback --to 1a2b3c4",
        "skills-mcp rollback --resume",
    ),
)
@click.option("--mount", metavar="PLACE", help="The mount of the repository, if there are several.")
@click.option(
    "--to", metavar="COMMIT", default="", help="Go back to this commit instead of the previous one."
)
@click.option("--resume", is_flag=True, help="Follow the repository again.")
@json_option
@content_options()
def command(*, mount: str | None, to: str, resume: bool, as_json: bool, **values: Any) -> None:
    if to and resume:
        raise click.UsageError("--to and --resume exclude each other.")
    library = build_application(**values).library
    mount, is_alone = _choose_source(library.stored_states(), mount)
    if resume:
        state = library.resume(mount)
    else:
        with sync_progress(library):
            state = library.roll_back(mount, to)
    if as_json:
        print_json(render_source(state))
    elif resume:
        click.echo(repeat_options(_compose_resumed(state)))
    else:
        resume_command = compose_resume(mount, is_alone=is_alone)
        click.echo(repeat_options(_compose_rollback(state, resume_command)))


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
