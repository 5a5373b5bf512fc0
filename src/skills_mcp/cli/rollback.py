"""`skills-mcp rollback`: go back to the previous commit, or follow the newest again."""

from collections.abc import Sequence
from dataclasses import dataclass

import click

from skills_mcp.bootstrap import Application
from skills_mcp.cli.status import compose_resume
from skills_mcp.cli.sync import showing_sync
from skills_mcp.cli.terminal import print_json
from skills_mcp.errors import SyncError
from skills_mcp.library import SourceState, render_state


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackOptions:
    """What to hold, and whether to end that."""

    mount: str | None = None
    """None for the only repository."""
    to: str = ""
    """The commit to go back to; empty for the previous one."""
    is_resumed: bool = False


def print_rollback(
    application: Application, wanted: RollbackOptions, *, as_json: bool
) -> None:
    """Go back to an earlier commit, or resume, and print what is served now.

    Raises:
        SyncError: There is nothing to go back to, or nothing is held.
        UsageError: `mount` names no source, or is missing and there are several.
    """
    library = application.library
    place, is_alone = _choose(library.stored_states(), wanted.mount)
    if wanted.is_resumed:
        state = library.resume(place)
    else:
        with showing_sync(application):
            state = library.roll_back(place, wanted.to)
    if as_json:
        print_json(render_state(state))
    elif wanted.is_resumed:
        click.echo(_compose_resumed(state))
    else:
        click.echo(_compose_held(state, compose_resume(place, is_alone=is_alone)))


def _compose_resumed(state: SourceState) -> str:
    serves = f", and serves {state.commit}" if state.commit else ""
    return (
        f"{state.name} is followed again{serves}.\n"
        "Every server on this machine fetches its newest commit soon; to fetch "
        "now: skills-mcp sync"
    )


def _compose_held(state: SourceState, way_back: str) -> str:
    instead = state.hold.instead_of if state.hold else "the newest commit"
    return (
        f"{state.name} is held at {state.commit} instead of {instead}.\n"
        "Every server on this machine serves it within seconds.\n"
        f"To follow again: {way_back}"
    )


def _choose(states: Sequence[SourceState], place: str | None) -> tuple[str, bool]:
    """Return the mount of the source, and whether it is the only repository."""
    repositories = [each for each in states if each.mode == "git"]
    is_alone = len({each.name for each in repositories}) == 1
    if place is not None:
        found = [each for each in states if each.mount == place.strip("/")]
    else:
        found = repositories if is_alone else []
    if found:
        return found[0].mount, is_alone
    if not repositories:
        raise SyncError(
            "no source is a Git repository, and a folder has no commit to go back to"
        )
    places = " or ".join(repr(each.mount) for each in repositories)
    unknown = "" if place is None else f"No source has the mount {place!r}. "
    raise click.UsageError(f"{unknown}Choose a repository with --mount: {places}.")
