"""What several commands print for programs."""

import json
import sys
from collections.abc import Mapping
from typing import Any

from skills_mcp.skills.model import Problem


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
