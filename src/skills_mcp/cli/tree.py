"""`skills-mcp tree`: what would be served, and what is wrong with the rest."""

import json
import sys

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.tree import Tree

from skills_mcp.bootstrap import Application
from skills_mcp.errors import SyncError
from skills_mcp.skills.model import Problem
from skills_mcp.skills.tree import TreeNode, render_node
from skills_mcp.snapshot import Snapshot

_WHOLE_LINES = 100_000


def print_tree(application: Application, *, as_json: bool, with_problems: bool) -> None:
    """Sync, then print the skills to standard output.

    Raises:
        SyncError: There is no content, old or new.
    """
    snapshot = _load(application)
    tree = application.library.tree()
    if as_json:
        print_json(tree, snapshot.problems if with_problems else None)
        return
    console = _console()
    console.print(_branch(tree), no_wrap=True, overflow="ellipsis")
    console.print(_summary(snapshot, hint=not with_problems))
    if with_problems and snapshot.problems:
        console.print()
        console.print(_problems(snapshot.problems))


def print_json(tree: TreeNode, problems: tuple[Problem, ...] | None) -> None:
    """Print one JSON object: `tree` as `list_skills` has it, and `problems`."""
    data: dict[str, object] = {"tree": render_node(tree)}
    if problems is not None:
        data["problems"] = [_finding(problem) for problem in problems]
    # JSON may escape what this output cannot carry; it stays the same JSON.
    is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    print(json.dumps(data, ensure_ascii=not is_unicode, indent=2))  # noqa: T201


def _finding(problem: Problem) -> dict[str, str]:
    return {
        "file": problem.file,
        "reason": problem.reason,
        "hint": problem.hint,
        "level": problem.level,
    }


def _console() -> Console:
    """Fit the lines to a terminal; a file or a pipe gets them whole."""
    console = Console(highlight=False)
    if console.is_terminal:
        return console
    return Console(highlight=False, width=_WHOLE_LINES)


def _load(application: Application) -> Snapshot:
    library, source = application.library, application.source
    notices = Console(stderr=True, highlight=False)
    with notices.status(f"Reading {escape(source.name)} …"):
        try:
            checkout = source.sync()
        except SyncError as error:
            published = source.published()
            if published is None:
                raise
            notices.print(f"Showing what was synced before: {escape(str(error))}")
            checkout = published
        library.load(checkout)
    return library.snapshot


def _branch(node: TreeNode) -> Tree:
    branch = Tree(_label(node), guide_style="dim")
    for child in node.children:
        branch.children.append(_branch(child))
    return branch


def _label(node: TreeNode) -> str:
    parts = [f"[bold]{escape(node.name)}[/]"]
    if node.description:
        parts.append(escape(node.description))
    if node.keywords:
        parts.append(f"[cyan]{escape(', '.join(node.keywords))}[/]")
    counts = ((node.asset_count, "asset"), (node.script_count, "script"))
    parts += [_plural(number, noun) for number, noun in counts if number]
    return "  ".join(parts)


def _summary(snapshot: Snapshot, *, hint: bool) -> str:
    served = _plural(len(snapshot.index), "skill")
    found = _plural(len(snapshot.problems), "problem")
    where = escape(str(snapshot.checkout.revision or snapshot.checkout.directory))
    more = ": see --problems" if snapshot.problems and hint else ""
    return f"{served} served at {where}, {found}{more}"


def _problems(problems: tuple[Problem, ...]) -> Table:
    table = Table(title="Problems", title_justify="left")
    for column in ("File", "Level", "What is wrong", "What to do"):
        table.add_column(column, overflow="fold")
    for problem in problems:
        style = "red" if problem.level == "error" else "yellow"
        level = f"[{style}]{problem.level}[/]"
        table.add_row(
            escape(problem.file), level, escape(problem.reason), escape(problem.hint)
        )
    return table


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
