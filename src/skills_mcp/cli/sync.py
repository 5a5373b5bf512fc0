"""`skills-mcp sync`: fetch the newest content once."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Event, Thread

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, SpinnerColumn, TextColumn
from rich.progress import Progress as Bar

from skills_mcp.bootstrap import Application
from skills_mcp.cli.status import describe_state
from skills_mcp.cli.terminal import print_json
from skills_mcp.library import Snapshot, render_state

_FAILED = 4
_GLANCE_SECONDS = 0.2


def print_sync(application: Application, *, as_json: bool) -> int:
    """Sync and index every source, and print the state of each.

    Returns:
        The exit code: 4 if a source could not be synced.
    """
    with sync_progress(application):
        error = application.library.sync_or_load_stored()
    library = application.library.view()
    count = len(library.snapshot.index) if library.served else 0
    states = library.states()
    if as_json:
        if error and not any(state.error for state in states):
            # Not every error is stored: offline nothing was tried.
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


def sync_and_load(application: Application) -> Snapshot:
    """Sync and load; print sync errors to standard error.

    Raises:
        SyncError: There is no content, old or new.
    """
    library = application.library
    with sync_progress(application):
        error = library.sync_or_load_stored()
    if error and not library.is_ready:
        raise error
    if error:
        notices = Console(stderr=True, highlight=False)
        message = f"Sync failed; showing the previous content: {escape(str(error))}"
        notices.print(message, soft_wrap=True)
    return library.view().snapshot


@contextmanager
def sync_progress(application: Application) -> Iterator[None]:
    """Show the progress of a sync on a terminal, until it ends."""
    console, library = Console(stderr=True), application.library
    if not console.is_terminal:
        yield
        return
    message = f"Reading {library.mounts.name} …"
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False))
    with Bar(*columns, BarColumn(), console=console, transient=True) as bar:
        task = bar.add_task(message, total=None)
        ending = Event()

        def follow() -> None:
            while not ending.wait(_GLANCE_SECONDS):
                progress = library.mounts.progress
                bar.update(
                    task,
                    description=f"{message} {library.mounts.doing}",
                    completed=progress.done,
                    total=progress.total or None,
                )

        watcher = Thread(target=follow, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ending.set()
            watcher.join()
