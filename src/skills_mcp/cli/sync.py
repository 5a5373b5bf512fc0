"""`skills-mcp sync`: bring the newest content here, once."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Event, Thread

import click
from rich.console import Console
from rich.markup import escape

from skills_mcp.bootstrap import Application
from skills_mcp.cli.status import describe_state
from skills_mcp.cli.terminal import print_json
from skills_mcp.errors import SyncError
from skills_mcp.library.answers import render_state
from skills_mcp.snapshots.snapshot import Snapshot

_FAILED = 4
_GLANCE_SECONDS = 0.2


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
        if kept := application.mounts.open():
            library.load(kept)
        return error
    return content.error


def load_snapshot(application: Application) -> Snapshot:
    """Sync and load; what could not be synced is said on standard error.

    Raises:
        SyncError: There is no content, old or new.
    """
    library, mounts = application.library, application.mounts
    notices = Console(stderr=True, highlight=False)
    with showing_sync(application):
        try:
            content = library.shelf.sync()
        except SyncError as error:
            published = mounts.open()
            if published is None:
                raise
            said = f"Showing what was synced before: {escape(str(error))}"
            notices.print(said, soft_wrap=True)
            content = published
            library.load(content)
    if content.error:
        said = f"Showing what there is: {escape(str(content.error))}"
        notices.print(said, soft_wrap=True)
    return library.snapshot


@contextmanager
def showing_sync(application: Application) -> Iterator[None]:
    """Show on a terminal what a sync is at, until it ends."""
    console = Console(stderr=True)
    name = escape(application.mounts.name)
    with console.status(f"Reading {name} …") as status:
        ending = Event()

        def follow() -> None:
            while not ending.wait(_GLANCE_SECONDS):
                doing = application.mounts.doing
                status.update(f"Reading {name} … {escape(doing)}")

        watcher = Thread(target=follow, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ending.set()
            watcher.join()
