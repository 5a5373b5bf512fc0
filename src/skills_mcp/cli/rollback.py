"""`skills-mcp rollback`: go back to the previous commit, or follow the newest again."""

from collections.abc import Sequence

import click

from skills_mcp.bootstrap import Application
from skills_mcp.cli.status import compose_resume
from skills_mcp.errors import SyncError
from skills_mcp.library import SourceState


def print_rollback(
    application: Application, *, mount: str | None, is_resumed: bool
) -> None:
    """Go back to the previous commit, or resume, and print what is served now.

    Raises:
        SyncError: There is nothing to go back to, or nothing is held.
        UsageError: `mount` names no source, or is missing and there are several.
    """
    library = application.library
    place, is_alone = _choose(library.stored_states(), mount)
    if is_resumed:
        state = library.resume(place)
        serves = f", and serves {state.commit}" if state.commit else ""
        click.echo(
            f"{state.name} is followed again{serves}.\n"
            "Every server on this machine fetches its newest commit soon; to fetch "
            "now: skills-mcp sync"
        )
        return
    state = library.roll_back(place)
    instead = state.hold.instead_of if state.hold else "the newest commit"
    click.echo(
        f"{state.name} is held at {state.commit} instead of {instead}.\n"
        "Every server on this machine serves it within seconds.\n"
        f"To follow again: {compose_resume(place, is_alone=is_alone)}"
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
