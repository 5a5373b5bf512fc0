"""How commands print: to a terminal, to a pipe, and as JSON."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Timer
from typing import Any

import click
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.tree import Tree

from skills_mcp.skills.model import Problem

_WHOLE_LINES = 100_000


def open_console() -> Console:
    """Return a console that fits lines to a terminal, but not to a file or a pipe."""
    console = Console(highlight=False, emoji=False)
    if console.is_terminal:
        return console
    return Console(highlight=False, emoji=False, width=_WHOLE_LINES)


def print_paged(shown: Sequence[RenderableType], *, is_paged: bool) -> None:
    """Print to standard output, in a pager if it is longer than the terminal.

    Args:
        shown: What is printed, one below the other; a line that is too long is cut.
        is_paged: Whether a pager is welcome; a file or a pipe never gets one.
    """
    console = open_console()
    with console.capture() as captured:
        for part in shown:
            is_tree = isinstance(part, Tree)
            console.print(
                part, no_wrap=is_tree, overflow="ellipsis" if is_tree else None
            )
    text = captured.get()
    if is_paged and console.is_terminal and text.count("\n") >= console.height:
        # None: Click asks `less` to show colours, unless LESS says something else.
        click.echo_via_pager(text, color=False if console.no_color else None)
    else:
        console.out(text, end="")


def print_json(data: Mapping[str, Any]) -> None:
    """Print one JSON object to standard output."""
    # JSON may escape what this output cannot carry; it stays the same JSON.
    is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    print(json.dumps(data, ensure_ascii=not is_unicode, indent=2))  # noqa: T201


def render_problem(problem: Problem) -> dict[str, str | int]:
    """Return a problem as JSON has it."""
    return {
        "file": problem.file,
        "line": problem.line,
        "rule": problem.rule,
        "level": problem.level,
        "reason": problem.reason,
        "hint": problem.hint,
    }


_MOMENT_SECONDS = 1.0
"""How long a command may take before it shows its progress."""


@contextmanager
def showing_progress(verb: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on a terminal, unless the work is done within a second.

    Args:
        verb: What the command does, such as `Checking`.

    Yields:
        A function that takes how many items are done, and how many there are.
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
