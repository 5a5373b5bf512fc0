"""A bar on a terminal that says how far a command is."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread, Timer

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from skills_mcp.bootstrap import Application

_GLANCE_SECONDS = 0.2

_MOMENT_SECONDS = 1.0
"""Whoever waits for longer wants to see that something happens."""


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


@contextmanager
def showing_progress(verb: str) -> Iterator[Callable[[int, int], None]]:
    """Show on a terminal how far it is, unless it is done in a moment.

    Args:
        verb: What the command does meanwhile, such as `Checking`.

    Yields:
        What to tell how much is done, and how much there is.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _done, _total: None
        return
    columns = (TextColumn(verb), BarColumn(), MofNCompleteColumn())
    progress = Progress(*columns, console=console, transient=True)
    task = progress.add_task("", total=None)
    timer = Timer(_MOMENT_SECONDS, progress.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda done, total: progress.update(task, completed=done, total=total)
    finally:
        timer.cancel()
        timer.join()  # or it could start after the end
        progress.stop()
