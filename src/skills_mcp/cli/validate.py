"""`skills-mcp validate`: what an author should repair, one finding per line."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from skills_mcp.authoring.validation import Validation, validate
from skills_mcp.cli.terminal import print_json, render_problem, showing_progress
from skills_mcp.skills.model import Problem

_STYLES = {"error": "bold red", "warning": "yellow"}


def print_validation(paths: Sequence[Path], *, as_json: bool, strict: bool) -> int:
    """Check the paths, print the findings to standard output, return the exit code.

    Args:
        paths: Files and folders that exist.
        as_json: Whether to print one object instead of lines.
        strict: Whether warnings fail, too.
    """
    with showing_progress("Checking") as on_progress:
        validation = validate(*paths, on_progress=on_progress)
    if as_json:
        print_json(_to_json(validation))
    else:
        _print_lines(validation)
    is_wrong = validation.problems if strict else validation.error_count
    return 1 if is_wrong else 0


def _print_lines(validation: Validation) -> None:
    console = Console(highlight=False, markup=False, emoji=False)
    for problem in validation.problems:
        # A line that is wrapped cannot be clicked or searched.
        console.print(_render(problem), soft_wrap=True)
    console.print(_summarise(validation), soft_wrap=True)


def _render(problem: Problem) -> Text:
    hint = problem.hint[:1].upper() + problem.hint[1:]
    return Text.assemble(
        f"{_shown(problem.file)}:{problem.line}: ",
        (f"{problem.level}[{problem.rule}]", _STYLES[problem.level]),
        f" {problem.reason}. {hint}",
    )


def _summarise(validation: Validation) -> str:
    counts = (
        (validation.skill_count, "skill"),
        (validation.error_count, "error"),
        (validation.warning_count, "warning"),
    )
    return ", ".join(f"{n} {noun}{'' if n == 1 else 's'}" for n, noun in counts)


def _to_json(validation: Validation) -> dict[str, Any]:
    shown = (replace(p, file=_shown(p.file)) for p in validation.problems)
    return {
        "problems": [render_problem(problem) for problem in shown],
        "skills": validation.skill_count,
        "errors": validation.error_count,
        "warnings": validation.warning_count,
    }


def _shown(file: str) -> str:
    """Return a path relative to the working directory, if the file is below it."""
    try:
        return os.fspath(Path(file).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return file  # elsewhere: a long row of .. is harder to read
