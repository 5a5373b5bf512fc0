"""The figures, as a table for people and as JSON."""

import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.figures import FIGURES, Measured, judge

COLUMNS = ("Figure", "Median", "From", "To", "Unit", "Budget", "Met")

_WIDTH = 140

_BEGIN = "<!-- Written by make bench. -->"
_END = "<!-- Until here. -->"


def describe_machine(cores: int | None) -> str:
    """Return processor, system and versions, without the name of the machine."""
    python = f"Python {platform.python_version()}"
    system = f"{platform.system()} {platform.machine()}"
    return f"{cores or 'unknown'} cores, {system}, {python}, mcp {version('mcp')}."


def describe_load() -> str:
    """Return whether other processes use the machine, if the system reports it."""
    if not hasattr(os, "getloadavg"):
        return "an unknown load"
    return f"a load of {os.getloadavg()[0]:.1f}"


def print_table(results: Mapping[str, Measured], about: Iterable[str]) -> None:
    """Print a line per figure that was measured or has a budget, then the rest."""
    table = Table(*COLUMNS)
    table.columns[0].no_wrap = True
    for row, figure in zip(_rows(results), FIGURES, strict=True):
        if figure.budget or figure.key in results:
            table.add_row(*row)
    # A file or a pipe has no width, and a narrow table cannot be read.
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    console.print(table)
    for line in about:
        console.print(line)


def write_markdown(file: Path, results: Mapping[str, Measured], about: Iterable[str]) -> None:
    """Replace the table of a page."""
    page = file.read_text(encoding="utf-8") if file.exists() else f"{_BEGIN}{_END}"
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise SystemExit(f"{file} has no place for the table: {_BEGIN} and {_END}")
    text = f"{begin}\n\n{render_markdown(results, about)}\n{end}"
    file.write_text(f"{before}{text}{after}", encoding="utf-8")


def render_markdown(results: Mapping[str, Measured], about: Iterable[str]) -> str:
    """Return the table as Markdown, below a line about the machine."""
    lines = (COLUMNS, ("---",) * len(COLUMNS), *_rows(results))
    table = "\n".join(f"| {' | '.join(_cells(line))} |" for line in lines)
    return "\n".join((*about, "", table, ""))


def write_json(file: Path, results: Mapping[str, Measured], about: Mapping[str, Any]) -> None:
    """Write all figures as JSON."""
    budgets = {figure.key: verdict for figure, verdict in judge(results).items()}
    figures = {key: asdict(measured) for key, measured in results.items()}
    whole = {**about, "figures": figures, "budgets": budgets}
    file.write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")


def _cells(row: Iterable[str]) -> Iterator[str]:
    return (cell or "\N{EN DASH}" for cell in row)


def _rows(results: Mapping[str, Measured]) -> Iterator[tuple[str, ...]]:
    verdicts = judge(results)
    for figure in FIGURES:
        measured = results.get(figure.key)
        values = _show(measured) if measured else ("not measured", "", "")
        budget = str(figure.budget) if figure.budget else ""
        verdict = verdicts.get(figure, "")
        yield (figure.meaning, *values, figure.unit, budget, verdict)


def _show(measured: Measured) -> tuple[str, str, str]:
    median = _number(measured.median)
    if measured.low == measured.high:
        return median, "", ""
    return median, _number(measured.low), _number(measured.high)


def _number(value: float) -> str:
    """Return a number with three significant digits, or with all before the point."""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2  # noqa: PLR2004
    digits = 3 if abs(value) < 1 else digits
    return f"{value:,.{digits}f}"
