"""`skills-mcp sync`: bring the newest content here, once."""

from dataclasses import replace

import click

from skills_mcp.bootstrap import Application
from skills_mcp.cli.printing import print_json
from skills_mcp.cli.progress import showing_sync
from skills_mcp.cli.states import describe_state
from skills_mcp.errors import SyncError
from skills_mcp.library.answers import render_state

_FAILED = 4


def print_sync(application: Application, *, as_json: bool) -> int:
    """Sync every source, index what arrived, say how each of them is.

    Returns:
        The exit code: 4 if a source could not be had.
    """
    with showing_sync(application):
        error = _sync(application)
    shelf = application.library.shelf
    count = len(shelf.snapshot.index) if shelf.is_ready else 0
    states = shelf.states()
    if as_json:
        if error and not any(state.error for state in states):
            # Not every failure is remembered: offline nothing was tried.
            states = tuple(replace(state, error=error) for state in states)
        print_json({"skills": count, "sources": list(map(render_state, states))})
    else:
        for state in states:
            click.echo(describe_state(state))
        click.echo("1 skill" if count == 1 else f"{count} skills")
    if error is None:
        return 0
    click.echo(f"skills-mcp: {error}", err=True)
    return _FAILED


def _sync(application: Application) -> SyncError | None:
    """Return what some source could not do; what was here before is loaded then."""
    library = application.library
    try:
        content = library.shelf.sync()
    except SyncError as error:
        if kept := application.mounts.look():
            library.load(kept)
        return error
    return content.error
