"""What several commands print for programs."""

import json
import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from skills_mcp.skills.model import Problem

_WHOLE_LINES = 100_000


def open_console() -> Console:
    """Fit the lines to a terminal; a file or a pipe gets them whole."""
    console = Console(highlight=False, emoji=False)
    if console.is_terminal:
        return console
    return Console(highlight=False, emoji=False, width=_WHOLE_LINES)


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
