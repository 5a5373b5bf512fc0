"""Output to a terminal, to a pipe, and as JSON; progress of a sync and of other work."""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    Task,
    TextColumn,
)
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from skills_mcp.cli.invocation import find_invocation
from skills_mcp.errors import SkillsError
from skills_mcp.skills.model import Problem

if TYPE_CHECKING:  # or there is not enough memory to print that there is not enough
    from skills_mcp.library import SkillLibrary, Snapshot

_WHOLE_LINES = 100_000


def open_console() -> Console:
    """A console: lines are cropped for a terminal, not for a file or a pipe."""
    console = _new_console(highlight=False, emoji=False)
    if console.is_terminal:
        return console
    return _new_console(highlight=False, emoji=False, width=_WHOLE_LINES)


def _new_console(*, stderr: bool = False, **options: Any) -> Console:
    """A console for the process for which a command runs."""
    invocation = find_invocation()
    if invocation is None:
        return Console(stderr=stderr, **options)
    file = invocation.stderr if stderr else invocation.stdout
    console = Console(file=file, _environ=invocation.environment, **{**invocation.size, **options})
    if console.color_system:
        _colour_systems.append(console.color_system)
        del _colour_systems[1:]
        invocation.is_declined |= console.color_system not in _colour_systems
    return console


_colour_systems: list[str] = []
"""Of the first terminal of a command within a server: the styles of Rich keep its codes."""


def print_paged(renderables: Sequence[RenderableType], *, is_paged: bool) -> None:
    """Print to standard output, in a pager if it is longer than the terminal.

    Args:
        renderables: Printed in sequence; long lines are cropped.
        is_paged: Whether a pager is allowed; a file or a pipe never gets one.
    """
    console = open_console()
    with console.capture() as captured:
        for part in renderables:
            is_tree = isinstance(part, Tree)
            console.print(part, no_wrap=is_tree, overflow="ellipsis" if is_tree else None)
    text = captured.get()
    if is_paged and console.is_terminal and text.count("\n") >= console.height:
        if invocation := find_invocation():
            console.file.flush()
            invocation.page(text, not console.no_color)
            return
        # None: Click asks `less` to show colours, unless LESS says something else.
        click.echo_via_pager(text, color=False if console.no_color else None)
    else:
        console.out(text, end="")


def tabulate(
    columns: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    title: str | None = None,
    numbers: Sequence[str] = (),
    show_lines: bool = False,
) -> Table:
    """A table; texts are printed as they are, without markup.

    Args:
        columns: Their titles.
        rows: A cell for each column.
        title: Above the table.
        numbers: The columns that are aligned on the right.
        show_lines: Whether there is a line between two rows.
    """
    table = Table(title=title, title_justify="left", caption_justify="left", show_lines=show_lines)
    for column in columns:
        is_number = column in numbers
        table.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return table


def shorten(text: str, max_characters: int) -> str:
    """One line of a text, with an ellipsis if it is longer."""
    line = " ".join(text.split())
    return line if len(line) <= max_characters else f"{line[: max_characters - 1]}…"


_MAX_CODE_CHARACTERS = 200  # of a cell in a comment; some tasks are pages
_TICKS = re.compile("`+")


def code_span(text: str) -> str:
    """A code span in Markdown: it can neither mention a person nor break a table."""
    line = shorten(text, _MAX_CODE_CHARACTERS)
    longest = max(map(len, _TICKS.findall(line)), default=0)
    fence = "`" * (longest + 1)
    space = " " if longest else ""
    escaped = line.replace("|", "\\|")
    return f"{fence}{space}{escaped}{space}{fence}"


def confirm(  # noqa: PLR0913 - a message has parts
    question: str, error: type[SkillsError], *, done: str, preview: str, listing: str, as_json: bool
) -> None:
    """Ask before something is changed.

    Args:
        question: For yes or no.
        error: Raised if the answer is no, or if there is no answer.
        done: What would be done, such as `added`.
        preview: Where to look if the output is JSON.
        listing: The lines above, on a terminal.
        as_json: Whether the output is JSON.
    """
    again = "and call it again with --yes"
    if as_json:
        raise error(f"Nothing was {done}: --json does not ask. Look at {preview}, {again}")
    if not sys.stdin.isatty():
        reason = "there is no terminal to ask at"
        raise error(f"Nothing was {done}: {reason}. Look at the {listing} above, {again}")
    if not click.confirm(question):
        raise error(f"Nothing was {done}")


def print_json(data: Mapping[str, Any]) -> None:
    # JSON may escape what this output cannot carry; it stays the same JSON. A reader that
    # has left is an exit code here, and a message of Python if it is noticed at the end.
    is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    print(json.dumps(data, ensure_ascii=not is_unicode, indent=2), flush=True)  # noqa: T201


def render_problem(problem: Problem) -> dict[str, str | int]:
    names = ("file", "line", "rule", "level", "reason", "hint")
    return {name: getattr(problem, name) for name in names}


def _is_watched(console: Console) -> bool:
    """Whether progress can be drawn: neither in a log with `FORCE_COLOR` nor if TERM is dumb."""
    return console.is_interactive and console.file.isatty()


_PROGRESS_DELAY_SECONDS = 1.0
"""How long a command may take before it shows its progress."""


@contextmanager
def progress_bar(verb: str) -> Iterator[Callable[..., None]]:
    """Show a progress bar on a terminal, unless the work is done within a second.

    Args:
        verb: What the command does, such as `Checking`.

    Yields:
        A function that takes how many items are done, how many there are, and a note.
    """
    console = _new_console(stderr=True)
    if not _is_watched(console):
        yield lambda _done, _total, _note="": None
        return
    columns = (
        *(TextColumn(verb), BarColumn(), MofNCompleteColumn()),
        TextColumn("{task.description}", markup=False),
    )
    progress = Progress(*columns, console=console, transient=True)
    task = progress.add_task("", total=None)
    timer = Timer(_PROGRESS_DELAY_SECONDS, progress.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda done, total, note="": progress.update(
            task, completed=done, total=total, description=note
        )
    finally:
        timer.cancel()
        timer.join()  # or it could start after the end
        progress.stop()


def sync_and_load(library: "SkillLibrary") -> "Snapshot":
    """Sync and load; print sync errors to standard error.

    Raises:
        SyncError: There is no content, old or new.
    """
    with sync_progress(library):
        error = library.sync_or_load_stored()
    if error and not library.is_ready:
        raise error
    if error:
        notices = _new_console(stderr=True, highlight=False)
        message = f"Sync failed; showing the previous content: {escape(str(error))}"
        notices.print(message, soft_wrap=True)
    return library.view().snapshot


@contextmanager
def sync_progress(library: "SkillLibrary") -> Iterator[None]:
    """Show the progress of a sync on a terminal, until it ends."""
    console = _new_console(stderr=True)
    if not _is_watched(console):
        yield
        return
    text = TextColumn("{task.description} {task.fields[mounts].doing}", markup=False)
    is_own = find_invocation() is None  # the streams of a server are not redirected
    with Progress(
        *(SpinnerColumn(), text, _SyncBar()),
        console=console,
        transient=True,
        redirect_stdout=is_own,
        redirect_stderr=is_own,
    ) as bar:
        bar.add_task(f"Reading {library.mounts.name} …", total=None, mounts=library.mounts)
        yield


class _SyncBar(BarColumn):
    """Bar that reads how far a sync is, each time that it is drawn."""

    def render(self, task: Task) -> ProgressBar:
        progress = task.fields["mounts"].progress
        task.completed, task.total = progress.done, progress.total or None
        return super().render(task)
