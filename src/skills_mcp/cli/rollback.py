"""`skills-mcp rollback`: serve the commit before, or follow the repository again."""

import click

from skills_mcp.bootstrap import Application
from skills_mcp.cli.status import compose_resume
from skills_mcp.content.branch import RemoteBranch
from skills_mcp.content.source import Mount
from skills_mcp.errors import SyncError


def print_rollback(
    application: Application, *, mount: str | None, is_resumed: bool
) -> None:
    """Go back, or on, and say what is served now.

    Raises:
        SyncError: There is nothing to go back to, or nothing is held.
        UsageError: Nobody can tell which source is meant.
    """
    chosen, is_alone = _choose(application, mount)
    source = chosen.source
    if not isinstance(source, RemoteBranch):
        raise SyncError(_render_folder(source.name, is_resumed=is_resumed))
    if is_resumed:
        source.follow()
        checkout = source.open()
        serves = f", and serves {checkout.revision}" if checkout else ""
        click.echo(
            f"{source.name} is followed again{serves}.\n"
            "Every server on this machine asks it for the newest commit soon; to do it "
            "now: skills-mcp sync"
        )
        return
    checkout = source.go_back()
    instead = checkout.hold.instead_of if checkout.hold else "the newest commit"
    click.echo(
        f"{source.name} is held at {checkout.revision} instead of {instead}.\n"
        "Every server on this machine serves it within seconds.\n"
        f"To follow again: {compose_resume(chosen.at, is_alone=is_alone)}"
    )


def _render_folder(name: str, *, is_resumed: bool) -> str:
    if is_resumed:
        return f"{name} is a folder: nothing is held"
    return (
        f"{name} is a folder, which has no earlier commit. Change its files, or serve "
        "it from a Git repository"
    )


def _choose(application: Application, place: str | None) -> tuple[Mount, bool]:
    """Return what stands at a place, or the only repository, and whether it is that."""
    mounts = application.mounts.mounts
    repositories = [each for each in mounts if each.source.mode == "git"]
    is_alone = len({each.source for each in repositories}) == 1
    if place is not None:
        found = [each for each in mounts if each.at == place.strip("/")]
    else:
        found = repositories if is_alone else []
    if found:
        return found[0], is_alone
    if not repositories:
        raise SyncError(
            "no source is a Git repository, and a folder has no commit to go back to"
        )
    places = " or ".join(repr(each.at) for each in repositories)
    raise click.UsageError(f"Say with --mount which source is meant: {places}.")
