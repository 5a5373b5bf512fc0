"""Output to a terminal, to a pipe, and as JSON."""

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
    """A console: lines are cropped for a terminal, not for a file or a pipe."""
    console = Console(highlight=False, emoji=False)
    if console.is_terminal:
        return console
    return Console(highlight=False, emoji=False, width=_WHOLE_LINES)


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
        # None: Click asks `less` to show colours, unless LESS says something else.
        click.echo_via_pager(text, color=False if console.no_color else None)
    else:
        console.out(text, end="")


def print_json(data: Mapping[str, Any]) -> None:
    # JSON may escape what this output cannot carry; it stays the same JSON.
    is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    print(json.dumps(data, ensure_ascii=not is_unicode, indent=2))  # noqa: T201


def render_problem(problem: Problem) -> dict[str, str | int]:
    return {
        "file": problem.file,
        "line": problem.line,
        "rule": problem.rule,
        "level": problem.level,
        "reason": problem.reason,
        "hint": problem.hint,
    }


_PROGRESS_DELAY_SECONDS = 1.0
"""How long a command may take before it shows its progress."""


@contextmanager
def progress_bar(verb: str) -> Iterator[Callable[[int, int], None]]:
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
    timer = Timer(_PROGRESS_DELAY_SECONDS, progress.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda done, total: progress.update(task, completed=done, total=total)
    finally:
        timer.cancel()
        timer.join()  # or it could start after the end
        progress.stop()
